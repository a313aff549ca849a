//! A lease in an object store: `.hoodie/.locks/table_lock.json`, as Hudi's `StorageBasedLockProvider` keeps it.
//!
//! The file says who has the lock and until when. It is created, taken over, renewed and given back by conditional
//! writes, so that of several writers one succeeds, and it is never deleted: a lock that was given back is `expired`.
//! A thread renews the lease while it is held; when it cannot, the lease runs out and the holder has to stop.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Attempt, Lease, LockConfig, LockProvider, lost, millis};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{FileVersion, Storage};
use crate::timeline::Clock;
use crate::timeline::holder::is_known_dead;

const PATH: &str = ".hoodie/.locks/table_lock.json";
/// How far the clocks of writers may be apart, for all that Hudi takes for granted.
const CLOCK_DRIFT_MS: i64 = 500;
/// Pauses after which giving back is tried again.
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
            Error::corrupt("the lock file is not what Hudi writes")
                .caused_by(e)
                .with("file", PATH)
                .remedy("If no writer is at work on the table, delete the file")
        })
    }

    fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::lock("the lock file cannot be written").caused_by(e))
    }

    fn is_held(&self, now: i64) -> bool {
        !self.expired && now <= self.valid_until.saturating_add(CLOCK_DRIFT_MS)
    }
}

/// The state in which this process last gave the lock back: as long as nobody else takes it, the next try need not read
/// the file first.
#[derive(Default)]
pub struct LastLease(Mutex<Option<Released>>);

struct Released {
    version: FileVersion,
    /// Whether the file was still in that state when it was needed the last time.
    is_likely: bool,
}

impl LastLease {
    // Nobody waits here: a forked child may find a lock that is never given back.

    /// The state to try.
    fn likely(&self) -> Option<FileVersion> {
        let slot = self.0.try_lock().ok()?;
        slot.as_ref().filter(|last| last.is_likely).map(|last| last.version.clone())
    }

    /// Takes note of the state in which the file was found.
    fn found(&self, version: Option<&FileVersion>) {
        let Ok(mut slot) = self.0.try_lock() else { return };
        if let Some(last) = &mut *slot {
            last.is_likely = version == Some(&last.version);
        }
    }

    fn released(&self, version: FileVersion) {
        let Ok(mut slot) = self.0.try_lock() else { return };
        let is_likely = slot.as_ref().is_none_or(|last| last.is_likely);
        *slot = Some(Released { version, is_likely });
    }
}

/// The provider.
pub(super) struct StorageBasedLock {
    storage: Storage,
    clock: Arc<dyn Clock>,
    validity_ms: i64,
    renew_every: Duration,
    last: Arc<LastLease>,
    /// Whether nobody asked for it, so that a store that cannot keep it is no error.
    implied: bool,
}

