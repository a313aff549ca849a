//! From a URI and options to a store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme};
use url::Url;

use super::real_folders::RealFolders;
use super::remote_store::RemoteStore;
use super::schemes::{self, Scheme, Spelled};
use super::secrets::{is_azure, masked, masked_uri, remember};
use super::{option_values, retries};
use hoodoo_runtime::error::{Error, Result};

/// Settings of the store, spelled as `object_store` has them (`aws_access_key_id`, `aws_endpoint`, …).
pub type StorageOptions = BTreeMap<String, String>;

/// Stores behind `memory://NAME/…`: one for each name, living as long as the process.
static MEMORY: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());

pub(super) fn hold_lock() -> impl std::any::Any {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store and the path of a table in it.
pub(crate) struct Location {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The table's base in it.
    pub prefix: Path,
    /// The table's folder when it is on a local disk.
    pub local: Option<PathBuf>,
    /// Whether it is a service that other machines reach too.
    pub remote: bool,
    /// The location in one spelling, without a trailing slash.
    pub uri: String,
    /// Whether folders in it stay when they are empty.
    pub real_folders: RealFolders,
}

impl Location {
    /// Understands local paths, `file:`, `memory:`, and the object stores of [`schemes`].
    pub(crate) fn parse(uri: &str, options: &StorageOptions) -> Result<Self> {
        let bad = |why: String| {
            Error::invalid_option(format!("'{}' is not a table location: {why}", masked_uri(uri)))
                .remedy("Give a folder, or a URI such as s3://bucket/path")
        };
        if uri.is_empty() {
            return Err(bad("it is empty".into()));
        }
        let Some((scheme, rest)) = uri.split_once(":/") else {
            if uri.starts_with("file:") {
                return Err(bad("a path after 'file:' begins with a slash".into()));
            }
            return Self::local(PathBuf::from(uri)).map_err(|e| bad(e.to_string()));
        };
        match scheme {
            "file" => {
                // file:/path, file:///path, and file://host/path.
                let path = match rest.strip_prefix('/') {
                    Some(host) if !host.starts_with('/') => match host.split_once('/') {
                        Some(("localhost", path)) => path,
                        _ => {
                            return Err(
                                bad("a folder of another machine cannot be reached: write file:///path".into()),
                            );
                        }
                    },
                    _ => rest.trim_start_matches('/'),
                };
                Self::local(PathBuf::from(format!("/{path}"))).map_err(|e| bad(e.to_string()))
            }
            "memory" => {
                let rest = rest.trim_matches('/');
                let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
                let mut stores = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
                let store = stores.entry(name.to_owned()).or_default().clone();
                let prefix = Path::parse(path).map_err(|e| bad(e.to_string()))?;
                let uri = format!("memory://{rest}");
                Ok(Self { store, prefix, local: None, remote: false, uri, real_folders: RealFolders::default() })
            }
            _ => Self::remote(uri, options),
        }
    }

    fn local(path: PathBuf) -> std::io::Result<Self> {
        let absolute = std::path::absolute(&path)?;
        let text = absolute.to_string_lossy();
        let text = if text.len() > 1 { text.trim_end_matches('/') } else { &text };
        let local = PathBuf::from(text);
        let prefix = Path::parse(text.trim_start_matches('/')).map_err(std::io::Error::other)?;
        Ok(Self {
            store: Arc::new(LocalFileSystem::new()),
            prefix,
            uri: text.to_owned(),
            local: Some(local),
            remote: false,
            real_folders: RealFolders::default(),
        })
    }

    fn remote(uri: &str, options: &StorageOptions) -> Result<Self> {
        let Spelled { scheme, url, uri: shown, weaker, stronger } = schemes::spelled(uri)?;
        check_credentials(&url).map_err(|e| e.with("table", masked_uri(uri)))?;
        let is_wanted = |k: &str| k.get(..scheme.prefix().len()) == Some(&scheme.prefix().to_ascii_uppercase());
        // Names that are not text are nobody's; a variable that is empty counts as not set.
        let variables = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let from_environment = variables.filter(|(k, v)| is_wanted(k) && !v.is_empty());
        let given = options.iter().map(|(k, v)| (k.clone(), v.clone()));
        // Later ones win, in whatever spelling: what the caller gives is stronger than the environment.
        let settings = weaker.into_iter().chain(from_environment).chain(given).chain(stronger);
        let all: Vec<(String, String)> = settings.map(|(k, v)| (k.to_ascii_lowercase(), v)).collect();
        remember(&all);
        let known = all.iter().filter(|(key, _)| scheme.knows(key));
        let retry = option_values::check(known.map(|(key, value)| (key.as_str(), value.as_str())))
            .and_then(|()| check_plain_http(scheme, &all))
            .and_then(|()| retries::of_options(&all))
            .map_err(|e| e.with("table", uri))?;
        let wrong = |e| {
            Error::invalid_option("the storage cannot be set up")
                .caused_by(masked(e))
                .with("table", uri)
                .remedy(format!("Check storage_options (keys as in {})", scheme.examples()))
        };
        let (_, prefix) = ObjectStoreScheme::parse(&url).map_err(|e| wrong(e.into()))?;
        let open = move || scheme.open(&url, &all, &retry);
        let store = Arc::new(RemoteStore::new(open().map_err(wrong)?, Box::new(open)));
        let real_folders = if scheme == Scheme::Azure { RealFolders::unknown() } else { RealFolders::default() };
        Ok(Self { store, prefix, local: None, remote: true, uri: shown, real_folders })
    }
}

/// Credentials in a location would be left out of it without a word, and shown wherever it is.
fn check_credentials(url: &Url) -> Result<()> {
    let user = !url.username().is_empty() && !is_azure(url.scheme());
    if user || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(Error::invalid_option("a table location has credentials or a query in it").remedy(
            "Give credentials in storage_options (aws_access_key_id, azure_storage_sas_key, …) or in the environment",
        ));
    }
    Ok(())
}

/// An endpoint without encryption has to be allowed; said here, because the HTTP client's own words are no help.
fn check_plain_http(scheme: Scheme, options: &[(String, String)]) -> Result<()> {
    // By full name: machines and containers have variables of other endpoints, which are plain http by design.
    let last = |names: &[&str]| options.iter().rfind(|(k, _)| names.contains(&k.as_str()));
    let plain = last(scheme.endpoints()).filter(|(_, v)| v.to_ascii_lowercase().starts_with("http://"));
    let allow = format!("{}allow_http", scheme.prefix());
    let allowed = last(&[&allow, "allow_http"])
        .is_some_and(|(_, v)| matches!(v.to_ascii_lowercase().as_str(), "true" | "1" | "on" | "yes" | "y"));
    match plain {
        Some((key, endpoint)) if !allowed => {
            let allow = if key.starts_with(scheme.prefix()) { allow.as_str() } else { "allow_http" };
            let endpoint = masked_uri(endpoint);
            Err(Error::invalid_option(format!(
                "the endpoint {endpoint} is not encrypted, which is not allowed by default"
            ))
            .remedy(format!("Use https://, or add {allow}=true to storage_options")))
        }
        _ => Ok(()),
    }
}
