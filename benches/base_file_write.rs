//! Encoding base files, with and without what Hudi wants in the footer.
#![allow(missing_docs, clippy::unwrap_used)]

mod rows;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hoodoo::file_group::base::{BaseFileOptions, BaseFileWriter};
use hoodoo::table::with_meta_columns;

const ROWS: u64 = 1 << 19;

fn file_rows() -> RecordBatch {
    let data = rows::rows(0..ROWS, 1, "p0");
    let count = data.num_rows();
    let constant = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; count])) };
    let sequence = StringArray::from_iter_values((0..count).map(|i| format!("20260101000000000_0_{i}")));
    let mut columns: Vec<ArrayRef> = vec![
        constant("20260101000000000"),
        Arc::new(sequence),
        data.column_by_name("key").unwrap().clone(),
        constant("p0"),
        constant("5f0c7f3e-1f0f-4b0e-9a3d-0d7e8b1f8f10-0_0-0-0_20260101000000000.parquet"),
    ];
    columns.extend_from_slice(data.columns());
    RecordBatch::try_new(with_meta_columns(&data.schema()), columns).unwrap()
}

fn bench(c: &mut Criterion) {
    let batch = file_rows();
    let mut group = c.benchmark_group("base_file_write");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    let plain = BaseFileOptions { bloom: None, ..BaseFileOptions::default() };
    for (name, options) in [("with_bloom_filter", BaseFileOptions::default()), ("plain", plain)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut writer = BaseFileWriter::try_new(Vec::new(), batch.schema(), options.clone()).unwrap();
                writer.write(&batch).unwrap();
                writer.finish().unwrap()
            })
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
