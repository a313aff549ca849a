//! Several processes in one, for tests that let writers of several machines run under their control.
//!
//! What a call takes from its surroundings is fixed: its random numbers come from a seed; it starts no thread to do two
//! things at once, so that its requests have one order; and locks between threads count for its own process only. Threads
//! that renew something are part of the process that started them.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use uuid::{Builder, Uuid};

/// A process that is simulated by threads of this one.
#[derive(Debug, Clone)]
pub struct SimulatedProcess {
    number: u32,
    random: Arc<Mutex<StdRng>>,
}

thread_local! {
    static CURRENT: RefCell<Option<SimulatedProcess>> = const { RefCell::new(None) };
}

/// Puts back what was there before, also after a panic.
struct Before(Option<SimulatedProcess>);

impl Drop for Before {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}

impl SimulatedProcess {
    /// A process. Numbers are not 0, and no two processes that run at the same time have the same one.
    pub fn new(number: u32, seed: u64) -> Self {
        Self { number, random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))) }
    }

    /// Runs a call as a call of this process.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        with(Some(self.clone()), work)
    }
}

fn with<T>(process: Option<SimulatedProcess>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.with(|current| current.replace(process)));
    work()
}

fn current() -> Option<SimulatedProcess> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Work for another thread of the same process.
pub fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let process = current();
    move || with(process, work)
}

/// Whether this thread works for a simulated process.
pub fn is_on() -> bool {
    CURRENT.with(|current| current.borrow().is_some())
}

/// The number of the simulated process; 0 without one.
pub(crate) fn number() -> u32 {
    CURRENT.with(|current| current.borrow().as_ref().map_or(0, |process| process.number))
}

/// Draws with the seed of the simulated process, or else without one.
fn draw<T>(from: impl FnOnce(&mut dyn RngCore) -> T) -> T {
    match current() {
        Some(process) => from(&mut *process.random.lock().unwrap_or_else(PoisonError::into_inner)),
        None => from(&mut rand::rng()),
    }
}

/// A random UUID.
pub fn uuid() -> Uuid {
    match is_on() {
        true => {
            let mut bytes = [0; 16];
            draw(|random| random.fill_bytes(&mut bytes));
            Builder::from_random_bytes(bytes).into_uuid()
        }
        false => Uuid::new_v4(),
    }
}

/// A random factor from one half to one.
pub fn factor() -> f64 {
    draw(|random| random.random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::process::Process;

    #[test]
    fn a_seed_repeats_what_is_random_and_another_process_is_not_this_one() {
        let run = |number, seed| SimulatedProcess::new(number, seed).during(|| (uuid(), factor(), Process::this()));
        assert_eq!(run(1, 7), run(1, 7));
        assert_ne!(run(1, 7).0, run(1, 8).0);
        assert_ne!(run(1, 7).2, run(2, 7).2);
        assert!(!is_on() && uuid() != uuid());
        assert!((0.5..=1.0).contains(&factor()));
    }

    #[test]
    fn threads_belong_to_the_process_that_starts_them() {
        let process = SimulatedProcess::new(3, 1);
        let (mine, of_thread) = process.during(|| {
            let work = carried(Process::this);
            (Process::this(), std::thread::spawn(work).join().unwrap())
        });
        assert_eq!(mine, of_thread);
        assert!(!mine.is_this());
    }
}
