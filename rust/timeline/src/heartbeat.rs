//! Heartbeats: files that show which pending instants have a running writer.
//!
//! A writer replaces `.hoodie/.heartbeat/<instant>` every minute. A heartbeat that is two minutes old has expired, as
//! in Hudi's `HoodieHeartbeatClient`. Hudi's files are empty. hoodoo's have the name of their process, so that the work
//! of a process that has ended can be taken over at once.

use std::sync::Arc;
use std::time::Duration;

use super::Clock;
use super::holder::{Holder, is_known_ended};
use super::renewal::Renewal;
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::process::Process;
use hoodoo_storage::{FileMeta, Storage};

/// The folder of heartbeats.
pub const HEARTBEATS: &str = ".hoodie/.heartbeat";
/// Hudi's writers renew a heartbeat every minute; it expires after two.
const INTERVAL: Duration = Duration::from_secs(60);
const LIVES_MS: i64 = 120_000;
/// Age in milliseconds from which a heartbeat without an instant may be removed.
const NEW_MS: i64 = 10_000;

/// Shows that an instant has a running writer, until it is dropped.
#[derive(Debug)]
pub struct Heartbeat {
    storage: Storage,
    path: String,
    content: String,
    /// Whether it is that of a write, which is never taken over but rolled back.
    is_write: bool,
    _holder: Holder,
    /// `None` once it has ended.
    renewal: Option<Renewal>,
    process: Process,
}

impl Heartbeat {
    /// Starts the heartbeat of a planned instant; replaces one that has expired or whose process has ended.
    ///
    /// # Errors
    /// `Conflict` if another writer works on the instant; `Storage`.
    pub fn take_over(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<Self> {
        match Self::start(storage, clock, instant) {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                check_no_other_writer(storage, clock, instant)?;
                storage.delete(&path_of(instant))?;
                Self::start(storage, clock, instant)
            }
            other => other,
        }
    }

    /// Starts the heartbeat of a write, whose instant is not on the timeline yet.
    ///
    /// # Errors
    /// `Conflict` if another writer works on the instant; `Storage`.
    pub fn of_write(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<Self> {
        let mut heartbeat = Self::start(storage, clock, instant)?;
        heartbeat.is_write = true;
        Ok(heartbeat)
    }

    /// Starts the heartbeat of an instant that is not on the timeline yet.
    ///
    /// # Errors
    /// `Conflict` if another writer works on the instant; `Storage`.
    pub fn start(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<Self> {
        let (storage, path, holder) = (storage.clone(), path_of(instant), Holder::default());
        let content = format!("{}\n", holder.name());
        storage.create(&path, content.clone()).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => busy(&storage, instant, 0),
            _ => e,
        })?;
        let beat = (storage.clone(), path.clone(), content.clone());
        let renew = move || {
            let (storage, path, content) = &beat;
            if let Err(e) = storage.replace(path, content.clone()) {
                tracing::warn!("the heartbeat was not renewed: {e}");
            }
            true
        };
        let renewal = Some(Renewal::start("heartbeat", clock.as_ref(), INTERVAL, renew)?);
        Ok(Self { storage, path, content, is_write: false, _holder: holder, renewal, process: Process::this() })
    }

    /// Fails if another process has taken over the instant because this heartbeat had expired. Writes are never taken
    /// over.
    ///
    /// # Errors
    /// `Conflict`; `Storage`.
    pub fn check(&self) -> Result<()> {
        if self.is_write {
            return Ok(());
        }
        match self.storage.read_if_exists(&self.path)? {
            Some(found) if found.as_ref() == self.content.as_bytes() => Ok(()),
            _ => Err(Error::conflict("another process has taken over this instant")
                .with("table", self.storage.uri())
                .with("file", &self.path)),
        }
    }

    /// Stops the heartbeat and returns its file for the caller to delete, who has just called [`Heartbeat::check`].
    pub fn into_path(mut self) -> String {
        self.renewal = None;
        std::mem::take(&mut self.path)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let Some(renewal) = self.renewal.take() else { return };
        drop(renewal);
        if !self.process.is_this() {
            // A forked child: the file is its parent's.
            return;
        }
        // A heartbeat that another process took over stays.
        let remove = || self.check().is_ok().then(|| self.storage.delete(&self.path)).transpose();
        if let Err(e) = interrupt::hold(remove) {
            tracing::warn!("the heartbeat was not removed: {e}");
        }
    }
}

