//! Interrupting a call: Ctrl-C in Python, a deadline, or another thread that asks for it.
//!
//! Whoever begins a call runs it with [`Interrupt::during`]. The work asks [`check`] at every call to the storage, for
//! every batch and for every unit of work, and ends with an error of kind `Interrupted`; nothing asks for it later than
//! right before an instant is published. Threads that work for the call get the interrupt with [`carried`], and waiting
//! goes through [`receive`] and [`sleep`]: so the thread that began the call can look for signals meanwhile.
//!
//! An interrupt stays set. What has to be done to the end, such as giving a lock back, runs in [`hold`]; what cleans up
//! after an interrupted call runs in [`clean_up`], which has a short time of its own.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How often a thread that waits looks whether its call was interrupted.
pub const INTERVAL: Duration = Duration::from_millis(50);
/// How long cleaning up after an interrupted call may take. What is left then is left for the next writer.
const CLEAN_UP: Duration = Duration::from_millis(1_000);

/// Tells whether the call is to end. Asked by the thread that began the call only, and without any lock held.
pub type Watch = Box<dyn Fn() -> bool + Send + Sync>;

/// Interrupts a call. Clones are the same interrupt.
#[derive(Clone)]
pub struct Interrupt(Arc<Shared>);

struct Shared {
    set: AtomicBool,
    since: Instant,
    deadline: Option<Duration>,
    watch: Option<Watch>,
    every: Duration,
    /// Milliseconds after `since` from which on the watch is asked again.
    next: AtomicU64,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::new(None, None, INTERVAL)
    }
}

impl Interrupt {
    fn new(deadline: Option<Duration>, watch: Option<Watch>, every: Duration) -> Self {
        let (set, next) = (AtomicBool::new(false), AtomicU64::new(millis(every)));
        Self(Arc::new(Shared { set, since: Instant::now(), deadline, watch, every, next }))
    }

    /// An interrupt that is set when `watch` says so, which is asked that often.
    pub fn watching(watch: Watch, every: Duration) -> Self {
        Self::new(None, Some(watch), every)
    }

    /// An interrupt that is set after some time.
    pub fn after(time: Duration) -> Self {
        Self::new(Some(time), None, INTERVAL)
    }

    /// Ends the call that runs with this interrupt.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    /// Runs a call that can be interrupted; this thread is the one that looks for signals.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        with(Some(Current { interrupt: self.clone(), asks: true }), work)
    }

    fn is_set(&self, asks: bool) -> bool {
        let shared = &*self.0;
        if shared.set.load(Ordering::Relaxed) {
            return true;
        }
        let is_due = shared.deadline.is_some_and(|deadline| shared.since.elapsed() >= deadline)
            || asks && shared.watch.as_ref().is_some_and(|watch| self.is_time() && watch());
        if is_due {
            self.set();
        }
        is_due
    }

    fn is_time(&self) -> bool {
        let now = millis(self.0.since.elapsed());
        let is_time = now >= self.0.next.load(Ordering::Relaxed);
        if is_time {
            self.0.next.store(now + millis(self.0.every), Ordering::Relaxed);
        }
        is_time
    }
}

/// The call that a thread works for.
#[derive(Clone)]
struct Current {
    interrupt: Interrupt,
    /// Whether this is the thread that began it.
    asks: bool,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Puts the call back for which the thread worked before, also after a panic.
struct Before(Option<Current>);

impl Drop for Before {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}

fn with<T>(current: Option<Current>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.with(|now| now.replace(current)));
    work()
}

fn current() -> Option<Current> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Whether the call of this thread was interrupted.
pub fn is_set() -> bool {
    // A watch may run anything, also calls of its own: it is asked with nothing borrowed.
    current().is_some_and(|current| current.interrupt.is_set(current.asks))
}

/// Fails when the call of this thread was interrupted.
///
/// # Errors
/// `Interrupted`.
pub fn check() -> Result<()> {
    if is_set() { Err(Error::interrupted("the call was interrupted")) } else { Ok(()) }
}

/// Runs what must not end halfway.
pub fn hold<T>(work: impl FnOnce() -> T) -> T {
    with(None, work)
}

