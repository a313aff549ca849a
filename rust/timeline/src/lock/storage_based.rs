//! A lease in an object store: `.hoodie/.locks/table_lock.json`, as Hudi's `StorageBasedLockProvider` keeps it.
//!
//! The file says who holds the lock and until when. Writers create, take over, renew and release it by conditional
//! writes, so that one of several writers succeeds. It is never deleted: a released lock is `expired`. A thread renews
//! the lease while it is held. If it cannot, the lease expires and the holder has to stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::LockConfig;
use super::last_lease::LastRelease;
use super::provider::{Attempt, Lease, LockOwner, LockProvider, lost, millis};
use crate::Clock;
use crate::holder::is_known_ended;
use crate::renewal::Renewal;
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_storage::{FileVersion, Storage};

const PATH: &str = ".hoodie/.locks/table_lock.json";
/// How far the clocks of writers may differ, as Hudi assumes.
const CLOCK_DRIFT_MS: i64 = 500;
/// Pauses between attempts to release the lock.
const RELEASE_PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockFile {
    expired: bool,
    /// Milliseconds since 1970 (UTC).
    valid_until: i64,
    owner: String,
}

impl LockFile {
    fn parse(content: &[u8]) -> Result<Self> {
        serde_json::from_slice(content).map_err(|e| {
            Error::corrupt("the lock file is not valid")
                .caused_by(e)
                .with("file", PATH)
                .remedy("If no writer is running, delete the file")
        })
    }

    fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::lock("the lock file cannot be written").caused_by(e))
    }

    fn is_held(&self, now: i64) -> bool {
        !self.expired && now <= self.valid_until.saturating_add(CLOCK_DRIFT_MS)
    }
}

/// The provider.
pub(super) struct StorageBasedLock {
    storage: Storage,
    clock: Arc<dyn Clock>,
    validity_ms: i64,
    renew_every: Duration,
    last: LastRelease,
    /// Whether no provider was configured: then a store without conditional updates is no error.
    implied: bool,
}

impl StorageBasedLock {
    pub(super) fn new(storage: Storage, config: &LockConfig, clock: Arc<dyn Clock>, last: LastRelease) -> Result<Self> {
        if storage.is_local() {
            return Err(Error::unsupported("StorageBasedLockProvider is not supported on local folders: they have no conditional updates")
                .with("table", storage.uri())
                .remedy("Set hoodie.write.lock.provider to org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider for every writer of this table"));
        }
        Ok(Self {
            storage,
            clock,
            validity_ms: millis(config.validity),
            renew_every: config.renew_every,
            last,
            implied: false,
        })
    }

    /// The same lock where no provider was configured: without it, two of hoodoo's writers could both publish without
    /// seeing each other's commit.
    pub(super) fn implied(self) -> Self {
        Self { implied: true, ..self }
    }

    /// Acquires the lock with the version of its last release, if no other writer acquired it since.
    fn try_again(&self, owner: &str) -> Result<Option<Box<dyn Lease>>> {
        let Some(version) = self.last.likely() else { return Ok(None) };
        let valid_until = self.clock.now_ms().saturating_add(self.validity_ms);
        let wanted = LockFile { expired: false, valid_until, owner: owner.to_owned() };
        match self.update(&wanted, &version) {
            Ok(version) => {
                let state = State { version, valid_until, lost: None };
                Ok(Some(Box::new(StorageLease::start(self, owner, state)?)))
            }
            // The caller reads the file and finds out why.
            Err(_) => {
                self.last.found(None);
                Ok(None)
            }
        }
    }

    fn update(&self, wanted: &LockFile, version: &FileVersion) -> Result<FileVersion> {
        match self.storage.update(PATH, wanted.to_json()?, version) {
            // Another writer was faster, or the answer to an earlier request of this process was lost.
            Err(e) if e.kind() == ErrorKind::Conflict => match self.storage.read_versioned(PATH)? {
                Some((content, version)) if LockFile::parse(&content).is_ok_and(|found| found == *wanted) => {
                    Ok(version)
                }
                _ => Err(e),
            },
            other => other,
        }
    }
}