/// Fails if another writer works on an instant: its files must stay.
///
/// # Errors
/// `Conflict`; `Storage`.
pub fn check_no_other_writer(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<()> {
    match age_if_alive(storage, clock, instant)? {
        Some(age_ms) => Err(busy(storage, instant, age_ms)),
        None => Ok(()),
    }
}

/// Whether a writer works on an instant.
///
/// # Errors
/// `Storage`.
pub fn is_alive(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<bool> {
    Ok(age_if_alive(storage, clock, instant)?.is_some())
}

/// All heartbeats of a table, as one listing shows them.
#[derive(Debug, Default)]
pub struct Heartbeats(Vec<FileMeta>);

impl Heartbeats {
    /// Lists them. An instant that was on the timeline before the listing and has no heartbeat has no writer.
    ///
    /// # Errors
    /// `Storage`.
    pub fn list(storage: &Storage) -> Result<Self> {
        Ok(Self(storage.list(HEARTBEATS)?.files))
    }

    /// Whether a writer works on an instant.
    ///
    /// # Errors
    /// `Storage`.
    pub fn is_alive(&self, storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<bool> {
        let file = self.0.iter().find(|file| file.name() == instant);
        file.map_or(Ok(false), |file| Ok(age_of(storage, clock, file)?.is_some()))
    }

    /// Removes heartbeats that killed processes left, if their instants are not pending.
    ///
    /// # Errors
    /// `Storage`.
    pub fn remove_stale(
        &self,
        storage: &Storage,
        clock: &Arc<dyn Clock>,
        is_pending: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        // In an object store each check takes a request, and a new heartbeat mostly belongs to a write that begins.
        let looks_at = |file: &&FileMeta| {
            !is_pending(file.name())
                && (!storage.is_remote() || clock.now_ms().saturating_sub(file.modified_ms) > NEW_MS)
        };
        for file in self.0.iter().filter(looks_at) {
            if age_of(storage, clock, file)?.is_none() {
                remove(storage, file.name())?;
            }
        }
        Ok(())
    }
}

/// Removes a heartbeat.
///
/// # Errors
/// `Storage`.
pub fn remove(storage: &Storage, instant: &str) -> Result<()> {
    storage.delete(&path_of(instant)).map(|_| ())
}

fn path_of(instant: &str) -> String {
    format!("{HEARTBEATS}/{instant}")
}

fn busy(storage: &Storage, instant: &str, age_ms: i64) -> Error {
    Error::conflict(format!(
        "another writer works on this instant; its last heartbeat was {} s ago",
        age_ms.max(0) / 1000
    ))
    .with("table", storage.uri())
    .with("instant", instant)
    .remedy("Wait until it has finished. If it was killed, its heartbeat expires after two minutes: try again then")
}

fn age_if_alive(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<Option<i64>> {
    let path = path_of(instant);
    let Some(file) = storage.head(&path)? else { return Ok(None) };
    age_of(storage, clock, &file)
}

/// Milliseconds since the last heartbeat; `None` if it has expired or its process has ended.
fn age_of(storage: &Storage, clock: &Arc<dyn Clock>, file: &FileMeta) -> Result<Option<i64>> {
    let age = clock.now_ms().saturating_sub(file.modified_ms);
    if age > LIVES_MS {
        return Ok(None);
    }
    let Some(content) = storage.read_if_exists(&file.path)? else { return Ok(None) };
    Ok(if is_known_ended(&String::from_utf8_lossy(&content)) { None } else { Some(age) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use uuid::Uuid;

    use super::super::holder::machine;
    use super::*;
    use crate::SystemClock;
    use hoodoo_storage::StorageOptions;

    /// Three minutes on.
    struct LaterClock;

    impl Clock for LaterClock {
        fn now_ms(&self) -> i64 {
            SystemClock.now_ms() + 180_000
        }

        fn sleep(&self, _: Duration) {}
    }

    fn storage(name: &str) -> Storage {
        Storage::open(&format!("memory://heartbeat-{name}/t"), &StorageOptions::new()).unwrap()
    }

    fn now() -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    #[test]
    fn an_instant_is_worked_on_by_one() {
        let storage = storage("one");
        let first = Heartbeat::take_over(&storage, &now(), "1").unwrap();
        assert!(is_alive(&storage, &now(), "1").unwrap());
        assert_eq!(Heartbeat::take_over(&storage, &now(), "1").unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(Heartbeat::start(&storage, &now(), "1").unwrap_err().kind(), ErrorKind::Conflict);
        first.check().unwrap();
        drop(first);
        assert!(!is_alive(&storage, &now(), "1").unwrap());
        assert!(!storage.exists(".hoodie/.heartbeat/1").unwrap());
        drop(Heartbeat::start(&storage, &now(), "2").unwrap());
        assert!(!storage.exists(".hoodie/.heartbeat/2").unwrap());
    }

    #[test]
    fn ended_processes_are_known_by_their_id_or_the_age_of_the_heartbeat() {
        let storage = storage("dead");
        let beat = |content: &str| storage.replace(".hoodie/.heartbeat/1", content.to_owned()).unwrap();
        let id = Uuid::new_v4();
        let (here, me) = (machine(), std::process::id());
        // This process, and it does not know of it; a number that no process has.
        for dead in [format!("{here} {me} {id}"), format!("{here} 4194999 {id}")] {
            beat(&dead);
            assert!(!is_alive(&storage, &now(), "1").unwrap(), "{dead}");
        }
        // Hudi's, another machine's, the first process of this one.
        for alive in ["", "elsewhere 1 7d9c2c6e-6c3c-4a8e-9d2f-0e5d1f1f3a55", &format!("{here} 1 {id}"), "x y z"] {
            beat(alive);
            assert!(is_alive(&storage, &now(), "1").unwrap(), "{alive}");
        }
        let later: Arc<dyn Clock> = Arc::new(LaterClock);
        assert!(!is_alive(&storage, &later, "1").unwrap());
        // Taken over; who thought to have it, learns of it.
        let mine = Heartbeat::take_over(&storage, &later, "1").unwrap();
        beat("somebody");
        assert_eq!(mine.check().unwrap_err().kind(), ErrorKind::Conflict);
        drop(mine);
        assert!(storage.exists(".hoodie/.heartbeat/1").unwrap());
    }
}
