//! Tables of one file group in memory.
#![allow(dead_code, reason = "each bench uses some of it")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use hoodoo::client;
use hoodoo::table::HudiTable;
use hoodoo::write::{Operation, WriteRequest};

use crate::rows;

/// Rows of the base file; a tenth of them is changed again.
pub const ROWS: u64 = 1 << 18;

/// Writes rows.
pub fn write(table: &HudiTable, operation: Operation, rows: RecordBatch) {
    let schema = rows.schema();
    let data: Box<dyn RecordBatchReader + Send> = Box::new(RecordBatchIterator::new([Ok(rows)], schema));
    client::write(table, WriteRequest { operation, data: Some(data), partitions: Vec::new(), partial: false }).unwrap();
}

/// A table with a base file of [`ROWS`] rows.
pub fn table(kind: &str, options: &[(&str, &str)]) -> HudiTable {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let base = rows::rows(0..ROWS, 1, "p0");
    let given = [
        ("hoodie.table.name", "bench"),
        ("hoodie.table.type", kind),
        ("hoodie.table.recordkey.fields", "key"),
        ("hoodie.table.partition.fields", "part"),
        ("hoodie.table.ordering.fields", "t"),
    ];
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let options: BTreeMap<String, String> = given.iter().chain(options).map(owned).collect();
    let uri = format!("memory://bench-{}/t", NUMBER.fetch_add(1, Ordering::Relaxed));
    let table = client::create_table(&uri, &base.schema(), options, &BTreeMap::new()).unwrap();
    write(&table, Operation::BulkInsert, base);
    table
}

/// A merge-on-read table with a base file, and two log files with a tenth of its rows each.
pub fn with_logs(format: &str) -> HudiTable {
    let table = table("MERGE_ON_READ", &[("hoodie.logfile.data.block.format", format)]);
    for delta in 0..2 {
        write(&table, Operation::Upsert, rows::rows((delta..ROWS).step_by(10), 2, "p0"));
    }
    table
}
