//! The thread that renews a lease or a heartbeat while its holder works.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::process::Process;

/// Renews something until it is stopped or dropped. In real time, because leases expire in real time.
#[derive(Debug)]
pub(super) struct Renewal {
    running: Option<(Sender<()>, JoinHandle<()>)>,
    process: Process,
}

impl Renewal {
    /// Starts the thread. It calls `renew` at this interval, until that returns false.
    ///
    /// # Errors
    /// `Storage` if no thread can be started.
    pub(super) fn start(what: &str, every: Duration, mut renew: impl FnMut() -> bool + Send + 'static) -> Result<Self> {
        let (stop, stopped) = channel();
        let run = move || while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) && renew() {};
        let thread = std::thread::Builder::new().name(format!("hoodoo-{what}")).spawn(run);
        let thread = thread
            .map_err(|e| Error::storage(format!("failed to start the thread that renews the {what}")).caused_by(e))?;
        Ok(Self { running: Some((stop, thread)), process: Process::this() })
    }

    /// Waits for the end of the thread, unless it is one of the parent of this process.
    pub(super) fn stop(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        if self.process.is_this() {
            drop(stop);
            // A panic of that thread loses nothing: what it renewed expires.
            let _ = thread.join();
        } else {
            std::mem::forget((stop, thread));
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn it_renews_until_it_is_stopped_or_fails() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = |limit: usize| {
            let calls = calls.clone();
            move || calls.fetch_add(1, Ordering::SeqCst) + 1 < limit
        };
        let mut renewal = Renewal::start("test", Duration::from_millis(1), count(3)).unwrap();
        while calls.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        renewal.stop();
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        drop(Renewal::start("test", Duration::from_secs(3600), count(9)).unwrap());
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }
}
