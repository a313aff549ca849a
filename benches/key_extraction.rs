//! Record keys and partition paths of a batch.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod rows;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hoodoo::table::keygen::{KeyGenConfig, KeyGenerator};

const ROWS: u64 = 1 << 20;

fn generator(keys: &str, schema: &arrow::datatypes::Schema) -> KeyGenerator {
    let get = |key: &str| match key {
        "hoodie.table.recordkey.fields" => Some(keys.to_owned()),
        "hoodie.table.partition.fields" => Some("part".to_owned()),
        _ => None,
    };
    KeyGenerator::new(KeyGenConfig::from_properties(&get, 9).unwrap(), schema).unwrap()
}

fn bench(c: &mut Criterion) {
    let batch = rows::rows(0..ROWS, 1, "p0");
    let mut group = c.benchmark_group("key_extraction");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    for (name, keys) in [("simple_text", "key"), ("simple_long", "id"), ("composite", "key,id")] {
        let generator = generator(keys, &batch.schema());
        group.bench_function(name, |b| b.iter(|| generator.keys(&batch).unwrap()));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
