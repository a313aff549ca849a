//! The history of the timeline: reading it whole and in part, appending to it, compacting it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hoodoo::format::instant::{Action, Layout};
use hoodoo::storage::{Storage, StorageOptions};
use hoodoo::timeline::history::{CompactionLimits, HistoryEntry, HistoryReader, HistoryWriter, LoadMode, TimeRange};
use hoodoo::timeline::{TimeZone, TimelineConfig, format_instant};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Bytes of metadata of an action, about what Hudi's published figures had.
const METADATA_BYTES: usize = 840;

fn config() -> TimelineConfig {
    TimelineConfig {
        layout: Layout::V2,
        folder: ".hoodie/timeline".to_owned(),
        history_folder: ".hoodie/timeline/history".to_owned(),
        zone: TimeZone::Utc,
        was_version_6: false,
    }
}

fn entries(random: &mut StdRng, count: usize, first: usize) -> Vec<HistoryEntry> {
    (first..first + count)
        .map(|n| {
            let start = 1_600_000_000_000 + i64::try_from(n).unwrap() * 10_000;
            let noise: String = (0..METADATA_BYTES / 8).map(|_| format!("{:08x}", random.random::<u16>())).collect();
            HistoryEntry {
                requested: format_instant(start, TimeZone::Utc),
                completed: format_instant(start + 3_000, TimeZone::Utc),
                action: Action::Commit,
                metadata: Some(Bytes::from(noise)),
                plan: None,
            }
        })
        .collect()
}

/// A history in memory, compacted as it grew.
fn history(name: &str, actions: usize, per_file: usize) -> Storage {
    let storage = Storage::open(&format!("memory://bench-{name}/t"), &StorageOptions::new()).unwrap();
    let writer = HistoryWriter::new(&storage, &config());
    let mut random = StdRng::seed_from_u64(1);
    for first in (0..actions).step_by(per_file) {
        writer.append(&entries(&mut random, per_file, first)).unwrap();
        writer.compact(&CompactionLimits::default()).unwrap();
    }
    storage
}

fn rows(reader: &HistoryReader, range: TimeRange, mode: LoadMode) -> usize {
    reader.scan(range, mode).unwrap().map(|batch| batch.unwrap().num_rows()).sum()
}

fn read(c: &mut Criterion) {
    const ACTIONS: usize = 100_000;
    let storage = history("read", ACTIONS, 7_000);
    let reader = HistoryReader::new(&storage, &config());
    let mut group = c.benchmark_group("history_read");
    group.throughput(Throughput::Elements(ACTIONS as u64));
    for (name, mode) in [("times", LoadMode::Time), ("metadata", LoadMode::Metadata)] {
        group.bench_function(BenchmarkId::new(name, ACTIONS), |b| {
            b.iter(|| black_box(rows(&reader, TimeRange::all(), mode)));
        });
    }
    group.throughput(Throughput::Elements(1_000));
    let all = reader.read(None, None, LoadMode::Action).unwrap();
    let middle = TimeRange::closed(Some(&all[50_000].requested), Some(&all[50_999].requested));
    group.bench_function("range of 1000", |b| {
        b.iter(|| assert_eq!(rows(&reader, middle.clone(), LoadMode::Full), 1_000));
    });
    group.bench_function("newest 1000", |b| {
        b.iter(|| assert_eq!(reader.newest(1_000, LoadMode::Action).unwrap().len(), 1_000));
    });
    group.finish();
}

fn write(c: &mut Criterion) {
    let mut random = StdRng::seed_from_u64(2);
    let some = entries(&mut random, 1_000, 0);
    let mut count = 0;
    let mut fresh = |files: usize| {
        count += 1;
        let storage = Storage::open(&format!("memory://bench-write-{count}/t"), &StorageOptions::new()).unwrap();
        let writer = HistoryWriter::new(&storage, &config());
        let mut random = StdRng::seed_from_u64(3);
        for file in 0..files {
            writer.append(&entries(&mut random, 1_000, file * 1_000)).unwrap();
        }
        writer
    };
    let mut group = c.benchmark_group("history_write");
    group.sample_size(20);
    group.throughput(Throughput::Elements(1_000));
    group.bench_function("append 1000", |b| {
        b.iter_batched(|| fresh(0), |writer| writer.append(&some).unwrap(), BatchSize::PerIteration);
    });
    group.throughput(Throughput::Elements(10_000));
    group.bench_function("compact 10 files of 1000", |b| {
        b.iter_batched(
            || fresh(10),
            |writer| assert_eq!(writer.compact(&CompactionLimits::default()).unwrap().files, 10),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, read, write);
criterion_main!(benches);
