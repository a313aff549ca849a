//! Whatever happens to an archiving, and however archiving, cleaning and writing take turns: every instant that ever
//! completed is on the active timeline or in the history, with its body, and in the history once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::executor::block_on;
use hoodoo::format::instant::{Action, Instant};
use hoodoo::services::archive::{ArchiveOutcome, archive, planned};
use hoodoo::services::verify::{Problem, Severity, verify};
use hoodoo::storage::Storage;
use hoodoo::table::HudiTable;
use hoodoo::timeline::Timeline;
use hoodoo::timeline::history::{HistoryReader, LoadMode};
use hoodoo::write::Operation;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::failing_store::{FAILURES, FailingStore, Failure};
use crate::hooked_store::{HookedStore, Request};
use crate::small_table::{Row, Ticking, create_with, delete_partition, open_with, read, storage, write};

const ROWS: [Row; 3] = [("a", 1, "p0", "1"), ("b", 1, "p0", "1"), ("c", 1, "p1", "1")];

/// Completed actions with their bodies.
type Bodies = BTreeMap<(String, Action), Vec<u8>>;

fn active(storage: &Storage, timeline: &Timeline) -> Bodies {
    let completed = timeline.instants().iter().filter(|i| i.is_completed());
    completed.map(|i| ((i.requested.clone(), i.action), timeline.read(storage, i).unwrap().to_vec())).collect()
}

/// What readers find: the active timeline first, then the history.
fn everything(table: &HudiTable) -> Bodies {
    let mut found = active(table.storage(), &table.timeline().unwrap());
    let reader = HistoryReader::new(table.storage(), table.config().timeline());
    let mut last = String::new();
    for entry in reader.read(None, None, LoadMode::Full).unwrap() {
        assert!(entry.requested > last, "{} comes twice or out of order", entry.requested);
        last.clone_from(&entry.requested);
        let body = entry.metadata.unwrap().to_vec();
        let known = found.insert((entry.requested, entry.action), body.clone());
        assert!(known.is_none_or(|k| k == body));
    }
    found
}

fn settings(min: &str, max: &str, batch: &str) -> Vec<(String, String)> {
    let all = [
        ("hoodie.archive.automatic", "false"),
        ("hoodie.keep.min.commits", min),
        ("hoodie.keep.max.commits", max),
        ("hoodie.timeline.compaction.batch.size", batch),
    ];
    all.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

#[test]
fn crash_at_every_call() {
    let clock = Ticking::shared();
    let settings = settings("3", "4", "2");
    let shared = Arc::new(InMemory::new());
    let table = create_with(storage(shared.clone(), "base"), clock.clone(), &settings).unwrap();
    let open = |store: Arc<dyn object_store::ObjectStore>, name: &str| {
        open_with(storage(store, name), clock.clone(), &settings)
    };
    for round in 0..9 {
        write(&table, Operation::Upsert, &ROWS).unwrap();
        if round == 4 {
            archive(&table).unwrap();
        }
    }
    let base = shared.fork();
    let before = everything(&open(Arc::new(base.fork()), "before").unwrap());
    let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, Failure::Error);
    let whole = archive(&open(Arc::new(counting.clone()), "whole").unwrap()).unwrap();
    assert!(whole.plan.instants.len() > 3 && whole.compacted.levels == 1, "{whole:?}");
    let calls = counting.calls();
    for failure in FAILURES {
        for call in failure.at(0..calls) {
            let context = format!("{failure:?} at call {call} of {calls}");
            let store = Arc::new(base.fork());
            let name = format!("archive-{failure:?}-{call}");
            let failing = Arc::new(FailingStore::new(store.clone(), call, failure));
            let _ = open(failing, &name).and_then(|t| archive(&t));
            let table = open(store, &name).unwrap();
            assert_eq!(everything(&table), before, "{context}");
            // The next one finishes the work.
            write(&table, Operation::Upsert, &ROWS).unwrap();
            let expected = everything(&table);
            archive(&table).unwrap();
            assert_eq!(everything(&table), expected, "{context}");
            assert!(planned(&table).unwrap().instants.is_empty(), "{context}");
            // A manifest that was not declared stays for the next archiving that has something to do.
            let problems = verify(&table).unwrap().problems;
            let is_undeclared = |p: &Problem| p.severity == Severity::Warning && p.subject.ends_with("/_version_");
            assert!(problems.iter().all(is_undeclared), "{context}: {problems:?}");
        }
    }
}

/// A table of which archiving is due, and its oldest commit.
fn due(name: &str) -> (Arc<InMemory>, HudiTable, Instant) {
    let store = Arc::new(InMemory::new());
    let settings = settings("3", "4", "2");
    let table = create_with(storage(store.clone(), name), Ticking::shared(), &settings).unwrap();
    for _ in 0..8 {
        write(&table, Operation::Upsert, &ROWS).unwrap();
    }
    let oldest = table.timeline().unwrap().instants()[0].clone();
    (store, table, oldest)
}

