//! The options of the table lock, with Hudi's names and defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use hoodoo_runtime::error::{Error, Result};

/// Hudi's in-process provider.
pub(super) const IN_PROCESS: &str = "org.apache.hudi.client.transaction.lock.InProcessLockProvider";
/// Hudi's provider with a lock file.
pub(super) const FILE_SYSTEM: &str = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider";
/// Hudi's provider with a lease in the object store.
pub(super) const STORAGE_BASED: &str = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider";

/// Hudi's providers that take the lock of a service.
const EXTERNAL: [&str; 4] = [
    "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
    "org.apache.hudi.client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider",
    "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
    "org.apache.hudi.aws.transaction.lock.DynamoDBBasedImplicitPartitionKeyLockProvider",
];
/// Their options, and those that they take a name from.
const EXTERNAL_OPTIONS: [&str; 20] = [
    "hoodie.table.name",
    "hoodie.write.lock.wait_time_ms",
    "hoodie.write.lock.zookeeper.url",
    "hoodie.write.lock.zookeeper.port",
    "hoodie.write.lock.zookeeper.base_path",
    "hoodie.write.lock.zookeeper.lock_key",
    "hoodie.write.lock.zookeeper.session_timeout_ms",
    "hoodie.write.lock.zookeeper.connection_timeout_ms",
    "hoodie.write.lock.dynamodb.table",
    "hoodie.write.lock.dynamodb.region",
    "hoodie.write.lock.dynamodb.partition_key",
    "hoodie.write.lock.dynamodb.endpoint_url",
    "hoodie.write.lock.dynamodb.billing_mode",
    "hoodie.write.lock.dynamodb.read_capacity",
    "hoodie.write.lock.dynamodb.write_capacity",
    "hoodie.write.lock.dynamodb.table_creation_timeout",
    "hoodie.aws.access.key",
    "hoodie.aws.secret.key",
    "hoodie.aws.session.token",
    "hoodie.aws.region",
];

/// Which lock excludes the writers of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockProviderKind {
    /// None: all writers are threads of this process.
    #[default]
    InProcess,
    /// A file that only one process can create.
    FileSystem,
    /// A lease in the object store.
    StorageBased,
    /// The lock of a service; the class name of Hudi's provider.
    External(&'static str),
}

impl LockProviderKind {
    /// Parses one of Hudi's class names.
    ///
    /// # Errors
    /// `Unsupported` for every other provider: without its lock, two writers could write at once.
    pub fn parse(class: &str) -> Result<Self> {
        match class.trim() {
            IN_PROCESS => Ok(Self::InProcess),
            FILE_SYSTEM => Ok(Self::FileSystem),
            STORAGE_BASED => Ok(Self::StorageBased),
            other => {
                if let Some(class) = EXTERNAL.into_iter().find(|class| *class == other) {
                    return Ok(Self::External(class));
                }
                let short = other.rsplit('.').next().unwrap_or(other);
                let service = ["HiveMetastore"].into_iter().find(|s| short.starts_with(s));
                let what = match service {
                    Some(service) => {
                        format!("locks of {service} are not supported (hoodie.write.lock.provider={other})")
                    }
                    None => format!("the lock provider {other} is not supported (hoodie.write.lock.provider)"),
                };
                Err(Error::unsupported(what).remedy(format!(
                    "Set it for every writer of the table to {STORAGE_BASED} (object stores) or {FILE_SYSTEM} (local \
                     folders): locks of different kinds do not exclude each other"
                )))
            }
        }
    }
}

/// How long a writer waits for a lock. A call of the provider makes several attempts; then it is called again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWait {
    /// Longest time of one call of the provider.
    pub time: Duration,
    /// Maximum number of retries in one call of the provider.
    pub retries: u32,
    /// First pause between them; it doubles each time.
    pub pause: Duration,
    /// Longest pause between them.
    pub longest_pause: Duration,
    /// How often the provider is called again.
    pub client_retries: u32,
    /// Pause between these calls.
    pub client_pause: Duration,
}

impl Default for LockWait {
    fn default() -> Self {
        Self {
            time: Duration::from_millis(60_000),
            // With Hudi's 15 attempts, at least a second apart, writers of one table wait up to half a minute for a
            // lock that is held for milliseconds.
            retries: u32::MAX,
            pause: Duration::from_millis(20),
            longest_pause: Duration::from_millis(250),
            client_retries: 50,
            client_pause: Duration::from_millis(5_000),
        }
    }
}

impl LockWait {
    /// The longest wait in total.
    pub fn total(&self) -> Duration {
        let calls = self.client_retries.saturating_add(1);
        self.time.saturating_mul(calls).saturating_add(self.client_pause.saturating_mul(self.client_retries))
    }
}

/// The table lock as the options describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockConfig {
    /// Which lock it is.
    pub provider: LockProviderKind,
    /// How long a writer waits for it.
    pub wait: LockWait,
    /// Folder of the lock file; by default the table's `.hoodie`.
    pub folder: Option<String>,
    /// Age at which a lock file expires; zero: never.
    pub expire: Duration,
    /// Validity of a lease.
    pub validity: Duration,
    /// How often it is renewed.
    pub renew_every: Duration,
    /// The options of the lock of a service.
    pub settings: BTreeMap<String, String>,
}

impl Default for LockConfig {
    fn default() -> Self {
        Self {
            provider: LockProviderKind::InProcess,
            wait: LockWait::default(),
            folder: None,
            expire: Duration::ZERO,
            validity: Duration::from_secs(300),
            renew_every: Duration::from_secs(30),
            settings: BTreeMap::new(),
        }
    }
}

