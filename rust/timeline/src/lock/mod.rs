//! The table lock: times are generated and instants created under it.
//!
//! A writer takes up to three locks, one inside the other: the lock between the threads of this process; the lock
//! between the processes of this machine, so that only one of them sends requests for the next; and the lock of the
//! provider in `hoodie.write.lock.provider`, which excludes other machines and Hudi's writers:
//!
//! | provider | what it is |
//! |---|---|
//! | `InProcessLockProvider`, or none | on a local disk no further lock; in an object store, the lease of `StorageBasedLockProvider` |
//! | `FileSystemBasedLockProvider` | `<folder>/lock`, an empty file on a local disk |
//! | `StorageBasedLockProvider` | `.hoodie/.locks/table_lock.json`, a lease in an object store |
//! | those of ZooKeeper and DynamoDB | a lock of the service, by a client that the bindings bring |
//!
//! A lock can be lost while it is held: a lease expires, or its file is deleted. So call [`LockGuard::verify`] just
//! before you publish something.

mod config;
mod external;
mod file_system;
mod in_process;
mod last_lease;
mod machine;
mod machine_folder;
mod provider;
mod storage_based;
mod writer_lease;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use config::{LockConfig, LockProviderKind, LockWait};
pub use external::{ExternalLease, ExternalLock, ExternalLockRequest, register_external_locks};
pub(super) use in_process::hold_lock;
pub use last_lease::LastLease;
pub(crate) use provider::{Attempt, Lease, LockOwner, LockProvider};
pub use writer_lease::WriterLease;

use self::external::External;
use self::file_system::FileSystemLock;
use self::in_process::{ProcessGuard, ProcessLock};
use self::last_lease::LastRelease;
use self::machine::{MachineGuard, MachineLock};
use self::machine_folder::machine_folder;
use self::provider::millis;
use self::storage_based::StorageBasedLock;
use super::holder::Holder;
use super::{Clock, META_FOLDER, SystemClock};
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::BackgroundTask;
use hoodoo_runtime::process::Process;
use hoodoo_runtime::simulated;
use hoodoo_storage::Storage;

/// Name of the lock in messages.
const WHAT: &str = "the table lock";

/// The lock of one table.
#[derive(Clone)]
pub struct TableLock {
    uri: Arc<str>,
    process: ProcessLock,
    machine: Option<MachineLock>,
    provider: Option<Arc<dyn LockProvider>>,
    /// Whether each check of the lock is a request to an object store.
    is_remote: bool,
    wait: LockWait,
    clock: Arc<dyn Clock>,
    /// Set while the lock is held for longer than one transaction: see [`TableLock::holding`].
    held: Option<LockGuard>,
}

/// The lock of the table at `uri` between the threads of this process only.
pub fn table_lock(uri: &str) -> TableLock {
    TableLock {
        uri: uri.into(),
        process: ProcessLock::of(uri),
        machine: None,
        provider: None,
        is_remote: false,
        wait: LockWait::default(),
        clock: Arc::new(SystemClock),
        held: None,
    }
}

impl TableLock {
    /// The lock of a table, as its options configure it.
    ///
    /// # Errors
    /// `Unsupported` if the storage does not support this lock.
    pub fn new(storage: &Storage, config: &LockConfig, clock: Arc<dyn Clock>, last: Arc<LastLease>) -> Result<Self> {
        let folder = machine_folder(storage, META_FOLDER);
        let last = LastRelease::new(last, folder.clone().filter(|_| storage.is_remote()));
        let lease = |config: &LockConfig| StorageBasedLock::new(storage.clone(), config, clock.clone(), last);
        let provider: Option<Arc<dyn LockProvider>> = match config.provider {
            LockProviderKind::InProcess if storage.is_remote() => Some(Arc::new(lease(&config.implied())?.implied())),
            LockProviderKind::InProcess => None,
            LockProviderKind::FileSystem => Some(Arc::new(FileSystemLock::new(storage, config, clock.clone())?)),
            LockProviderKind::StorageBased => Some(Arc::new(lease(config)?)),
            LockProviderKind::External(class) => Some(Arc::new(External::new(class, config, storage.uri())?)),
        };
        let machine = folder.map(MachineLock::on);
        let is_remote = storage.is_remote();
        Ok(Self { machine, provider, is_remote, wait: config.wait, clock, ..table_lock(storage.uri()) })
    }

    /// The same lock for several transactions in a row, all under `held`: no other writer gets in between.
    #[must_use]
    pub fn holding(&self, held: &LockGuard) -> Self {
        Self { held: Some(held.clone()), ..self.clone() }
    }

    /// Waits for the lock. Not re-entrant, except through [`TableLock::holding`].
    ///
    /// # Errors
    /// `Lock`, which is retryable, if the wait times out.
    pub fn acquire(&self) -> Result<LockGuard> {
        if let Some(held) = &self.held {
            held.check()?;
            return Ok(held.clone());
        }
        let named = |e: Error| e.with("table", &self.uri);
        let process = self.process.acquire(WHAT, self.wait.total()).map_err(named)?;
        let machine = match &self.machine {
            None => None,
            Some(lock) => lock.acquire(WHAT, self.wait.total()).map_err(named)?,
        };
        let (lease, owner) = match &self.provider {
            None => (None, None),
            Some(provider) => self.acquire_from(provider.as_ref()).map_err(named).map(|(l, o)| (Some(l), Some(o)))?,
        };
        let uri = self.uri.clone();
        Ok(LockGuard(Arc::new(HeldLock {
            uri,
            lease: lease.map(Mutex::new),
            is_remote: self.is_remote,
            process: Process::this(),
            _owner: owner,
            _machine: machine,
            of_process: process,
        })))
    }

