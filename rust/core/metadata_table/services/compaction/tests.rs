//! What a compaction makes of a shard is what readers make of its base file and its log files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::type_complexity)]

use arrow::array::RecordBatch;
use hoodoo_hfile::{HFileReader, HFileWriter, HFileWriterOptions};

use super::logs::merge_logs;
use super::shard::{Compacted, compact_shard};
use super::shard_records::ShardRecords;
use super::statistics;
use crate::error::ErrorKind;
use crate::file_group::{BaseFile, FileSlice, LogFile};
use crate::format::column_range::{ColumnRange, FileRanges, RangeValue, ValueType};
use crate::format::log::{BlockKind, Deletes, HeaderKey, OrderingValue, Wanted, each_batch_of_hfile, write_block};
use crate::metadata_table::FOLDER;
use crate::metadata_table::column_ranges::IndexVersion;
use crate::metadata_table::column_ranges::records::column_stats_records;
use crate::metadata_table::column_stats;
use crate::metadata_table::encode::{
    FileEntries, RECORD_SCHEMA, bloom_record, files_record, record_index_record, secondary_record,
};
use crate::metadata_table::kind::Kind;
use crate::metadata_table::merge::ShardReader;
use crate::metadata_table::write::base_file::NewBaseFile;
use crate::storage::{FileMeta, Storage, StorageOptions};
use crate::timeline::TimeZone;

type Record = (Vec<u8>, Vec<u8>);

fn hfile(records: &[Record]) -> Vec<u8> {
    let mut file = HFileWriter::new(Vec::new(), HFileWriterOptions::default());
    for (key, value) in records {
        file.append(key, value).unwrap();
    }
    file.finish().unwrap()
}

fn flat(value: &[u8]) -> RecordBatch {
    let file = HFileReader::open(bytes::Bytes::from(hfile(&[(b"k".to_vec(), value.to_vec())]))).unwrap();
    let mut rows = None;
    let columns = ["key", "ColumnStatsMetadata"];
    each_batch_of_hfile(&file, Wanted::All, RECORD_SCHEMA, &columns, 10, &Ok, &mut |batch| {
        rows = Some(column_stats::flatten(&batch)?);
        Ok(())
    })
    .unwrap();
    rows.unwrap()
}

fn range(column: &str, value_type: ValueType, bounds: Option<(RangeValue, RangeValue)>) -> ColumnRange {
    let (min, max) = bounds.unzip();
    ColumnRange {
        column: column.to_owned(),
        min,
        max,
        value_count: 3,
        null_count: 1,
        total_size: 10,
        total_uncompressed_size: 20,
        value_type,
    }
}

fn statistics_of(ranges: Vec<ColumnRange>, version: IndexVersion) -> Vec<Vec<u8>> {
    let ranges = FileRanges { ranges, ..FileRanges::default() };
    column_stats_records("p", "f", &ranges, version).into_iter().map(|(_, value)| value).collect()
}

/// Ranges of a column of each type, twice: none contains the other.
fn pairs() -> Vec<(ColumnRange, ColumnRange)> {
    use RangeValue as V;
    let decimal = |n: i128| V::Decimal(n);
    let text = |s: &str| V::String(s.to_owned());
    let of = |value_type: ValueType, old: (V, V), new: (V, V)| {
        (range("c", value_type, Some(old)), range("c", value_type, Some(new)))
    };
    let mut pairs = vec![
        of(ValueType::Int, (V::Int(-5), V::Int(9)), (V::Int(2), V::Int(10))),
        of(ValueType::Long, (V::Long(2), V::Long(1 << 40)), (V::Long(-(1 << 50)), V::Long(3))),
        of(ValueType::Date, (V::Int(2), V::Int(100)), (V::Int(1), V::Int(7))),
        of(ValueType::Double, (V::Double(-0.5), V::Double(2.0)), (V::Double(0.0), V::Double(f64::INFINITY))),
        of(ValueType::Float, (V::Float(1.5), V::Float(2.5)), (V::Float(-1.5), V::Float(2.0))),
        of(ValueType::Boolean, (V::Boolean(false), V::Boolean(false)), (V::Boolean(true), V::Boolean(true))),
        of(ValueType::String, (text("b"), text("c")), (text("a"), text("ä"))),
        of(ValueType::Decimal(20, 2), (decimal(-1), decimal(300)), (decimal(-70_000), decimal(200))),
        of(ValueType::Decimal(38, 0), (decimal(0), decimal(1 << 100)), (decimal(128), decimal(-1))),
    ];
    let none = |value_type| range("c", value_type, None);
    pairs.push((none(ValueType::Null), range("c", ValueType::Long, Some((V::Long(1), V::Long(2))))));
    pairs.push((range("c", ValueType::Long, Some((V::Long(1), V::Long(2)))), none(ValueType::Null)));
    pairs.push((none(ValueType::Null), none(ValueType::Null)));
    pairs
}

