//! Reading and writing the history against a plain list.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel};
use parquet::file::properties::WriterProperties;

use super::entry::{FILE_SCHEMA, to_batch};
use super::manifest::{HistoryFile, HistoryFolder};
use super::*;
use crate::{TimeZone, TimelineConfig};
use hoodoo_format::instant::{Action, Layout};
use hoodoo_storage::{Storage, StorageOptions};

fn config() -> TimelineConfig {
    TimelineConfig {
        layout: Layout::V2,
        folder: ".hoodie/timeline".into(),
        history_folder: ".hoodie/timeline/history".into(),
        zone: TimeZone::Utc,
        was_version_6: false,
    }
}

fn storage(name: &str) -> Storage {
    Storage::open(&format!("memory://history-{name}/t"), &StorageOptions::new()).unwrap()
}

fn entry(n: usize) -> HistoryEntry {
    let action = [Action::Commit, Action::Clean, Action::ReplaceCommit][n % 3];
    HistoryEntry {
        requested: format!("{:017}", 20_260_101_000_000_000u64 + n as u64 * 1_000),
        completed: format!("{:017}", 20_260_101_000_000_500u64 + n as u64 * 1_000),
        action,
        metadata: Some(Bytes::from(format!("metadata of {n} {}", "x".repeat(n % 50)))),
        plan: (action != Action::Commit).then(|| Bytes::from(format!("plan {n}"))),
    }
}

fn entries_of(range: std::ops::Range<usize>) -> Vec<HistoryEntry> {
    range.map(entry).collect()
}

/// A file as Hudi writes it: gzip, one row group, no word about the order.
fn write_foreign(storage: &Storage, level: u32, entries: &[HistoryEntry]) -> HistoryFile {
    let min = entries.iter().map(|e| e.requested.as_str()).min().unwrap();
    let max = entries.iter().map(|e| e.requested.as_str()).max().unwrap();
    let folder = HistoryFolder::new(storage, &config());
    let name = HistoryFile::name_of(min, max, level);
    let properties = WriterProperties::builder()
        .set_compression(Compression::GZIP(GzipLevel::default()))
        .set_data_page_row_count_limit(7)
        .set_write_batch_size(7)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, FILE_SCHEMA.clone(), Some(properties)).unwrap();
    writer.write(&to_batch(entries).unwrap()).unwrap();
    writer.close().unwrap();
    let file = HistoryFile::parse(&name, bytes.len() as u64).unwrap();
    storage.replace(&folder.path(&name), bytes).unwrap();
    let snapshot = folder.load().unwrap();
    folder.publish(&snapshot.next(&[], Some(file.clone()))).unwrap();
    file
}

fn all(storage: &Storage) -> Vec<HistoryEntry> {
    HistoryReader::new(storage, &config()).read(None, None, LoadMode::Full).unwrap()
}

#[test]
fn what_was_appended_is_read() {
    let storage = storage("append");
    let writer = HistoryWriter::new(&storage, &config());
    assert_eq!(all(&storage), []);
    let file = writer.append(&entries_of(0..10)).unwrap().unwrap();
    assert_eq!((file.level, file.min), (0, entry(0).requested));
    writer.append(&entries_of(10..25)).unwrap();
    assert_eq!(all(&storage), entries_of(0..25));
    let snapshot = HistoryReader::new(&storage, &config()).snapshot().unwrap();
    assert_eq!((snapshot.version, snapshot.files.len()), (2, 2));
}

#[test]
fn an_archiving_that_died_and_is_done_again_doubles_nothing() {
    let storage = storage("again");
    let writer = HistoryWriter::new(&storage, &config());
    writer.append(&entries_of(0..10)).unwrap();
    assert_eq!(writer.append(&entries_of(0..10)).unwrap(), None);
    // Meanwhile more has become due.
    let file = writer.append(&entries_of(0..12)).unwrap().unwrap();
    assert_eq!(file.min, entry(10).requested);
    assert_eq!(all(&storage), entries_of(0..12));
    // And one in the middle that was not there before.
    let odd = HistoryEntry { requested: "20260101000004500".into(), ..entry(4) };
    let again = writer.append(&[entry(0), odd.clone(), entry(11)]).unwrap().unwrap();
    assert_eq!((again.min.as_str(), again.max.as_str()), ("20260101000004500", "20260101000004500"));
    assert_eq!(all(&storage).len(), 13);
    assert_eq!(all(&storage)[5], odd);
}

