//! A table of version 6 that Hudi wrote is upgraded, and whatever fails, at whichever call of the storage: readers see the same
//! rows, and the next upgrade ends it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;

use hoodoo::client;
use hoodoo::services::verify::verify;
use hoodoo::table::scan::ScanRequest;
use hoodoo::table::{HudiTable, Options};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::failing_store::{FAILURES, FailingStore};
use crate::small_table::{Ticking, storage};

const FIXTURE: &str = "tests/fixtures/upgrade/latest";

/// The files of the fixture in a store.
fn fixture() -> InMemory {
    let store = InMemory::new();
    let mut folders = vec![Path::new(FIXTURE).to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = format!("small/{}", path.strip_prefix(FIXTURE).unwrap().to_str().unwrap());
            let content = std::fs::read(&path).unwrap();
            futures::executor::block_on(store.put(&key.into(), content.into())).unwrap();
        }
    }
    store
}

fn open_at(store: Arc<dyn ObjectStore>, uri: &str, clock: Arc<Ticking>) -> hoodoo::Result<HudiTable> {
    HudiTable::open_in(storage(store, uri), Options::new(BTreeMap::new()).unwrap(), clock)
}

fn rows_of(table: &HudiTable) -> Vec<(String, i64, String)> {
    let mut rows = Vec::new();
    for batch in table.scan(&ScanRequest::default()).unwrap() {
        let batch = batch.unwrap();
        let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().clone();
        let (ids, names) = (text("id"), text("name"));
        let ts = batch.column_by_name("ts").unwrap().as_primitive::<Int64Type>().clone();
        rows.extend((0..ids.len()).map(|i| (ids.value(i).to_owned(), ts.value(i), names.value(i).to_owned())));
    }
    rows.sort();
    rows
}

/// In a process of its own, with the time of today: Hudi wrote the table, and the other tests have a clock that is behind.
#[test]
fn an_upgrade_fails_at_any_call() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", "upgrading::at_any_call", "--ignored", "--nocapture"]).output().unwrap();
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[test]
#[ignore = "run by an_upgrade_fails_at_any_call"]
fn at_any_call() {
    let clock = Ticking::from_now();
    let open = |store: Arc<dyn ObjectStore>, uri: &str| open_at(store, uri, clock.clone());
    let base = fixture();
    let expected = rows_of(&open(Arc::new(base.fork()), "upgrade-before").unwrap());
    assert!(expected.len() > 10);
    let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, FAILURES[0]);
    client::upgrade(&open(Arc::new(counting.clone()), "upgrade-whole").unwrap(), 9).unwrap();
    let calls = counting.calls();
    assert!(calls > 100, "{calls} calls only");
    for failure in FAILURES {
        let mut versions = [0; 10];
        for call in failure.at(0..calls) {
            let context = format!("{failure:?} at call {call} of {calls}");
            let store = Arc::new(base.fork());
            let uri = format!("upgrade-{failure:?}-{call}");
            let failing = Arc::new(FailingStore::new(store.clone(), call, failure));
            let _ = open(failing, &uri).and_then(|table| client::upgrade(&table, 9));
            let table = open(store.clone(), &uri).unwrap_or_else(|e| panic!("{context}: {e}"));
            versions[table.config().version() as usize] += 1;
            assert_eq!(rows_of(&table), expected, "{context}");
            let done = client::upgrade(&table, 9).unwrap_or_else(|e| panic!("{context}: the next upgrade failed: {e}"));
            assert_eq!(done.to, 9);
            let table = open(store, &uri).unwrap();
            assert_eq!((table.config().version(), rows_of(&table)), (9, expected.clone()), "{context}");
            let mut problems = verify(&table).unwrap().problems;
            // The next change of a property puts that in order.
            problems.retain(|problem| problem.subject != ".hoodie/hoodie.properties.backup");
            assert!(problems.is_empty(), "{context}: {problems:?}");
            let pending: Vec<_> = table.timeline().unwrap().pending().cloned().collect();
            assert!(pending.is_empty(), "{context}: {pending:?}");
        }
        assert!(versions[6] > 0 && versions[8] > 0, "{failure:?}: {versions:?}");
    }
}
