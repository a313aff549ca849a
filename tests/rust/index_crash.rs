//! An index is built, and whatever fails, at whichever call of the storage: nobody reads an index that is not whole, and the
//! next one that is built leaves nothing of it behind.

use std::sync::Arc;

use hoodoo::client;
use hoodoo::services::verify::{Problem, verify};
use hoodoo::table::HudiTable;
use hoodoo::write::Operation;
use object_store::memory::InMemory;

use crate::failing_store::{FAILURES, FailingStore};
use crate::small_table::{Row, Ticking, create_with, open_with, read, storage, write};

const FIRST: [Row; 4] = [("a", 1, "p0", "1"), ("b", 1, "p0", "2"), ("c", 1, "p1", "1"), ("d", 1, "p1", "2")];
const NEXT: [Row; 2] = [("next", 9, "p1", "9"), ("d", 9, "p1", "9")];

fn options(table_type: &str) -> Vec<(String, String)> {
    let given = [
        ("hoodie.table.type", table_type),
        ("hoodie.metadata.enable", "true"),
        ("hoodie.metadata.global.record.level.index.min.filegroup.count", "2"),
        ("hoodie.metadata.global.record.level.index.max.filegroup.count", "2"),
    ];
    given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn index(table: &HudiTable) -> hoodoo::Result<()> {
    client::index(table, "secondary_index", Some(vec!["val".to_owned()]), None).map(drop)
}

fn is_whole(table: &HudiTable, context: &str) {
    let report = verify(table).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.problems);
}

#[test]
fn an_index_fails_at_any_call() {
    for table_type in ["COPY_ON_WRITE", "MERGE_ON_READ"] {
        let clock = Ticking::shared();
        let open = |store, uri: &str| open_with(storage(store, uri), clock.clone(), &options(table_type));
        let shared = Arc::new(InMemory::new());
        let table = create_with(storage(shared.clone(), "base"), clock.clone(), &options(table_type)).unwrap();
        write(&table, Operation::Insert, &FIRST).unwrap();
        write(&table, Operation::Upsert, &[("a", 2, "p0", "3")]).unwrap();
        let (base, rows) = (shared.fork(), read(&table));
        let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, FAILURES[0]);
        index(&open(Arc::new(counting.clone()), "whole").unwrap()).unwrap();
        let calls = counting.calls();
        assert!(calls > 50, "{calls} calls only");
        for failure in FAILURES {
            let mut seen = [0, 0];
            // The calls are the same for both, but for the files that are read.
            for call in failure.at(0..calls).step_by(if table_type == "COPY_ON_WRITE" { 1 } else { 5 }) {
                let context = format!("{table_type}, {failure:?} at call {call} of {calls}");
                let store = Arc::new(base.fork());
                let uri = format!("index-{table_type}-{failure:?}-{call}");
                let failing = Arc::new(FailingStore::new(store.clone(), call, failure));
                let built = open(failing, &uri).and_then(|table| index(&table));
                seen[usize::from(built.is_ok())] += 1;
                let table = open(store.clone(), &uri).unwrap();
                assert_eq!(read(&table), rows, "{context}");
                let problems = verify(&table).unwrap().problems;
                // The next change of a property, and the next write, put that in order.
                let is_known = |p: &&Problem| {
                    p.subject == ".hoodie/hoodie.properties.backup" || p.message.starts_with("an index is pending")
                };
                let others: Vec<_> = problems.iter().filter(|p| !is_known(p)).collect();
                assert!(others.is_empty(), "{context}: {others:?}");
                write(&table, Operation::Upsert, &NEXT).unwrap_or_else(|e| panic!("{context}: {e}"));
                is_whole(&table, &format!("{context}, and an upsert"));
                index(&table).unwrap_or_else(|e| panic!("{context}: the next index failed: {e}"));
                is_whole(&table, &format!("{context}, and an index"));
                let pending: Vec<_> = table.timeline().unwrap().pending().cloned().collect();
                assert!(pending.is_empty(), "{context}: {pending:?}");
                assert!(!table.storage().has_files(".hoodie/.temp").unwrap(), "{context}: shards are left");
            }
            assert!(seen[0] > 0, "{failure:?}: {seen:?}");
        }
    }
}
