//! The lock between the threads of this process, one for each table.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::process::Process;

/// The lock of one table within the process.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessLock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The thread that holds the lock, and its name; no thread if any may release it.
    holder: Mutex<Option<(Option<ThreadId>, String)>>,
    freed: Condvar,
}

/// Locks by process and location. A forked child uses new locks: the threads that would release the inherited ones do
/// not exist in it.
static LOCKS: Mutex<BTreeMap<(Process, String), ProcessLock>> = Mutex::new(BTreeMap::new());

pub(crate) fn hold_lock() -> impl std::any::Any {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessLock {
    /// The lock of the table at `uri`; all handles to one location share it.
    pub(super) fn of(uri: &str) -> Self {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry((Process::this(), uri.to_owned())).or_default().clone()
    }

    /// Waits for the lock in real time, because its holder is a thread of this process. `what` names the lock in
    /// messages.
    pub(super) fn acquire(&self, what: &str, longest: Duration) -> Result<ProcessGuard> {
        let me = std::thread::current();
        // `None`: the deadline is beyond the range of the clock, so there is none.
        let deadline = Instant::now().checked_add(longest);
        let mut holder = self.holder();
        while let Some((thread, name)) = holder.as_ref() {
            if *thread == Some(me.id()) {
                return Err(Error::lock(format!("this thread holds {what} already and would wait for itself")));
            }
            let left = deadline.map_or(Duration::from_secs(3600), |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Error::lock(format!(
                    "timed out after {} ms waiting for {what}; {name} of this process holds it",
                    longest.as_millis()
                ))
                .remedy("Write again; to wait longer, raise hoodie.write.lock.client.num_retries"));
            }
            // Checks for signals with no mutex held: a signal handler may run any code.
            let slice = if interrupt::is_possible() { left.min(interrupt::INTERVAL) } else { left };
            drop(self.0.freed.wait_timeout(holder, slice).unwrap_or_else(PoisonError::into_inner));
            interrupt::check()?;
            holder = self.holder();
        }
        let name = me.name().map_or_else(|| format!("{:?}", me.id()), |name| format!("thread {name}"));
        *holder = Some((Some(me.id()), name));
        Ok(ProcessGuard { lock: self.clone(), process: Process::this() })
    }

    // A thread that panicked in the critical section leaves at most a pending instant, which the next write rolls back.
    fn holder(&self) -> MutexGuard<'_, Option<(Option<ThreadId>, String)>> {
        self.0.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct ProcessGuard {
    lock: ProcessLock,
    process: Process,
}

impl ProcessGuard {
    /// Allows another thread to release the lock; the one that acquired it may wait for that.
    pub(super) fn leave_thread(&self) {
        if let Some((thread, _)) = &mut *self.lock.holder() {
            *thread = None;
        }
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        // A forked child uses other locks, and this one may have been held when it was forked.
        if self.process.is_this() {
            *self.lock.holder() = None;
            self.lock.0.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hoodoo_runtime::error::ErrorKind;

    #[test]
    fn threads_exclude_each_other() {
        let lock = ProcessLock::of("in-process-1");
        let inside = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _held = lock.acquire("the table lock", Duration::from_secs(60)).unwrap();
                        let mut alone = inside.try_lock().unwrap();
                        *alone += 1;
                    }
                });
            }
        });
        assert_eq!(*inside.lock().unwrap(), 400);
    }

    #[test]
    fn nobody_waits_for_himself_or_for_ever() {
        let lock = ProcessLock::of("in-process-2");
        let held = lock.acquire("the table lock", Duration::MAX).unwrap();
        assert!(lock.acquire("the table lock", Duration::from_secs(60)).err().unwrap().message().contains("itself"));
        let other = ProcessLock::of("in-process-2");
        let e = std::thread::spawn(move || other.acquire("the table lock", Duration::from_millis(5)).err().unwrap())
            .join()
            .unwrap();
        assert_eq!(e.kind(), ErrorKind::Lock);
        assert!(e.to_string().contains("nobody_waits_for_himself"), "{e}");
        drop(held);
        assert!(lock.acquire("the table lock", Duration::ZERO).is_ok());
        assert!(ProcessLock::of("in-process-3").acquire("the table lock", Duration::ZERO).is_ok());
    }
}
