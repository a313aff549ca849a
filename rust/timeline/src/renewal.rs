//! The thread that renews a lease or a heartbeat while its holder works.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Clock;
use super::timer::Timer;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::process::Process;
use hoodoo_runtime::simulated;

/// Renews something until it is stopped or dropped.
pub(super) struct Renewal {
    running: Option<(Arc<dyn Timer>, JoinHandle<()>)>,
    process: Process,
}

impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Renewal")
    }
}

impl Renewal {
    /// Starts the thread. It calls `renew` at this interval of the clock, until that returns false.
    ///
    /// # Errors
    /// `Storage` if no thread can be started.
    pub(super) fn start(
        what: &str,
        clock: &dyn Clock,
        every: Duration,
        mut renew: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Self> {
        let timer = clock.timer(every);
        let of_thread = timer.clone();
        let run = simulated::carried(move || of_thread.run(&mut renew));
        let thread = std::thread::Builder::new().name(format!("hoodoo-{what}")).spawn(run);
        let thread = thread
            .map_err(|e| Error::storage(format!("failed to start the thread that renews the {what}")).caused_by(e))?;
        Ok(Self { running: Some((timer, thread)), process: Process::this() })
    }

    /// Waits for the end of the thread, unless it is one of the parent of this process.
    pub(super) fn stop(&mut self) {
        let Some((timer, thread)) = self.running.take() else { return };
        if self.process.is_this() {
            timer.stop();
            // A panic of that thread loses nothing: what it renewed expires.
            let _ = thread.join();
        } else {
            std::mem::forget((timer, thread));
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::SystemClock;

    #[test]
    fn it_renews_until_it_is_stopped_or_fails() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = |limit: usize| {
            let calls = calls.clone();
            move || calls.fetch_add(1, Ordering::SeqCst) + 1 < limit
        };
        let mut renewal = Renewal::start("test", &SystemClock, Duration::from_millis(1), count(3)).unwrap();
        while calls.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        renewal.stop();
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        drop(Renewal::start("test", &SystemClock, Duration::from_secs(3600), count(9)).unwrap());
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }
}
