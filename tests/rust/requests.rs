//! What each operation asks of an object store: how many requests of each kind, and how many one after the other.
//!
//! The numbers stand in docs/storage.md. `REQUESTS=1 cargo test requests -- --nocapture` prints each request with its times.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::Int64Array;
use arrow::datatypes::DataType;
use hoodoo::client;
use hoodoo::file_group::base::Predicate;
use hoodoo::services::archive::archive;
use hoodoo::table::scan::ScanRequest;
use hoodoo::table::{HudiTable, LateFilter};
use hoodoo::write::Operation;

use crate::measured_store::{MeasuredStore, Request};
use crate::small_table::{Row, Ticking, create_with, open_with, read, storage, write};

/// What a request takes, as in a store that is some hundred kilometres away.
const LATENCY: Duration = Duration::from_millis(20);

/// A table in such a store.
struct Far {
    log: Arc<Mutex<Vec<Request>>>,
    table: HudiTable,
}

/// What an operation took.
#[derive(Debug)]
struct Took {
    kinds: BTreeMap<&'static str, usize>,
    in_sequence: usize,
    seconds: f64,
}

impl Took {
    fn requests(&self) -> usize {
        self.kinds.values().sum()
    }
}

impl Far {
    fn new(name: &str, table_type: &str, more: &[(&str, &str)]) -> Self {
        let given = [("hoodie.table.type", table_type), ("hoodoo.threads", "2"), ("hoodie.clean.automatic", "false")];
        let options: Vec<(String, String)> =
            given.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let store = MeasuredStore::new(LATENCY);
        let log = store.requests();
        let storage = storage(Arc::new(store), &format!("requests-{name}")).as_remote();
        create_with(storage.clone(), Ticking::shared(), &options).unwrap();
        Self { log, table: open_with(storage, Ticking::shared(), &options).unwrap() }
    }

    /// A row in each of so many file groups, `each` of them in a partition.
    fn filled(self, groups: usize, each: usize) -> Self {
        // One write for each group of a partition: a write makes one file of the rows of a partition.
        for write_number in 0..each {
            let rows: Vec<Row> = (0..groups / each).map(|n| row(n * each + write_number, n, 1)).collect();
            write(&self.table, Operation::BulkInsert, &rows).unwrap();
        }
        self
    }

    fn took<T>(&self, what: &str, act: impl FnOnce(&HudiTable) -> T) -> Took {
        self.log.lock().unwrap().clear();
        let begun = Instant::now();
        act(&self.table);
        let seconds = begun.elapsed().as_secs_f64();
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        let mut kinds = BTreeMap::new();
        log.iter().for_each(|request| *kinds.entry(request.kind).or_default() += 1);
        let took = Took { kinds, in_sequence: in_sequence(&log), seconds };
        println!("{what}: {} requests, {took:?}", took.requests());
        if std::env::var_os("REQUESTS").is_some() {
            let first = log.iter().map(|r| r.begun).min().unwrap_or(begun);
            for r in &log {
                let since = |at: Instant| (at - first).as_millis();
                println!("{:5} {:5} {:6} {}", since(r.begun), since(r.ended), r.kind, r.path);
            }
        }
        took
    }
}

