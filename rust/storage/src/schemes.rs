//! Which store a location is in: the spellings that Hadoop's file systems and Python's libraries have, and what is said of
//! the file systems that are not supported.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ObjectStore, Result as StoreResult, RetryConfig};
use std::sync::Arc;
use url::Url;

use super::secrets::masked_uri;
use hoodoo_runtime::error::{Error, Result};

/// Endings of names of hosts that `object_store` knows; the accounts of other clouds have an endpoint of their own.
const OF_AZURE: [&str; 2] = ["core.windows.net", "fabric.microsoft.com"];

const NO_TRANSLATION: &str =
    "Copy the table to a local folder or an object store (hadoop distcp), or read and write it with Hudi on Spark";
const BY_S3: &str = "If the service answers S3's requests too, conditional writes (If-None-Match and If-Match) among them, give \
                     the table as s3://bucket/path with aws_endpoint in storage_options; without them, writers overwrite each other";
const BEHIND: &str = "Give the location of the table in the object store behind it (s3://, abfss:// or gs://)";

/// File systems that are known and not supported: what they are, why, and what can be done.
const REFUSED: [(&[&str], &str, &str, &str); 7] = [
    (
        &["hdfs", "viewfs", "webhdfs", "swebhdfs"],
        "HDFS",
        "its clients have no conditional updates, which the table lock needs",
        NO_TRANSLATION,
    ),
    (&["ofs", "o3fs"], "Apache Ozone's file system", "there is no client for it", BY_S3),
    (&["dbfs"], "Databricks' file system", "it can only be reached from within Databricks", BEHIND),
    (&["alluxio"], "Alluxio", "it is a cache that hoodoo has no client for", BEHIND),
    (&["oss"], "Alibaba Cloud's OSS", "there is no client for its own protocol", BY_S3),
    (&["cosn", "cos"], "Tencent Cloud's COS", "there is no client for its own protocol", BY_S3),
    (&["obs"], "Huawei Cloud's OBS", "there is no client for its own protocol", BY_S3),
];

/// A store that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    S3,
    Google,
    Azure,
}

/// A location in one spelling.
pub(super) struct Spelled {
    pub(super) scheme: Scheme,
    /// As `object_store` reads it.
    pub(super) url: Url,
    /// As it is shown and stored.
    pub(super) uri: String,
    /// Options that it stands for: those that are weaker than given ones, and the account, which is stronger.
    pub(super) weaker: Vec<(String, String)>,
    pub(super) stronger: Vec<(String, String)>,
}

impl Scheme {
    /// How the names of its options begin, and those of its variables of the environment.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::S3 => "aws_",
            Self::Google => "google_",
            Self::Azure => "azure_",
        }
    }

    /// Whether it knows an option.
    pub(super) fn knows(self, key: &str) -> bool {
        match self {
            Self::S3 => key.parse::<AmazonS3ConfigKey>().is_ok(),
            Self::Google => key.parse::<GoogleConfigKey>().is_ok(),
            Self::Azure => key.parse::<AzureConfigKey>().is_ok(),
        }
    }

    /// Names of the option for the endpoint.
    pub(super) fn endpoints(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &["aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url"],
            Self::Google => &["google_base_url", "base_url"],
            Self::Azure => &["azure_storage_endpoint", "azure_endpoint", "endpoint"],
        }
    }

    /// Some of its options, for a message.
    pub(super) fn examples(self) -> &'static str {
        match self {
            Self::S3 => "aws_access_key_id, aws_region, aws_endpoint, aws_allow_http",
            Self::Google => "google_service_account_path, google_service_account_key, google_application_credentials",
            Self::Azure => {
                "azure_storage_account_name, azure_storage_account_key, azure_storage_sas_token, azure_client_id"
            }
        }
    }

    /// Opens the store of a location.
    pub(super) fn open(
        self,
        url: &Url,
        options: &[(String, String)],
        retry: &RetryConfig,
    ) -> StoreResult<Arc<dyn ObjectStore>> {
        macro_rules! build {
            ($builder:ty) => {{
                let given = options.iter().filter_map(|(key, value)| Some((key.parse().ok()?, value)));
                let builder = <$builder>::new().with_url(url.as_str()).with_retry(retry.clone());
                Arc::new(given.fold(builder, |builder, (key, value)| builder.with_config(key, value)).build()?)
            }};
        }
        Ok(match self {
            Self::S3 => build!(AmazonS3Builder),
            Self::Google => build!(GoogleCloudStorageBuilder),
            Self::Azure => build!(MicrosoftAzureBuilder),
        })
    }
}