#[test]
fn writes_that_were_undone_are_taken_out() {
    let storage = storage("undone");
    let writer = HistoryWriter::new(&storage, &config());
    for from in (0..40).step_by(10) {
        writer.append(&entries_of(from..from + 10)).unwrap();
    }
    writer.compact(&CompactionLimits { batch_size: 2, ..CompactionLimits::default() }).unwrap();
    // Cleans stay; every third entry is one. The last file has other entries between its first and its last.
    let gone = |e: &HistoryEntry| e.action != Action::Clean && (13..36).any(|n| entry(n).requested == e.requested);
    let undone: HashSet<String> = (13..36).map(|n| entry(n).requested).collect();
    let version = writer.load().unwrap().version;
    let left: Vec<HistoryEntry> = entries_of(0..40).into_iter().filter(|e| !gone(e)).collect();
    assert_eq!(writer.remove_writes(&undone).unwrap(), 40 - left.len());
    assert_eq!(all(&storage), left);
    assert_eq!(writer.load().unwrap().version, version + 1, "one version");
    assert_eq!(writer.remove_writes(&undone).unwrap(), 0, "again");
    assert_eq!(writer.load().unwrap().version, version + 1);
    // What is archived next goes behind it, and all of it is compacted.
    writer.append(&entries_of(40..50)).unwrap();
    writer.compact(&CompactionLimits { batch_size: 2, ..CompactionLimits::default() }).unwrap();
    assert_eq!(all(&storage), left.into_iter().chain(entries_of(40..50)).collect::<Vec<_>>());
    // A file of which nothing stays.
    let rest: HashSet<String> = (0..50).map(|n| entry(n).requested).collect();
    writer.remove_writes(&rest).unwrap();
    assert!(all(&storage).iter().all(|e| e.action == Action::Clean));
}

#[test]
fn ranges_and_modes() {
    let storage = storage("ranges");
    let writer = HistoryWriter::new(&storage, &config());
    for start in (0..1_000).step_by(100) {
        writer.append(&entries_of(start..start + 100)).unwrap();
    }
    writer.compact(&CompactionLimits { batch_size: 4, ..CompactionLimits::default() }).unwrap();
    let reader = HistoryReader::new(&storage, &config());
    for (from, to) in [(0, 999), (0, 0), (999, 999), (150, 649), (399, 400), (42, 43)] {
        let (since, until) = (entry(from).requested, entry(to).requested);
        let found = reader.read(Some(&since), Some(&until), LoadMode::Full).unwrap();
        assert_eq!(found, entries_of(from..to + 1), "{from}..={to}");
        let range = TimeRange::open_closed(&since, &until);
        let times: usize = reader.scan(range, LoadMode::Time).unwrap().map(|b| b.unwrap().num_rows()).sum();
        assert_eq!(times, to - from);
    }
    assert_eq!(reader.read(Some("3"), None, LoadMode::Full).unwrap(), []);
    let batches: Vec<RecordBatch> =
        reader.scan(TimeRange::all(), LoadMode::Plan).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches[0].schema(), LoadMode::Plan.schema());
    for count in [1, 7, 100, 101, 1_000, 5_000] {
        let newest = reader.newest(count, LoadMode::Metadata).unwrap();
        let expected = entries_of(1_000usize.saturating_sub(count)..1_000);
        let times = |all: &[HistoryEntry]| all.iter().map(|e| e.requested.clone()).collect::<Vec<_>>();
        assert_eq!(times(&newest), times(&expected), "{count}");
    }
}

