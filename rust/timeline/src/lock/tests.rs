#![allow(clippy::unwrap_used, clippy::panic)]
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use hoodoo_runtime::error::ErrorKind;
use hoodoo_storage::StorageOptions;

/// A clock that goes on only when somebody sleeps.
struct Hand(AtomicI64);

impl Hand {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_767_225_600_000)))
    }

    fn pass(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        self.pass(i64::try_from(duration.as_millis()).unwrap());
    }
}

fn quick(provider: LockProviderKind) -> LockConfig {
    let wait = LockWait { time: Duration::from_secs(3), client_retries: 1, ..LockWait::default() };
    LockConfig { provider, wait, ..LockConfig::default() }
}

/// Another machine, as far as locks go: it does not share the locks between the threads and the processes of this one.
fn elsewhere(lock: &TableLock) -> TableLock {
    TableLock { process: ProcessLock::default(), machine: None, ..lock.clone() }
}

fn in_memory(name: &str, config: &LockConfig) -> (Storage, TableLock, Arc<Hand>) {
    let storage = Storage::open(&format!("memory://lock-{name}/t"), &StorageOptions::new()).unwrap();
    let clock = Hand::new();
    (storage.clone(), TableLock::new(&storage, config, clock.clone(), Arc::default()).unwrap(), clock)
}

fn on_disk(config: &LockConfig) -> (tempfile::TempDir, TableLock, Arc<Hand>) {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    let clock = Hand::new();
    let lock = TableLock::new(&storage, config, clock.clone(), Arc::default()).unwrap();
    (folder, lock, clock)
}

const FILE: &str = ".hoodie/.locks/table_lock.json";

fn stored(storage: &Storage) -> serde_json::Value {
    serde_json::from_slice(&storage.read(FILE).unwrap()).unwrap()
}

#[test]
fn a_lease_is_taken_and_given_back() {
    let (storage, lock, clock) = in_memory("taken", &quick(LockProviderKind::StorageBased));
    let held = lock.acquire().unwrap();
    let said = stored(&storage);
    assert_eq!(said.get("expired"), Some(&false.into()));
    assert_eq!(said.get("validUntil"), Some(&(clock.now_ms() + 300_000).into()));
    let owner = said.get("owner").unwrap().as_str().unwrap().to_owned();
    held.verify().unwrap();

    let e = elsewhere(&lock).acquire().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Lock);
    assert!(e.is_retryable() && e.to_string().contains(&owner), "{e}");
    drop(held);
    let said = stored(&storage);
    assert_eq!((said.get("expired"), said.get("owner").unwrap().as_str()), (Some(&true.into()), Some(&*owner)));
    drop(elsewhere(&lock).acquire().unwrap());
    assert_ne!(stored(&storage).get("owner").unwrap().as_str(), Some(&*owner));
}

