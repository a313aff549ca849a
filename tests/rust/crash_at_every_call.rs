//! Whatever fails, and at whichever call of the storage: readers see the state before the write or the one after it,
//! and the next write succeeds and leaves nothing of the failed one behind.

use std::sync::Arc;

use hoodoo::services::verify::verify;
use hoodoo::storage::Storage;
use hoodoo::table::HudiTable;
use hoodoo::timeline::Clock;
use hoodoo::write::Operation;
use hoodoo::{ErrorKind, Result};
use object_store::memory::InMemory;

use crate::failing_store::{FAILURES, FailingStore, Failure};
use crate::small_table::{Row, Ticking, create, create_with, delete_partition, open, open_with, read, storage, write};

const FIRST: [Row; 4] = [("a", 1, "p0", "1"), ("b", 1, "p0", "1"), ("c", 1, "p1", "1"), ("d", 1, "p1", "1")];
const MORE: [Row; 2] = [("a", 2, "p0", "2"), ("c", 2, "p1", "2")];
const NEXT: [Row; 2] = [("next", 9, "p1", "9"), ("d", 9, "p1", "9")];

const COPY_ON_WRITE: &str = "COPY_ON_WRITE";
const MERGE_ON_READ: &str = "MERGE_ON_READ";

/// A kind of table: its type, and whether it has a metadata table, which is compacted often.
#[derive(Clone, Copy)]
struct Kind {
    table_type: &'static str,
    metadata: bool,
}

const PLAIN: [Kind; 2] =
    [Kind { table_type: COPY_ON_WRITE, metadata: false }, Kind { table_type: MERGE_ON_READ, metadata: false }];
const INDEXED: [Kind; 2] =
    [Kind { table_type: COPY_ON_WRITE, metadata: true }, Kind { table_type: MERGE_ON_READ, metadata: true }];

impl Kind {
    fn options(self) -> Vec<(String, String)> {
        let compacted = ("hoodie.metadata.compact.max.delta.commits", "2");
        let options = [("hoodie.metadata.enable", if self.metadata { "true" } else { "false" }), compacted];
        options.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
    }

    fn open(self, storage: Storage, clock: &Arc<Ticking>) -> Result<HudiTable> {
        open_with(storage, clock.clone(), &self.options())
    }
}

/// A table with three commits, in a store of its own.
fn table_of_three_commits(clock: &Arc<Ticking>, table_type: &'static str) -> InMemory {
    table_of(clock, Kind { table_type, metadata: false })
}

fn table_of(clock: &Arc<Ticking>, kind: Kind) -> InMemory {
    let shared = Arc::new(InMemory::new());
    let mut more = kind.options();
    more.push(("hoodie.table.type".to_owned(), kind.table_type.to_owned()));
    let table = create_with(storage(shared.clone(), "base"), clock.clone(), &more).unwrap();
    write(&table, Operation::BulkInsert, &FIRST).unwrap();
    write(&table, Operation::Upsert, &MORE).unwrap();
    write(&table, Operation::Upsert, &MORE).unwrap();
    shared.fork()
}

fn after_a_crash(name: &str, act: impl Fn(&HudiTable) -> Result<()>) {
    for kind in PLAIN {
        after_a_crash_in(kind, &format!("{name} {}", kind.table_type), &act);
    }
}

/// The same with a metadata table, to which each action commits first.
fn after_a_crash_with_metadata(name: &str, act: impl Fn(&HudiTable) -> Result<()>) {
    for kind in INDEXED {
        after_a_crash_in(kind, &format!("{name} {} with metadata", kind.table_type), &act);
    }
}

