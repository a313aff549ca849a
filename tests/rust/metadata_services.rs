//! The metadata table is kept small by its own services, and whichever call of the storage fails in them, readers see the
//! same and the next write goes on.

use std::collections::BTreeSet;
use std::sync::Arc;

use hoodoo::services::verify::verify;
use hoodoo::storage::Storage;
use hoodoo::table::HudiTable;
use hoodoo::write::Operation;
use object_store::memory::InMemory;

use crate::failing_store::{FAILURES, FailingStore, Failure};
use crate::small_table::{Row, Ticking, create_with, open_with, read, storage, write};

const TIMELINE: &str = ".hoodie/metadata/.hoodie/timeline";

fn options(table_type: &str) -> Vec<(String, String)> {
    options_of(table_type, COMPACTIONS)
}

/// The metadata table is compacted often.
const COMPACTIONS: [(&str, &str); 2] =
    [("hoodie.metadata.compact.max.delta.commits", "4"), ("hoodie.metadata.log.compaction.enable", "false")];
/// It is compacted seldom, and its log files are merged in between.
const LOG_COMPACTIONS: [(&str, &str); 3] = [
    ("hoodie.metadata.compact.max.delta.commits", "14"),
    ("hoodie.metadata.log.compaction.enable", "true"),
    ("hoodie.metadata.log.compaction.blocks.threshold", "3"),
];

fn options_of<'a>(
    table_type: &'a str,
    services: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(String, String)> {
    let given = [
        ("hoodie.metadata.enable", "true"),
        ("hoodie.table.type", table_type),
        ("hoodie.keep.min.commits", "3"),
        ("hoodie.keep.max.commits", "5"),
    ];
    let given = given.into_iter().chain(services);
    given.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn open(storage: Storage, table_type: &str) -> HudiTable {
    open_with(storage, Ticking::shared(), &options(table_type)).unwrap()
}

/// The row of a round: a few keys, in two partitions, again and again.
fn row(round: i64) -> Row {
    let (id, part) = [("a", "p0"), ("b", "p1"), ("c", "p0")][usize::try_from(round % 3).unwrap()];
    let values = ["zero", "one", "two", "three", "four"];
    (id, round, part, values[usize::try_from(round % 5).unwrap()])
}

fn instants(table: &HudiTable) -> Vec<String> {
    let files = table.storage().list(TIMELINE).unwrap().files;
    files.iter().map(|file| file.name().to_owned()).collect()
}

fn rows_by_listing(table: &HudiTable) -> Vec<(String, String)> {
    let mut more = options("");
    more.retain(|(key, _)| !matches!(key.as_str(), "hoodie.metadata.enable" | "hoodie.table.type"));
    read(&open_with(table.storage().clone(), Ticking::shared(), &more).unwrap())
}

fn check(table: &HudiTable, context: &str) {
    assert_eq!(read(table), rows_by_listing(table), "{context}");
    let report = verify(table).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.problems);
}

/// A table of so many commits in a store of its own.
fn table_of(rounds: i64, table_type: &str, name: &str) -> (Arc<InMemory>, HudiTable) {
    let shared = Arc::new(InMemory::new());
    let storage = storage(shared.clone(), name);
    create_with(storage.clone(), Ticking::shared(), &options(table_type)).unwrap();
    let table = open(storage, table_type);
    for round in 0..rounds {
        let done = write(&table, Operation::Upsert, &[row(round)]).unwrap();
        assert!(done.warnings.is_empty(), "{:?}", done.warnings);
    }
    (shared, table)
}

#[test]
fn files_and_instants_stay_few() {
    for table_type in ["COPY_ON_WRITE", "MERGE_ON_READ"] {
        let (_, table) = table_of(0, table_type, &format!("few {table_type}"));
        let (mut seen, mut most) = (BTreeSet::new(), (0, 0));
        for round in 0..70 {
            let done = write(&table, Operation::Upsert, &[row(round)]).unwrap();
            assert!(done.warnings.is_empty(), "{:?}", done.warnings);
            let names = instants(&table);
            seen.extend(names.iter().map(|name| name.rsplit('.').next().unwrap().to_owned()));
            let files = table.storage().list(".hoodie/metadata/files").unwrap().files.len();
            if round > 40 {
                most = (most.0.max(names.len()), most.1.max(files));
            }
            if round % 9 == 0 {
                check(&table, &format!("{table_type}, round {round}"));
            }
        }
        check(&table, table_type);
        assert!(seen.contains("commit") && seen.contains("clean"), "{seen:?}");
        assert!(table.storage().has_files(&format!("{TIMELINE}/history")).unwrap());
        // Three files an action; twenty retained commits, and what comes until the next compaction.
        assert!(most.0 < 3 * 60 && most.1 < 45, "{table_type}: {most:?}");
        let metadata = table.reload().unwrap().metadata_table().unwrap().unwrap();
        let files = metadata.summary("files").unwrap();
        assert!(files.base_size > 0 && files.logs <= 8, "{files:?}");
    }
}

