//! HFiles as the metadata table has them: reading all entries, looking keys up, writing.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hoodoo_hfile::{Codec, HFileReader, HFileWriter, HFileWriterOptions};

const ENTRIES: u64 = 1_000_000;
const LOOKUPS: u64 = 10_000;

/// Entries about as large as those of a record index.
fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut state = 1u64;
    let mut noise = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let value =
        |noise: u64| [b"\0\x0apart=20260101".as_slice(), &(noise % 1000 * 7919).to_be_bytes(), &[0; 20]].concat();
    (0..ENTRIES).map(|n| (format!("record-key-{:016}", n * 3).into_bytes(), value(noise()))).collect()
}

fn write_file(entries: &[(Vec<u8>, Vec<u8>)], codec: Codec) -> Bytes {
    let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default().codec(codec));
    entries.iter().try_for_each(|(key, value)| writer.append(key, value)).unwrap();
    writer.finish().unwrap().into()
}

fn read_file(reader: &HFileReader<Bytes>) -> (u64, usize) {
    let (mut count, mut bytes) = (0, 0);
    for block in reader.data_blocks().unwrap() {
        for entry in block.unwrap().entries() {
            count += 1;
            bytes += black_box(entry.key).len() + black_box(entry.value).len();
        }
    }
    (count, bytes)
}

fn hfile(c: &mut Criterion) {
    let entries = entries();
    let keys: Vec<&[u8]> = entries.iter().step_by(100).map(|(key, _)| key.as_slice()).collect();
    let absent: Vec<Vec<u8>> = keys.iter().map(|key| [*key, b"x"].concat()).collect();
    let mut group = c.benchmark_group("hfile");
    group.sample_size(10);
    for (name, codec) in [("gzip", Codec::Gzip), ("none", Codec::None)] {
        let reader = HFileReader::open(write_file(&entries, codec)).unwrap();
        group.throughput(Throughput::Elements(ENTRIES));
        group.bench_function(format!("read 1 M entries, {name}"), |b| {
            b.iter(|| assert_eq!(read_file(&reader).0, ENTRIES));
        });
        group.bench_function(format!("write 1 M entries, {name}"), |b| b.iter(|| write_file(&entries, codec).len()));
        group.throughput(Throughput::Elements(LOOKUPS));
        group.bench_function(format!("look up 10 k keys, {name}"), |b| {
            b.iter(|| {
                let found: usize = reader.get_many(&keys).unwrap().map(|block| block.unwrap().count()).sum();
                assert_eq!(found as u64, LOOKUPS);
            });
        });
        group.bench_function(format!("look up 10 k absent keys, {name}"), |b| {
            b.iter(|| assert_eq!(reader.get_many(&absent).unwrap().count(), 0));
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("look up one key, {name}"), |b| {
            b.iter(|| reader.get(black_box(b"record-key-0000000001500000")).unwrap().unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, hfile);
criterion_main!(benches);