/// Archives; `meanwhile` happens between the plan and the lock.
fn archive_while(store: &Arc<InMemory>, name: &str, meanwhile: impl Fn() + Send + Sync + 'static) -> ArchiveOutcome {
    let (done, meanwhile) = (AtomicBool::new(false), Arc::new(meanwhile));
    let hook = move |request, path: &str| {
        // The end of the preparation: which instants have markers.
        if request == Request::List && path.ends_with(".hoodie/.temp") && !done.swap(true, Ordering::SeqCst) {
            let meanwhile = meanwhile.clone();
            std::thread::spawn(move || meanwhile()).join().unwrap();
        }
        Ok(())
    };
    let hooked = Arc::new(HookedStore::new(store.clone(), Box::new(hook)));
    archive(&open_with(storage(hooked, name), Ticking::shared(), &settings("3", "4", "2")).unwrap()).unwrap()
}

#[test]
fn what_another_process_archived_meanwhile_is_left_to_it() {
    let (store, table, _) = due("meanwhile-archived");
    let before = everything(&table);
    let other = table.clone();
    let outcome = archive_while(&store, "meanwhile-archived", move || {
        assert!(archive(&other).unwrap().files == 1);
    });
    assert_eq!((outcome.files, outcome.plan.instants.len()), (0, 0));
    assert_eq!(everything(&table), before);
    assert!(verify(&table).unwrap().is_clean());
}

#[test]
fn what_was_savepointed_meanwhile_stays() {
    let (store, table, oldest) = due("meanwhile-savepointed");
    let before = everything(&table);
    let (behind, at) = (store.clone(), oldest.clone());
    let outcome = archive_while(&store, "meanwhile-savepointed", move || {
        let name = format!("{}_{}.savepoint", at.requested, at.completed.as_deref().unwrap());
        let path = Path::from(format!("small/.hoodie/timeline/{name}"));
        block_on(behind.put(&path, "x".into())).unwrap();
    });
    assert_eq!((outcome.files, outcome.plan.instants.len()), (0, 0));
    let mut after = everything(&table);
    after.retain(|(_, action), _| *action != Action::Savepoint);
    assert_eq!(after, before);
    assert!(table.timeline().unwrap().instants().contains(&oldest));
}

#[test]
fn what_is_written_meanwhile_does_not_matter() {
    let (store, table, oldest) = due("meanwhile-written");
    let (other, before) = (table.clone(), everything(&table));
    let outcome = archive_while(&store, "meanwhile-written", move || {
        write(&other, Operation::Upsert, &ROWS).unwrap();
    });
    assert!(outcome.files == 1 && outcome.plan.instants.contains(&oldest), "{outcome:?}");
    assert!(!table.timeline().unwrap().instants().contains(&oldest));
    let after = everything(&table);
    assert!(after.len() > before.len() && before.iter().all(|(key, body)| after.get(key) == Some(body)));
    assert!(verify(&table).unwrap().is_clean());
}

fn random_history(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let clock = Ticking::shared();
    let min = random.random_range(1..5usize);
    let max = min + random.random_range(1..4usize);
    let batch = random.random_range(2..5usize);
    let settings = settings(&min.to_string(), &max.to_string(), &batch.to_string());
    let store = Arc::new(InMemory::new());
    let name = format!("random-{seed}");
    create_with(storage(store.clone(), &name), clock.clone(), &settings).unwrap();
    let mut expected = Bodies::new();
    for step in 0..random.random_range(10..40) {
        let context = format!("seed {seed}, step {step}");
        // Sometimes a process dies in the middle of a write or an archiving.
        let dies = random.random_bool(0.2);
        let call = if dies { random.random_range(0..60) } else { usize::MAX };
        let failing = Arc::new(FailingStore::new(store.clone(), call, FAILURES[random.random_range(0..4usize)]));
        let table = open_with(storage(failing, &name), clock.clone(), &settings);
        let done = table.and_then(|t| match random.random_range(0..10u32) {
            0 => write(&t, Operation::InsertOverwrite, &ROWS).map(drop),
            1 => delete_partition(&t, "p1").map(drop),
            2..=4 => archive(&t).map(drop),
            _ => write(&t, Operation::Upsert, &ROWS).map(drop),
        });
        assert!(done.is_ok() || dies, "{context}: {done:?}");
        let table = open_with(storage(store.clone(), &name), clock.clone(), &settings).unwrap();
        let found = everything(&table);
        for (key, body) in &expected {
            assert_eq!(found.get(key), Some(body), "{context}: {key:?} is lost");
        }
        expected = found;
        read(&table);
    }
    let table = open_with(storage(store, &name), clock, &settings).unwrap();
    write(&table, Operation::Upsert, &ROWS).unwrap();
    archive(&table).unwrap();
    let plan = planned(&table).unwrap();
    assert!(plan.instants.is_empty(), "seed {seed}: {plan:?}");
    let report = verify(&table).unwrap();
    assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
}

#[test]
fn random_histories_lose_no_instant() {
    for seed in 0..60 {
        random_history(seed);
    }
}

#[test]
#[ignore = "minutes: cargo test --release -- --ignored many_random_histories"]
fn many_random_histories_lose_no_instant() {
    for seed in 1_000..3_000 {
        random_history(seed);
    }
}