#[test]
fn stored_statistics_are_merged_as_readers_merge_them() {
    for version in [IndexVersion::V1, IndexVersion::V2] {
        // Statistics of the first version have no decimals of so many digits.
        let is_stored =
            |range: &ColumnRange| version == IndexVersion::V2 || range.value_type != ValueType::Decimal(38, 0);
        for (old, new) in pairs().into_iter().filter(|(old, _)| is_stored(old)) {
            let context = format!("{old:?} {new:?}");
            let olds = statistics_of(vec![old], version);
            let news = statistics_of(vec![new], version);
            let (Some(old), Some(new)) = (olds.first(), news.first()) else { continue };
            let merged = statistics::merge(old, new).unwrap().unwrap();
            let wanted = column_stats::combine((&flat(old), 0), (&flat(new), 0)).unwrap().unwrap();
            assert_eq!(flat(&merged), wanted, "{context}");
        }
    }
}

#[test]
fn deleted_and_damaged_statistics() {
    let record = statistics_of(
        vec![range("c", ValueType::Int, Some((RangeValue::Int(1), RangeValue::Int(2))))],
        IndexVersion::V2,
    );
    assert!(!statistics::is_deleted(&record[0]).unwrap());
    // The two fields behind the statistics are not looked at.
    for end in 0..record[0].len() - 2 {
        assert_eq!(statistics::is_deleted(&record[0][..end]).unwrap_err().kind(), ErrorKind::Corrupt, "{end}");
    }
    assert_eq!(statistics::is_deleted(&secondary_record(true)).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// A log file of deletes and records, which come in any order.
fn log_file(storage: &Storage, partition: &str, instant: &str, deletes: &[&str], mut records: Vec<Record>) -> LogFile {
    let header = [(HeaderKey::InstantTime, instant), (HeaderKey::Schema, RECORD_SCHEMA)];
    let mut content = Vec::new();
    if !deletes.is_empty() {
        let deletes: Vec<_> = deletes.iter().map(|key| (*key, partition, OrderingValue::Default)).collect();
        write_block(&mut content, BlockKind::Delete, &header, &Deletes::write(deletes.into_iter()).unwrap()).unwrap();
    }
    records.sort();
    if !records.is_empty() {
        write_block(&mut content, BlockKind::HfileData, &header, &hfile(&records)).unwrap();
    }
    let path = format!("{FOLDER}/{partition}/{}", LogFile::file_name("shard-0000-0", instant, 1, "0-0-0"));
    let size = content.len() as u64;
    storage.create(&path, content).unwrap();
    LogFile::parse(&FileMeta { path, size, modified_ms: 0 }).unwrap()
}

fn base_file(storage: &Storage, partition: &str, instant: &str, mut records: Vec<Record>) -> BaseFile {
    records.sort();
    let mut file = NewBaseFile::create(storage, partition, "shard-0000-0", instant, "0-0-0").unwrap();
    for (key, value) in &records {
        file.append(key, value).unwrap();
    }
    let stat = file.finish().unwrap();
    let path = format!("{FOLDER}/{}", stat.path.unwrap());
    BaseFile::parse(&FileMeta { path, size: stat.file_size_in_bytes.unwrap() as u64, modified_ms: 0 }).unwrap()
}

fn slice(partition: &str, base: Option<BaseFile>, logs: Vec<LogFile>) -> FileSlice {
    let base_instant = base.as_ref().map_or("001", |base| &base.instant).to_owned();
    let (partition, file_id) = (format!("{FOLDER}/{partition}"), "shard-0000-0".to_owned());
    FileSlice { partition, file_id, base_instant, base, logs }
}

/// The rows that readers see of a slice, in the order of their keys.
fn rows(storage: &Storage, kind: Kind, slice: &FileSlice) -> Vec<String> {
    let reader = ShardReader { storage, kind, zone: TimeZone::Utc, wanted: Wanted::All };
    let mut rows = Vec::new();
    let mut add = |batch: RecordBatch| {
        rows.extend((0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1).columns())));
        Ok(())
    };
    reader.each_row(slice, |instant| instant != "999", &mut add).unwrap();
    rows.sort();
    rows
}

fn storage(name: &str) -> Storage {
    Storage::open(&format!("memory://mdt-compaction-{name}/t"), &StorageOptions::new()).unwrap()
}

