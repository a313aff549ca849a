//! Heartbeats: files that show which pending instants have a running writer.
//!
//! A writer renews `.hoodie/.heartbeat/<instant>` every minute. A heartbeat that is two minutes old has expired, as
//! in Hudi's `HoodieHeartbeatClient`. Hudi's files are empty. hoodoo's have the name of their process, so that the work
//! of a process that has ended can be taken over at once, and an id of the attempt. A process that stood still finds that
//! of another one where its own was, and leaves it there: it has lost the instant, and may not complete it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether a renewal found that of another process.
    lost: Arc<AtomicBool>,
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
        Self::begin(storage, clock, instant, true)
    }

    /// Starts the heartbeat of an instant that is not on the timeline yet.
    ///
    /// # Errors
    /// `Conflict` if another writer works on the instant; `Storage`.
    pub fn start(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<Self> {
        Self::begin(storage, clock, instant, false)
    }

    fn begin(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str, is_write: bool) -> Result<Self> {
        let (storage, path, holder) = (storage.clone(), path_of(instant), Holder::default());
        let content = format!("{}\n", holder.name());
        storage.create(&path, content.clone()).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => busy(&storage, instant, 0),
            _ => e,
        })?;
        let lost = Arc::new(AtomicBool::new(false));
        let (beat, is_lost) = ((storage.clone(), path.clone(), content.clone()), lost.clone());
        let renew = move || {
            let (storage, path, content) = &beat;
            match renew(storage, path, content, is_write) {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!("the heartbeat {path} is lost: another process works on the instant");
                    is_lost.store(true, Ordering::Release);
                    return false;
                }
                Err(e) => tracing::warn!("the heartbeat was not renewed: {e}"),
            }
            true
        };
        let renewal = Some(Renewal::start("heartbeat", clock.as_ref(), INTERVAL, renew)?);
        Ok(Self { storage, path, content, is_write, lost, _holder: holder, renewal, process: Process::this() })
    }

    /// Fails if another process has taken over the instant because this heartbeat had expired. Writes are never taken
    /// over. Whoever completes the instant calls this under the table lock; under that lock others remove the files of an
    /// instant that they take over.
    ///
    /// # Errors
    /// `Conflict`; `Storage`.
    pub fn check(&self) -> Result<()> {
        let is_lost = self.lost.load(Ordering::Acquire);
        if self.is_write && !is_lost {
            return Ok(());
        }
        match self.storage.read_if_exists(&self.path)? {
            Some(found) if found.as_ref() == self.content.as_bytes() && !is_lost => Ok(()),
            _ => Err(Error::conflict("another process has taken over this instant: its heartbeat had expired")
                .with("table", self.storage.uri())
                .with("file", &self.path)
                .remedy("Nothing of this attempt is visible; look at the timeline for what the other process does")),
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

/// Renews a heartbeat; false if it is no longer there. That of a write, whose instant nobody takes over, is created again.
fn renew(storage: &Storage, path: &str, content: &str, is_write: bool) -> Result<bool> {
    if storage.renew(path, content.as_bytes())? {
        return Ok(true);
    }
    match is_write.then(|| storage.create(path, content.to_owned())) {
        None => Ok(false),
        Some(Err(e)) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Some(created) => created.map(|()| true),
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

/// Whether an instant has a heartbeat of Hudi: those are empty.
///
/// # Errors
/// `Storage`.
pub fn is_hudis(storage: &Storage, instant: &str) -> Result<bool> {
    Ok(storage.head(&path_of(instant))?.is_some_and(|file| file.size == 0))
}

/// The same of an instant that may have no heartbeat: `None` then.
///
/// # Errors
/// `Storage`.
pub fn look(storage: &Storage, clock: &Arc<dyn Clock>, instant: &str) -> Result<Option<bool>> {
    let Some(file) = storage.head(&path_of(instant))? else { return Ok(None) };
    Ok(Some(age_of(storage, clock, &file)?.is_some()))
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

    /// Whether an instant has a heartbeat, alive or not. Those of services of Hudi without one have none.
    pub fn has(&self, instant: &str) -> bool {
        self.0.iter().any(|file| file.name() == instant)
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
#[path = "heartbeat_tests.rs"]
mod tests;
