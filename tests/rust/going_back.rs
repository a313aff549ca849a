//! A write is rolled back, and a table restored, and whatever fails, at whichever call of the storage: readers see the table
//! as it was at a commit, and never a mixture; the next write or the next restore leaves nothing of it behind.

use std::sync::Arc;
use std::time::Duration;

use hoodoo::client;
use hoodoo::format::instant::Action;
use hoodoo::services::savepoint::savepoints;
use hoodoo::services::verify::verify;
use hoodoo::table::HudiTable;
use hoodoo::timeline::Clock;
use hoodoo::write::Operation;
use object_store::memory::InMemory;

use crate::failing_store::{FAILURES, FailingStore};
use crate::small_table::{Row, Ticking, create_with, open_with, read, storage, write};

const FIRST: [Row; 4] = [("a", 1, "p0", "1"), ("b", 1, "p0", "2"), ("c", 1, "p1", "1"), ("d", 1, "p1", "2")];
const LATER: [(Operation, &[Row]); 3] = [
    (Operation::Upsert, &[("a", 2, "p0", "3"), ("e", 2, "p1", "3")]),
    (Operation::InsertOverwrite, &[("f", 3, "p1", "4")]),
    (Operation::Upsert, &[("b", 4, "p0", "5"), ("g", 4, "p2", "5")]),
];
const NEXT: [Row; 1] = [("next", 9, "p1", "9")];