#[test]
fn a_lease_that_ran_out_is_free_half_a_second_later() {
    let (storage, lock, clock) = in_memory("ran-out", &quick(LockProviderKind::StorageBased));
    let until = clock.now_ms() + 1_000_000;
    storage.create(FILE, format!(r#"{{"expired":false,"validUntil":{until},"owner":"dead","more":1}}"#)).unwrap();
    clock.pass(1_000_500 - 20_000);
    let e = lock.acquire().err().unwrap();
    assert!(e.to_string().contains("holds it: dead"), "{e}");
    clock.pass(until + 500 - clock.now_ms());
    let mut patient = quick(LockProviderKind::StorageBased);
    patient.wait.client_retries = 0;
    patient.wait.retries = 0;
    let once = TableLock::new(&storage, &patient, clock.clone(), Arc::default()).unwrap();
    assert!(once.acquire().is_err());
    clock.pass(until + 501 - clock.now_ms());
    once.acquire().unwrap().verify().unwrap();
}

#[test]
fn whoever_lost_a_lease_knows() {
    let (storage, lock, clock) = in_memory("lost", &quick(LockProviderKind::StorageBased));
    let held = lock.acquire().unwrap();
    held.check().unwrap();
    storage.replace(FILE, r#"{"expired":false,"validUntil":9999999999999,"owner":"thief"}"#).unwrap();
    let e = held.verify().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Lock);
    assert!(e.to_string().contains("thief took it"), "{e}");
    assert!(held.check().is_err() && held.verify().is_err());
    drop(held);
    assert_eq!(stored(&storage).get("owner").unwrap().as_str(), Some("thief"), "it is not ours to give back");

    storage.delete(FILE).unwrap();
    let held = lock.acquire().unwrap();
    storage.delete(FILE).unwrap();
    assert!(held.verify().unwrap_err().to_string().contains("deleted"));
    drop(held);
    assert!(!storage.exists(FILE).unwrap());

    let held = lock.acquire().unwrap();
    clock.pass(300_000);
    held.check().unwrap();
    clock.pass(1);
    assert!(held.check().unwrap_err().to_string().contains("expired 1 ms ago"));
    assert!(held.verify().is_err());
}

#[test]
fn a_lease_is_renewed_while_it_is_held() {
    let config = LockConfig {
        validity: Duration::from_secs(10),
        renew_every: Duration::from_secs(1),
        ..quick(LockProviderKind::StorageBased)
    };
    let (storage, lock, clock) = in_memory("renewed", &config);
    let held = lock.acquire().unwrap();
    let first = stored(&storage).get("validUntil").unwrap().as_i64().unwrap();
    clock.pass(5_000);
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        if stored(&storage).get("validUntil").unwrap().as_i64().unwrap() > first {
            break;
        }
    }
    assert_eq!(stored(&storage).get("validUntil").unwrap().as_i64().unwrap(), first + 5_000);
    clock.pass(7_000);
    held.verify().unwrap();
}

#[test]
fn a_damaged_lock_file_is_no_lock() {
    let (storage, lock, _) = in_memory("damaged", &quick(LockProviderKind::StorageBased));
    for content in ["", "{", "[]", r#"{"expired":false,"owner":"x"}"#, "\u{0}\u{1}"] {
        storage.replace(FILE, content).unwrap();
        assert_eq!(lock.acquire().err().unwrap().kind(), ErrorKind::Corrupt, "{content}");
    }
}

#[test]
fn the_lock_file_is_there_while_the_lock_is_held() {
    let (folder, lock, _) = on_disk(&quick(LockProviderKind::FileSystem));
    let file = folder.path().join(".hoodie/lock");
    let held = lock.acquire().unwrap();
    let owner = std::fs::read_to_string(&file).unwrap();
    assert!(owner.contains(&format!(" {} ", std::process::id())), "{owner}");
    held.verify().unwrap();
    let e = elsewhere(&lock).acquire().err().unwrap();
    assert!(e.kind() == ErrorKind::Lock && e.to_string().contains(file.to_str().unwrap()), "{e}");
    drop(held);
    assert!(!file.exists());
    std::fs::write(&file, "somebody").unwrap();
    assert!(lock.acquire().err().unwrap().to_string().contains("holds it: somebody"));
    assert!(file.exists());
}

#[test]
fn only_our_own_lock_file_is_deleted() {
    let (folder, lock, _) = on_disk(&quick(LockProviderKind::FileSystem));
    let file = folder.path().join(".hoodie/lock");
    let held = lock.acquire().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(held.verify().unwrap_err().kind(), ErrorKind::Lock);
    // As another process would create it.
    std::fs::write(&file, "").unwrap();
    assert_eq!(held.verify().unwrap_err().kind(), ErrorKind::Lock);
    drop(held);
    assert!(file.exists());
    std::fs::remove_file(&file).unwrap();

    // Hudi, which looked before we created the file, opens the one that is there.
    let held = lock.acquire().unwrap();
    std::fs::write(folder.path().join(".hoodie/.lock.crc"), "crc\0").unwrap();
    assert_eq!(held.verify().unwrap_err().kind(), ErrorKind::Lock);
    drop(held);
    assert!(file.exists());
}

#[test]
fn a_lock_file_that_was_left_behind_expires() {
    let config = LockConfig { expire: Duration::from_secs(120), ..quick(LockProviderKind::FileSystem) };
    let (folder, lock, clock) = on_disk(&config);
    let file = folder.path().join(".hoodie/lock");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "").unwrap();
    std::fs::write(folder.path().join(".hoodie/.lock.crc"), "crc\0").unwrap();
    let born = std::fs::metadata(&file).unwrap().modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = |ms: i64| clock.pass(millis(born) + ms - clock.now_ms());
    age(100_000);
    assert!(lock.acquire().is_err());
    age(120_001);
    let held = lock.acquire().unwrap();
    held.verify().unwrap();
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    // Others would take it from us after that time, so we do not count on it either.
    clock.pass(120_000);
    assert_eq!(held.verify().unwrap_err().kind(), ErrorKind::Lock);
    drop(held);
    assert!(!file.exists());

    let (folder, lock, clock) = on_disk(&quick(LockProviderKind::FileSystem));
    std::fs::create_dir_all(folder.path().join(".hoodie")).unwrap();
    std::fs::write(folder.path().join(".hoodie/lock"), "").unwrap();
    clock.pass(i64::from(u32::MAX) * 100);
    assert!(lock.acquire().is_err(), "without hoodie.write.lock.filesystem.expire it stays for ever");
}