/// The largest number of requests of which each began when the one before was answered.
fn in_sequence(requests: &[Request]) -> usize {
    let mut requests = requests.to_vec();
    requests.sort_by_key(|r| r.ended);
    let mut last: Option<Instant> = None;
    let mut follows = |r: &&Request| {
        let follows = last.is_none_or(|end| r.begun >= end);
        if follows {
            last = Some(r.ended);
        }
        follows
    };
    requests.iter().filter(|r| follows(r)).count()
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn row(key: usize, partition: usize, ts: i64) -> Row {
    (leak(format!("k{key:05}")), ts, leak(format!("p{partition:04}")), "1")
}

/// At most so many requests in all, and in sequence.
fn check(took: &Took, requests: usize, in_sequence: usize) {
    assert!(took.requests() <= requests && took.in_sequence <= in_sequence, "{took:?}");
}

/// All rows, by a filter that is made for the columns of the scan.
fn read_filtered(table: &HudiTable) {
    let filter = LateFilter::new(|columns| {
        assert_eq!(columns.field_with_name("ts").unwrap().data_type(), &DataType::Int64);
        Ok(Predicate::GtEq("ts".into(), Arc::new(Int64Array::from(vec![0]))))
    });
    let request = ScanRequest { filter: Some(filter), ..Default::default() };
    let rows: usize = table.scan(&request).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_ne!(rows, 0);
}

#[test]
fn of_a_copy_on_write_table() {
    let far = Far::new("cow", "COPY_ON_WRITE", &[]).filled(100, 1);
    check(&far.took("open", |t| t.reload().unwrap()), 1, 1);
    check(&far.took("scan of 100 files", read), 205, 104);
    check(&far.took("upsert of one row", |t| write(t, Operation::Upsert, &[row(7, 7, 2)]).unwrap()), 20, 14);
    check(&far.took("the next one", |t| write(t, Operation::Upsert, &[row(7, 7, 3)]).unwrap()), 20, 13);
    let rows: Vec<Row> = (0..100).map(|n| row(n, n, 4)).collect();
    check(&far.took("upsert into 100 file groups", |t| write(t, Operation::Upsert, &rows).unwrap()), 430, 125);
    check(&far.took("clean", |t| hoodoo::services::clean::clean(t).unwrap()), 120, 22);
    check(&far.took("archive, nothing due", |t| archive(t).unwrap()), 1, 1);
}

#[test]
fn of_a_merge_on_read_table() {
    let far = Far::new("mor", "MERGE_ON_READ", &[]).filled(100, 1);
    check(&far.took("upsert of one row", |t| write(t, Operation::Upsert, &[row(7, 7, 2)]).unwrap()), 20, 14);
    let rows: Vec<Row> = (0..100).map(|n| row(n, n, 4)).collect();
    check(&far.took("upsert into 100 file groups", |t| write(t, Operation::Upsert, &rows).unwrap()), 430, 125);
    check(&far.took("compaction of 100 file groups", |t| client::compact(t, None).unwrap().unwrap()), 640, 190);
    let far = Far::new("clustered", "COPY_ON_WRITE", &[("hoodie.clustering.plan.strategy.sort.columns", "id")]);
    let far = far.filled(20, 10);
    check(&far.took("clustering of 20 files", |t| client::cluster(t, None, true).unwrap().unwrap()), 110, 60);
}

#[test]
fn of_an_upsert_into_a_table_of_a_thousand_files() {
    let far = Far::new("thousand", "COPY_ON_WRITE", &[]).filled(1_000, 10);
    let took = far.took("upsert of one row, 1,000 files", |t| write(t, Operation::Upsert, &[row(777, 77, 2)]).unwrap());
    check(&took, 40, 15);
    assert!(took.seconds < 1.5, "{took:?}");
}

#[test]
fn with_a_metadata_table() {
    let far = Far::new("kept", "COPY_ON_WRITE", &[("hoodie.metadata.enable", "true")]).filled(100, 10);
    let upsert = |t: &HudiTable| write(t, Operation::Upsert, &[row(77, 7, 2)]).unwrap();
    check(&far.took("upsert of one row with a metadata table", upsert), 48, 23);
    // The handle was opened before there was one.
    let scan = far.took("scan of 100 files with a metadata table", |t| read(&t.reload().unwrap()));
    check(&scan, 112, 60);
    assert!(scan.kinds["LIST"] <= 3, "data folders are listed: {scan:?}");
}

#[test]
fn of_services_of_a_small_table() {
    let far = Far::new("small-cow", "COPY_ON_WRITE", &[]).filled(3, 1);
    check(&far.took("clustering of 3 files", |t| client::cluster(t, None, false).unwrap().unwrap()), 42, 24);
    let far = Far::new("small-mor", "MERGE_ON_READ", &[]).filled(3, 1);
    let rows: Vec<Row> = (0..3).map(|n| row(n, n, 4)).collect();
    check(&far.took("upsert into 3 log files", |t| write(t, Operation::Upsert, &rows).unwrap()), 30, 15);
    check(&far.took("compaction of 3 file groups", |t| client::compact(t, None).unwrap().unwrap()), 44, 26);
    check(&far.took("scan of 3 files", read), 9, 6);
    check(&far.took("scan of 3 files with a filter", read_filtered), 9, 6);
}
