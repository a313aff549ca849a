//! Turns: who may write to a table, from the look at it to the commit.
//!
//! The table lock keeps the timeline in order, transaction by transaction. Between the transactions of a write nothing
//! keeps another writer away, which takes the first one for dead and rolls it back: nobody compares what they changed. So
//! our writers take turns, those of one process and those of all processes of the machine. Writers on other machines are
//! found out when the commit is compared with what they did. Clusterings and compactions are no writers in that sense: they show by heartbeats that they are carried out.
//!
//! A turn is an advisory lock on the folder of the timeline; for a table in an object store, on a folder among the
//! temporary ones that its location names. Whoever waits for it holds the one on the folder of its history, for which the
//! others wait: so a process that writes again and again does not keep the others away.

use std::path::PathBuf;

use super::in_process::{ProcessGuard, ProcessLock};
use super::machine::{MachineGuard, MachineLock};
use super::{LockWait, TableLock};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::timeline::TimelineConfig;

/// The right to write to a table, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    // Given back before the other: the next thread of this process must find it free.
    _machine: Option<MachineGuard>,
    _process: ProcessGuard,
}

/// A folder of this machine that stands for one of a table elsewhere. `None` where there can be none: then writers of this
/// machine are like those of others.
fn folder_for(uri: &str, folder: &str) -> Option<PathBuf> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let location = format!("{uri}/{folder}");
    let name =
        format!("{:08x}-{}", crc32fast::hash(location.as_bytes()), location.chars().map(plain).collect::<String>());
    let name: String = name.chars().take(200).collect();
    let path = std::env::temp_dir().join(format!("hoodoo-turns-{}", user())).join(name);
    std::fs::create_dir_all(&path).ok()?;
    Some(path)
}

/// Users must not meet in folders that only one of them may open.
fn user() -> String {
    #[cfg(unix)]
    return rustix::process::getuid().as_raw().to_string();
    #[cfg(not(unix))]
    return std::env::var("USERNAME").unwrap_or_default();
}

impl TableLock {
    /// Waits until no other writer is at work, as long as for the lock. To be taken before the lock.
    ///
    /// # Errors
    /// `Lock` when it takes longer, or when this thread has the turn already.
    pub fn take_turn(&self, storage: &Storage, timeline: &TimelineConfig) -> Result<Turn> {
        let named = |e: Error| e.with("table", &self.uri).with("waiting for", "another write to the table");
        let longest = LockWait::total(&self.wait);
        let process = ProcessLock::of(&format!("{}#turn", self.uri)).acquire(longest).map_err(named)?;
        let lock = |folder: &str| match storage.is_remote() {
            true => folder_for(storage.uri(), folder).map(MachineLock::on),
            false => storage.local_path(folder).map(MachineLock::on),
        };
        let acquire = |lock: Option<MachineLock>| match lock {
            None => Ok(None),
            Some(lock) => lock.acquire(longest).map_err(named),
        };
        let _next = acquire(lock(&timeline.history_folder))?;
        let machine = acquire(lock(&timeline.folder))?;
        Ok(Turn { _machine: machine, _process: process })
    }
}
