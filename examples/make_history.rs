//! Writes the history of a timeline with many made-up actions, for the benchmarks.
//!
//! ```text
//! make_history TABLE ACTIONS METADATA_BYTES ACTIONS_PER_FILE COMPACTION_BATCH
//! ```
//!
//! A file of level 0 gets `ACTIONS_PER_FILE` actions; the history is compacted after each, as archiving does it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hoodoo::format::instant::{Action, Layout};
use hoodoo::storage::{Storage, StorageOptions};
use hoodoo::timeline::history::{CompactionLimits, HistoryEntry, HistoryWriter};
use hoodoo::timeline::{TimeZone, TimelineConfig, format_instant};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// 2020-09-13, in milliseconds.
const START_MS: i64 = 1_600_000_000_000;

/// A body about as large and as hard to compress as commit metadata: write stats of files with random ids.
fn body(random: &mut StdRng, time: &str, bytes: usize) -> Bytes {
    let mut text = String::with_capacity(bytes + 512);
    while text.len() < bytes {
        let id = uuid::Builder::from_random_bytes(random.random()).into_uuid();
        let (partition, rows, size): (u32, u32, u32) = (random.random_range(0..200), random.random(), random.random());
        let _ = write!(
            text,
            "\u{2}{id}-0\u{2}city={partition:03}/{id}-0_{}-{}-{}_{time}.parquet\u{2}null\u{2}{}\u{2}0\u{2}{}\u{2}{size}",
            partition % 7,
            rows % 31,
            rows % 1_000,
            rows % 100_000,
            rows % 1_000,
        );
    }
    text.truncate(bytes);
    Bytes::from(text)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [table, actions, bytes, per_file, batch] = given.as_slice() else {
        return Err("give TABLE ACTIONS METADATA_BYTES ACTIONS_PER_FILE COMPACTION_BATCH".into());
    };
    let (actions, bytes, per_file): (usize, usize, usize) = (actions.parse()?, bytes.parse()?, per_file.parse()?);
    let limits = CompactionLimits { batch_size: batch.parse()?, ..CompactionLimits::default() };
    let storage = Storage::open(table, &StorageOptions::new())?;
    let config = TimelineConfig {
        layout: Layout::V2,
        folder: ".hoodie/timeline".to_owned(),
        history_folder: ".hoodie/timeline/history".to_owned(),
        zone: TimeZone::Utc,
        was_version_6: false,
    };
    let writer = HistoryWriter::new(&storage, &config);
    let mut random = StdRng::seed_from_u64(7);
    let mut now = START_MS;
    let mut left = actions;
    let mut took = Duration::ZERO;
    while left > 0 {
        let count = left.min(per_file);
        let entries: Vec<HistoryEntry> = (0..count)
            .map(|_| {
                now += random.random_range(1..20_000);
                let requested = format_instant(now, TimeZone::Utc);
                let clean = random.random_bool(0.2);
                HistoryEntry {
                    completed: format_instant(now + random.random_range(1..20_000), TimeZone::Utc),
                    action: if clean { Action::Clean } else { Action::Commit },
                    metadata: Some(body(&mut random, &requested, bytes)),
                    plan: clean.then(|| body(&mut random, &requested, bytes / 4)),
                    requested,
                }
            })
            .collect();
        let begun = Instant::now();
        writer.append(&entries)?;
        writer.compact(&limits)?;
        took += begun.elapsed();
        left -= count;
    }
    // Without the making up of bodies, which is about as much work.
    println!("appended and compacted in {:.3} s", took.as_secs_f64());
    Ok(())
}
