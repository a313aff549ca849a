//! A table of a few rows in a store that the test owns, with a clock of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use arrow::array::{AsArray, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use hoodoo::Result;
use hoodoo::client;
use hoodoo::storage::Storage;
use hoodoo::table::scan::ScanRequest;
use hoodoo::table::{HudiTable, Options, TableSpec};
use hoodoo::timeline::Clock;
use hoodoo::write::{CommitOutcome, Operation, WriteRequest};
use object_store::ObjectStore;

/// A clock that goes on a millisecond each time it is asked.
#[derive(Debug)]
pub struct Ticking(AtomicI64);

impl Ticking {
    /// The one clock of all tests: times that the library gave out count for the whole process.
    pub fn shared() -> Arc<Self> {
        static CLOCK: LazyLock<Arc<Ticking>> = LazyLock::new(|| Arc::new(Ticking(AtomicI64::new(1_767_225_600_000))));
        CLOCK.clone()
    }

    /// A clock that begins now, for a process of its own.
    pub fn from_now() -> Arc<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Arc::new(Self(AtomicI64::new(i64::try_from(now.as_millis()).unwrap())))
    }
}

impl Clock for Ticking {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(i64::try_from(duration.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

pub fn schema() -> SchemaRef {
    let fields = [("id", DataType::Utf8), ("ts", DataType::Int64), ("part", DataType::Utf8), ("val", DataType::Utf8)];
    Arc::new(Schema::new(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>()))
}

fn options(more: &[(String, String)]) -> Options {
    let given = [
        ("hoodie.table.name", "small"),
        ("hoodie.table.recordkey.fields", "id"),
        ("hoodie.table.partition.fields", "part"),
        ("hoodie.table.ordering.fields", "ts"),
        ("hoodie.metadata.enable", "false"),
        ("hoodie.parquet.small.file.limit", "0"),
        // So that most commits have something to clean.
        ("hoodie.clean.commits.retained", "1"),
        // One thread: the n-th call is the same one in each run.
        ("hoodoo.threads", "1"),
    ];
    let given = given.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned()));
    Options::new(given.chain(more.iter().cloned()).collect::<BTreeMap<_, _>>()).unwrap()
}

pub fn storage(store: Arc<dyn ObjectStore>, name: &str) -> Storage {
    Storage::from_store(store, "small", &format!("test://{name}/small")).unwrap()
}

pub fn create(storage: Storage, clock: Arc<dyn Clock>) -> Result<HudiTable> {
    create_with(storage, clock, &[])
}

/// The same with more options.
pub fn create_with(storage: Storage, clock: Arc<dyn Clock>, more: &[(String, String)]) -> Result<HudiTable> {
    TableSpec { options: &options(more), schema: &schema(), keep_schema: true }.create(storage, clock)
}

pub fn open(storage: Storage, clock: Arc<dyn Clock>) -> Result<HudiTable> {
    open_with(storage, clock, &[])
}

/// The same with more options.
pub fn open_with(storage: Storage, clock: Arc<dyn Clock>, more: &[(String, String)]) -> Result<HudiTable> {
    HudiTable::open_in(storage, options(more), clock)
}

/// A row: key, ordering value, partition, value.
pub type Row = (&'static str, i64, &'static str, &'static str);

pub fn write(table: &HudiTable, operation: Operation, rows: &[Row]) -> Result<CommitOutcome> {
    let text = |value: fn(&Row) -> &'static str| Arc::new(StringArray::from_iter_values(rows.iter().map(value)));
    let ts = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1)));
    let batch = RecordBatch::try_new(schema(), vec![text(|r| r.0), ts, text(|r| r.2), text(|r| r.3)]).unwrap();
    write_batch(table, operation, batch)
}

/// Writes rows with the columns of [`schema`].
pub fn write_batch(table: &HudiTable, operation: Operation, batch: RecordBatch) -> Result<CommitOutcome> {
    let data = Box::new(RecordBatchIterator::new([Ok(batch)], schema()));
    client::write(table, WriteRequest { operation, data: Some(data), partitions: Vec::new(), partial: false })
}

pub fn delete_partition(table: &HudiTable, partition: &str) -> Result<CommitOutcome> {
    let partitions = vec![partition.to_owned()];
    client::write(table, WriteRequest { operation: Operation::DeletePartition, data: None, partitions, partial: false })
}

/// The keys and values that readers see, sorted.
pub fn read(table: &HudiTable) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for batch in table.scan(&ScanRequest::default()).unwrap() {
        let batch = batch.unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().clone();
        let (ids, values) = (column("id"), column("val"));
        rows.extend((0..batch.num_rows()).map(|i| (ids.value(i).to_owned(), values.value(i).to_owned())));
    }
    rows.sort();
    rows
}
