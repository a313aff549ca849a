//! Threads: one way to run work beside other work, with one rule for what panics.
//!
//! A thread that panics is an error of kind `Internal` for whoever waits for it: nothing of what it did is used. Threads
//! end when the call that they work for is interrupted.

mod background_task;
mod stream;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;

use crate::error::{Error, Result};
use crate::{interrupt, simulated};

pub use background_task::BackgroundTask;
pub use stream::BatchStream;
pub use stream::Part;

/// Runs `work` for each item on up to `threads` threads; results in the order of the items. The first error stops the
/// rest from starting.
pub fn run_parallel<I, O, F>(items: Vec<I>, threads: usize, work: F) -> Result<Vec<O>>
where
    I: Send,
    O: Send,
    F: Fn(I) -> Result<O> + Sync,
{
    let count = items.len();
    if threads <= 1 || count <= 1 || simulated::is_on() {
        return items.into_iter().map(|item| interrupt::check().and_then(|()| work(item))).collect();
    }
    let waiting = Mutex::new(items.into_iter().enumerate());
    let done: Mutex<Vec<(usize, O)>> = Mutex::new(Vec::with_capacity(count));
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let run = || {
        loop {
            if lock(&failed).is_some() {
                return;
            }
            let Some((index, item)) = lock(&waiting).next() else { return };
            match interrupt::check().and_then(|()| guarded(|| work(item))) {
                Ok(output) => lock(&done).push((index, output)),
                Err(e) => {
                    lock(&failed).get_or_insert(e);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        // Nothing is sent: the channel ends with the last thread.
        let (working, ended) = channel::<()>();
        for _ in 0..threads.min(count) {
            let (run, working) = (interrupt::carried(&run), working.clone());
            scope.spawn(move || {
                let _working = working;
                run();
            });
        }
        drop(working);
        if let Err(e) = interrupt::receive(&ended) {
            lock(&failed).get_or_insert(e);
        }
    });
    if let Some(e) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(e);
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    if done.len() != count {
        return Err(panicked());
    }
    Ok(done.into_iter().map(|(_, output)| output).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs two things: at the same time when `at_once` says that this pays, else one after the other. The first one runs on
/// this thread.
///
/// # Errors
/// That of the first one, else that of the other.
pub fn both<A: Send, B: Send>(
    at_once: bool,
    one: impl FnOnce() -> Result<A> + Send,
    other: impl FnOnce() -> Result<B> + Send,
) -> Result<(A, B)> {
    if !at_once || simulated::is_on() {
        return Ok((one()?, other()?));
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        spawn(scope, move || {
            // Nobody listens any more when the first one failed.
            let _ = sender.send(other());
        });
        let one = one()?;
        Ok((one, receive(&receiver)??))
    })
}

/// Starts a thread that works for the call of this one. If it panics, it sends nothing more: see [`receive`].
pub fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() + Send + 's) {
    let work = simulated::carried(interrupt::carried(work));
    scope.spawn(move || {
        guarded(|| {
            work();
            Ok(())
        })
    });
}

/// Waits for what such a thread sends next.
///
/// # Errors
/// `Internal` if it panicked; `Interrupted`.
pub fn receive<T>(receiver: &Receiver<T>) -> Result<T> {
    interrupt::receive(receiver)?.ok_or_else(panicked)
}

/// Work whose panic is an error.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}

/// The error of a thread that panicked.
pub fn panicked() -> Error {
    Error::internal("a thread panicked")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    #[test]
    fn results_come_in_order() {
        let out = run_parallel((0..100).collect(), 4, |i: i32| Ok(i * 2)).unwrap();
        assert_eq!(out, (0..100).map(|i| i * 2).collect::<Vec<_>>());
        let e = run_parallel((0..100).collect(), 4, |i: i32| if i == 50 { Err(Error::schema("x")) } else { Ok(i) });
        assert!(e.is_err());
    }

    #[test]
    fn two_things_at_once_or_not() {
        for at_once in [false, true] {
            assert_eq!(both(at_once, || Ok(1), || Ok("x")).unwrap(), (1, "x"));
            assert!(both(at_once, || Ok(1), || Err::<(), _>(Error::schema("x"))).is_err());
            assert!(both(at_once, || Err::<(), _>(Error::schema("x")), || Ok(1)).is_err());
        }
        let error = both(true, || Ok(1), || -> Result<()> { std::panic::resume_unwind(Box::new("x")) }).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Internal);
    }

    #[test]
    fn a_panic_is_an_error() {
        let work = |n: i32| if n == 3 { std::panic::resume_unwind(Box::new("x")) } else { Ok(n) };
        let error = run_parallel((0..10).collect(), 2, work).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Internal);
    }
}