#[test]
fn compaction_keeps_all_instants_on_every_level() {
    let storage = storage("compact");
    let writer = HistoryWriter::new(&storage, &config());
    let limits = CompactionLimits { batch_size: 3, ..CompactionLimits::default() };
    for round in 0..40 {
        writer.append(&entries_of(round * 5..round * 5 + 5)).unwrap();
        writer.compact(&limits).unwrap();
        assert_eq!(all(&storage), entries_of(0..round * 5 + 5), "round {round}");
    }
    let snapshot = HistoryReader::new(&storage, &config()).snapshot().unwrap();
    // 40 in base 3 is 1111.
    let levels: Vec<u32> = snapshot.files.iter().map(|f| f.level).collect();
    assert_eq!(levels, [3, 2, 1, 0]);
    let listed = storage.list(".hoodie/timeline/history").unwrap().files;
    assert!(listed.len() < 16, "old versions and files are removed: {}", listed.len());
}

#[test]
fn files_that_overlap_or_are_out_of_order_are_put_into_order() {
    let storage = storage("overlap");
    let first: Vec<HistoryEntry> = entries_of(0..40);
    write_foreign(&storage, 0, &first);
    // Archived twice, with another body: the first wins. And one out of order.
    let mut second: Vec<HistoryEntry> = entries_of(30..60);
    second[3].plan = Some(Bytes::from_static(b"another"));
    second.swap(5, 25);
    write_foreign(&storage, 1, &second);
    write_foreign(&storage, 0, &entries_of(60..70));
    assert_eq!(all(&storage), entries_of(0..70));
    let reader = HistoryReader::new(&storage, &config());
    let (since, until) = (entry(35).requested, entry(64).requested);
    assert_eq!(reader.read(Some(&since), Some(&until), LoadMode::Full).unwrap(), entries_of(35..65));
    let newest = reader.newest(20, LoadMode::Full).unwrap();
    assert_eq!(newest, entries_of(50..70));
    let light = reader.read(None, None, LoadMode::Action).unwrap();
    assert_eq!(light.len(), 70);
    // Compaction puts them into order for good.
    HistoryWriter::new(&storage, &config())
        .compact(&CompactionLimits { batch_size: 2, ..CompactionLimits::default() })
        .unwrap();
    assert_eq!(all(&storage), entries_of(0..70));
}

#[test]
fn stray_files_and_a_lost_version_file_break_nothing() {
    let storage = storage("stray");
    let writer = HistoryWriter::new(&storage, &config());
    writer.append(&entries_of(0..5)).unwrap();
    let folder = ".hoodie/timeline/history";
    let next = HistoryFile::name_of(&entry(5).requested, &entry(9).requested, 0);
    for (name, content) in
        [(next.as_str(), &b"half a file"[..]), ("manifest_x", b"?"), ("notes.txt", b"?"), (".manifest_1.crc", b"?")]
    {
        storage.replace(&format!("{folder}/{name}"), content).unwrap();
    }
    assert_eq!(all(&storage), entries_of(0..5));
    writer.append(&entries_of(5..10)).unwrap();
    assert_eq!(all(&storage), entries_of(0..10));
    storage.replace(&format!("{folder}/_version_"), "seven").unwrap();
    assert_eq!(all(&storage), entries_of(0..10));
    storage.replace(&format!("{folder}/_version_"), "77").unwrap();
    assert_eq!(all(&storage), entries_of(0..10));
    storage.delete(&format!("{folder}/_version_")).unwrap();
    writer.append(&entries_of(10..15)).unwrap();
    assert_eq!(all(&storage), entries_of(0..15));
}

#[test]
fn damaged_files_are_errors_that_name_the_file() {
    let storage = storage("damaged");
    let writer = HistoryWriter::new(&storage, &config());
    let file = writer.append(&entries_of(0..50)).unwrap().unwrap();
    let path = format!(".hoodie/timeline/history/{}", file.name);
    let whole = storage.read(&path).unwrap();
    for cut in [0, 4, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        storage.replace(&path, whole.slice(..cut)).unwrap();
        let error = HistoryReader::new(&storage, &config()).read(None, None, LoadMode::Full).unwrap_err();
        assert_eq!(error.context().iter().find(|(n, _)| *n == "file").unwrap().1, path, "{error}");
    }
    let mut other = Vec::new();
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
        "instantTime",
        arrow::datatypes::DataType::Int64,
        false,
    )]));
    let mut writer = ArrowWriter::try_new(&mut other, schema.clone(), None).unwrap();
    writer.write(&RecordBatch::new_empty(schema)).unwrap();
    writer.close().unwrap();
    let listed = HistoryFile::parse(&file.name, other.len() as u64);
    storage.replace(&path, other).unwrap();
    let folder = HistoryFolder::new(&storage, &config());
    folder.publish(&folder.load().unwrap().next(&[file], listed)).unwrap();
    let error = HistoryReader::new(&storage, &config()).read(None, None, LoadMode::Full).unwrap_err();
    assert!(error.message().contains("instantTime"), "{error}");
}

