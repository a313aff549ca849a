//! Instants of threads and processes whose clocks differ, under the lock file: unique, and later in the lock's order.
//!
//! The whole of it, 8 threads × 4 processes × 1,000 instants, takes two minutes, for each instant waits out the skew:
//! `cargo test --release --test rust the_whole_of_it -- --ignored`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hoodoo::storage::{Storage, StorageOptions};
use hoodoo::timeline::{
    Clock, LockConfig, LockProviderKind, LockWait, SystemClock, TableLock, TimeGenerator, TimeZone, parse_instant_ms,
};

const SKEW_MS: i64 = 2;
const THREADS: usize = 8;
const PROCESSES: usize = 4;
const VARIABLE: &str = "HOODOO_TEST_TRUE_TIME";

/// A machine whose clock is off.
#[derive(Clone, Copy)]
struct Off(i64);

impl Clock for Off {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms() + self.0
    }

    fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration);
    }
}

/// What one of the processes does, when the tests below start this binary anew; by itself it is no test.
#[test]
#[ignore = "a process of the other tests in this file"]
fn one_process() {
    let Ok(given) = std::env::var(VARIABLE) else { return };
    let [folder, off, instants] = given.split('|').collect::<Vec<_>>().try_into().unwrap();
    let (off, instants): (i64, usize) = (off.parse().unwrap(), instants.parse().unwrap());
    let storage = Storage::open(folder, &StorageOptions::new()).unwrap();
    let wait = LockWait {
        time: Duration::from_secs(600),
        retries: u32::MAX,
        pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(4),
        ..LockWait::default()
    };
    let config = LockConfig { provider: LockProviderKind::FileSystem, wait, ..LockConfig::default() };
    let clock = Arc::new(Off(off));
    let lock = TableLock::new(&storage, &config, clock.clone(), Arc::default()).unwrap();
    let time = TimeGenerator::new(clock, TimeZone::Utc, SKEW_MS.unsigned_abs()).for_several_machines();
    // All begin together: otherwise a busy machine runs one process after the other, and none waits for another.
    let ready = |folder: &str| std::fs::read_dir(Path::new(folder).join("ready")).unwrap().count();
    std::fs::write(Path::new(folder).join("ready").join(std::process::id().to_string()), "").unwrap();
    while ready(folder) < PROCESSES {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (lock, time) = (&lock, &time);
            scope.spawn(move || {
                let mut order = OpenOptions::new().append(true).open(Path::new(folder).join("order")).unwrap();
                for n in 0..instants {
                    {
                        let held = lock.acquire().unwrap();
                        let instant = time.generate(None).unwrap();
                        held.verify().unwrap();
                        order.write_all(format!("{instant} {off}\n").as_bytes()).unwrap();
                    }
                    // Lets the other processes in, which ask for the lock every 20 ms at first.
                    std::thread::sleep(Duration::from_millis(20 + (thread * 7 + n * 3) as u64 % 11));
                }
            });
        }
    });
}

fn processes(instants: usize) {
    let folder = tempfile::tempdir().unwrap();
    let order = folder.path().join("order");
    std::fs::write(&order, "").unwrap();
    std::fs::create_dir(folder.path().join("ready")).unwrap();
    // The clocks of any two are at most the skew apart.
    let offsets: [i64; PROCESSES] = [0, SKEW_MS, 1, SKEW_MS];
    let children: Vec<_> = offsets
        .iter()
        .map(|off| {
            Command::new(std::env::current_exe().unwrap())
                .args(["true_time::one_process", "--exact", "--ignored", "--test-threads=1"])
                .env(VARIABLE, format!("{}|{off}|{instants}", folder.path().display()))
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let order = std::fs::read_to_string(&order).unwrap();
    let lines: Vec<(&str, &str)> = order.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(lines.len(), offsets.len() * THREADS * instants);
    for pair in lines.windows(2) {
        assert!(pair[0].0 < pair[1].0, "{pair:?}");
    }
    assert!(lines.iter().all(|(instant, _)| parse_instant_ms(instant, TimeZone::Utc).is_some()));
    let changes = lines.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    assert!(changes > 2 * PROCESSES, "the processes did not meet: {changes} changes of the clock");
    assert!(!folder.path().join(".hoodie/lock").exists());
}

#[test]
fn instants_of_several_processes_are_unique_and_grow() {
    processes(40);
}

#[test]
#[ignore = "two minutes"]
fn the_whole_of_it() {
    processes(1_000);
}