fn after_a_crash_in(kind: Kind, name: &str, act: &impl Fn(&HudiTable) -> Result<()>) {
    let clock = Ticking::shared();
    let base = table_of(&clock, kind);
    let before = read(&kind.open(storage(Arc::new(base.fork()), "before"), &clock).unwrap());
    let whole = Arc::new(base.fork());
    let counting = FailingStore::new(whole.clone(), usize::MAX, Failure::Error);
    act(&kind.open(storage(Arc::new(counting.clone()), "whole"), &clock).unwrap()).unwrap();
    let after = read(&kind.open(storage(whole, "whole"), &clock).unwrap());
    assert_ne!(before, after);
    let calls = counting.calls();
    assert!(calls > 20, "{name} made {calls} calls only");
    let mut seen = [0, 0];
    for failure in FAILURES {
        let mut hidden = 0;
        for call in failure.at(0..calls) {
            let context = format!("{name}, {failure:?} at call {call} of {calls}");
            let store = Arc::new(base.fork());
            let failing = FailingStore::new(store.clone(), call, failure);
            let uri = format!("{name}-{failure:?}-{call}");
            let outcome = kind.open(storage(Arc::new(failing), &uri), &clock).and_then(|table| act(&table));
            let table = kind.open(storage(store.clone(), &uri), &clock).unwrap();
            let rows = read(&table);
            assert!(rows == before || rows == after, "{context}: {rows:?}");
            assert!(outcome.is_err() || rows == after, "{context}: was reported done");
            hidden += usize::from(outcome.is_err() && rows == after);
            seen[usize::from(rows == after)] += 1;
            the_next_write_cleans_up(&table, rows, &context);
        }
        // Only of the call that publishes it can nobody tell.
        assert!(hidden <= 1, "{name}, {failure:?}: {hidden} commits stand and were reported as failed");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{name}: {seen:?}");
}

fn the_next_write_cleans_up(table: &HudiTable, mut rows: Vec<(String, String)>, context: &str) {
    if let Err(e) = write(table, Operation::Upsert, &NEXT) {
        panic!("{context}: the next write failed: {e}");
    }
    rows.retain(|(id, _)| !NEXT.iter().any(|n| n.0 == id));
    rows.extend(NEXT.iter().map(|n| (n.0.to_owned(), n.3.to_owned())));
    rows.sort();
    assert_eq!(read(table), rows, "{context}");
    let report = verify(table).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.problems);
    let pending: Vec<_> = table.timeline().unwrap().pending().cloned().collect();
    assert!(pending.is_empty(), "{context}: {pending:?}");
    assert!(!table.storage().has_files(".hoodie/.temp").unwrap(), "{context}: markers are left");
}

#[test]
fn insert() {
    after_a_crash("insert", |t| write(t, Operation::Insert, &[("e", 1, "p0", "3"), ("f", 1, "new", "3")]).map(drop));
}

#[test]
fn bulk_insert() {
    after_a_crash("bulk_insert", |t| write(t, Operation::BulkInsert, &[("e", 1, "p0", "3")]).map(drop));
}

#[test]
fn upsert() {
    after_a_crash("upsert", |t| write(t, Operation::Upsert, &[("a", 5, "p0", "3"), ("e", 1, "new", "3")]).map(drop));
}

#[test]
fn delete() {
    after_a_crash("delete", |t| write(t, Operation::Delete, &[("a", 0, "p0", ""), ("c", 0, "p1", "")]).map(drop));
}

#[test]
fn writes_with_a_metadata_table() {
    after_a_crash_with_metadata("upsert", |t| {
        write(t, Operation::Upsert, &[("a", 5, "p0", "3"), ("e", 1, "new", "3")]).map(drop)
    });
}

#[test]
fn replacing_with_a_metadata_table() {
    after_a_crash_with_metadata("insert_overwrite", |t| {
        write(t, Operation::InsertOverwrite, &[("e", 1, "p0", "3")]).map(drop)
    });
}

#[test]
fn insert_overwrite() {
    after_a_crash("insert_overwrite", |t| write(t, Operation::InsertOverwrite, &[("e", 1, "p0", "3")]).map(drop));
}

#[test]
fn insert_overwrite_table() {
    after_a_crash("insert_overwrite_table", |t| {
        write(t, Operation::InsertOverwriteTable, &[("e", 1, "p0", "3")]).map(drop)
    });
}

#[test]
fn delete_of_a_partition() {
    after_a_crash("delete_partition", |t| delete_partition(t, "p0").map(drop));
}

/// The crash of a writer that was cleaning up after a crash.
#[test]
fn rollback() {
    rollback_in(COPY_ON_WRITE);
    rollback_in(MERGE_ON_READ);
}

fn rollback_in(table_type: &'static str) {
    let clock = Ticking::shared();
    let base = table_of_three_commits(&clock, table_type);
    let upsert = |storage: Storage, clock: Arc<dyn Clock>| {
        write(&open(storage, clock)?, Operation::Upsert, &[("a", 5, "p0", "3"), ("e", 1, "new", "3")])
    };
    // Dies just before its commit: the most is left.
    let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, Failure::Error);
    upsert(storage(Arc::new(counting.clone()), "rollback"), clock.clone()).unwrap();
    let dirty = (0..counting.calls())
        .rev()
        .map(|call| {
            let store = Arc::new(base.fork());
            let failing = FailingStore::new(store.clone(), call, Failure::Death);
            // A crash behind the commit is none of the commit.
            drop(upsert(storage(Arc::new(failing), &format!("dirty-{call}")), clock.clone()));
            store
        })
        .find(|store| {
            let table = open(storage(store.clone(), "dirty"), clock.clone()).unwrap();
            table.timeline().unwrap().pending().next().is_some_and(|i| i.action.is_write())
        })
        .expect("some death leaves a write behind");
    let before = read(&open(storage(Arc::new(dirty.fork()), "dirty"), clock.clone()).unwrap());
    let counting = FailingStore::new(Arc::new(dirty.fork()), usize::MAX, Failure::Error);
    upsert(storage(Arc::new(counting.clone()), "again"), clock.clone()).unwrap();
    for failure in FAILURES {
        for call in failure.at(0..counting.calls()) {
            let store = Arc::new(dirty.fork());
            let failing = FailingStore::new(store.clone(), call, failure);
            let uri = format!("rollback-{table_type}-{failure:?}-{call}");
            let outcome = upsert(storage(Arc::new(failing), &uri), clock.clone());
            let table = open(storage(store, &uri), clock.clone()).unwrap();
            let rows = read(&table);
            assert!(rows == before || rows.contains(&("e".into(), "3".into())), "{failure:?} at call {call}: {rows:?}");
            assert!(outcome.is_err() || rows != before, "{failure:?} at call {call}: was reported done");
            the_next_write_cleans_up(&table, rows, &format!("rollback, {failure:?} at call {call}"));
        }
    }
}