    /// Asks until the lock is free, less and less often while the same writer holds it. Where it has changed hands
    /// meanwhile, this writer was too late, and asks often again: a writer that asks seldom would never find it free
    /// between the many short transactions of others.
    fn acquire_from(&self, provider: &dyn LockProvider) -> Result<(Box<dyn Lease>, Holder)> {
        let owner = Holder::default();
        let begun = self.clock.now_ms();
        let (mut holder, mut failure): (Option<LockOwner>, _) = (None, None);
        for call in 0..=self.wait.client_retries {
            if call > 0 {
                self.clock.sleep(jittered(self.wait.client_pause));
            }
            let deadline = self.clock.now_ms().saturating_add(millis(self.wait.time));
            let mut pause = self.wait.pause;
            for _ in 0..=self.wait.retries {
                interrupt::check()?;
                // An interrupt waits for the answer of the storage: without it nobody knows who holds the lock.
                match interrupt::hold(|| provider.try_acquire(owner.name())) {
                    Ok(Attempt::Acquired(lease)) => return Ok((lease, owner)),
                    Ok(Attempt::Busy(who)) => {
                        let handed_over = matches!((&who, &holder), (Some(now), Some(before)) if now.id != before.id);
                        if handed_over {
                            pause = self.wait.pause;
                        }
                        (holder, failure) = (who.or(holder), None);
                    }
                    Ok(Attempt::Outrun) => (pause, failure) = (self.wait.pause, None),
                    // An overloaded store may answer the next request.
                    Err(e) if e.is_retryable() => failure = Some(e),
                    Err(e) => return Err(e),
                }
                let left = deadline.saturating_sub(self.clock.now_ms());
                let Ok(left @ 1..) = u64::try_from(left) else { break };
                self.clock.sleep(jittered(pause).min(Duration::from_millis(left)));
                pause = pause.saturating_mul(2).min(self.wait.longest_pause);
            }
        }
        let waited = self.clock.now_ms().saturating_sub(begun);
        let holder = holder.map_or_else(String::new, |holder| format!(": {}", holder.description));
        let error = Error::lock(format!(
            "timed out after {waited} ms waiting for {WHAT} ({}); another writer holds it{holder}",
            provider.name()
        ))
        .with("lock", provider.path())
        .remedy(provider.remedy());
        Err(match failure {
            Some(cause) => error.caused_by(cause),
            None => error,
        })
    }
}

/// Holds the table lock until it and all copies of it are dropped.
#[derive(Clone)]
pub struct LockGuard(Arc<HeldLock>);

struct HeldLock {
    uri: Arc<str>,
    // Released in this order, the reverse of the order in which they were acquired: the next writer must find them
    // free.
    lease: Option<Mutex<Box<dyn Lease>>>,
    is_remote: bool,
    process: Process,
    _owner: Option<Holder>,
    _machine: Option<MachineGuard>,
    of_process: ProcessGuard,
}

impl LockGuard {
    /// Fails if the lock is known to be lost. Makes no request.
    pub fn check(&self) -> Result<()> {
        self.ask(|lease| lease.check())
    }

    /// Fails if the lock is known to be lost, as long as it is held. Makes no request, and does not hold the lock.
    pub fn watch(&self) -> impl Fn() -> Result<()> + Send + Sync + use<> {
        let held = Arc::downgrade(&self.0);
        move || held.upgrade().map_or(Ok(()), |held| Self(held).check())
    }

    /// Fails unless the storage confirms that the lock is still held. Call it just before publishing.
    ///
    /// # Errors
    /// `Lock` if it was lost, or may have been: then another writer may be writing already.
    pub fn verify(&self) -> Result<()> {
        self.ask(|lease| lease.verify())
    }

    /// The error of work under the lock. If the lock is lost, what the work met may be what its next holder did: then it is
    /// an error of the lock, and the work can be done again.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Lock | ErrorKind::Interrupted) {
            return error;
        }
        match self.check() {
            Err(lost) => lost.caused_by(error),
            Ok(()) => error,
        }
    }

    /// Releases the lock, on another thread if that takes a request. The returned value waits for it when it is
    /// dropped.
    pub(crate) fn release_later(self) -> BackgroundTask<()> {
        let takes_requests = self.0.is_remote && self.0.lease.is_some() && Arc::strong_count(&self.0) == 1;
        self.leave_thread();
        BackgroundTask::run(takes_requests, move || drop(self))
    }

    /// Allows another thread to release the lock; this one may wait for that, unless it keeps a copy.
    pub(crate) fn leave_thread(&self) {
        if Arc::strong_count(&self.0) == 1 {
            self.0.of_process.leave_thread();
        }
    }

    fn ask(&self, question: impl Fn(&dyn Lease) -> Result<()>) -> Result<()> {
        let Some(lease) = &self.0.lease else { return Ok(()) };
        let lease = lease.lock().unwrap_or_else(PoisonError::into_inner);
        question(lease.as_ref()).map_err(|e| e.with("table", &self.0.uri))
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // A forked child must not release what its parent holds.
        if self.process.is_this()
            && let Some(lease) = &mut self.lease
            && let Err(e) = interrupt::hold(|| lease.get_mut().unwrap_or_else(PoisonError::into_inner).release())
        {
            tracing::warn!(table = &*self.uri, "the table lock was not released: {e}");
        }
    }
}

/// Varies a pause, so that writers that began to wait together do not try again together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(simulated::factor())
}

#[cfg(test)]
mod tests;
