//! What repeats something at an interval, in real time or in that of a test.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Repeats something at an interval.
pub trait Timer: Send + Sync {
    /// Calls `work` at the interval, until it returns false or the timer is stopped.
    fn run(&self, work: &mut dyn FnMut() -> bool);

    /// Stops the timer. It may return while `work` runs for the last time.
    fn stop(&self);
}

/// A timer in real time.
#[derive(Debug)]
pub(super) struct RealTimer {
    every: Duration,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

impl RealTimer {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, is_stopped: Mutex::new(false), stopped: Condvar::new() }
    }

    /// Waits for the interval. Returns false if the timer was stopped.
    fn wait(&self) -> bool {
        let begun = Instant::now();
        let mut is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_stopped {
            let left = self.every.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return true;
            }
            is_stopped = self.stopped.wait_timeout(is_stopped, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

impl Timer for RealTimer {
    fn run(&self, work: &mut dyn FnMut() -> bool) {
        while self.wait() && work() {}
    }

    fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }
}
