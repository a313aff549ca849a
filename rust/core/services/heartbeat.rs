//! Heartbeats: files that say which pending instants somebody works on.
//!
//! `.hoodie/.heartbeat/<instant>` is written anew every minute, and whoever wrote it is given up when it is two minutes
//! old, as in Hudi's `HoodieHeartbeatClient`. Hudi's files are empty. Ours say which process wrote them, so that work
//! that was left by a process that is known to be dead can go on at once.

use std::collections::HashSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::interrupt;
use crate::process::Process;
use crate::storage::{FileMeta, Storage};
use crate::table::HudiTable;

/// Where writers that share a table show that they live.
const HEARTBEATS: &str = ".hoodie/.heartbeat";
/// Hudi's writers renew a heartbeat every minute and are given up after two.
const INTERVAL: Duration = Duration::from_secs(60);
const LIVES_MS: i64 = 120_000;

/// Heartbeats of this process, by what only they know.
static BEATING: LazyLock<Mutex<HashSet<Uuid>>> = LazyLock::new(Mutex::default);

pub(super) fn hold_lock() -> impl std::any::Any {
    BEATING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows that an instant is worked on, until it is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    storage: Storage,
    path: String,
    content: String,
    id: Uuid,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

impl Heartbeat {
    /// Begins; a heartbeat of somebody who is dead is taken over.
    ///
    /// # Errors
    /// `Conflict` when somebody else works on the instant; `Storage`.
    pub(crate) fn start(table: &HudiTable, instant: &str) -> Result<Self> {
        let (storage, path, id) = (table.storage().clone(), path_of(instant), Uuid::new_v4());
        let content = format!("{} {} {id}\n", machine(), std::process::id());
        refuse_alive(table, instant)?;
        storage.delete(&path)?;
        storage.create(&path, content.clone()).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => busy(table, instant, 0),
            _ => e,
        })?;
        BEATING.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        let (stop, stopped) = channel();
        let beat = (storage.clone(), path.clone(), content.clone());
        let renew = move || {
            let (storage, path, content) = beat;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(e) = storage.replace(&path, content.clone()) {
                    tracing::warn!("a heartbeat was not renewed: {e}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("hoodoo-heartbeat".into()).spawn(renew);
        let thread = thread.map_err(|e| Error::storage("no thread for heartbeats").caused_by(e))?;
        Ok(Self { storage, path, content, id, stop: Some(stop), thread: Some(thread), process: Process::this() })
    }

    /// Fails when somebody else has taken over, because this process was thought to be dead.
    ///
    /// # Errors
    /// `Conflict`; `Storage`.
    pub(crate) fn check(&self) -> Result<()> {
        match self.storage.read_if_exists(&self.path)? {
            Some(found) if found.as_ref() == self.content.as_bytes() => Ok(()),
            _ => Err(Error::conflict("another process has taken over the work on this instant")
                .with("table", self.storage.uri())
                .with("file", &self.path)),
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // A forked child: the thread and the file are its parent's.
            std::mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // What another process took over is not ours to remove.
        let remove = || self.check().is_ok().then(|| self.storage.delete(&self.path)).transpose();
        if let Err(e) = interrupt::hold(remove) {
            tracing::warn!("a heartbeat is left behind: {e}");
        }
        BEATING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Fails when somebody works on an instant: its files must not go.
///
/// # Errors
/// `Conflict`; `Storage`.
pub(crate) fn refuse_alive(table: &HudiTable, instant: &str) -> Result<()> {
    match age_if_alive(table, instant)? {
        Some(age_ms) => Err(busy(table, instant, age_ms)),
        None => Ok(()),
    }
}

/// Whether somebody works on an instant.
///
/// # Errors
/// `Storage`.
pub(crate) fn is_alive(table: &HudiTable, instant: &str) -> Result<bool> {
    Ok(age_if_alive(table, instant)?.is_some())
}

/// Removes what the dead left of heartbeats of instants that are over.
///
/// # Errors
/// `Storage`.
pub(crate) fn remove_stale(table: &HudiTable, is_pending: &dyn Fn(&str) -> bool) -> Result<()> {
    for file in table.storage().list(HEARTBEATS)?.files {
        let instant = file.name();
        if !is_pending(instant) && !is_alive(table, instant)? {
            remove(table.storage(), instant)?;
        }
    }
    Ok(())
}

/// Removes what is left of a heartbeat.
///
/// # Errors
/// `Storage`.
pub(crate) fn remove(storage: &Storage, instant: &str) -> Result<()> {
    storage.delete(&path_of(instant)).map(|_| ())
}

fn path_of(instant: &str) -> String {
    format!("{HEARTBEATS}/{instant}")
}

fn busy(table: &HudiTable, instant: &str, age_ms: i64) -> Error {
    Error::conflict(format!("another writer works on the table; it was alive {} s ago", age_ms.max(0) / 1000))
        .with("table", table.storage().uri())
        .with("instant", instant)
        .remedy("Let it finish. If it is dead, try again in two minutes")
}

fn age_if_alive(table: &HudiTable, instant: &str) -> Result<Option<i64>> {
    let path = path_of(instant);
    let Some(FileMeta { modified_ms, .. }) = table.storage().head(&path)? else { return Ok(None) };
    let age = table.clock().now_ms().saturating_sub(modified_ms);
    if age > LIVES_MS {
        return Ok(None);
    }
    let Some(content) = table.storage().read_if_exists(&path)? else { return Ok(None) };
    Ok(if is_known_dead(&String::from_utf8_lossy(&content)) { None } else { Some(age) })
}

/// Whether a heartbeat says who wrote it, and that process is seen to be gone.
fn is_known_dead(content: &str) -> bool {
    let mut words = content.split_whitespace();
    let (Some(at), Some(process), Some(id)) = (words.next(), words.next(), words.next()) else { return false };
    let (Ok(process), Ok(id)) = (process.parse::<u32>(), Uuid::parse_str(id)) else { return false };
    if at != machine() {
        return false;
    }
    if process == std::process::id() {
        return !BEATING.lock().unwrap_or_else(PoisonError::into_inner).contains(&id);
    }
    let mut system = System::new();
    let process = Pid::from_u32(process);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[process]), true, ProcessRefreshKind::nothing());
    system.process(process).is_none()
}

/// Names the machine, as far as numbers of processes mean the same: one run of a kernel, one container. Without that
/// knowledge, a name that is no other's.
fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let processes = std::fs::read_link("/proc/self/ns/pid");
        match (boot, processes) {
            (Ok(boot), Ok(processes)) => format!("{}/{}", boot.trim(), processes.display()),
            _ => Uuid::new_v4().to_string(),
        }
    });
    &MACHINE
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::super::made_by_hand::Handmade;
    use super::*;
    use crate::table::Options;
    use crate::timeline::{Clock, SystemClock};

    /// Three minutes on.
    struct Later;

    impl Clock for Later {
        fn now_ms(&self) -> i64 {
            SystemClock.now_ms() + 180_000
        }

        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn an_instant_is_worked_on_by_one() {
        let made = Handmade::new(&[]);
        let first = Heartbeat::start(&made.table, "1").unwrap();
        assert!(is_alive(&made.table, "1").unwrap());
        assert_eq!(Heartbeat::start(&made.table, "1").unwrap_err().kind(), ErrorKind::Conflict);
        first.check().unwrap();
        drop(first);
        assert!(!is_alive(&made.table, "1").unwrap());
        assert!(!made.storage().exists(".hoodie/.heartbeat/1").unwrap());
    }

    #[test]
    fn the_dead_are_known_by_their_process_or_their_age() {
        let made = Handmade::new(&[]);
        let beat = |content: &str| made.storage().replace(".hoodie/.heartbeat/1", content.to_owned()).unwrap();
        let id = Uuid::new_v4();
        let (here, me) = (machine(), std::process::id());
        // This process, and it does not know of it; a number that no process has.
        for dead in [format!("{here} {me} {id}"), format!("{here} 4194999 {id}")] {
            beat(&dead);
            assert!(!is_alive(&made.table, "1").unwrap(), "{dead}");
        }
        // Hudi's, another machine's, the first process of this one.
        for alive in ["", "elsewhere 1 7d9c2c6e-6c3c-4a8e-9d2f-0e5d1f1f3a55", &format!("{here} 1 {id}"), "x y z"] {
            beat(alive);
            assert!(is_alive(&made.table, "1").unwrap(), "{alive}");
        }
        let later = HudiTable::open_in(made.storage().clone(), Options::default(), Arc::new(Later)).unwrap();
        assert!(!is_alive(&later, "1").unwrap());
        // Taken over; who thought to have it, learns of it.
        let mine = Heartbeat::start(&later, "1").unwrap();
        beat("somebody");
        assert_eq!(mine.check().unwrap_err().kind(), ErrorKind::Conflict);
        drop(mine);
        assert!(made.storage().exists(".hoodie/.heartbeat/1").unwrap());
    }
}
