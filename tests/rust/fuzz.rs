//! Every decoder of the timeline takes any bytes: a value or an error, never a panic, never memory without bounds.
//!
//! Inputs are mutations of real content, from a seed. The usual run is short; the long one, ten million inputs within 4 GB
//! of address space:
//!
//! ```text
//! (ulimit -v 4000000; cargo test --release --test rust -- --ignored ten_million_inputs)
//! ```

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use hoodoo::format::avro::metadata::{
    ActionInstant, CleanFileInfo, CleanMetadata, CleanerPlan, CommitMetadata, CompactionPlan, IndexPlan,
    ReplaceCommitMetadata, RequestedReplaceMetadata, RestoreMetadata, RollbackMetadata, RollbackPlan,
    SavepointMetadata, TimelineRecord, WriteStat, decode, decode_json, encode,
};
use hoodoo::format::instant::{Action, Instant, Layout};
use hoodoo::format::properties::Properties;
use hoodoo::storage::{Storage, StorageOptions};
use hoodoo::timeline::history::{
    CompactionLimits, HistoryEntry, HistoryReader, HistoryWriter, LoadMode, parse_manifest,
};
use hoodoo::timeline::{TimeZone, TimelineConfig};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Changes content in a few places: flips, cuts, repeats, inserts, swaps of numbers for extreme ones.
fn mutate(random: &mut StdRng, content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..bytes.len().max(1));
        match random.random_range(0..7u32) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.random_range(0..8u32),
            1 if !bytes.is_empty() => bytes[at] = random.random(),
            2 => bytes.truncate(at),
            3 => bytes.insert(at.min(bytes.len()), random.random()),
            4 => {
                let end = (at + random.random_range(0..40usize)).min(bytes.len());
                let piece = bytes.get(at..end).unwrap_or_default().to_vec();
                bytes.splice(at.min(bytes.len())..at.min(bytes.len()), piece);
            }
            5 => {
                let end = (at + random.random_range(0..40usize)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            _ => {
                let extreme: &[u8] = [&[0xff; 9][..], &[0xfe, 0xff, 0xff, 0xff, 0x0f], &[0; 4], &[0x80; 10], b"-1"]
                    [random.random_range(0..5usize)];
                for (offset, byte) in extreme.iter().enumerate() {
                    if let Some(slot) = bytes.get_mut(at + offset) {
                        *slot = *byte;
                    }
                }
            }
        }
    }
    bytes
}

/// Runs a decoder on mutations of some contents, and names the input that it does not survive.
pub(crate) fn feed(name: &str, contents: &[Vec<u8>], inputs: usize, seed: u64, decoder: impl Fn(&[u8])) {
    let mut random = StdRng::seed_from_u64(seed);
    for number in 0..inputs {
        let content = &contents[random.random_range(0..contents.len())];
        let input = mutate(&mut random, content);
        let survived = catch_unwind(AssertUnwindSafe(|| decoder(&input)));
        assert!(survived.is_ok(), "{name}: input {number} of seed {seed}: {:?}", Bytes::from(input));
    }
}

fn names() -> Vec<Vec<u8>> {
    let mut names = vec!["20260101000000000.inflight".to_owned(), "00000000000001.commit".to_owned()];
    for action in Action::ALL {
        names.push(format!("20260101000000000.{action}.requested"));
        names.push(format!("20260101000000000.{action}.inflight"));
        names.push(format!("20260101000000000_20260101000000123.{action}"));
    }
    names.into_iter().map(String::into_bytes).collect()
}

fn instant_name(input: &[u8]) {
    let Ok(name) = std::str::from_utf8(input) else { return };
    if let Some(instant) = Instant::parse(name) {
        // What is a name of ours is written as it was read.
        if !instant.is_completed() || instant.completed.is_some() {
            assert_eq!(
                instant.action.completed_as(),
                Instant::parse(&instant.file_name(Layout::V2)).unwrap().action.completed_as()
            );
        }
    }
}

