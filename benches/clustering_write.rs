//! A clustering that sorts one file group by a column, or along a curve by two, and writes it anew.
#![allow(missing_docs, clippy::unwrap_used)]

mod rows;
mod table;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use hoodoo::client;

use table::ROWS;

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("clustering_write");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    for (name, columns, layout) in
        [("by_number", "x", "linear"), ("by_string", "s", "linear"), ("z_order", "n,x", "z-order")]
    {
        let options = [
            ("hoodie.clustering.plan.strategy.sort.columns", columns),
            ("hoodie.layout.optimize.strategy", layout),
            // One small file is worth it too.
            ("hoodie.clustering.plan.strategy.single.group.clustering.enabled", "true"),
        ];
        group.bench_function(name, |b| {
            let cluster = |table| client::cluster(&table, None, true).unwrap().unwrap();
            b.iter_batched(|| table::table("COPY_ON_WRITE", &options), cluster, BatchSize::PerIteration)
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