/// `compacts`: the metadata table is compacted after each commit, so that nothing can be taken out of it again.
fn options(table_type: &str, compacts: bool) -> Vec<(String, String)> {
    let given = [
        ("hoodie.table.type", table_type),
        ("hoodie.metadata.enable", "true"),
        ("hoodie.metadata.compact.max.delta.commits", if compacts { "1" } else { "100" }),
        ("hoodie.clean.automatic", "false"),
    ];
    given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A table with a savepoint of its first commit and three commits after it: its store, the rows after each commit, and the
/// times of the first and of the last.
fn history(clock: &Arc<Ticking>, given: &[(String, String)]) -> (Arc<InMemory>, Vec<Vec<String>>, String, String) {
    let store = Arc::new(InMemory::new());
    let table = create_with(storage(store.clone(), "base"), clock.clone(), given).unwrap();
    write(&table, Operation::Insert, &FIRST).unwrap();
    let saved = client::create_savepoint(&table, None, "", "").unwrap().instant;
    let mut states = vec![rows(&table)];
    for (operation, given) in LATER {
        write(&table, operation, given).unwrap();
        states.push(rows(&table));
    }
    let newest = table.timeline().unwrap().completed_writes().next_back().unwrap().requested.clone();
    (store, states, saved, newest)
}

fn rows(table: &HudiTable) -> Vec<String> {
    let mut rows: Vec<String> = read(table).iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// No rollback is about to begin any more that was requested before.
fn wait(clock: &Ticking) {
    clock.sleep(Duration::from_secs(11));
}

fn is_whole(table: &HudiTable, context: &str) {
    // The next change of a property puts that in order.
    let problems = verify(table).unwrap().problems;
    let others: Vec<_> = problems.iter().filter(|p| p.subject != ".hoodie/hoodie.properties.backup").collect();
    assert!(others.is_empty(), "{context}: {others:?}");
    let pending: Vec<_> = table.timeline().unwrap().pending().cloned().collect();
    assert!(pending.is_empty(), "{context}: {pending:?}");
}

/// Runs `act` on copies of the table whose storage fails at one call, one after the other, and `judge` on what is left.
fn at_any_call(
    name: &str,
    act: impl Fn(&HudiTable, &str, &str) -> hoodoo::Result<()>,
    judge: impl Fn(&HudiTable, &[Vec<String>], &str, &str),
) {
    for (table_type, compacts) in [("COPY_ON_WRITE", false), ("MERGE_ON_READ", false), ("COPY_ON_WRITE", true)] {
        let (clock, given) = (Ticking::shared(), options(table_type, compacts));
        let open = |store, uri: &str| open_with(storage(store, uri), clock.clone(), &given);
        let (base, states, saved, newest) = history(&clock, &given);
        let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, FAILURES[0]);
        act(&open(Arc::new(counting.clone()), &format!("{name}-whole")).unwrap(), &saved, &newest).unwrap();
        let calls = counting.calls();
        assert!(calls > 20, "{calls} calls only");
        for failure in FAILURES {
            let mut seen = [0, 0];
            for call in failure.at(0..calls).step_by(if table_type == "COPY_ON_WRITE" { 1 } else { 3 }) {
                let context = format!("{name}, {table_type}, {compacts}, {failure:?} at call {call} of {calls}");
                let store = Arc::new(base.fork());
                let uri = format!("{name}-{table_type}-{compacts}-{failure:?}-{call}");
                let failing = Arc::new(FailingStore::new(store.clone(), call, failure));
                let done = open(failing, &uri).and_then(|table| act(&table, &saved, &newest));
                seen[usize::from(done.is_ok())] += 1;
                let table = open(store, &uri).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert!(states.contains(&rows(&table)), "{context}: a mixture: {:?}", rows(&table));
                wait(&clock);
                judge(&table, &states, &saved, &context);
            }
            assert!(seen[0] > 0, "{failure:?}: {seen:?}");
        }
    }
}

#[test]
fn a_restore_fails_at_any_call() {
    let restore = |table: &HudiTable, saved: &str, _: &str| client::restore(table, saved).map(drop);
    at_any_call("restore", restore, |table, states, saved, context| {
        client::restore(table, saved).unwrap_or_else(|e| panic!("{context}: the next restore failed: {e}"));
        assert_eq!(Some(&rows(table)), states.first(), "{context}");
        is_whole(table, context);
        write(table, Operation::Upsert, &NEXT).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(rows(table).len(), FIRST.len() + 1, "{context}");
        is_whole(table, &format!("{context}, and an upsert"));
    });
}

#[test]
fn a_rollback_fails_at_any_call() {
    let rollback = |table: &HudiTable, _: &str, newest: &str| client::rollback(table, newest).map(drop);
    at_any_call("rollback", rollback, |table, states, _, context| {
        let now = rows(table);
        assert!(states.iter().rev().take(2).any(|state| *state == now), "{context}: {now:?}");
        write(table, Operation::Upsert, &NEXT).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(rows(table).len(), now.len() + 1, "{context}");
        is_whole(table, &format!("{context}, and an upsert"));
    });
}

/// It stands, or nothing of it is left.
#[test]
fn the_deletion_of_a_savepoint_fails_at_any_call() {
    let (clock, given) = (Ticking::shared(), options("COPY_ON_WRITE", false));
    let open = |store, uri: &str| open_with(storage(store, uri), clock.clone(), &given);
    let (base, states, saved, _) = history(&clock, &given);
    let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, FAILURES[0]);
    client::delete_savepoint(&open(Arc::new(counting.clone()), "savepoint-whole").unwrap(), &saved).unwrap();
    let mut seen = [0, 0];
    for (failure, call) in FAILURES.iter().flat_map(|f| (0..counting.calls()).map(move |call| (*f, call))) {
        let context = format!("{failure:?} at call {call} of {}", counting.calls());
        let (store, uri) = (Arc::new(base.fork()), format!("savepoint-{failure:?}-{call}"));
        let failing = Arc::new(FailingStore::new(store.clone(), call, failure));
        let _ = open(failing, &uri).and_then(|table| client::delete_savepoint(&table, &saved));
        let table = open(store, &uri).unwrap();
        let files = || {
            let timeline = table.timeline().unwrap();
            timeline.files_of(&saved).iter().filter(|(i, _)| i.action == Action::Savepoint).count()
        };
        let stands = !savepoints(&table).unwrap().is_empty();
        seen[usize::from(stands)] += 1;
        if stands {
            client::delete_savepoint(&table, &saved).unwrap_or_else(|e| panic!("{context}: {e}"));
        }
        assert_eq!(files(), 0, "{context}");
        assert_eq!(Some(&rows(&table)), states.last(), "{context}");
        is_whole(&table, &context);
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
