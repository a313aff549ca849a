//! The lock between the processes of one machine, for tables on a local disk.
//!
//! Hudi's default lets only the threads of one process exclude each other, and two processes without a provider can take
//! the same time, after which one of them removes what the other committed. The operating system can prevent that among
//! our own processes at no cost: an advisory lock on the `.hoodie` folder itself, of which no file is left, and which
//! ends with the process that holds it.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::Process;

/// First pause between tries, which doubles: a transaction takes a few milliseconds.
const PAUSE: Duration = Duration::from_micros(200);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// The lock of one table among the processes of this machine.
#[derive(Clone)]
pub(super) struct MachineLock(Arc<Path>);

impl MachineLock {
    /// The lock that is kept on this folder.
    pub(super) fn on(folder: PathBuf) -> Self {
        Self(folder.into())
    }

    /// Waits for the lock. `None` where there is nothing to lock yet, or where the file system has no such locks: then
    /// the threads of this process are all that is excluded, as in Hudi.
    ///
    /// # Errors
    /// `Lock` when another process has it for longer than `longest`.
    pub(super) fn acquire(&self, longest: Duration) -> Result<Option<MachineGuard>> {
        let Ok(folder) = File::open(&self.0) else { return Ok(None) };
        let begun = Instant::now();
        let mut pause = PAUSE;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Some(MachineGuard { folder, process: Process::this() })),
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(e)) => {
                    tracing::debug!(folder = %self.0.display(), "no lock between processes here: {e}");
                    return Ok(None);
                }
                Err(TryLockError::WouldBlock) => {
                    let left = longest.saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        return Err(self.busy(longest));
                    }
                    interrupt::check()?;
                    std::thread::sleep(pause.min(left));
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn busy(&self, longest: Duration) -> Error {
        Error::lock(format!("the table lock was not free within {} ms", longest.as_millis()))
            .with("lock", self.0.display())
            .with("holder", "another process of this machine")
            .remedy("Try again; let writers wait longer with hoodie.write.lock.client.num_retries")
    }
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct MachineGuard {
    folder: File,
    process: Process,
}

impl Drop for MachineGuard {
    fn drop(&mut self) {
        // Not left to the closing of the file: a child that was forked meanwhile has it open too, and leaves the lock alone.
        if self.process.is_this()
            && let Err(e) = self.folder.unlock()
        {
            tracing::warn!("the lock between processes could not be given back: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        // Each opens the folder for itself, as processes do.
        let (here, there) = (MachineLock::on(folder.path().to_owned()), MachineLock::on(folder.path().to_owned()));
        let held = here.acquire(Duration::ZERO).unwrap();
        assert!(held.is_some());
        let e = there.acquire(Duration::from_millis(20)).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Lock);
        assert!(e.is_retryable() && e.to_string().contains("another process"), "{e}");
        drop(held);
        assert!(there.acquire(Duration::ZERO).unwrap().is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn whoever_waits_gets_it_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let inside = std::sync::Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let held = MachineLock::on(folder.path().to_owned()).acquire(Duration::from_secs(60)).unwrap();
                        *inside.try_lock().unwrap() += i32::from(held.is_some());
                    }
                });
            }
        });
        assert_eq!(*inside.lock().unwrap(), 160);
    }

    #[test]
    fn nothing_to_lock() {
        let folder = tempfile::tempdir().unwrap();
        assert!(MachineLock::on(folder.path().join("none")).acquire(Duration::ZERO).unwrap().is_none());
    }
}