#[test]
fn a_service_that_dies_is_taken_up_by_the_next_write() {
    // The write whose services compact, and the first one whose services clean as well.
    fail_services("MERGE_ON_READ", ".commit", &COMPACTIONS);
    fail_services("COPY_ON_WRITE", ".clean", &COMPACTIONS);
}

#[test]
fn a_log_compaction_that_failed_is_taken_up_by_the_next_write() {
    fail_services("MERGE_ON_READ", ".logcompaction.requested", &LOG_COMPACTIONS);
}

/// Fails the storage at each call of the services of the first write that leaves such a file on the timeline.
fn fail_services(table_type: &str, wanted: &str, services: &[(&str, &str)]) {
    let options = |table_type| options_of(table_type, services.iter().copied());
    let open = |storage, table_type| open_with(storage, Ticking::shared(), &options(table_type)).unwrap();
    let (shared, made) = table_of(0, table_type, &format!("base {table_type} {wanted}"));
    let table = open(made.storage().clone(), table_type);
    let last = (0..40).map(|round| {
        let before = (shared.fork(), instants(&table));
        write(&table, Operation::Upsert, &[row(round)]).unwrap();
        let is_new = |name: &&String| !before.1.contains(name);
        (round, before.0, instants(&table).iter().filter(is_new).any(|name| name.ends_with(wanted)))
    });
    let (rounds, base, _) = last.into_iter().find(|(_, _, found)| *found).expect("no service in so many rounds");
    let calls_of = |more: &[(&str, &str)], name: &str| {
        let counting = FailingStore::new(Arc::new(base.fork()), usize::MAX, Failure::Error);
        let more = more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let options: Vec<_> = options(table_type).into_iter().chain(more).collect();
        let table = open_with(storage(Arc::new(counting.clone()), name), Ticking::shared(), &options).unwrap();
        write(&table, Operation::Upsert, &[row(rounds)]).unwrap();
        (counting.calls(), read(&table))
    };
    // The calls before those of services are tested with the write itself.
    let (first, _) = calls_of(&[("hoodie.table.services.enabled", "false")], &format!("alone {wanted}"));
    let (calls, after) = calls_of(&[], &format!("whole {wanted}"));
    assert!(calls > first + 10, "{calls} calls, {first} without services");
    for failure in FAILURES {
        for call in failure.at(first..calls) {
            let context = format!("{table_type}, {failure:?} at call {call} of {calls}");
            let store = Arc::new(base.fork());
            let failing = FailingStore::new(store.clone(), call, failure);
            let uri = format!("services {wanted}-{failure:?}-{call}");
            let opened = open_with(storage(Arc::new(failing), &uri), Ticking::shared(), &options(table_type));
            let outcome = opened.and_then(|table| write(&table, Operation::Upsert, &[row(rounds)]));
            let table = open(storage(store.clone(), &uri), table_type);
            assert!(outcome.is_err() || read(&table) == after, "{context}: was reported done");
            assert_eq!(read(&table), rows_by_listing(&table), "{context}");
            for round in rounds + 1..rounds + 4 {
                let done = write(&table, Operation::Upsert, &[row(round)]).unwrap();
                assert!(done.warnings.is_empty(), "{context}: {:?}", done.warnings);
            }
            check(&table, &context);
            let names = instants(&table);
            let pending = names.iter().filter(|name| name.ends_with(".requested"));
            let completed = |name: &&String| {
                let (time, action) = name.trim_end_matches(".requested").split_once('.').unwrap();
                let action = match action {
                    "compaction" => "commit",
                    "logcompaction" => "deltacommit",
                    other => other,
                };
                names.iter().any(|n| n.starts_with(&format!("{time}_")) && n.ends_with(&format!(".{action}")))
            };
            assert_eq!(pending.filter(|name| !completed(name)).count(), 0, "{context}: {names:?}");
        }
    }
}