#[test]
fn a_storage_that_cannot_keep_the_lock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Storage::open(folder.path().to_str().unwrap(), &StorageOptions::new()).unwrap();
    let memory = Storage::open("memory://lock-refused/t", &StorageOptions::new()).unwrap();
    let new = |storage: &Storage, config: &LockConfig| {
        TableLock::new(storage, config, Hand::new(), Arc::default()).err().unwrap()
    };
    for (storage, kind, remedy) in [
        (&disk, LockProviderKind::StorageBased, "FileSystemBasedLockProvider"),
        (&memory, LockProviderKind::FileSystem, "StorageBasedLockProvider"),
    ] {
        let e = new(storage, &quick(kind));
        assert!(e.kind() == ErrorKind::Unsupported && e.to_string().contains(remedy), "{e}");
    }
    let far = LockConfig { folder: Some("hdfs://host/locks".into()), ..quick(LockProviderKind::FileSystem) };
    assert!(new(&disk, &far).to_string().contains("'hdfs'"));
    let near = folder.path().join("deep/locks");
    let near = LockConfig { folder: Some(format!("file://{}", near.display())), ..quick(LockProviderKind::FileSystem) };
    let _held = TableLock::new(&memory, &near, Hand::new(), Arc::default()).unwrap().acquire().unwrap();
    assert!(folder.path().join("deep/locks/lock").exists());
}

#[test]
fn waiting_ends_when_the_options_say() {
    let (storage, lock, clock) = in_memory("waiting", &quick(LockProviderKind::StorageBased));
    storage.create(FILE, r#"{"expired":false,"validUntil":9999999999999,"owner":"other"}"#).unwrap();
    let begun = clock.now_ms();
    assert!(lock.acquire().is_err());
    let waited = clock.now_ms() - begun;
    // Twice three seconds, and a pause of five between, or a bit less.
    assert!((2 * 3_000 + 2_500..=2 * 3_000 + 5_000).contains(&waited), "{waited}");
}

/// A lock that others hold, each for so many looks.
struct HeldByOthers {
    looks: Vec<i64>,
    clock: Arc<Hand>,
    asked: Mutex<Vec<i64>>,
}

impl LockProvider for HeldByOthers {
    fn try_acquire(&self, _: &str) -> Result<Attempt> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(self.clock.now_ms());
        let mut left = i64::try_from(asked.len()).unwrap();
        for (owner, looks) in self.looks.iter().enumerate() {
            if left <= *looks {
                return Ok(Attempt::Busy(Some(LockOwner { id: owner.to_string(), description: owner.to_string() })));
            }
            left -= looks;
        }
        Err(Error::lock("enough").caused_by("the test"))
    }

    fn name(&self) -> &'static str {
        "test"
    }

    fn path(&self) -> String {
        String::new()
    }

    fn remedy(&self) -> String {
        String::new()
    }
}

#[test]
fn it_is_asked_often_again_where_the_lock_changed_hands() {
    let (_storage, lock, clock) = in_memory("hands", &quick(LockProviderKind::InProcess));
    let others = HeldByOthers { looks: vec![7, 1, 1, 7], clock, asked: Mutex::default() };
    let lock = TableLock { clock: others.clock.clone(), ..lock };
    assert!(lock.acquire_from(&others).is_err());
    let asked = others.asked.into_inner().unwrap();
    let pauses: Vec<i64> = asked.iter().zip(asked.iter().skip(1)).map(|(one, next)| next - one).collect();
    // While the first holds it, seldom in the end; after each of the others was seen for the first time, often.
    let seldom = |place: usize| pauses.get(place).is_some_and(|pause| *pause > 120);
    assert!(seldom(5) && seldom(14), "{pauses:?}");
    assert!(pauses.iter().skip(7).take(3).all(|pause| *pause <= 20), "{pauses:?}");
}

#[test]
fn threads_that_share_a_lease_exclude_each_other() {
    let config = LockConfig {
        wait: LockWait {
            pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(3),
            retries: u32::MAX,
            ..LockWait::default()
        },
        ..quick(LockProviderKind::StorageBased)
    };
    let storage = Storage::open("memory://lock-threads/t", &StorageOptions::new()).unwrap();
    let lock = TableLock::new(&storage, &config, Arc::new(SystemClock), Arc::default()).unwrap();
    let inside = std::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mine = elsewhere(&lock);
                for _ in 0..20 {
                    let held = mine.acquire().unwrap();
                    *inside.try_lock().unwrap() += 1;
                    held.verify().unwrap();
                }
            });
        }
    });
    assert_eq!(*inside.lock().unwrap(), 120);
}

#[test]
fn processes_of_one_machine_exclude_each_other_without_a_provider() {
    let (folder, lock, _) = on_disk(&quick(LockProviderKind::InProcess));
    // The first to come has no table yet.
    drop(lock.acquire().unwrap());
    std::fs::create_dir(folder.path().join(META_FOLDER)).unwrap();
    let process = || TableLock { process: ProcessLock::default(), ..lock.clone() };
    let inside = std::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mine = process();
                for _ in 0..20 {
                    let held = mine.acquire().unwrap();
                    *inside.try_lock().unwrap() += 1;
                    held.verify().unwrap();
                }
            });
        }
    });
    assert_eq!(*inside.lock().unwrap(), 120);
    assert_eq!(std::fs::read_dir(folder.path().join(META_FOLDER)).unwrap().count(), 0);
}
