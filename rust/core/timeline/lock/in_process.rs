//! The lock between the threads of this process, one for each table.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::process::Process;

/// The lock of one table within the process.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessLock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The thread, unless any may give the lock back, and its name.
    holder: Mutex<Option<(Option<ThreadId>, String)>>,
    freed: Condvar,
}

/// Locks by process and location. A forked child gets locks of its own: the threads that would free the ones it
/// inherited do not exist there.
static LOCKS: Mutex<BTreeMap<(Process, String), ProcessLock>> = Mutex::new(BTreeMap::new());

pub(in crate::timeline) fn hold_lock() -> impl std::any::Any {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessLock {
    /// The lock of the table at `uri`; all handles to one location share it.
    pub(super) fn of(uri: &str) -> Self {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry((Process::this(), uri.to_owned())).or_default().clone()
    }

    /// Waits for the lock, in real time: it is threads of this process that are waited for.
    pub(super) fn acquire(&self, longest: Duration) -> Result<ProcessGuard> {
        let me = std::thread::current();
        // No deadline: longer than the clock can tell.
        let deadline = Instant::now().checked_add(longest);
        let mut holder = self.holder();
        while let Some((thread, name)) = holder.as_ref() {
            if *thread == Some(me.id()) {
                return Err(Error::lock("this thread holds the table lock already, and would wait for itself"));
            }
            let left = deadline.map_or(Duration::from_secs(3600), |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Error::lock(format!("the table lock was not free within {} ms", longest.as_millis()))
                    .with("holder", format!("{name} of this process"))
                    .remedy("Try again; let writers wait longer with hoodie.write.lock.client.num_retries"));
            }
            // Signals are looked for with nothing locked: their handlers may run anything.
            let slice = if interrupt::is_possible() { left.min(interrupt::INTERVAL) } else { left };
            drop(self.0.freed.wait_timeout(holder, slice).unwrap_or_else(PoisonError::into_inner));
            interrupt::check()?;
            holder = self.holder();
        }
        let name = me.name().map_or_else(|| format!("{:?}", me.id()), |name| format!("thread {name}"));
        *holder = Some((Some(me.id()), name));
        Ok(ProcessGuard { lock: self.clone(), process: Process::this() })
    }

    // A thread that died in the critical section left a pending instant at worst, which the next write rolls back.
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
    /// The lock is about to be given back by another thread: the one that took it may wait for that.
    pub(super) fn leave_thread(&self) {
        if let Some((thread, _)) = &mut *self.lock.holder() {
            *thread = None;
        }
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        // A forked child has locks of its own, and this one may have been in use when it was forked.
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
    use crate::error::ErrorKind;

    #[test]
    fn threads_exclude_each_other() {
        let lock = ProcessLock::of("in-process-1");
        let inside = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _held = lock.acquire(Duration::from_secs(60)).unwrap();
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
        let held = lock.acquire(Duration::MAX).unwrap();
        assert!(lock.acquire(Duration::from_secs(60)).err().unwrap().message().contains("itself"));
        let other = ProcessLock::of("in-process-2");
        let e = std::thread::spawn(move || other.acquire(Duration::from_millis(5)).err().unwrap()).join().unwrap();
        assert_eq!(e.kind(), ErrorKind::Lock);
        assert!(e.to_string().contains("nobody_waits_for_himself"), "{e}");
        drop(held);
        assert!(lock.acquire(Duration::ZERO).is_ok());
        assert!(ProcessLock::of("in-process-3").acquire(Duration::ZERO).is_ok());
    }
}
