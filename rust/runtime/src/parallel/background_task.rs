//! Work that is done beside what comes next, and waited for when its result is needed.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::{lock, panicked, receive};
use crate::error::Result;
use crate::process::Process;
use crate::{interrupt, simulated};

/// Work under way. Whoever drops it waits for its end, so that no work outlives the call that began it.
#[derive(Debug)]
pub struct BackgroundTask<T> {
    result: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

impl<T: Send + 'static> BackgroundTask<T> {
    /// Begins work on a thread when `at_once` says that this pays; else does it now.
    pub fn run(at_once: bool, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        let (result, process) = (Some(receiver), Process::this());
        let send = move || {
            // Nobody listens when it only has to be done.
            let _ = sender.send(work());
        };
        if !at_once || simulated::is_on() {
            send();
            return Self { result, thread: None, process };
        }
        // Shared with the thread, so that the work is not lost where no thread can be started.
        let waiting = Arc::new(Mutex::new(Some(interrupt::carried(send))));
        let of_thread = waiting.clone();
        let run = move || {
            if let Some(work) = lock(&of_thread).take() {
                work();
            }
        };
        let thread = std::thread::Builder::new().name("hoodoo-background".into()).spawn(run).ok();
        if thread.is_none()
            && let Some(work) = lock(&waiting).take()
        {
            work();
        }
        Self { result, thread, process }
    }

    /// Whether the work is done, so that waiting takes no time.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// `Internal` when the work panicked; `Interrupted`.
    pub fn wait(mut self) -> Result<T> {
        let result = self.result.take();
        result.map_or_else(|| Err(panicked()), |result| receive(&result))
    }
}

impl<T> Drop for BackgroundTask<T> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process.is_this() {
            // Whoever waits for the result learns that it panicked.
            let _ = thread.join();
        } else {
            // The thread is one of the parent process.
            std::mem::forget(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_result_is_waited_for() {
        assert_eq!(BackgroundTask::run(true, || 1).wait().unwrap(), 1);
        assert_eq!(BackgroundTask::run(false, || 2).wait().unwrap(), 2);
        let failed = BackgroundTask::<()>::run(true, || std::panic::resume_unwind(Box::new("x"))).wait();
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Internal);
    }

    #[test]
    fn nothing_outlives_it() {
        let done = Arc::new(AtomicBool::new(false));
        let set = done.clone();
        drop(BackgroundTask::run(true, move || {
            std::thread::sleep(Duration::from_millis(20));
            set.store(true, Ordering::SeqCst);
        }));
        assert!(done.load(Ordering::SeqCst));
    }
}
