//! The writer lease: the right of one writer of a machine to write to a table, from reading it to the commit.
//!
//! A write holds the table lock only while it changes the timeline. Between these moments another writer would see its
//! inflight instant and could roll it back, or change the same file groups. The writer lease prevents both among the
//! threads of a process and the processes of a machine. Writers on other machines are detected by the conflict check of
//! the commit. Clusterings and compactions take no lease while they rewrite files: their heartbeats show that they are
//! running.
//!
//! The lease is an advisory lock on the folder of the timeline; for a table in an object store, on a temporary folder
//! named after the table's location. A writer that waits for the lease holds a second lock, on the history folder, and
//! all other writers wait for that one. So a process that writes again and again does not keep the others away.

use std::path::PathBuf;

use super::in_process::{ProcessGuard, ProcessLock};
use super::machine::{MachineGuard, MachineLock};
use super::{LockWait, TableLock};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::timeline::TimelineConfig;

/// Name of the lease in messages.
const WHAT: &str = "the writer lease";

/// The right to write to a table, until it is dropped.
#[derive(Debug)]
pub struct WriterLease {
    // Released first: the next thread of this process must find it free.
    _machine: Option<MachineGuard>,
    _process: ProcessGuard,
}

/// Returns the local folder that is locked for a folder of a table in an object store. `None` if it cannot be created:
/// then writers of this machine do not wait for each other.
fn folder_for(uri: &str, folder: &str) -> Option<PathBuf> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let location = format!("{uri}/{folder}");
    let name =
        format!("{:08x}-{}", crc32fast::hash(location.as_bytes()), location.chars().map(plain).collect::<String>());
    let name: String = name.chars().take(200).collect();
    let path = std::env::temp_dir().join(format!("hoodoo-writer-leases-{}", user())).join(name);
    std::fs::create_dir_all(&path).ok()?;
    Some(path)
}

/// Part of the folder name, because the folder of one user cannot be opened by another.
fn user() -> String {
    #[cfg(unix)]
    return rustix::process::getuid().as_raw().to_string();
    #[cfg(not(unix))]
    return std::env::var("USERNAME").unwrap_or_default();
}

impl TableLock {
    /// Waits for the writer lease, as long as for the table lock. Take it before the table lock.
    ///
    /// # Errors
    /// `Lock` on timeout, or if this thread holds the lease already.
    pub fn acquire_writer_lease(&self, storage: &Storage, timeline: &TimelineConfig) -> Result<WriterLease> {
        let named = |e: Error| e.with("table", &self.uri);
        let longest = LockWait::total(&self.wait);
        let process = ProcessLock::of(&format!("{}#writer-lease", self.uri)).acquire(WHAT, longest).map_err(named)?;
        let lock = |folder: &str| match storage.is_remote() {
            true => folder_for(storage.uri(), folder).map(MachineLock::on),
            false => storage.local_path(folder).map(MachineLock::on),
        };
        let acquire = |lock: Option<MachineLock>| match lock {
            None => Ok(None),
            Some(lock) => lock.acquire(WHAT, longest).map_err(named),
        };
        let _next = acquire(lock(&timeline.history_folder))?;
        let machine = acquire(lock(&timeline.folder))?;
        Ok(WriterLease { _machine: machine, _process: process })
    }
}
