//! Finding stored keys: a tenth of the keys of a base file, by its key column.
#![allow(missing_docs, clippy::unwrap_used)]

mod rows;

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatchIterator, RecordBatchReader, StringArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hoodoo::client;
use hoodoo::file_group::base::BaseFileReader;
use hoodoo::merge::{KeyedRows, MergeMode, OrderingValues, precombine};
use hoodoo::table::{KeyQuery, lookup_keys};
use hoodoo::write::{Operation, WriteRequest};

const ROWS: u64 = 1 << 20;

fn bench(c: &mut Criterion) {
    let stored = rows::rows(0..ROWS, 1, "p0");
    let options: BTreeMap<String, String> = [
        ("hoodie.table.name", "bench"),
        ("hoodie.table.recordkey.fields", "key"),
        ("hoodie.table.partition.fields", "part"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into();
    let table = client::create_table("memory://bench-tagging/t", &stored.schema(), options, &BTreeMap::new()).unwrap();
    let data: Box<dyn RecordBatchReader + Send> =
        Box::new(RecordBatchIterator::new([Ok(stored.clone())], stored.schema()));
    let request =
        WriteRequest { operation: Operation::BulkInsert, data: Some(data), partitions: Vec::new(), partial: false };
    client::write(&table, request).unwrap();
    let file = table.file_slices(Some("p0")).unwrap().remove(0).base.unwrap();

    let wanted = rows::rows((0..ROWS).step_by(10), 2, "p0");
    let keys = wanted.column_by_name("key").unwrap().as_string::<i32>();
    let batches = [KeyedRows { keys, ordering: OrderingValues::default(), deleted: None, delete_block: None }];
    let records = precombine(&batches, MergeMode::CommitTime, true).unwrap();
    let find = |stored: &StringArray, found: &mut dyn FnMut(usize, u32)| {
        records.find_all(&batches, stored, found);
    };
    let query = KeyQuery { range: None, keys: &[], find: &find };

    let mut group = c.benchmark_group("tagging");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    group.bench_function("a_tenth_of_a_file", |b| {
        b.iter(|| {
            let reader = BaseFileReader::open(table.storage().reader(&file.path, file.size).unwrap()).unwrap();
            let found = lookup_keys(table.storage(), &file, &reader, None, &query).unwrap();
            assert_eq!(found.len() as u64, ROWS.div_ceil(10));
        })
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