/// Compacts a slice; the slice afterwards.
fn compacted(storage: &Storage, kind: Kind, before: &FileSlice, instant: &str) -> FileSlice {
    match compact_shard(storage, kind, before, |instant| instant != "999", instant, "0-0-0").unwrap() {
        Compacted::Skipped { why, .. } => panic!("{why}"),
        Compacted::Written(stat) => {
            let path = format!("{FOLDER}/{}", stat.path.unwrap());
            let file = FileMeta { path, size: stat.file_size_in_bytes.unwrap() as u64, modified_ms: 0 };
            let partition = before.partition.strip_prefix(FOLDER).unwrap().trim_start_matches('/');
            slice(partition, BaseFile::parse(&file), Vec::new())
        }
    }
}

/// Compacts the log files of a slice; the slice afterwards, in which the files of before still are.
fn logs_compacted(storage: &Storage, kind: Kind, before: &FileSlice, instant: &str) -> FileSlice {
    let stat = merge_logs(storage, kind, before, |instant| instant != "999", instant).unwrap();
    let path = format!("{FOLDER}/{}", stat.path.unwrap());
    let file = FileMeta { path, size: stat.file_size_in_bytes.unwrap() as u64, modified_ms: 0 };
    let mut after = before.clone();
    after.logs.push(LogFile::parse(&file).unwrap());
    after
}

/// Files of a slice that a reader needs after a log compaction.
fn without_the_merged(slice: &FileSlice, instant: &str) -> FileSlice {
    let logs = slice.logs.iter().filter(|log| log.instant.as_str() >= instant).cloned().collect();
    FileSlice { logs, ..slice.clone() }
}

#[test]
fn readers_see_the_same_afterwards() {
    let key = |name: &str| name.as_bytes().to_vec();
    let location = |file: &str, at: i64| record_index_record("p", file, at);
    let cases: [(Kind, &str, &dyn Fn(&str, i64) -> Vec<u8>); 3] = [
        (Kind::RecordIndex, "record_index", &|file, at| location(file, at)),
        (Kind::BloomFilters, "bloom_filters", &|file, at| bloom_record("SIMPLE", file, b"x", at == 3)),
        (Kind::SecondaryIndex, "secondary_index_i", &|_, at| secondary_record(at == 3)),
    ];
    for (kind, partition, value) in cases {
        for with_base in [true, false] {
            let storage = storage(&format!("{partition}-{with_base}"));
            let names: Vec<String> = (0..40).map(|n| format!("k{n:02}$x")).collect();
            let records = |from: usize, to: usize, at: i64| -> Vec<Record> {
                names[from..to].iter().map(|name| (key(name), value(name, at))).collect()
            };
            let base = with_base.then(|| base_file(&storage, partition, "001", records(5, 20, 1)));
            let logs = vec![
                log_file(&storage, partition, "010", &["k06$x", "k30$x"], records(10, 25, 2)),
                log_file(&storage, partition, "020", &["k11$x", "none$x"], records(8, 12, 3)),
                log_file(&storage, partition, "030", &[], records(6, 7, 4)),
                // Of an instant that does not count.
                log_file(&storage, partition, "999", &["k05$x"], records(0, 40, 9)),
                log_file(&storage, partition, "040", &[], records(35, 40, 5)),
            ];
            let before = slice(partition, base, logs);
            let after = compacted(&storage, kind, &before, "100");
            let wanted = rows(&storage, kind, &before);
            assert!(wanted.len() > 10, "{partition}");
            let merged = logs_compacted(&storage, kind, &before, "050");
            assert_eq!(rows(&storage, kind, &merged), wanted, "{partition}, log compaction");
            assert_eq!(rows(&storage, kind, &without_the_merged(&merged, "050")), wanted, "{partition}, alone");
            // Log compactions of log compactions, and a compaction of it all.
            let mut later = merged.clone();
            later.logs.push(log_file(&storage, partition, "060", &["k07$x", "k38$x"], records(30, 33, 7)));
            let wanted_later = rows(&storage, kind, &later);
            assert_ne!(wanted_later, wanted);
            let again = logs_compacted(&storage, kind, &later, "070");
            assert_eq!(rows(&storage, kind, &again), wanted_later, "{partition}, again");
            assert_eq!(rows(&storage, kind, &compacted(&storage, kind, &again, "080")), wanted_later, "{partition}");
            assert_eq!(rows(&storage, kind, &after), wanted, "{partition}, with a base file: {with_base}");
            // And again, with more on top of it.
            let more = log_file(&storage, partition, "110", &["k36$x"], records(0, 3, 6));
            let before = FileSlice { logs: vec![more], ..after };
            let after = compacted(&storage, kind, &before, "200");
            assert_eq!(rows(&storage, kind, &after), rows(&storage, kind, &before), "{partition}");
        }
    }
}

