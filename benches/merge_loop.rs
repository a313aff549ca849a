//! Reducing a batch to one record a key, and judging pairs by event time.
#![allow(missing_docs, clippy::unwrap_used)]

mod rows;

use arrow::array::AsArray;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hoodoo::merge::{KeyedRows, MergeMode, OrderingValues, RecordComparator, Side, Step, precombine};

const ROWS: u64 = 1 << 20;

fn bench(c: &mut Criterion) {
    let (old, new) = (rows::rows(0..ROWS, 5, "p0"), rows::rows(0..ROWS, 6, "p0"));
    let ordering = |batch: &arrow::array::RecordBatch| {
        OrderingValues::try_new(vec![batch.column_by_name("t").unwrap().clone()]).unwrap()
    };
    let mut group = c.benchmark_group("merge_loop");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    for (name, repeats) in [("precombine_distinct", 1), ("precombine_four_of_each", 4)] {
        let batches: Vec<_> = (0..repeats).map(|i| rows::rows(0..ROWS / repeats, i as i64, "p0")).collect();
        group.bench_function(name, |b| {
            b.iter(|| {
                let keyed: Vec<KeyedRows<'_>> = batches
                    .iter()
                    .map(|batch| KeyedRows {
                        keys: batch.column_by_name("key").unwrap().as_string(),
                        ordering: ordering(batch),
                        deleted: None,
                        delete_block: None,
                    })
                    .collect();
                precombine(&keyed, MergeMode::EventTime, true).unwrap()
            })
        });
    }
    let (stored, given) = (ordering(&old), ordering(&new));
    group.bench_function("judge_pairs", |b| {
        b.iter(|| {
            let side = |ordering| Side::new(ordering, None);
            let judge = RecordComparator::new(MergeMode::EventTime, Step::Final, side(&stored), side(&given)).unwrap();
            (0..ROWS as usize).filter(|row| judge.new_wins(*row, *row)).count()
        })
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
