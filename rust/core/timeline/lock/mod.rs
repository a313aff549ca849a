//! The table lock: times are generated and instants created under it.
//!
//! Always taken is the lock between the threads of this process; inside of it, for tables on a local disk, the one between
//! our processes on this machine; and inside of that the one of the provider that `hoodie.write.lock.provider` names, which
//! excludes other machines and Hudi's writers:
//!
//! | provider | what it is |
//! |---|---|
//! | `InProcessLockProvider`, or none | on a local disk nothing more; in an object store, the lease of `StorageBasedLockProvider` |
//! | `FileSystemBasedLockProvider` | `<folder>/lock`, an empty file on a local disk |
//! | `StorageBasedLockProvider` | `.hoodie/.locks/table_lock.json`, a lease in an object store |
//!
//! A lock can be lost while it is held: a lease runs out, a file is deleted. Whoever publishes something asks
//! [`LockGuard::verify`] just before.

mod config;
mod file_system;
mod in_process;
mod machine;
mod storage_based;
mod turn;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::Rng;

pub use config::{LockConfig, LockProviderKind, LockWait};
pub(super) use in_process::hold_lock;
pub use storage_based::LastLease;
pub use turn::Turn;

use self::file_system::FileSystemLock;
use self::in_process::{ProcessGuard, ProcessLock};
use self::machine::{MachineGuard, MachineLock};
use self::storage_based::StorageBasedLock;
use super::holder::Holder;
use super::{Clock, META_FOLDER, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::interrupt;
use crate::parallel::Later;
use crate::process::Process;
use crate::storage::Storage;

/// A lock that excludes other processes.
pub trait LockProvider: Send + Sync {
    /// Tries once. `owner` is the name of a [`Holder`]; the same one is used while one caller tries again.
    fn try_acquire(&self, owner: &str) -> Result<Attempt>;
    /// What is locked, for messages.
    fn place(&self) -> String;
    /// What to do when the lock is not to be had.
    fn remedy(&self) -> String;
}

/// What came of one try.
pub enum Attempt {
    /// The lock is ours.
    Acquired(Box<dyn Lease>),
    /// Somebody else has it: who, as far as one can tell.
    Busy(Option<String>),
}

/// A lock that is held.
pub trait Lease: Send {
    /// Whether it was lost, as far as this process knows. Cheap.
    fn check(&self) -> Result<()>;
    /// Makes sure that it is still ours.
    fn verify(&self) -> Result<()>;
    /// Gives it back, unless it was lost.
    fn release(&mut self) -> Result<()>;
}

/// The lock of one table.
#[derive(Clone)]
pub struct TableLock {
    uri: Arc<str>,
    process: ProcessLock,
    machine: Option<MachineLock>,
    provider: Option<Arc<dyn LockProvider>>,
    /// Whether each look at the lock is a request to an object store.
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
    /// The lock of a table as its options have it.
    ///
    /// # Errors
    /// `Unsupported` when the storage cannot keep such a lock.
    pub fn new(storage: &Storage, config: &LockConfig, clock: Arc<dyn Clock>, last: Arc<LastLease>) -> Result<Self> {
        let lease = |config: &LockConfig| StorageBasedLock::new(storage.clone(), config, clock.clone(), last);
        let provider: Option<Arc<dyn LockProvider>> = match config.provider {
            LockProviderKind::InProcess if storage.is_remote() => Some(Arc::new(lease(&config.implied())?.implied())),
            LockProviderKind::InProcess => None,
            LockProviderKind::FileSystem => Some(Arc::new(FileSystemLock::new(storage, config, clock.clone())?)),
            LockProviderKind::StorageBased => Some(Arc::new(lease(config)?)),
        };
        let machine = storage.local_path(META_FOLDER).map(MachineLock::on);
        let is_remote = storage.is_remote();
        Ok(Self { machine, provider, is_remote, wait: config.wait, clock, ..table_lock(storage.uri()) })
    }

    /// The same lock for several transactions in a row, which `held` covers: nobody gets in between them.
    #[must_use]
    pub fn holding(&self, held: &LockGuard) -> Self {
        Self { held: Some(held.clone()), ..self.clone() }
    }

    /// Waits for the lock. Not re-entrant, but for [`TableLock::holding`].
    ///
    /// # Errors
    /// `Lock`, which may be tried again, when it is not free within the time that the options give.
    pub fn acquire(&self) -> Result<LockGuard> {
        if let Some(held) = &self.held {
            held.check()?;
            return Ok(held.clone());
        }
        let named = |e: Error| e.with("table", &self.uri);
        let process = self.process.acquire(self.wait.total()).map_err(named)?;
        let machine = match &self.machine {
            None => None,
            Some(lock) => lock.acquire(self.wait.total()).map_err(named)?,
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

    fn acquire_from(&self, provider: &dyn LockProvider) -> Result<(Box<dyn Lease>, Holder)> {
        let owner = Holder::default();
        let begun = self.clock.now_ms();
        let (mut holder, mut failure) = (None, None);
        for call in 0..=self.wait.client_retries {
            if call > 0 {
                self.clock.sleep(jittered(self.wait.client_pause));
            }
            let deadline = self.clock.now_ms().saturating_add(millis(self.wait.time));
            let mut pause = self.wait.pause;
            for _ in 0..=self.wait.retries {
                interrupt::check()?;
                // Whether a lock is ours is known only when the storage has answered.
                match interrupt::hold(|| provider.try_acquire(owner.name())) {
                    Ok(Attempt::Acquired(lease)) => return Ok((lease, owner)),
                    Ok(Attempt::Busy(who)) => (holder, failure) = (who.or(holder), None),
                    // A store that is overloaded now may answer the next time.
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
        let error = Error::lock(format!("the table lock was not to be had within {waited} ms"))
            .with("lock", provider.place())
            .with("holder", holder.unwrap_or_else(|| "unknown".into()))
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
    // Given back in this order, the reverse of that in which they were taken: the next one must find them free.
    lease: Option<Mutex<Box<dyn Lease>>>,
    is_remote: bool,
    process: Process,
    _owner: Option<Holder>,
    _machine: Option<MachineGuard>,
    of_process: ProcessGuard,
}

impl LockGuard {
    /// Fails when the lock is known to be lost. Costs next to nothing.
    pub fn check(&self) -> Result<()> {
        self.ask(|lease| lease.check())
    }

    /// Makes sure that the lock is still held, by asking where it is kept. For the moment before publishing.
    ///
    /// # Errors
    /// `Lock` when it was lost, or may have been: then another writer may be at work already.
    pub fn verify(&self) -> Result<()> {
        self.ask(|lease| lease.verify())
    }

    /// Gives the lock back beside what comes next, where that takes a request. What is returned waits for it when it is
    /// dropped.
    pub fn release_later(self) -> Later<()> {
        let takes_requests = self.0.is_remote && self.0.lease.is_some() && Arc::strong_count(&self.0) == 1;
        self.leave_thread();
        Later::run(takes_requests, move || drop(self))
    }

    /// Another thread is going to give the lock back: this one may wait for that, unless it keeps a copy.
    pub(in crate::timeline) fn leave_thread(&self) {
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
        // A forked child has no right to give back what its parent holds.
        if self.process.is_this()
            && let Some(lease) = &mut self.lease
            && let Err(e) = interrupt::hold(|| lease.get_mut().unwrap_or_else(PoisonError::into_inner).release())
        {
            tracing::warn!(table = &*self.uri, "the table lock could not be given back: {e}");
        }
    }
}

/// The error of a lock that was lost.
fn lost(why: impl std::fmt::Display, place: &str) -> Error {
    Error::new(ErrorKind::Lock, format!("the table lock was lost: {why}"))
        .with("lock", place)
        .remedy("Nothing was published. Write again; what this try left is invisible, and the next write removes it")
}

/// A pause that differs between writers who began to wait at the same time.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.5..=1.0))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