#[test]
fn creation() {
    let clock = Ticking::shared();
    let counting = FailingStore::new(Arc::new(InMemory::new()), usize::MAX, Failure::Error);
    create(storage(Arc::new(counting.clone()), "created"), clock.clone()).unwrap();
    for failure in FAILURES {
        for call in failure.at(0..counting.calls()) {
            let store = Arc::new(InMemory::new());
            let failing = FailingStore::new(store.clone(), call, failure);
            let uri = format!("create-{failure:?}-{call}");
            let outcome = create(storage(Arc::new(failing), &uri), clock.clone());
            let table = match open(storage(store.clone(), &uri), clock.clone()) {
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::TableNotFound, "{failure:?} at call {call}");
                    assert!(outcome.is_err(), "{failure:?} at call {call}: was reported done");
                    create(storage(store, &uri), clock.clone()).unwrap()
                }
                Ok(table) => table,
            };
            the_next_write_cleans_up(&table, Vec::new(), &format!("create, {failure:?} at call {call}"));
        }
    }
}

/// A compaction changes no rows: whenever it dies, and whatever it leaves is finished by the next write.
#[test]
fn compaction() {
    let clock = Ticking::shared();
    let base = table_of_three_commits(&clock, MERGE_ON_READ);
    let compact = |storage: Storage| hoodoo::client::compact(&open(storage, clock.clone())?, None);
    compaction_of(&clock, &base, "compaction", 2, &compact);
}

/// The same of log files with each other, deletes among their records.
#[test]
fn log_compaction() {
    let clock = Ticking::shared();
    let shared = Arc::new(table_of_three_commits(&clock, MERGE_ON_READ));
    let off = [("hoodie.compact.inline".to_owned(), "false".to_owned())];
    let table = open_with(storage(shared.clone(), "logs"), clock.clone(), &off).unwrap();
    for ts in [20, 21] {
        write(&table, Operation::Upsert, &[("a", ts, "p0", "again"), ("c", ts, "p1", "again")]).unwrap();
    }
    write(&table, Operation::Delete, &[("c", 0, "p1", "")]).unwrap();
    let base = shared.fork();
    let more = [("hoodie.log.compaction.blocks.threshold".to_owned(), "2".to_owned())];
    let compact = |storage: Storage| hoodoo::client::log_compact(&open_with(storage, clock.clone(), &more)?);
    compaction_of(&clock, &base, "log compaction", 1, &compact);
}

fn compaction_of(
    clock: &Arc<Ticking>,
    base: &InMemory,
    name: &str,
    files: usize,
    compact: &dyn Fn(Storage) -> Result<Option<hoodoo::write::CommitOutcome>>,
) {
    let rows = read(&open(storage(Arc::new(base.fork()), "before"), clock.clone()).unwrap());
    let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, Failure::Error);
    let done = compact(storage(Arc::new(counting.clone()), "whole")).unwrap().unwrap();
    assert!(done.stats.len() >= files, "{name}: {:?}", done.stats);
    let (calls, mut left_behind) = (counting.calls(), 0);
    for failure in FAILURES {
        for call in failure.at(0..calls) {
            let context = format!("{name}, {failure:?} at call {call} of {calls}");
            let store = Arc::new(base.fork());
            let failing = FailingStore::new(store.clone(), call, failure);
            let uri = format!("{}-{failure:?}-{call}", name.replace(' ', "-"));
            let outcome = compact(storage(Arc::new(failing), &uri));
            let table = open(storage(store.clone(), &uri), clock.clone()).unwrap();
            assert_eq!(read(&table), rows, "{context}");
            let waits = table.timeline().unwrap().pending().count();
            assert!(outcome.is_err() || waits == 0, "{context}: was reported done");
            left_behind += usize::from(waits > 0);
            the_next_write_cleans_up(&table, rows.clone(), &context);
        }
    }
    assert!(left_behind > 0);
}