impl LockConfig {
    /// The lease that hoodoo's writers take in an object store if no provider is configured. It is shorter, so that the
    /// lease of a machine that failed expires soon.
    pub(super) fn implied(&self) -> Self {
        Self { validity: Duration::from_secs(20), renew_every: Duration::from_secs(2), ..self.clone() }
    }

    /// Reads the options; `get` gives the value of a key under any of its spellings.
    pub fn from_options(get: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let default = Self::default();
        let provider =
            get("hoodie.write.lock.provider").map_or(Ok(default.provider), |c| LockProviderKind::parse(&c))?;
        let ms = |key, default| Ok::<_, Error>(Duration::from_millis(number(get, key)?.unwrap_or(default)));
        let secs = |key, default| Ok::<_, Error>(Duration::from_secs(number(get, key)?.unwrap_or(default)));
        let pause = number(get, "hoodie.write.lock.wait_time_ms_between_retry")?.map(Duration::from_millis);
        let longest = if pause.is_some() { 16_000 } else { 250 };
        let wait = LockWait {
            time: ms("hoodie.write.lock.wait_time_ms", 60_000)?,
            retries: number(get, "hoodie.write.lock.num_retries")?.unwrap_or(default.wait.retries),
            pause: pause.unwrap_or(default.wait.pause),
            longest_pause: ms("hoodie.write.lock.max_wait_time_ms_between_retry", longest)?,
            client_retries: number(get, "hoodie.write.lock.client.num_retries")?.unwrap_or(default.wait.client_retries),
            client_pause: ms("hoodie.write.lock.client.wait_time_ms_between_retry", 5_000)?,
        };
        let minutes: u32 = number(get, "hoodie.write.lock.filesystem.expire")?.unwrap_or(0);
        let config = Self {
            provider,
            wait,
            folder: get("hoodie.write.lock.filesystem.path").filter(|path| !path.is_empty()),
            expire: Duration::from_secs(60).saturating_mul(minutes),
            validity: secs("hoodie.write.lock.storage.validity.timeout.secs", 300)?,
            renew_every: secs("hoodie.write.lock.storage.renew.interval.secs", 30)?,
            settings: match provider {
                LockProviderKind::External(_) => {
                    EXTERNAL_OPTIONS.iter().filter_map(|key| Some(((*key).to_owned(), get(key)?))).collect()
                }
                _ => BTreeMap::new(),
            },
        };
        config.check_lease()?;
        Ok(config)
    }

    /// Hudi's bounds: a lease stays valid while several renewals fail.
    fn check_lease(&self) -> Result<()> {
        let (validity, renewal) = (self.validity.as_secs(), self.renew_every.as_secs());
        if renewal < 1 || validity < 10 || validity / 10 < renewal || validity > 86_400 {
            return Err(Error::invalid_option(format!(
                "a lock that holds for {validity} s and is renewed every {renewal} s is not safe"
            ))
            .remedy(
                "Set hoodie.write.lock.storage.renew.interval.secs to 1 or more, and \
                 hoodie.write.lock.storage.validity.timeout.secs to at least ten times that and at most a day",
            ));
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(get: &dyn Fn(&str) -> Option<String>, key: &str) -> Result<Option<T>> {
    let Some(text) = get(key) else { return Ok(None) };
    let parsed = text.trim().parse().map(Some);
    parsed.map_err(|_| Error::invalid_option(format!("option {key} is '{text}'")).remedy("Set it to a number"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hoodoo_runtime::error::ErrorKind;

    fn config(pairs: &[(&str, &str)]) -> Result<LockConfig> {
        LockConfig::from_options(&|key| {
            pairs.iter().find(|(k, _)| format!("hoodie.write.lock.{k}") == key).map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn nothing_given_is_hudis_default() {
        assert_eq!(config(&[]).unwrap(), LockConfig::default());
        assert_eq!(LockWait::default().total(), Duration::from_secs(51 * 60 + 50 * 5));
    }

    #[test]
    fn given_values_are_taken() {
        let given = config(&[
            ("provider", FILE_SYSTEM),
            ("wait_time_ms", "7"),
            ("num_retries", "1"),
            ("client.num_retries", "0"),
            ("filesystem.path", "/locks"),
            ("filesystem.expire", "2"),
        ]);
        let given = given.unwrap();
        assert_eq!((given.provider, given.expire), (LockProviderKind::FileSystem, Duration::from_secs(120)));
        assert_eq!((given.wait.time, given.wait.retries, given.wait.client_retries), (Duration::from_millis(7), 1, 0));
        assert_eq!(given.folder.as_deref(), Some("/locks"));
    }

    #[test]
    fn what_is_no_lock_of_ours_is_refused_by_name() {
        for (class, name) in [
            ("org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider", "HiveMetastore"),
            ("com.example.MyLock", "com.example.MyLock"),
        ] {
            let e = config(&[("provider", class)]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.message().contains(name) && e.to_string().contains(STORAGE_BASED), "{e}");
        }
    }

    #[test]
    fn unsafe_leases_and_bad_numbers_are_refused() {
        for (validity, renewal) in [("9", "1"), ("300", "31"), ("300", "0"), ("18446744073709551615", "30")] {
            let given = [("storage.validity.timeout.secs", validity), ("storage.renew.interval.secs", renewal)];
            assert_eq!(config(&given).unwrap_err().kind(), ErrorKind::InvalidOption, "{given:?}");
        }
        assert_eq!(config(&[("wait_time_ms", "-1")]).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(config(&[("wait_time_ms", "soon")]).unwrap_err().kind(), ErrorKind::InvalidOption);
    }
}