/// Runs what removes the traces of a call that failed: when that was interrupted, for a short time only.
pub fn clean_up<T>(work: impl FnOnce() -> T) -> T {
    if is_set() { Interrupt::after(CLEAN_UP).during(work) } else { work() }
}

/// Work for another thread, which ends when the call of this thread is interrupted.
pub fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let current = current().map(|current| Current { asks: false, ..current });
    move || with(current, work)
}

/// Whether this thread can be interrupted at all.
pub fn is_possible() -> bool {
    CURRENT.with(|current| current.borrow().is_some())
}

/// Waits for what another thread sends; `None` when it sends no more.
///
/// # Errors
/// `Interrupted`.
pub fn receive<T>(receiver: &Receiver<T>) -> Result<Option<T>> {
    if !is_possible() {
        return Ok(receiver.recv().ok());
    }
    loop {
        check()?;
        match receiver.recv_timeout(INTERVAL) {
            Ok(value) => return Ok(Some(value)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Runs what cannot ask by itself, such as a sort, in a thread of its own, which is left alone when the call is
/// interrupted: it must change nothing that others see.
///
/// # Errors
/// `Interrupted`.
pub fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if !is_possible() {
        return Ok(work());
    }
    let (sender, receiver) = channel();
    let run = move || {
        // Nobody waits any more after an interrupt.
        let _ = sender.send(work());
    };
    let thread = std::thread::Builder::new().name("hoodoo-aside".into()).spawn(run);
    thread.map_err(|e| Error::storage("no thread could be started").caused_by(e))?;
    receive(&receiver)?.ok_or_else(|| Error::internal("a thread panicked"))
}

/// Waits, no longer than until the call is interrupted.
pub fn sleep(duration: Duration) {
    let begun = Instant::now();
    loop {
        let left = duration.saturating_sub(begun.elapsed());
        if left.is_zero() || is_set() {
            return;
        }
        std::thread::sleep(if is_possible() { left.min(INTERVAL) } else { left });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn work_ends_when_it_asks() {
        check().unwrap();
        let interrupt = Interrupt::default();
        interrupt.during(|| {
            check().unwrap();
            interrupt.set();
            let error = check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
            assert!(!error.is_retryable());
            hold(|| check().unwrap());
            clean_up(|| check().unwrap());
            assert!(is_set());
        });
        check().unwrap();
    }

    #[test]
    fn threads_carry_the_interrupt_and_only_the_first_one_asks() {
        let asked = Arc::new(AtomicU64::new(0));
        let count = asked.clone();
        let watch = move || count.fetch_add(1, Ordering::Relaxed) > 0;
        let interrupt = Interrupt::watching(Box::new(watch), Duration::from_millis(1));
        let (sender, receiver) = channel::<()>();
        let error = interrupt.during(|| {
            std::thread::scope(|scope| {
                let other = scope.spawn(carried(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    let before = asked.load(Ordering::Relaxed);
                    assert!(!is_set() || before > 1);
                    while !is_set() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }));
                let error = receive(&receiver).unwrap_err();
                other.join().unwrap();
                error
            })
        });
        drop(sender);
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn a_deadline_passes() {
        let begun = Instant::now();
        Interrupt::after(Duration::from_millis(20)).during(|| {
            check().unwrap();
            sleep(Duration::from_secs(60));
            assert!(is_set());
        });
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_cannot_ask_is_left_alone() {
        let endless = || loop {
            std::thread::sleep(Duration::from_millis(10));
        };
        let error = Interrupt::after(Duration::from_millis(20)).during(|| aside::<()>(endless).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        assert_eq!(Interrupt::default().during(|| aside(|| 1).unwrap()), 1);
        assert_eq!(aside(|| 2).unwrap(), 2);
    }

    #[test]
    fn what_arrives_is_received() {
        let (sender, receiver) = channel();
        sender.send(1).unwrap();
        drop(sender);
        Interrupt::default().during(|| {
            assert_eq!(receive(&receiver).unwrap(), Some(1));
            assert_eq!(receive(&receiver).unwrap(), None);
        });
    }
}
