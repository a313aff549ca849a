//! The writer lease: the right of one writer of a machine to write to a table, from reading it to the commit.
//!
//! A write holds the table lock only while it changes the timeline. Between these moments another writer would see its
//! inflight instant and could roll it back, or change the same file groups. The writer lease prevents both among the
//! threads of a process and the processes of a machine. Writers on other machines are detected by the conflict check of
//! the commit. Clusterings and compactions take no lease while they rewrite files: their heartbeats show that they are
//! running. Table services behind a commit run under a lease of their own, so that the next writer does not wait for them.
//!
//! The lease is an advisory lock on the folder of the timeline; for a table in an object store, on a temporary folder
//! named after the table's location. In front of it is a queue of such locks: a writer moves up from one to the next, and
//! holds its place until it has the place ahead. So writers get the lease in the order in which they came, and a process
//! that writes again and again does not keep the others away. For an object store the queue is long, because a write takes
//! long there; on a local disk it is one place, the lock on the history folder.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::in_process::{ProcessGuard, ProcessLock};
use super::machine::{MachineGuard, MachineLock};
use super::machine_folder::machine_folder;
use super::{LockWait, TableLock};
use crate::TimelineConfig;
use crate::heartbeat::HEARTBEATS;
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_storage::Storage;

/// Name of the lease in messages.
const WHAT: &str = "the writer lease";

/// Places in the queue for a table in an object store. Writers beyond them are in no order.
const PLACES: usize = 16;

/// The right to write to a table, or to run its services, until it is dropped.
#[derive(Debug)]
pub struct WriterLease {
    // Released first: the next thread of this process must find it free.
    _machine: Option<MachineGuard>,
    _process: ProcessGuard,
}

/// The folders to lock one after the other, from the end of the queue to the lease itself.
fn queue(storage: &Storage, timeline: &TimelineConfig) -> Vec<PathBuf> {
    let places: Vec<String> = match storage.is_remote() {
        true => (0..PLACES).rev().map(|place| format!("place-{place}")).collect(),
        false => vec![timeline.history_folder.clone()],
    };
    places.iter().chain([&timeline.folder]).filter_map(|folder| machine_folder(storage, folder)).collect()
}

/// Locks one folder after the other. The place behind is left when the one ahead is taken.
fn move_up(queue: Vec<PathBuf>, begun: Instant, longest: Duration) -> Result<Option<MachineGuard>> {
    let mut place = None;
    for folder in queue {
        place = MachineLock::on(folder).acquire_since(begun, WHAT, longest)?;
    }
    Ok(place)
}

impl TableLock {
    /// Waits for the writer lease, as long as for the table lock. Take it before the table lock.
    ///
    /// # Errors
    /// `Lock` on timeout, or if this thread holds the lease already.
    pub fn acquire_writer_lease(&self, storage: &Storage, timeline: &TimelineConfig) -> Result<WriterLease> {
        let named = |e: Error| e.with("table", &self.uri);
        let longest = LockWait::total(&self.wait);
        let begun = Instant::now();
        let process = ProcessLock::of(&format!("{}#writer-lease", self.uri)).acquire(WHAT, longest).map_err(named)?;
        let machine = move_up(queue(storage, timeline), begun, longest).map_err(named)?;
        Ok(WriterLease { _machine: machine, _process: process })
    }

    /// The right to run table services behind a commit. `None` if another thread or process of this machine has it.
    ///
    /// # Errors
    /// `Interrupted`.
    pub fn try_services_lease(&self, storage: &Storage) -> Result<Option<WriterLease>> {
        let folder = machine_folder(storage, HEARTBEATS);
        let acquire = || -> Result<WriterLease> {
            let process = ProcessLock::of(&format!("{}#services", self.uri)).acquire(WHAT, Duration::ZERO)?;
            let machine = folder.map_or(Ok(None), |folder| MachineLock::on(folder).acquire(WHAT, Duration::ZERO))?;
            Ok(WriterLease { _machine: machine, _process: process })
        };
        match acquire() {
            Err(e) if e.kind() == ErrorKind::Lock => Ok(None),
            other => other.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn first_come_first_served() {
        let root = tempfile::tempdir().unwrap();
        let queue: Vec<PathBuf> = (0..9).map(|place| root.path().join(place.to_string())).collect();
        queue.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let wait = || move_up(queue.clone(), Instant::now(), Duration::from_secs(60)).unwrap();
        let held = wait();
        let served = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (wait, served) = (&wait, &served);
                scope.spawn(move || {
                    let _turn = wait();
                    served.lock().unwrap().push(number);
                });
                // Long enough to be in the queue.
                std::thread::sleep(Duration::from_millis(150));
            }
            drop(held);
        });
        assert_eq!(*served.lock().unwrap(), (0..8).collect::<Vec<_>>());
    }
}
