#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow::datatypes::{DataType, Field};

use super::*;
use crate::format::instant::Action;
use crate::timeline::Heartbeat;

fn columns() -> Schema {
    Schema::new(vec![Field::new("id", DataType::Utf8, true), Field::new("n", DataType::Int64, true)])
}

/// A table in memory, with these options besides its columns.
fn table(table_type: &str, options: &[(&str, &str)]) -> HudiTable {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let uri = format!("memory://client-{}/t", COUNT.fetch_add(1, Ordering::Relaxed));
    let own = [("hoodie.table.name", "t"), ("hoodie.table.recordkey.fields", "id"), ("hoodie.table.type", table_type)];
    let options = own.iter().chain(options).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    create_table(&uri, &columns(), options, &StorageOptions::new()).unwrap()
}

fn upsert(table: &HudiTable, ids: &[&str]) -> CommitOutcome {
    let schema = Arc::new(columns());
    let numbers = Int64Array::from_iter_values(0..ids.len() as i64);
    let batch =
        RecordBatch::try_new(schema.clone(), vec![Arc::new(StringArray::from(ids.to_vec())), Arc::new(numbers)])
            .unwrap();
    let data: Data = Box::new(RecordBatchIterator::new([Ok(batch)], schema));
    let request =
        WriteRequest { operation: Operation::Upsert, data: Some(data), partitions: Vec::new(), partial: false };
    write(table, request).unwrap()
}

fn completed(table: &HudiTable, action: Action) -> usize {
    table.timeline().unwrap().instants().iter().filter(|i| i.is_completed() && i.action == action).count()
}

#[test]
fn options_name_an_operation_or_none() {
    let operation = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        stated_operation(&Options::new(pairs.collect()).unwrap())
    };
    assert_eq!(operation(&[]).unwrap(), None);
    assert_eq!(operation(&[("hoodie.datasource.write.operation", "insert")]).unwrap(), Some(Operation::Insert));
    assert!(operation(&[("hoodie.datasource.write.operation", "swap")]).is_err());
}

#[test]
fn a_plan_is_made_again_only_when_files_are_gone() {
    let table = table("COPY_ON_WRITE", &[]);
    let attempts = Cell::new(0);
    let fail = |error: fn(&'static str) -> Error, times: u32| {
        attempts.set(0);
        from_timeline(&table, table.timeline().unwrap(), |_| {
            attempts.set(attempts.get() + 1);
            if attempts.get() > times { Ok(attempts.get()) } else { Err(error("x")) }
        })
    };
    assert_eq!(fail(Error::not_found, 2).unwrap(), 3);
    assert_eq!(fail(Error::not_found, LOOKS).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(attempts.get(), LOOKS);
    assert_eq!(fail(Error::conflict, 1).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(attempts.get(), 1);
}

#[test]
fn the_newest_of_several_services_has_the_warnings_of_all() {
    let table = table("COPY_ON_WRITE", &[]);
    let combine = |before: Option<Vec<String>>, outcome| newest(&table, "the next one", before, outcome, |done| done);
    let done = |name: &str| vec![name.to_owned()];
    assert_eq!(combine(None, Ok(None)).unwrap(), None);
    assert_eq!(combine(Some(done("a")), Ok(None)).unwrap().unwrap(), ["a"]);
    assert_eq!(combine(Some(done("a")), Ok(Some(done("b")))).unwrap().unwrap(), ["a", "b"]);
    assert!(combine(None, Err(Error::storage("x"))).is_err());
    let warned = combine(Some(done("a")), Err(Error::storage("x"))).unwrap().unwrap();
    assert!(warned.len() == 2 && warned.iter().any(|w| w.contains("the next one after it failed")), "{warned:?}");
    // Another process does it.
    assert_eq!(combine(Some(done("a")), Err(Error::conflict("x"))).unwrap().unwrap(), ["a"]);
}

#[test]
fn inline_services_run_when_the_options_ask_for_them() {
    let off = table("MERGE_ON_READ", &[("hoodie.compact.inline", "false")]);
    let on = table("MERGE_ON_READ", &[("hoodie.compact.inline.max.delta.commits", "2")]);
    for table in [&off, &on] {
        for _ in 0..3 {
            assert_eq!(upsert(table, &["a"]).warnings, Vec::<String>::new());
        }
    }
    assert_eq!((completed(&off, Action::DeltaCommit), completed(&off, Action::Commit)), (3, 0));
    assert_eq!((completed(&on, Action::DeltaCommit), completed(&on, Action::Commit)), (3, 1));
    let none = table(
        "MERGE_ON_READ",
        &[("hoodie.compact.inline.max.delta.commits", "1"), ("hoodie.table.services.enabled", "false")],
    );
    upsert(&none, &["a"]);
    upsert(&none, &["a"]);
    assert_eq!(completed(&none, Action::Commit), 0);
}

#[test]
fn a_pending_plan_is_executed_before_a_new_one_is_made() {
    let table = table("MERGE_ON_READ", &[("hoodie.compact.inline", "false")]);
    upsert(&table, &["a"]);
    upsert(&table, &["a"]);
    let planned = schedule_compaction(&table).unwrap().unwrap();
    assert_eq!(compact(&table, None).unwrap().unwrap().instant, planned);
    // Nothing was appended since.
    assert!(compact(&table, None).unwrap().is_none());
}

#[test]
fn a_plan_that_another_process_executes_is_left_to_it() {
    let options = [("hoodie.clustering.inline", "true"), ("hoodie.clustering.inline.max.commits", "100")];
    let table = table("COPY_ON_WRITE", &options);
    upsert(&table, &["a", "b"]);
    let (_, is_new) = planned_clusterings(&table, table.timeline().unwrap(), None, false).unwrap().remove(0);
    assert!(is_new);
    let [(planned, false)] = &planned_clusterings(&table, table.timeline().unwrap(), None, false).unwrap()[..] else {
        unreachable!("the plan that is pending")
    };
    let heartbeat = Heartbeat::start(table.storage(), table.clock(), planned).unwrap();
    let mut warnings = Vec::new();
    assert!(cluster_inline(&table, &mut warnings).unwrap());
    assert_eq!((completed(&table, Action::ReplaceCommit), warnings.len()), (0, 0));
    drop(heartbeat);
    assert!(cluster_inline(&table, &mut warnings).unwrap());
    assert_eq!((completed(&table, Action::ReplaceCommit), warnings.len()), (1, 0));
}
