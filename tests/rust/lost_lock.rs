//! A lock that is taken away while a write publishes stops the write; the next one cleans up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use hoodoo::ErrorKind;
use hoodoo::format::instant::Action;
use hoodoo::table::HudiTable;
use hoodoo::timeline::Clock;
use hoodoo::write::Operation;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::hooked_store::{HookedStore, Request, overloaded};
use crate::small_table::{self, Ticking};

const LOCK: &str = "small/.hoodie/.locks/table_lock.json";
const TIMELINE: &str = "small/.hoodie/timeline";
const PROVIDER: &str = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider";

/// The clock of all tests, put on by a while.
#[derive(Default)]
struct Ahead(AtomicI64);

impl Clock for Ahead {
    fn now_ms(&self) -> i64 {
        Ticking::shared().now_ms() + self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        Ticking::shared().sleep(duration);
    }
}

fn open(store: Arc<dyn ObjectStore>, name: &str, clock: Arc<dyn Clock>) -> HudiTable {
    let locked: BTreeMap<String, String> = [
        ("hoodie.write.lock.provider", PROVIDER),
        ("hoodie.write.lock.wait_time_ms", "2000"),
        ("hoodie.write.lock.client.num_retries", "0"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    small_table::open(small_table::storage(store, name), clock).unwrap().with_options(&locked).unwrap()
}

fn put(store: &InMemory, content: &str) {
    block_on(store.put(&Path::from(LOCK), content.to_owned().into())).unwrap();
}

fn has(store: &InMemory, what: impl Fn(&str) -> bool) -> bool {
    let folder = Path::from(TIMELINE);
    let found = block_on(store.list_with_delimiter(Some(&folder))).unwrap();
    found.objects.iter().any(|o| what(o.location.filename().unwrap()))
}

/// Does `harm` when the second write has the lock to complete its instant, and looks at what comes of it.
fn loses_the_lock(name: &str, harm: impl Fn(&InMemory, &Ahead) + Send + Sync + 'static) {
    write_fails(name, move |store, clock, request, path| {
        // The end of a commit begins with a look at the timeline under the lock.
        if request == Request::List && path == TIMELINE && is_inflight(store) && is_held(store) {
            harm(store, clock);
            return Some(Ok(()));
        }
        None
    });
}

/// A write during which `harm` answers one request, and what comes of it. `None`: not yet.
fn write_fails(
    name: &str,
    harm: impl Fn(&InMemory, &Ahead, Request, &str) -> Option<object_store::Result<()>> + Send + Sync + 'static,
) {
    let (store, clock) = (Arc::new(InMemory::new()), Arc::new(Ahead::default()));
    small_table::create(small_table::storage(store.clone(), name), clock.clone()).unwrap();
    let table = open(store.clone(), name, clock.clone());
    small_table::write(&table, Operation::Insert, &[("a", 1, "p", "first")]).unwrap();
    let before = small_table::read(&table);

    let harmed = Arc::new(AtomicBool::new(false));
    let (behind, time, done) = (store.clone(), clock.clone(), harmed.clone());
    let hook = Box::new(move |request, path: &str| {
        if done.load(Ordering::SeqCst) {
            return Ok(());
        }
        let answer = harm(&behind, &time, request, path);
        done.store(answer.is_some(), Ordering::SeqCst);
        answer.unwrap_or(Ok(()))
    });
    let harmful = open(Arc::new(HookedStore::new(store.clone(), hook)), name, clock.clone());
    let error = small_table::write(&harmful, Operation::Upsert, &[("a", 2, "p", "second")]).unwrap_err();
    assert!(harmed.load(Ordering::SeqCst));
    assert_eq!(error.kind(), ErrorKind::Lock, "{error}");
    assert!(error.is_retryable() && error.message().contains("lost"), "{error}");
    assert_eq!(small_table::read(&table), before);
    assert_eq!(table.timeline().unwrap().pending().count(), 1);

    // No instant was made meanwhile, so the clock can be set right again: the other tests share the process.
    clock.0.store(0, Ordering::SeqCst);
    put(&store, r#"{"expired":true,"validUntil":0,"owner":"other"}"#);
    small_table::write(&table, Operation::Upsert, &[("a", 3, "p", "third")]).unwrap();
    assert_eq!(small_table::read(&table), [("a".to_owned(), "third".to_owned())]);
    let timeline = table.timeline().unwrap();
    assert_eq!((timeline.pending().count(), timeline.completed(Action::Rollback).count()), (0, 1));
    assert_eq!(hoodoo::services::verify::verify(&table).unwrap().problems.len(), 0);
}

fn has_completed(store: &InMemory, inflight: &str) -> bool {
    let requested = inflight.split('.').next().unwrap();
    has(store, |name| name.starts_with(&format!("{requested}_")))
}

/// Whether a commit is inflight.
fn is_inflight(store: &InMemory) -> bool {
    has(store, |name| name.ends_with(".inflight") && !has_completed(store, name))
}

fn is_held(store: &InMemory) -> bool {
    let Ok(found) = block_on(store.get(&Path::from(LOCK))) else { return false };
    String::from_utf8_lossy(&block_on(found.bytes()).unwrap()).contains(r#""expired":false"#)
}

#[test]
fn another_takes_it() {
    loses_the_lock("taken", |store, _| put(store, r#"{"expired":false,"validUntil":99999999999999,"owner":"other"}"#));
}

#[test]
fn its_file_is_deleted() {
    loses_the_lock("deleted", |store, _| block_on(store.delete(&Path::from(LOCK))).unwrap());
}

#[test]
fn its_lease_runs_out() {
    loses_the_lock("ran-out", |_, clock| {
        clock.0.fetch_add(300_001, Ordering::SeqCst);
    });
}

/// Whether this is the request by which a commit makes sure, just before it is published, that it has the lock: its data
/// files are there by then.
fn makes_sure(store: &InMemory, request: Request, path: &str) -> bool {
    request == Request::Put && path == LOCK && is_held(store) && is_inflight(store) && {
        let folder = Path::from(TIMELINE);
        let names = block_on(store.list_with_delimiter(Some(&folder))).unwrap().objects;
        let names = names.iter().map(|o| o.location.filename().unwrap().to_owned());
        let pending = names.filter(|name| name.ends_with(".inflight") && !has_completed(store, name));
        let instants: Vec<String> = pending.map(|name| name.split('.').next().unwrap().to_owned()).collect();
        let files = block_on(store.list_with_delimiter(Some(&Path::from("small/p")))).unwrap().objects;
        instants.iter().any(|instant| files.iter().any(|file| file.location.as_ref().contains(instant)))
    }
}

#[test]
fn it_cannot_be_renewed_and_has_not_long_to_go() {
    write_fails("short", |store, clock, request, path| {
        makes_sure(store, request, path).then(|| {
            // Less than a fifth of the lease is left.
            clock.0.fetch_add(240_001, Ordering::SeqCst);
            Err(overloaded())
        })
    });
}

#[test]
fn a_store_that_is_overloaded_for_a_moment_stops_nothing() {
    let (store, clock) = (Arc::new(InMemory::new()), Arc::new(Ahead::default()));
    small_table::create(small_table::storage(store.clone(), "overloaded"), clock.clone()).unwrap();
    let (behind, requests) = (store.clone(), Arc::new(AtomicI64::new(0)));
    let (asked, sure) = (requests.clone(), Arc::new(AtomicBool::new(false)));
    let made_sure = sure.clone();
    let hook = Box::new(move |request, path: &str| {
        // Of the requests to the lock every third one fails, and that before publishing.
        let before_publishing = makes_sure(&behind, request, path) && !made_sure.swap(true, Ordering::SeqCst);
        let fails = path == LOCK && asked.fetch_add(1, Ordering::SeqCst) % 3 == 0;
        if before_publishing || fails { Err(overloaded()) } else { Ok(()) }
    });
    let table = open(Arc::new(HookedStore::new(store.clone(), hook)), "overloaded", clock);
    small_table::write(&table, Operation::Insert, &[("a", 1, "p", "one")]).unwrap();
    assert!(sure.load(Ordering::SeqCst) && requests.load(Ordering::SeqCst) > 10);
    assert_eq!(small_table::read(&table), [("a".to_owned(), "one".to_owned())]);
    assert!(!is_held(&store));
}

#[test]
fn a_commit_stands_though_the_lock_for_cleaning_is_not_to_be_had() {
    let (store, clock) = (Arc::new(InMemory::new()), Arc::new(Ahead::default()));
    small_table::create(small_table::storage(store.clone(), "cleaning"), clock.clone()).unwrap();
    let table = open(store.clone(), "cleaning", clock.clone());
    // Of the two versions before the newest commit, the older one is cleaned.
    small_table::write(&table, Operation::Insert, &[("a", 0, "p", "zero")]).unwrap();
    small_table::write(&table, Operation::Upsert, &[("a", 1, "p", "one")]).unwrap();
    let commits = table.timeline().unwrap().completed(Action::Commit).count();
    let met = Arc::new(AtomicI64::new(0));
    let (behind, tries) = (store.clone(), met.clone());
    let hook = Box::new(move |request, path: &str| {
        let folder = Path::from(TIMELINE);
        let listed = || block_on(behind.list_with_delimiter(Some(&folder))).unwrap().objects;
        let completed = |name: &str| name.contains('_') && name.ends_with(".commit");
        match (request, path) {
            (Request::List, _) if !is_held(&behind) => {
                let now = listed().iter().filter(|o| completed(o.location.filename().unwrap())).count();
                if now == commits + 1 {
                    put(&behind, r#"{"expired":false,"validUntil":99999999999999,"owner":"other"}"#);
                }
            }
            (Request::Get, LOCK) if is_held(&behind) => {
                tries.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
        Ok(())
    });
    let watched = open(Arc::new(HookedStore::new(store.clone(), hook)), "cleaning", clock);
    small_table::write(&watched, Operation::Upsert, &[("a", 2, "p", "two")]).unwrap();
    assert!(met.load(Ordering::SeqCst) > 0, "there was nothing to clean");
    assert_eq!(small_table::read(&table), [("a".to_owned(), "two".to_owned())]);
    assert_eq!(table.timeline().unwrap().completed(Action::Clean).count(), 0);
    put(&store, r#"{"expired":true,"validUntil":0,"owner":"other"}"#);
    small_table::write(&table, Operation::Upsert, &[("a", 3, "p", "three")]).unwrap();
    assert_eq!(table.timeline().unwrap().completed(Action::Clean).count(), 1);
}

#[test]
fn a_request_that_is_sent_twice_is_no_clash() {
    let (store, clock) = (Arc::new(InMemory::new()), Arc::new(Ahead::default()));
    let repeating: Arc<dyn ObjectStore> = Arc::new(HookedStore::repeating(store.clone()));
    small_table::create(small_table::storage(repeating.clone(), "twice"), clock.clone()).unwrap();
    let table = open(repeating, "twice", clock.clone());
    for (ts, value) in [(1, "one"), (2, "two"), (3, "three")] {
        small_table::write(&table, Operation::Upsert, &[("a", ts, "p", value)]).unwrap();
        assert_eq!(small_table::read(&table), [("a".to_owned(), value.to_owned())]);
    }
    assert!(!is_held(&store));
    let problems = hoodoo::services::verify::verify(&table).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
    // What somebody else created is a clash, though it has the same content.
    let storage = small_table::storage(Arc::new(HookedStore::repeating(store)), "twice");
    storage.create("x", "same").unwrap();
    assert_eq!(storage.create("x", "same").unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn markers_that_an_object_store_does_not_delete_are_a_warning() {
    let store = Arc::new(InMemory::new());
    let remote = |store: Arc<dyn ObjectStore>| small_table::storage(store, "markers").as_remote();
    small_table::create(remote(store.clone()), Ticking::shared()).unwrap();
    let hook = Box::new(|request, path: &str| match request {
        Request::Delete if path.contains("/.temp/") => Err(overloaded()),
        _ => Ok(()),
    });
    let failing =
        small_table::open(remote(Arc::new(HookedStore::new(store.clone(), hook))), Ticking::shared()).unwrap();
    let commit = small_table::write(&failing, Operation::Insert, &[("a", 1, "p", "one")]).unwrap();
    assert!(commit.warnings.iter().any(|w| w.contains("markers")), "{:?}", commit.warnings);
    // The next write removes them.
    let table = small_table::open(remote(store.clone()), Ticking::shared()).unwrap();
    let commit = small_table::write(&table, Operation::Upsert, &[("a", 2, "p", "two")]).unwrap();
    assert_eq!(commit.warnings, Vec::<String>::new());
    assert_eq!(
        block_on(store.list_with_delimiter(Some(&Path::from("small/.hoodie/.temp")))).unwrap().common_prefixes,
        []
    );
    assert_eq!(small_table::read(&table), [("a".to_owned(), "two".to_owned())]);
}

#[test]
fn a_writer_whose_lease_ran_out_leaves_the_metadata_table_alone() {
    const METADATA: &str = "small/.hoodie/metadata";
    let (store, clock) = (Arc::new(InMemory::new()), Arc::new(Ahead::default()));
    let options = [("hoodie.metadata.enable", "true"), ("hoodie.write.lock.provider", PROVIDER)]
        .map(|(k, v)| (k.into(), v.into()));
    let remote = |store: Arc<dyn ObjectStore>| small_table::storage(store, "metadata-lease").as_remote();
    let table = small_table::create_with(remote(store.clone()), clock.clone(), &options).unwrap();
    small_table::write(&table, Operation::Insert, &[("a", 1, "p", "first")]).unwrap();

    let (time, late) = (clock.clone(), Arc::new(AtomicBool::new(false)));
    let (is_late, changes) = (late.clone(), Arc::new(AtomicI64::new(0)));
    let changed = changes.clone();
    let hook = Box::new(move |request, path: &str| {
        if request != Request::Put || !path.starts_with(METADATA) {
            return Ok(());
        }
        if is_late.swap(true, Ordering::SeqCst) {
            changed.fetch_add(1, Ordering::SeqCst);
        } else {
            // The process stands still here, for longer than its lease.
            time.0.fetch_add(300_001, Ordering::SeqCst);
        }
        Ok(())
    });
    let slow =
        small_table::open_with(remote(Arc::new(HookedStore::new(store, hook))), clock.clone(), &options).unwrap();
    let error = small_table::write(&slow, Operation::Upsert, &[("a", 2, "p", "second")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lock, "{error}");
    assert!(late.load(Ordering::SeqCst));
    // One more may be under way.
    assert!(changes.load(Ordering::SeqCst) <= 1);
    assert_eq!(small_table::read(&table), [("a".to_owned(), "first".to_owned())]);
    clock.0.store(0, Ordering::SeqCst);
}

#[test]
fn a_write_that_others_rolled_back_leaves_no_file() {
    let store = Arc::new(InMemory::new());
    let remote = |store: Arc<dyn ObjectStore>| small_table::storage(store, "late-file").as_remote();
    let table = small_table::create(remote(store.clone()), Ticking::shared()).unwrap();
    small_table::write(&table, Operation::Insert, &[("a", 1, "p", "one")]).unwrap();
    let behind = store.clone();
    let hook = Box::new(move |request, path: &str| {
        if request == Request::Put && path.starts_with("small/p/") {
            // The instant is made inflight meanwhile, in the background.
            let waits = (0..5_000).take_while(|_| !is_inflight(&behind));
            waits.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
            // The process stands still here. Another one finds its heartbeat expired, and no file to delete yet.
            let folder = Path::from(TIMELINE);
            for object in block_on(behind.list_with_delimiter(Some(&folder))).unwrap().objects {
                let name = object.location.filename().unwrap();
                if !name.contains('_') && !has_completed(&behind, name) {
                    block_on(behind.delete(&object.location)).unwrap();
                }
            }
        }
        Ok(())
    });
    let slow = small_table::open(remote(Arc::new(HookedStore::new(store.clone(), hook))), Ticking::shared()).unwrap();
    let error = small_table::write(&slow, Operation::Upsert, &[("a", 2, "p", "two")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let files = block_on(store.list_with_delimiter(Some(&Path::from("small/p")))).unwrap().objects;
    let files = files.iter().filter(|file| file.location.as_ref().ends_with(".parquet"));
    assert_eq!(files.count(), 1);
    assert_eq!(small_table::read(&table), [("a".to_owned(), "one".to_owned())]);
}
