#![allow(clippy::unwrap_used)]
use std::sync::{Condvar, Mutex};

use uuid::Uuid;

use super::super::holder::machine;
use super::super::timer::Timer;
use super::*;
use crate::SystemClock;
use hoodoo_storage::StorageOptions;

/// Three minutes on.
struct LaterClock;

impl Clock for LaterClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + 180_000
    }

    fn sleep(&self, _: Duration) {}
}

/// Renews when it is told to.
#[derive(Default)]
struct ManualClock(Arc<ManualTimer>);

#[derive(Default)]
struct ManualTimer {
    /// Renewals that are wanted and done, and whether the renewal has ended.
    state: Mutex<(u32, u32, bool)>,
    changed: Condvar,
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms()
    }

    fn sleep(&self, _: Duration) {}

    fn timer(&self, _: Duration) -> Arc<dyn Timer> {
        self.0.clone()
    }
}

impl Timer for ManualTimer {
    fn run(&self, work: &mut dyn FnMut() -> bool) {
        loop {
            let idle = |s: &mut (u32, u32, bool)| s.0 == s.1 && !s.2;
            let state = self.changed.wait_while(self.state.lock().unwrap(), idle).unwrap();
            if state.2 {
                return;
            }
            drop(state);
            let goes_on = work();
            let mut state = self.state.lock().unwrap();
            *state = (state.0, state.1 + 1, !goes_on);
            self.changed.notify_all();
        }
    }

    fn stop(&self) {
        self.state.lock().unwrap().2 = true;
        self.changed.notify_all();
    }
}

impl ManualTimer {
    /// Renews once; returns whether the renewal goes on.
    fn renew(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        !self.changed.wait_while(state, |s| s.0 != s.1 && !s.2).unwrap().2
    }
}

fn storage(name: &str) -> Storage {
    Storage::open(&format!("memory://heartbeat-{name}/t"), &StorageOptions::new()).unwrap()
}

fn now() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

#[test]
fn an_instant_is_worked_on_by_one() {
    let storage = storage("one");
    let first = Heartbeat::take_over(&storage, &now(), "1").unwrap();
    assert!(is_alive(&storage, &now(), "1").unwrap());
    assert_eq!(Heartbeat::take_over(&storage, &now(), "1").unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(Heartbeat::start(&storage, &now(), "1").unwrap_err().kind(), ErrorKind::Conflict);
    first.check().unwrap();
    drop(first);
    assert!(!is_alive(&storage, &now(), "1").unwrap());
    assert!(!storage.exists(".hoodie/.heartbeat/1").unwrap());
    drop(Heartbeat::start(&storage, &now(), "2").unwrap());
    assert!(!storage.exists(".hoodie/.heartbeat/2").unwrap());
}

#[test]
fn ended_processes_are_known_by_their_id_or_the_age_of_the_heartbeat() {
    let storage = storage("dead");
    let beat = |content: &str| storage.replace(".hoodie/.heartbeat/1", content.to_owned()).unwrap();
    let id = Uuid::new_v4();
    let (here, me) = (machine(), std::process::id());
    // This process, and it does not know of it; a number that no process has.
    for dead in [format!("{here} {me} {id}"), format!("{here} 4194999 {id}")] {
        beat(&dead);
        assert!(!is_alive(&storage, &now(), "1").unwrap(), "{dead}");
    }
    // Hudi's, another machine's, the first process of this one.
    for alive in ["", "elsewhere 1 7d9c2c6e-6c3c-4a8e-9d2f-0e5d1f1f3a55", &format!("{here} 1 {id}"), "x y z"] {
        beat(alive);
        assert!(is_alive(&storage, &now(), "1").unwrap(), "{alive}");
    }
    let later: Arc<dyn Clock> = Arc::new(LaterClock);
    assert!(!is_alive(&storage, &later, "1").unwrap());
    // Taken over; who thought to have it, learns of it.
    let mine = Heartbeat::take_over(&storage, &later, "1").unwrap();
    beat("somebody");
    assert_eq!(mine.check().unwrap_err().kind(), ErrorKind::Conflict);
    drop(mine);
    assert!(storage.exists(".hoodie/.heartbeat/1").unwrap());
}

#[test]
fn a_renewal_leaves_the_heartbeat_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let local = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    for storage in [local, storage("renewed")] {
        let content = |instant: &str| storage.read_if_exists(&path_of(instant)).unwrap();
        let (clock, write_clock) = (ManualClock::default(), ManualClock::default());
        let (timer, write_timer) = (clock.0.clone(), write_clock.0.clone());
        let slow = Heartbeat::start(&storage, &(Arc::new(clock) as Arc<dyn Clock>), "1").unwrap();
        assert!(timer.renew() && timer.renew());
        slow.check().unwrap();
        let later: Arc<dyn Clock> = Arc::new(LaterClock);
        let other = Heartbeat::take_over(&storage, &later, "1").unwrap();
        let of_other = content("1");
        assert!(!timer.renew());
        assert_eq!(content("1"), of_other);
        other.check().unwrap();
        // Even when the other one is gone.
        drop(other);
        assert_eq!(slow.check().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(content("1"), None);
        // The instant of a write is never taken over.
        let write = Heartbeat::of_write(&storage, &(Arc::new(write_clock) as Arc<dyn Clock>), "2").unwrap();
        storage.delete(&path_of("2")).unwrap();
        assert!(write_timer.renew());
        write.check().unwrap();
        drop(write);
        assert_eq!(content("2"), None);
    }
}

#[test]
fn a_renewal_makes_a_heartbeat_young_again() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    let clock = ManualClock::default();
    let timer = clock.0.clone();
    let beat = Heartbeat::start(&storage, &(Arc::new(clock) as Arc<dyn Clock>), "1").unwrap();
    let file = std::fs::File::options().write(true).open(folder.path().join(path_of("1"))).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(180)).unwrap();
    assert!(age_of(&storage, &now(), &storage.head(&path_of("1")).unwrap().unwrap()).unwrap().is_none());
    assert!(timer.renew());
    assert!(is_alive(&storage, &now(), "1").unwrap());
    drop(beat);
}
