//! Others write while an index is built: whichever file of the table is just being read, the index has in the end what the
//! table has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hoodoo::client::{self, Expression};
use hoodoo::services::verify::verify;
use hoodoo::table::HudiTable;
use hoodoo::write::Operation;
use object_store::memory::InMemory;

use crate::hooked_store::{Hook, HookedStore, Request};
use crate::small_table::{Row, Ticking, create_with, delete_partition, open_with, read, storage, write};

const FIRST: [Row; 6] = [
    ("a", 1, "p0", "one"),
    ("b", 1, "p0", "two"),
    ("c", 1, "p1", "one"),
    ("d", 1, "p1", "two"),
    ("e", 1, "p2", "one"),
    ("f", 1, "p2", "three"),
];

fn options(table_type: &str) -> Vec<(String, String)> {
    let given = [
        ("hoodie.metadata.enable", "true"),
        ("hoodie.table.type", table_type),
        ("hoodie.compact.inline", "false"),
        ("hoodie.compact.inline.max.delta.commits", "1"),
        ("hoodie.metadata.global.record.level.index.min.filegroup.count", "2"),
        ("hoodie.metadata.global.record.level.index.max.filegroup.count", "2"),
    ];
    given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// What another writer does.
type Middle = fn(&HudiTable);

const MIDDLES: [(&str, Middle); 7] = [
    ("nothing", |_| ()),
    ("upsert", |table| {
        write(table, Operation::Upsert, &[("a", 2, "p0", "four"), ("c", 2, "p1", "five"), ("g", 2, "p3", "one")])
            .unwrap();
    }),
    ("delete", |table| {
        write(table, Operation::Delete, &[("a", 2, "p0", ""), ("f", 2, "p2", "")]).unwrap();
    }),
    ("insert overwrite", |table| {
        write(table, Operation::InsertOverwrite, &[("b", 2, "p0", "six"), ("h", 2, "p0", "one")]).unwrap();
    }),
    ("delete partition", |table| {
        delete_partition(table, "p1").unwrap();
    }),
    ("cluster", |table| {
        client::cluster(table, None, true).unwrap();
    }),
    ("write, compact and clean", |table| {
        for ts in 2..6 {
            write(table, Operation::Upsert, &[("a", ts, "p0", "seven"), ("e", ts, "p2", "eight")]).unwrap();
            if table.config().table_type().name() == "MERGE_ON_READ" {
                client::compact(table, None).unwrap();
            }
        }
    }),
];

/// A hook that does something at the `at`-th read of a data file, on another thread; and whether it came to that.
fn at_read(at: usize, act: impl Fn() + Send + Sync + 'static) -> (Hook, Arc<AtomicBool>) {
    let (reads, locked, met) = (AtomicUsize::new(0), AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let hit = met.clone();
    let hook = move |request, path: &str| {
        // Once files were read, the next look at the timeline is under the table lock, for which the other one would wait.
        let is_timeline = request == Request::List && path.ends_with(".hoodie/timeline");
        if is_timeline && reads.load(Ordering::SeqCst) > 0 {
            locked.store(true, Ordering::SeqCst);
        }
        let is_data = request == Request::Get && !path.contains(".hoodie") && !locked.load(Ordering::SeqCst);
        if is_data && reads.fetch_add(1, Ordering::SeqCst) == at {
            hit.store(true, Ordering::SeqCst);
            std::thread::scope(|scope| scope.spawn(&act).join()).unwrap();
        }
        Ok(())
    };
    (Box::new(hook), met)
}

/// Builds an index; at the `at`-th read of a data file another writer does something. Returns whether it came to that.
fn build(table_type: &str, index: &str, column: Option<&str>, (name, middle): (&str, Middle), at: usize) -> bool {
    let context = format!("{table_type} {index} {name} at {at}");
    let store = Arc::new(InMemory::new());
    let open = |store| open_with(storage(store, &context), Ticking::shared(), &options(table_type)).unwrap();
    create_with(storage(store.clone(), &context), Ticking::shared(), &options(table_type)).unwrap();
    let other = open(store.clone());
    write(&other, Operation::Insert, &FIRST).unwrap();
    write(&other, Operation::Upsert, &[("b", 1, "p0", "nine"), ("i", 1, "p1", "two")]).unwrap();

    let writer = other.clone();
    let (hook, met) = at_read(at, move || middle(&writer));
    let building = open(Arc::new(HookedStore::new(store.clone(), hook)));
    let expression = (index == "expression_index").then(|| Expression {
        kind: "column_stats".to_owned(),
        function: "lower".to_owned(),
        options: Vec::new(),
    });
    // Of these users are warned.
    let warnings = usize::from(expression.is_some());
    let done = client::index(&building, index, column.map(|column| vec![column.to_owned()]), expression).unwrap();
    assert_eq!(done.warnings.len(), warnings, "{context}: {:?}", done.warnings);
    // A handle that knows of no file.
    let seen = open(store);
    let report = verify(&seen).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.problems);
    let rows = read(&seen);
    write(&other, Operation::Upsert, &[("a", 9, "p0", "ten"), ("z", 9, "p3", "ten")]).unwrap();
    let report = verify(&seen).unwrap();
    assert!(report.is_clean(), "{context}, and an upsert: {:?}", report.problems);
    assert!(!rows.is_empty(), "{context}");
    met.load(Ordering::SeqCst)
}

/// Each other writer beside each index, in tables of one type and the other in turns; with `HOODOO_TEST_ALL` in both.
#[test]
fn others_write_while_an_index_is_built() {
    let everything = std::env::var_os("HOODOO_TEST_ALL").is_some();
    for (type_number, table_type) in ["COPY_ON_WRITE", "MERGE_ON_READ"].into_iter().enumerate() {
        let indexes = [
            ("record_index", None),
            ("secondary_index", Some("val")),
            ("expression_index", Some("val")),
            ("column_stats", None),
            ("bloom_filters", None),
        ];
        for (index_number, (index, column)) in indexes.into_iter().enumerate() {
            for (number, middle) in MIDDLES.into_iter().enumerate() {
                if !everything && (number + index_number) % 2 != type_number {
                    continue;
                }
                let mut met = 0;
                while build(table_type, index, column, middle, 2 * met) {
                    met += 1;
                }
                assert!(met > 1, "{table_type} {index}: no file of the table was read");
            }
        }
    }
}

/// Runs a service; at its `at`-th read of a data file another handle builds an index. Returns whether it came to that.
fn serve(
    table_type: &str,
    index: &'static str,
    column: Option<&str>,
    (name, service): (&str, Middle),
    at: usize,
) -> bool {
    let context = format!("{name} of {table_type}, {index} at {at}");
    let store = Arc::new(InMemory::new());
    let mut given = options(table_type);
    given.push(("hoodie.log.compaction.blocks.threshold".to_owned(), "2".to_owned()));
    given.push(("hoodie.metadata.index.column.stats.enable".to_owned(), "false".to_owned()));
    let open = |store| open_with(storage(store, &context), Ticking::shared(), &given).unwrap();
    create_with(storage(store.clone(), &context), Ticking::shared(), &given).unwrap();
    let other = open(store.clone());
    write(&other, Operation::Insert, &FIRST).unwrap();
    for ts in 1..4 {
        write(&other, Operation::Upsert, &[("b", ts, "p0", "nine"), ("c", ts, "p1", "two")]).unwrap();
    }
    let before = read(&other);

    let (builder, column) = (other.clone(), column.map(|column| vec![column.to_owned()]));
    let (hook, met) = at_read(at, move || _ = client::index(&builder, index, column.clone(), None).unwrap());
    service(&open(Arc::new(HookedStore::new(store.clone(), hook))));
    let seen = open(store);
    let report = verify(&seen).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.problems);
    assert_eq!(read(&seen), before, "{context}");
    write(&other, Operation::Upsert, &[("a", 9, "p0", "ten"), ("z", 9, "p3", "ten")]).unwrap();
    let report = verify(&seen).unwrap();
    assert!(report.is_clean(), "{context}, and an upsert: {:?}", report.problems);
    met.load(Ordering::SeqCst)
}

#[test]
fn an_index_is_built_while_a_service_rewrites_files() {
    let services: [(&str, &str, Middle); 4] = [
        ("MERGE_ON_READ", "compaction", |table| {
            client::compact(table, None).unwrap().unwrap();
        }),
        ("MERGE_ON_READ", "log compaction", |table| {
            client::log_compact(table).unwrap().unwrap();
        }),
        ("MERGE_ON_READ", "clustering", |table| {
            client::cluster(table, None, true).unwrap().unwrap();
        }),
        ("COPY_ON_WRITE", "clustering", |table| {
            client::cluster(table, None, true).unwrap().unwrap();
        }),
    ];
    let indexes =
        [("record_index", None), ("secondary_index", Some("val")), ("column_stats", None), ("bloom_filters", None)];
    for (table_type, name, service) in services {
        for (index, column) in indexes {
            let mut met = 0;
            while serve(table_type, index, column, (name, service), met) {
                met += 1;
            }
            assert!(met > 1, "{name} of {table_type}, {index}: no file of the table was read");
        }
    }
}
