//! Locks of services for which there are clients in Python: ZooKeeper and DynamoDB. The bindings bring them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::config::LockConfig;
use super::provider::{Attempt, Lease, LockProvider, lost};
use hoodoo_runtime::error::{Error, Result};

/// What opens a lock needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalLockRequest {
    /// Class name of Hudi's provider.
    pub class: &'static str,
    /// The options of the lock that are given, by their keys.
    pub settings: BTreeMap<String, String>,
    /// Location of the table.
    pub uri: String,
}

/// A lock of a service.
pub trait ExternalLock: Send + Sync {
    /// Tries once, without waiting. `None`: another writer holds it.
    ///
    /// # Errors
    /// `Lock`, which is tried again, if the service cannot be reached; others are final.
    fn try_acquire(&self, owner: &str) -> Result<Option<Box<dyn ExternalLease>>>;
    /// Where the lock is, for messages.
    fn place(&self) -> String;
}

/// A lock of a service that is held.
pub trait ExternalLease: Send {
    /// Whether it is still held, as far as this process knows.
    fn is_held(&self) -> bool;
    /// Whether the service confirms that.
    ///
    /// # Errors
    /// `Lock` if the service cannot be reached.
    fn is_confirmed(&self) -> Result<bool>;
    /// Releases it.
    ///
    /// # Errors
    /// `Lock`. Then it ends with its session or its lease.
    fn release(&mut self) -> Result<()>;
}

type Open = dyn Fn(&ExternalLockRequest) -> Result<Arc<dyn ExternalLock>> + Send + Sync;

static OPEN: OnceLock<Box<Open>> = OnceLock::new();

/// Says how locks of services are opened. The first call counts.
pub fn register_external_locks(
    open: impl Fn(&ExternalLockRequest) -> Result<Arc<dyn ExternalLock>> + Send + Sync + 'static,
) {
    let _ = OPEN.set(Box::new(open));
}

/// The provider of a service.
pub(super) struct External {
    class: &'static str,
    lock: Arc<dyn ExternalLock>,
}

impl External {
    pub(super) fn new(class: &'static str, config: &LockConfig, uri: &str) -> Result<Self> {
        let open = OPEN.get().ok_or_else(|| {
            Error::unsupported(format!("{class} needs a client of its service, which only the Python package has"))
                .remedy("Use hoodoo from Python, or another hoodie.write.lock.provider for every writer of the table")
        })?;
        let request = ExternalLockRequest { class, settings: config.settings.clone(), uri: uri.to_owned() };
        Ok(Self { class, lock: open(&request)? })
    }
}

impl LockProvider for External {
    fn try_acquire(&self, owner: &str) -> Result<Attempt> {
        let lease = self.lock.try_acquire(owner)?;
        let held = |lease| Attempt::Acquired(Box::new(ExternalHeld { lease, place: self.lock.place() }));
        Ok(lease.map_or(Attempt::Busy(None), held))
    }

    fn name(&self) -> &'static str {
        self.class.rsplit('.').next().unwrap_or(self.class)
    }

    fn path(&self) -> String {
        self.lock.place()
    }

    fn remedy(&self) -> String {
        "Wait until the other writer is done, or raise hoodie.write.lock.wait_time_ms. The lock of a writer that was killed \
         ends with its session or its lease"
            .to_owned()
    }
}

struct ExternalHeld {
    lease: Box<dyn ExternalLease>,
    place: String,
}

impl Lease for ExternalHeld {
    fn check(&self) -> Result<()> {
        if self.lease.is_held() { Ok(()) } else { Err(lost("its session or its lease ended", &self.place)) }
    }

    fn verify(&self) -> Result<()> {
        self.check()?;
        match self.lease.is_confirmed() {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost("the service does not know it any more", &self.place)),
            Err(e) => Err(lost("the service does not answer", &self.place).caused_by(e)),
        }
    }

    fn release(&mut self) -> Result<()> {
        self.lease.release()
    }
}