#[test]
fn readers_go_on_while_files_are_compacted_away() {
    let storage = storage("race");
    let writer = HistoryWriter::new(&storage, &config());
    for start in (0..3_000).step_by(100) {
        writer.append(&entries_of(start..start + 100)).unwrap();
    }
    let limits = CompactionLimits { batch_size: 2, retained_versions: 1, ..CompactionLimits::default() };
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            for start in (3_000..6_000).step_by(100) {
                writer.append(&entries_of(start..start + 100)).unwrap();
                writer.compact(&limits).unwrap();
            }
        });
        let until = entry(2_999).requested;
        while !compacting.is_finished() {
            let reader = HistoryReader::new(&storage, &config());
            match reader.read(None, Some(&until), LoadMode::Full) {
                Ok(found) => assert_eq!(found, entries_of(0..3_000)),
                // One version retained is fewer than Hudi's default; a reader may then lose the race, but says so.
                Err(e) => assert!(
                    matches!(e.kind(), hoodoo_runtime::ErrorKind::NotFound | hoodoo_runtime::ErrorKind::Conflict),
                    "{e}"
                ),
            }
        }
    });
    assert_eq!(all(&storage), entries_of(0..6_000));
}

/// Bodies that no codec makes small, from a generator of one line.
fn large(n: usize, bytes: usize) -> HistoryEntry {
    let mut state = n as u64 + 1;
    let noise: Vec<u8> = (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .collect();
    HistoryEntry { metadata: Some(noise.into()), ..entry(n) }
}

fn row_groups(storage: &Storage, name: &str) -> Vec<(i64, usize)> {
    let bytes = storage.read(&HistoryFolder::new(storage, &config()).path(name)).unwrap();
    let options = parquet::file::serialized_reader::ReadOptionsBuilder::new().with_page_index().build();
    let reader = parquet::file::serialized_reader::SerializedFileReader::new_with_options(bytes, options).unwrap();
    let metadata = parquet::file::reader::FileReader::metadata(&reader);
    let pages = |g: usize| metadata.page_index().unwrap().offset_index(g, 3).unwrap().page_locations().len();
    metadata.row_groups().iter().enumerate().map(|(g, group)| (group.num_rows(), pages(g))).collect()
}

#[test]
fn large_pages_are_taken_over() {
    let storage = storage("splice");
    let writer = HistoryWriter::new(&storage, &config());
    let limits = CompactionLimits { batch_size: 3, ..CompactionLimits::default() };
    let mut model = Vec::new();
    for file in 0..9 {
        let rows: Vec<HistoryEntry> = (file * 50..file * 50 + 50).map(|n| large(n, 4_000)).collect();
        writer.append(&rows).unwrap();
        model.extend(rows);
        writer.compact(&limits).unwrap();
    }
    let [merged] = HistoryReader::new(&storage, &config()).snapshot().unwrap().files.try_into().unwrap();
    // One page came from each of the nine files.
    assert_eq!((merged.level, row_groups(&storage, &merged.name)), (2, vec![(450, 9)]));
    assert_eq!(all(&storage), model);
    let reader = HistoryReader::new(&storage, &config());
    for range in [0..1, 49..51, 120..330, 449..450] {
        let found =
            reader.read(Some(&model[range.start].requested), Some(&model[range.end - 1].requested), LoadMode::Full);
        assert_eq!(found.unwrap(), model[range]);
    }
    assert_eq!(reader.newest(7, LoadMode::Full).unwrap(), model[443..]);
}

#[test]
fn large_row_groups_stay_whole() {
    let storage = storage("splice-groups");
    let writer = HistoryWriter::new(&storage, &config());
    let limits = CompactionLimits { batch_size: 3, ..CompactionLimits::default() };
    let mut model = Vec::new();
    for (file, bytes) in [(0, 40_000), (1, 40_000), (2, 200)] {
        let rows: Vec<HistoryEntry> = (file * 600..file * 600 + 600).map(|n| large(n, bytes)).collect();
        writer.append(&rows).unwrap();
        model.extend(rows);
    }
    writer.compact(&limits).unwrap();
    let [merged] = HistoryReader::new(&storage, &config()).snapshot().unwrap().files.try_into().unwrap();
    let groups = row_groups(&storage, &merged.name);
    assert_eq!(groups.iter().map(|(rows, _)| *rows).collect::<Vec<_>>(), [600, 600 + 600], "{groups:?}");
    assert_eq!(all(&storage), model);
}

#[test]
fn overlapping_files_are_not_spliced() {
    let storage = storage("no-splice");
    let writer = HistoryWriter::new(&storage, &config());
    let limits = CompactionLimits { batch_size: 2, ..CompactionLimits::default() };
    let odd = |n: &usize| n % 2 == 1;
    let of = |keep: &dyn Fn(&usize) -> bool| (0..100).filter(keep).map(|n| large(n, 4_000)).collect::<Vec<_>>();
    writer.append(&of(&odd)).unwrap();
    writer.append(&of(&|n| !odd(n))).unwrap();
    writer.compact(&limits).unwrap();
    assert_eq!(all(&storage), (0..100).map(|n| large(n, 4_000)).collect::<Vec<_>>());
}

#[test]
fn names_of_hudis_upgrade_are_no_times() {
    let storage = storage("upgraded");
    let config = TimelineConfig { was_version_6: true, ..config() };
    // Each file has a row of long ago as its last one, and is named by its first and last row.
    for file in 0..4 {
        let mut entries = entries_of(20 + file * 10..30 + file * 10);
        entries.push(entry(file));
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, FILE_SCHEMA.clone(), None).unwrap();
        writer.write(&to_batch(&entries).unwrap()).unwrap();
        writer.close().unwrap();
        let folder = HistoryFolder::new(&storage, &config);
        let name = HistoryFile::name_of(&entry(25 + file * 10).requested, &entry(27 + file * 10).requested, 0);
        let named = HistoryFile::parse(&name, bytes.len() as u64).unwrap();
        storage.replace(&folder.path(&name), bytes).unwrap();
        folder.publish(&folder.load().unwrap().next(&[], Some(named))).unwrap();
    }
    let wanted: Vec<HistoryEntry> = entries_of(0..4).into_iter().chain(entries_of(20..60)).collect();
    let check = || {
        let reader = HistoryReader::new(&storage, &config);
        assert_eq!(reader.read(None, None, LoadMode::Full).unwrap(), wanted);
        for (since, until) in [(0, 3), (2, 21), (22, 24), (29, 31), (58, 70), (4, 19)] {
            let (from, to) = (entry(since).requested, entry(until).requested);
            let found = reader.read(Some(&from), Some(&to), LoadMode::Full).unwrap();
            let inside = |e: &&HistoryEntry| e.requested >= from && e.requested <= to;
            assert_eq!(found, wanted.iter().filter(inside).cloned().collect::<Vec<_>>(), "{since}..{until}");
        }
        assert_eq!(reader.newest(3, LoadMode::Full).unwrap(), entries_of(57..60));
    };
    check();
    let limits = CompactionLimits { batch_size: 2, ..CompactionLimits::default() };
    assert!(HistoryWriter::new(&storage, &config).compact(&limits).unwrap().levels > 0);
    check();
    // A restore takes writes out wherever they are.
    let gone: HashSet<String> = [entry(0).requested].into();
    assert_eq!(HistoryWriter::new(&storage, &config).remove_writes(&gone).unwrap(), 1);
}