#[test]
fn files_are_added_up() {
    let storage = storage("files");
    let record = |entries: &[(&'static str, u64, bool)]| files_record(entries.iter().copied(), FileEntries::Files);
    let partition = |name: &str, entries: &[(&'static str, u64, bool)]| (name.as_bytes().to_vec(), record(entries));
    let base = vec![partition("p", &[("a", 1, false), ("b", 2, false)]), partition("q", &[("x", 1, false)])];
    let base = base_file(&storage, "files", "001", base);
    let logs = vec![
        log_file(&storage, "files", "010", &[], vec![partition("p", &[("c", 3, false), ("a", 0, true)])]),
        log_file(&storage, "files", "020", &["q"], vec![partition("r", &[("y", 7, false)])]),
        log_file(&storage, "files", "030", &[], vec![partition("p", &[("c", 9, false), ("gone", 0, true)])]),
        // Came back, without the files that it had.
        log_file(&storage, "files", "040", &[], vec![partition("q", &[("z", 5, false)])]),
    ];
    let before = slice("files", Some(base), logs);
    let merged = logs_compacted(&storage, Kind::Files, &before, "050");
    // What is deleted stays in the log file: the base file has it.
    let alone = without_the_merged(&merged, "050");
    assert_eq!(compacted_files(&storage, &merged, "090"), compacted_files(&storage, &before, "100"));
    assert_eq!(compacted_files(&storage, &alone, "095"), compacted_files(&storage, &before, "105"));
    let wanted = vec![
        partition("p", &[("b", 2, false), ("c", 9, false), ("gone", 0, true)]),
        partition("q", &[("z", 5, false)]),
        partition("r", &[("y", 7, false)]),
    ];
    assert_eq!(compacted_files(&storage, &before, "110"), wanted);
}

/// The records of the base file that a compaction makes of a slice of files.
fn compacted_files(storage: &Storage, before: &FileSlice, instant: &str) -> Vec<Record> {
    let after = compacted(storage, Kind::Files, before, instant);
    let stored = HFileReader::open(storage.read(&after.base.unwrap().path).unwrap()).unwrap();
    let mut found = Vec::new();
    for block in stored.data_blocks().unwrap() {
        found.extend(block.unwrap().entries().map(|entry| (entry.key.to_vec(), entry.value.to_vec())));
    }
    found
}

#[test]
fn a_shard_without_records_has_an_empty_base_file() {
    let storage = storage("empty");
    let log = log_file(&storage, "record_index", "010", &["a"], Vec::new());
    let after = compacted(&storage, Kind::RecordIndex, &slice("record_index", None, vec![log]), "100");
    assert!(rows(&storage, Kind::RecordIndex, &after).is_empty());
}

#[test]
fn values_of_another_schema_are_left_alone() {
    let storage = storage("schema");
    let header =
        [(HeaderKey::InstantTime, "010"), (HeaderKey::Schema, r#"{"type":"record","name":"other","fields":[]}"#)];
    let mut content = Vec::new();
    write_block(&mut content, BlockKind::HfileData, &header, &hfile(&[(b"a".to_vec(), Vec::new())])).unwrap();
    let path = format!("{FOLDER}/record_index/{}", LogFile::file_name("shard-0000-0", "010", 1, "0-0-0"));
    let size = content.len() as u64;
    storage.create(&path, content).unwrap();
    let log = LogFile::parse(&FileMeta { path, size, modified_ms: 0 }).unwrap();
    let before = slice("record_index", None, vec![log]);
    let outcome = compact_shard(&storage, Kind::RecordIndex, &before, |_| true, "100", "0-0-0").unwrap();
    assert!(matches!(outcome, Compacted::Skipped { why, .. } if why.kind() == ErrorKind::Unsupported));
    let refused = merge_logs(&storage, Kind::RecordIndex, &before, |_| true, "100").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert_eq!(storage.list(&format!("{FOLDER}/record_index")).unwrap().files.len(), 1);
}

#[test]
fn a_key_that_came_back_is_there() {
    let mut records = ShardRecords::new(Kind::RecordIndex).unwrap();
    let value = record_index_record("p", "f", 1);
    records.add(b"k", &value).unwrap();
    records.delete(b"k");
    records.add(b"k", &value).unwrap();
    assert_eq!(records.pop_before(Some(b"a")), None);
    let (key, logged) = records.pop_before(None).unwrap();
    assert_eq!(records.value(&key, logged, Some(b"older")).unwrap(), Some(value));
}
