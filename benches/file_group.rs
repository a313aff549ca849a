//! A file group of a merge-on-read table: its log blocks decoded, its merged rows read, its compaction.
#![allow(missing_docs, clippy::unwrap_used)]

mod rows;
mod table;

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use hoodoo::client;
use hoodoo::file_group::log::{LogBatch, LogScan};
use hoodoo::table::TableSchema;

use table::{ROWS, with_logs};

/// Bytes of the records that are decoded at a time.
const AT_ONCE: usize = 16 << 20;

fn bench(c: &mut Criterion) {
    for format in ["avro", "parquet"] {
        let table = with_logs(format);
        let view = table.view(None).unwrap();
        let slice = view.latest_slices("p0").unwrap().remove(0);
        let data = TableSchema::resolve(table.config(), &view).unwrap().unwrap().data;
        let (columns, _) = table.file_settings(&data).unwrap();

        let mut group = c.benchmark_group("file_group");
        group.sample_size(10).throughput(Throughput::Elements(ROWS / 5));
        group.bench_function(format!("log_blocks_decoded/{format}"), |b| {
            b.iter(|| {
                let scan = LogScan::open(table.storage(), &slice.logs, |_| true).unwrap();
                let mut records = 0;
                for block in 0..scan.blocks() {
                    let count = &mut |batch: LogBatch| {
                        if let LogBatch::Records(batch) = batch {
                            records += batch.num_rows() as u64;
                        }
                        Ok(())
                    };
                    scan.read(block, &columns, AT_ONCE, count).unwrap();
                }
                assert_eq!(records, 2 * ROWS.div_ceil(10));
            })
        });
        group.throughput(Throughput::Elements(ROWS));
        group.bench_function(format!("merged_rows_read/{format}"), |b| {
            let reader = table.file_group_reader(Arc::new(view.timeline().clone()), columns.clone(), None).unwrap();
            b.iter(|| {
                let rows = reader.read(&slice, &columns).unwrap().map(|batch| batch.unwrap().num_rows() as u64);
                assert_eq!(rows.sum::<u64>(), ROWS);
            })
        });
        group.bench_function(format!("compacted/{format}"), |b| {
            let compact = |table| client::compact(&table, None).unwrap().unwrap();
            b.iter_batched(|| with_logs(format), compact, BatchSize::PerIteration)
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