impl StorageBasedLock {
    pub(super) fn new(
        storage: Storage,
        config: &LockConfig,
        clock: Arc<dyn Clock>,
        last: Arc<LastLease>,
    ) -> Result<Self> {
        if storage.is_local() {
            return Err(Error::unsupported("StorageBasedLockProvider needs an object store; local folders have no conditional updates")
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

    /// The same, taken where no provider was given: without it, two of our writers could publish what neither has seen of
    /// the other.
    pub(super) fn implied(self) -> Self {
        Self { implied: true, ..self }
    }

    /// Takes the lock as this process left it, if nobody took it since.
    fn try_again(&self, owner: &str) -> Result<Option<Box<dyn Lease>>> {
        let Some(version) = self.last.likely() else { return Ok(None) };
        let valid_until = self.clock.now_ms().saturating_add(self.validity_ms);
        let wanted = LockFile { expired: false, valid_until, owner: owner.to_owned() };
        match self.update(&wanted, &version) {
            Ok(version) => {
                let state = State { version, valid_until, lost: None };
                Ok(Some(Box::new(StorageLease::start(self, owner, state)?)))
            }
            // Reading the file tells what is the matter.
            Err(_) => {
                self.last.found(None);
                Ok(None)
            }
        }
    }

    fn update(&self, wanted: &LockFile, version: &FileVersion) -> Result<FileVersion> {
        match self.storage.update(PATH, wanted.to_json()?, version) {
            // Another writer was faster; or a first request of ours was, and its answer was lost.
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
            // Ours is what a try left whose answer was lost; what a killed process left here need not run out.
            if lock.is_held(now) && lock.owner != owner && !is_known_dead(&lock.owner) {
                let left = lock.valid_until.saturating_sub(now) / 1000;
                return Ok(Attempt::Busy(Some(format!("{}, whose lease has {left} s to go", lock.owner))));
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
            Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::Conflict) => {
                // Another writer was faster.
                Ok(Attempt::Busy(None))
            }
            Err(e) if e.kind() == ErrorKind::Unsupported && self.implied => {
                tracing::warn!(table = self.storage.uri(), "this storage cannot keep a lock between processes: {e}");
                Ok(Attempt::Acquired(Box::new(NoLease)))
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                Err(Error::unsupported("StorageBasedLockProvider: this storage has no conditional updates")
                    .caused_by(e)
                    .remedy("Use a store that has them (S3, Google, Azure), or let one process write at a time"))
            }
            Err(e) => Err(e),
        }
    }

    fn place(&self) -> String {
        PATH.to_owned()
    }

    fn remedy(&self) -> String {
        "Try again. The lock of a writer that died is free when its lease has run out; writers wait longer with \
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
    last: Arc<LastLease>,
    state: Mutex<State>,
    stopped: Mutex<bool>,
    stop: Condvar,
}

struct State {
    version: FileVersion,
    valid_until: i64,
    lost: Option<String>,
}

struct StorageLease {
    shared: Arc<Shared>,
    renewal: Option<JoinHandle<()>>,
}

/// What is held where the store cannot keep a lock and nobody asked for one.
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
            stopped: Mutex::new(false),
            stop: Condvar::new(),
        });
        let (mine, every) = (shared.clone(), lock.renew_every);
        let mut lease = Self { shared, renewal: None };
        let thread = std::thread::Builder::new().name("hoodoo-lock".into()).spawn(move || mine.keep_alive(every));
        match thread {
            Ok(thread) => lease.renewal = Some(thread),
            Err(e) => {
                lease.release()?;
                return Err(Error::lock("the thread that renews the table lock could not be started").caused_by(e));
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
            // The store did not say. Until the lease has run out nobody else may take it; what is published now has to
            // be there by then.
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
        *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.renewal.take() {
            // It has no way to panic; what it knew is in the state.
            let _ = thread.join();
        }
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
            return Err(lost(format!("its lease ran out {late} ms ago"), PATH));
        }
        Ok(())
    }

    /// Renews again and again, until it is stopped or the lock is lost. In real time, for that is what runs out.
    fn keep_alive(&self, every: Duration) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            let (guard, timeout) = self.stop.wait_timeout(stopped, every).unwrap_or_else(PoisonError::into_inner);
            stopped = guard;
            if *stopped || !timeout.timed_out() {
                continue;
            }
            drop(stopped);
            {
                let mut state = self.state();
                if let Err(e) = self.still_valid(&state).and_then(|()| self.renew(&mut state)) {
                    tracing::warn!(table = self.storage.uri(), "the table lock was not renewed: {e}");
                    if e.kind() == ErrorKind::Lock {
                        return;
                    }
                }
            }
            stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn renew(&self, state: &mut State) -> Result<()> {
        let until = self.clock.now_ms().saturating_add(self.validity_ms);
        self.put(state, false, until)
    }

    /// Writes the file anew, if nobody else did.
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

    /// The file is not as we left it: a request of ours did its work and its answer was lost, or the lock is gone.
    fn settle(&self, state: &mut State, wanted: &LockFile) -> Result<()> {
        let why = match self.storage.read_versioned(PATH)? {
            None => "its file was deleted".to_owned(),
            Some((content, version)) => match LockFile::parse(&content) {
                Ok(found) if found == *wanted => {
                    (state.version, state.valid_until) = (version, wanted.valid_until);
                    return Ok(());
                }
                // An older renewal of ours, whose answer was lost: the file is still ours.
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