impl LockProvider for StorageBasedLock {
    fn try_acquire(&self, owner: &str) -> Result<Attempt> {
        if let Some(lease) = self.try_again(owner)? {
            return Ok(Attempt::Acquired(lease));
        }
        let found = self.storage.read_versioned(PATH)?;
        self.last.found(found.as_ref().map(|(_, version)| version));
        let now = self.clock.now_ms();
        if let Some((content, _)) = &found {
            let lock = LockFile::parse(content).map_err(|e| e.with("table", self.storage.uri()))?;
            // A lock of this owner comes from an attempt whose answer was lost. That of a process of this machine that
            // was killed is taken over at once.
            if lock.is_held(now) && lock.owner != owner && !is_known_ended(&lock.owner) {
                let left = lock.valid_until.saturating_sub(now) / 1000;
                let description = format!("{}, its lease expires in {left} s", lock.owner);
                return Ok(Attempt::Busy(Some(LockOwner { id: lock.owner, description })));
            }
        }
        let valid_until = now.saturating_add(self.validity_ms);
        let wanted = LockFile { expired: false, valid_until, owner: owner.to_owned() };
        let written = match &found {
            None => self.storage.create_versioned(PATH, wanted.to_json()?),
            Some((_, version)) => self.update(&wanted, version),
        };
        match written {
            Ok(version) => {
                let state = State { version, valid_until, lost: None };
                Ok(Attempt::Acquired(Box::new(StorageLease::start(self, owner, state)?)))
            }
            Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::Conflict) => Ok(Attempt::Outrun),
            Err(e) if e.kind() == ErrorKind::Unsupported && self.implied => {
                tracing::warn!(table = self.storage.uri(), "the storage does not support locks between processes: {e}");
                Ok(Attempt::Acquired(Box::new(NoLease)))
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => Err(Error::unsupported(
                "StorageBasedLockProvider is not supported on this storage: it has no conditional updates",
            )
            .caused_by(e)
            .remedy("Use a store with conditional updates (S3, Google Cloud Storage, Azure)")),
            Err(e) => Err(e),
        }
    }

    fn name(&self) -> &'static str {
        "StorageBasedLockProvider"
    }

    fn path(&self) -> String {
        PATH.to_owned()
    }

    fn remedy(&self) -> String {
        "Write again. The lease of a writer that was killed expires by itself. To wait longer, raise \
         hoodie.write.lock.wait_time_ms and hoodie.write.lock.client.num_retries"
            .to_owned()
    }
}

/// The lease, shared with the thread that renews it.
struct Shared {
    storage: Storage,
    clock: Arc<dyn Clock>,
    validity_ms: i64,
    owner: String,
    last: LastRelease,
    state: Mutex<State>,
}

struct State {
    version: FileVersion,
    valid_until: i64,
    lost: Option<String>,
}

struct StorageLease {
    shared: Arc<Shared>,
    renewal: Option<Renewal>,
}

/// The lease where the store has no conditional updates and no provider was configured.
struct NoLease;

impl Lease for NoLease {
    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        Ok(())
    }
}

impl StorageLease {
    fn start(lock: &StorageBasedLock, owner: &str, state: State) -> Result<Self> {
        let shared = Arc::new(Shared {
            storage: lock.storage.clone(),
            clock: lock.clock.clone(),
            validity_ms: lock.validity_ms,
            owner: owner.to_owned(),
            last: lock.last.clone(),
            state: Mutex::new(state),
        });
        let (mine, every) = (shared.clone(), lock.renew_every);
        let mut lease = Self { shared, renewal: None };
        match Renewal::start("table lock", lock.clock.as_ref(), every, move || mine.keep_alive()) {
            Ok(renewal) => lease.renewal = Some(renewal),
            Err(e) => {
                lease.release()?;
                return Err(e);
            }
        }
        Ok(lease)
    }
}

impl Lease for StorageLease {
    fn check(&self) -> Result<()> {
        self.shared.still_valid(&self.shared.state())
    }