fn manifests() -> Vec<Vec<u8>> {
    let file =
        |n: u32| format!(r#"{{"fileName":"2026010100000000{n}_2026010200000000{n}_{n}.parquet","fileLen":{n}34}}"#);
    let many: Vec<String> = (0..9).map(file).collect();
    vec![br#"{"files":[]}"#.to_vec(), format!("{{\n  \"files\" : [ {} ]\n}}", many.join(", ")).into_bytes()]
}

fn properties() -> Vec<Vec<u8>> {
    vec![
        b"#Updated\nhoodie.table.name=t\nhoodie.table.version=9\nhoodie.timeline.layout.version=2\n".to_vec(),
        b"a.b : c\\\n   d\\u00e9\\t\n! note\nkey\\ with\\=marks=value\nhoodie.table.checksum=123\n".to_vec(),
    ]
}

fn avro() -> Vec<Vec<u8>> {
    let stat = WriteStat {
        file_id: Some("f-0".into()),
        path: Some("p/f-0_0-1-1_2026.parquet".into()),
        num_writes: Some(10),
        log_files: Some(vec!["a".into(), "b".into()]),
        cdc_stats: Some(BTreeMap::from([("x".into(), 5)])),
        ..Default::default()
    };
    let stats = BTreeMap::from([("p".to_owned(), vec![stat.clone(), stat])]);
    let extra = BTreeMap::from([("schema".to_owned(), r#"{"type":"record"}"#.to_owned())]);
    let commit = CommitMetadata {
        partition_to_write_stats: stats.clone(),
        extra_metadata: extra.clone(),
        operation_type: Some("UPSERT".into()),
        ..Default::default()
    };
    let replace = ReplaceCommitMetadata {
        partition_to_write_stats: stats,
        extra_metadata: extra,
        partition_to_replace_file_ids: BTreeMap::from([("p".into(), vec!["f-1".into()])]),
        ..Default::default()
    };
    let instant = ActionInstant { timestamp: "1".into(), action: "commit".into(), state: "COMPLETED".into() };
    let file = CleanFileInfo { file_path: Some("p/f".into()), is_bootstrap_base_file: Some(false) };
    let plan = CleanerPlan {
        earliest_instant_to_retain: Some(instant),
        file_paths_to_be_deleted_per_partition: Some(BTreeMap::from([("p".into(), vec![file])])),
        ..Default::default()
    };
    vec![
        encode(&commit).unwrap(),
        encode(&replace).unwrap(),
        encode(&plan).unwrap(),
        encode(&CleanMetadata::default()).unwrap(),
        encode(&CompactionPlan::default()).unwrap(),
        encode(&RequestedReplaceMetadata::default()).unwrap(),
        encode(&RollbackPlan::default()).unwrap(),
        encode(&RollbackMetadata::default()).unwrap(),
        encode(&RestoreMetadata::default()).unwrap(),
        encode(&SavepointMetadata::default()).unwrap(),
        encode(&IndexPlan::default()).unwrap(),
    ]
}

fn any<T: TimelineRecord>(input: &[u8]) {
    if let Ok(record) = decode::<T>(input) {
        encode(&record).unwrap();
    }
    let _ = decode_json::<T>(input);
}

fn metadata(input: &[u8]) {
    any::<CommitMetadata>(input);
    any::<ReplaceCommitMetadata>(input);
    any::<CleanerPlan>(input);
    match input.len() % 4 {
        0 => any::<CompactionPlan>(input),
        1 => any::<RequestedReplaceMetadata>(input),
        2 => any::<RollbackMetadata>(input),
        _ => any::<RestoreMetadata>(input),
    }
}

/// A history of one file, whose content is replaced again and again.
struct History {
    storage: Storage,
    config: TimelineConfig,
    path: String,
    contents: Vec<Vec<u8>>,
}

impl History {
    fn new(name: &str) -> Self {
        let storage = Storage::open(&format!("memory://fuzz-{name}/t"), &StorageOptions::new()).unwrap();
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: ".hoodie/timeline".into(),
            history_folder: ".hoodie/timeline/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let entries = |from: u64| -> Vec<HistoryEntry> {
            (from..from + 40)
                .map(|n| HistoryEntry {
                    requested: format!("{}", 20_260_101_000_000_000 + n),
                    completed: format!("{}", 20_260_101_000_000_500 + n),
                    action: if n % 3 == 0 { Action::Clean } else { Action::Commit },
                    metadata: Some(Bytes::from(vec![b'm'; 20])),
                    plan: (n % 3 == 0).then(|| Bytes::from(vec![b'p'; 9])),
                })
                .collect()
        };
        let writer = HistoryWriter::new(&storage, &config);
        writer.append(&entries(0)).unwrap();
        writer.append(&entries(40)).unwrap();
        writer.compact(&CompactionLimits { batch_size: 2, ..CompactionLimits::default() }).unwrap();
        let file = HistoryReader::new(&storage, &config).snapshot().unwrap().files.remove(0);
        let path = format!("{}/{}", config.history_folder, file.name);
        let contents = vec![storage.read(&path).unwrap().to_vec()];
        Self { storage, config, path, contents }
    }

    fn read(&self, input: &[u8]) {
        self.storage.replace(&self.path, input.to_vec()).unwrap();
        let reader = HistoryReader::new(&self.storage, &self.config).with_threads(1);
        let _ = reader.read(None, None, LoadMode::Full);
        let _ = reader.read(Some("20260101000000010"), Some("20260101000000020"), LoadMode::Metadata);
        let _ = reader.newest(5, LoadMode::Action);
    }
}

fn run(share: usize, seed: u64) {
    feed("instant names", &names(), 40 * share, seed, instant_name);
    feed("manifests", &manifests(), 22 * share, seed, |b| drop(parse_manifest(b)));
    feed("properties", &properties(), 22 * share, seed, |b| drop(Properties::parse(b)));
    feed("metadata", &avro(), 14 * share, seed, metadata);
    let history = History::new(&format!("{seed}-{share}"));
    feed("history files", &history.contents, 2 * share, seed, |b| history.read(b));
}

#[test]
fn some_inputs() {
    run(300, 1);
}

#[test]
#[ignore = "minutes: see the head of this file"]
fn ten_million_inputs() {
    std::thread::scope(|scope| {
        for seed in 2..4 {
            scope.spawn(move || run(50_000, seed));
        }
    });
}
