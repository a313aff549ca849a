//! The lock between the processes of one machine, for tables on a local disk.
//!
//! Hudi's default provider excludes only the threads of one process: two processes can then take the same instant time,
//! and one removes what the other committed. hoodoo also takes an advisory lock of the operating system on the
//! `.hoodie` folder. It leaves no file behind and ends with the process that holds it.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::process::Process;

/// First pause between attempts, doubled each time: a transaction takes a few milliseconds.
const PAUSE: Duration = Duration::from_micros(200);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// The lock of one table among the processes of this machine.
#[derive(Clone)]
pub(super) struct MachineLock(Arc<Path>);

impl MachineLock {
    /// The lock on this folder.
    pub(super) fn on(folder: PathBuf) -> Self {
        Self(folder.into())
    }

    /// Waits for the lock; `what` names it in messages. `None` if the folder does not exist yet or the file system does
    /// not support advisory locks: then only the threads of this process exclude each other, as in Hudi.
    ///
    /// # Errors
    /// `Lock` if another process holds it for longer than `longest`.
    pub(super) fn acquire(&self, what: &str, longest: Duration) -> Result<Option<MachineGuard>> {
        self.acquire_since(Instant::now(), what, longest)
    }

    /// The same, for a caller that has been waiting since `begun`.
    pub(super) fn acquire_since(&self, begun: Instant, what: &str, longest: Duration) -> Result<Option<MachineGuard>> {
        let Ok(folder) = File::open(&self.0) else { return Ok(None) };
        let mut pause = PAUSE;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Some(MachineGuard { folder, process: Process::this() })),
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(e)) => {
                    tracing::debug!(folder = %self.0.display(), "the file system does not support locks between processes: {e}");
                    return Ok(None);
                }
                Err(TryLockError::WouldBlock) => {
                    let left = longest.saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        return Err(self.timed_out(what, longest));
                    }
                    interrupt::check()?;
                    std::thread::sleep(pause.min(left));
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn timed_out(&self, what: &str, longest: Duration) -> Error {
        Error::lock(format!(
            "timed out after {} ms waiting for {what}; another process of this machine holds it",
            longest.as_millis()
        ))
        .with("lock", self.0.display())
        .remedy("Write again; to wait longer, raise hoodie.write.lock.client.num_retries")
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
        // Closing the file does not release the lock if a child process was forked meanwhile: the child has the file
        // open too.
        if self.process.is_this()
            && let Err(e) = self.folder.unlock()
        {
            tracing::warn!("the lock between processes was not released: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hoodoo_runtime::error::ErrorKind;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        // Each opens the folder itself, as processes do.
        let (here, there) = (MachineLock::on(folder.path().to_owned()), MachineLock::on(folder.path().to_owned()));
        let held = here.acquire("the table lock", Duration::ZERO).unwrap();
        assert!(held.is_some());
        let e = there.acquire("the table lock", Duration::from_millis(20)).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Lock);
        assert!(e.is_retryable() && e.to_string().contains("another process"), "{e}");
        drop(held);
        assert!(there.acquire("the table lock", Duration::ZERO).unwrap().is_some());
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
                        let held = MachineLock::on(folder.path().to_owned())
                            .acquire("the table lock", Duration::from_secs(60))
                            .unwrap();
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
        assert!(
            MachineLock::on(folder.path().join("none")).acquire("the table lock", Duration::ZERO).unwrap().is_none()
        );
    }
}