    fn verify(&self) -> Result<()> {
        let mut state = self.shared.state();
        self.shared.still_valid(&state)?;
        match self.shared.renew(&mut state) {
            // The store did not answer. No other writer may take the lock before the lease expires, and what is
            // published now is there by then.
            Err(e) if e.is_retryable() && e.kind() == ErrorKind::Storage => {
                let left = state.valid_until.saturating_sub(self.shared.clock.now_ms());
                if left > self.shared.validity_ms / 5 {
                    return Ok(());
                }
                Err(lost("it could not be renewed", PATH).caused_by(e))
            }
            other => other,
        }
    }

    fn release(&mut self) -> Result<()> {
        self.renewal = None;
        let mut state = self.shared.state();
        if state.lost.is_some() {
            return Ok(());
        }
        let until = state.valid_until;
        let mut pauses = RELEASE_PAUSES.iter();
        loop {
            match self.shared.put(&mut state, true, until) {
                Err(e) if e.is_retryable() && e.kind() == ErrorKind::Storage => match pauses.next() {
                    Some(pause) => self.shared.clock.sleep(*pause),
                    None => return Err(e),
                },
                Err(e) if e.kind() == ErrorKind::Lock => return Ok(()),
                Err(e) => return Err(e),
                Ok(()) => {
                    self.shared.last.released(state.version.clone());
                    return Ok(());
                }
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn still_valid(&self, state: &State) -> Result<()> {
        if let Some(why) = &state.lost {
            return Err(lost(why, PATH));
        }
        let late = self.clock.now_ms().saturating_sub(state.valid_until);
        if late > 0 {
            return Err(lost(format!("its lease expired {late} ms ago"), PATH));
        }
        Ok(())
    }

    /// Renews the lease. Returns false if the lock is lost.
    fn keep_alive(&self) -> bool {
        let mut state = self.state();
        match self.still_valid(&state).and_then(|()| self.renew(&mut state)) {
            Ok(()) => true,
            Err(e) => {
                tracing::warn!(table = self.storage.uri(), "the table lock was not renewed: {e}");
                e.kind() != ErrorKind::Lock
            }
        }
    }

    fn renew(&self, state: &mut State) -> Result<()> {
        let until = self.clock.now_ms().saturating_add(self.validity_ms);
        self.put(state, false, until)
    }

    /// Replaces the file, if no other writer did.
    fn put(&self, state: &mut State, expired: bool, valid_until: i64) -> Result<()> {
        let wanted = LockFile { expired, valid_until, owner: self.owner.clone() };
        match self.storage.update(PATH, wanted.to_json()?, &state.version) {
            Ok(version) => {
                (state.version, state.valid_until) = (version, valid_until);
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Conflict => self.settle(state, &wanted),
            Err(e) => Err(e),
        }
    }

    /// The file has an unexpected version: either the answer to a request of this process was lost, or the lock was
    /// lost.
    fn settle(&self, state: &mut State, wanted: &LockFile) -> Result<()> {
        let why = match self.storage.read_versioned(PATH)? {
            None => "its file was deleted".to_owned(),
            Some((content, version)) => match LockFile::parse(&content) {
                Ok(found) if found == *wanted => {
                    (state.version, state.valid_until) = (version, wanted.valid_until);
                    return Ok(());
                }
                // A renewal of this process whose answer was lost: the lock is still held.
                Ok(found) if found.owner == self.owner && !found.expired => {
                    match self.storage.update(PATH, wanted.to_json()?, &version) {
                        Ok(version) => {
                            (state.version, state.valid_until) = (version, wanted.valid_until);
                            return Ok(());
                        }
                        Err(e) if e.kind() == ErrorKind::Conflict => "another process changed its file".to_owned(),
                        Err(e) => return Err(e),
                    }
                }
                Ok(found) => format!("{} took it", found.owner),
                Err(_) => "its file was overwritten".to_owned(),
            },
        };
        let error = lost(&why, PATH);
        state.lost = Some(why);
        Err(error)
    }
}