/// Understands a location that is neither local nor in memory.
pub(super) fn spelled(uri: &str) -> Result<Spelled> {
    let (scheme, rest) = uri.split_once(':').unwrap_or((uri, ""));
    let scheme = scheme.to_ascii_lowercase();
    refuse(&scheme, uri)?;
    let (kind, name) = match scheme.as_str() {
        "s3" | "s3a" | "s3n" => (Scheme::S3, "s3"),
        "gs" => (Scheme::Google, "gs"),
        "az" | "azure" | "adl" => (Scheme::Azure, "az"),
        // Hadoop's older file system of the same accounts.
        "abfs" | "wasb" => (Scheme::Azure, "abfs"),
        "abfss" | "wasbs" => (Scheme::Azure, "abfss"),
        other => {
            return Err(Error::unsupported(format!("storage '{other}' is not supported"))
                .with("table", masked_uri(uri))
                .remedy("Use a local folder, s3://, gs:// or Azure (abfss://, az://)"));
        }
    };
    let rest = rest.trim_end_matches('/');
    let parsed = Url::parse(&format!("{name}:{rest}")).map_err(|e| no_location(uri).caused_by(e))?;
    let kept = if kind == Scheme::Azure { scheme.as_str() } else { name };
    let mut spelled =
        Spelled { scheme: kind, url: parsed, uri: format!("{kept}:{rest}"), weaker: Vec::new(), stronger: Vec::new() };
    if spelled.url.host_str().is_none_or(str::is_empty) {
        return Err(no_location(uri).with("reason", "it names no bucket"));
    }
    if kind == Scheme::Azure {
        spelled.find_account(uri)?;
    }
    Ok(spelled)
}

impl Spelled {
    /// Accounts of Azure whose hosts `object_store` does not know: those of the clouds of single countries.
    fn find_account(&mut self, uri: &str) -> Result<()> {
        let host = self.url.host_str().unwrap_or_default().to_owned();
        if self.url.username().is_empty() {
            return if host.contains('.') { Err(no_container(uri)) } else { Ok(()) };
        }
        if OF_AZURE.iter().any(|ending| host.ends_with(ending)) {
            return Ok(());
        }
        let account = |kind: &str| host.split_once(kind).filter(|(account, _)| !account.is_empty());
        let Some((account, cloud)) = account(".dfs.").or_else(|| account(".blob.")) else {
            return Err(no_container(uri));
        };
        let endpoint = format!("https://{account}.blob.{cloud}");
        let name = account.split('.').next().unwrap_or(account).to_owned();
        let location = format!("az://{}{}", self.url.username(), self.url.path());
        self.weaker.push(("azure_storage_endpoint".into(), endpoint));
        self.stronger.push(("azure_storage_account_name".into(), name));
        self.url = Url::parse(&location).map_err(|e| no_location(uri).caused_by(e))?;
        Ok(())
    }
}

fn refuse(scheme: &str, uri: &str) -> Result<()> {
    let Some((_, what, why, remedy)) = REFUSED.iter().find(|(names, ..)| names.contains(&scheme)) else {
        return Ok(());
    };
    Err(Error::unsupported(format!("storage '{scheme}' is not supported: it is {what}, and {why}"))
        .with("table", masked_uri(uri))
        .remedy(*remedy))
}

fn no_location(uri: &str) -> Error {
    Error::invalid_option(format!("'{}' is not a table location", masked_uri(uri)))
        .remedy("Give a folder, or a URI such as s3://bucket/path")
}

fn no_container(uri: &str) -> Error {
    Error::invalid_option(format!("'{}' names no container and account of Azure", masked_uri(uri)))
        .remedy("Give abfss://container@account.dfs.core.windows.net/path, or az://container/path with azure_storage_account_name in storage_options")
}
