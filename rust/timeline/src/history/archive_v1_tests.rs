#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use hoodoo_format::avro::datum::write_datum;
use hoodoo_format::avro::metadata::{
    CleanerPlan, CommitMetadata, CompactionPlan, IndexCommitMetadata, ReplaceCommitMetadata, RequestedReplaceMetadata,
    RollbackMetadata, SavepointMetadata,
};
use hoodoo_format::log::MAGIC;
use hoodoo_storage::StorageOptions;

fn store() -> Storage {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let uri = format!("memory://archive-v1-{}/t", COUNT.fetch_add(1, Ordering::Relaxed));
    Storage::open(&uri, &StorageOptions::new()).unwrap()
}

fn entry(time: &str, action: &str, state: Option<&str>) -> ArchivedMetaEntry {
    ArchivedMetaEntry {
        commit_time: Some(time.into()),
        action_type: Some(action.into()),
        action_state: state.map(str::to_owned),
        state_transition_time: Some(format!("{time}9")),
        ..Default::default()
    }
}

fn commit(operation: &str) -> CommitMetadata {
    CommitMetadata { operation_type: Some(operation.into()), ..Default::default() }
}

/// A log file with one data block.
fn log(entries: &[ArchivedMetaEntry]) -> Vec<u8> {
    let schema = ArchivedMetaEntry::avro_schema();
    let mut content = 3u32.to_be_bytes().to_vec();
    content.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
    for entry in entries {
        let mut datum = Vec::new();
        write_datum(schema.datum(), entry, &mut datum).unwrap();
        content.extend(u32::try_from(datum.len()).unwrap().to_be_bytes());
        content.extend(datum);
    }
    let mut inside = [1u32, 3, 1, 2, u32::try_from(schema.json().len()).unwrap()].map(u32::to_be_bytes).concat();
    inside.extend(schema.json().bytes());
    inside.extend((content.len() as u64).to_be_bytes());
    inside.extend(content);
    inside.extend(0u32.to_be_bytes());
    let size = inside.len() as u64 + 8;
    [MAGIC.as_slice(), &size.to_be_bytes(), &inside, &(size + 6).to_be_bytes()].concat()
}

fn read_all(storage: &Storage) -> Result<Vec<HistoryEntry>> {
    read(storage, "h", &TimeRange::all(), LoadMode::Full)
}

fn summary(entries: &[HistoryEntry]) -> Vec<(&str, &str, Action)> {
    entries.iter().map(|e| (e.requested.as_str(), e.completed.as_str(), e.action)).collect()
}

#[test]
fn file_numbers_are_those_of_hudi() {
    assert_eq!(number_of(".commits_.archive.12_1-0-1"), 12);
    assert_eq!(number_of(".commits_.archive.7"), 7);
    for name in [".commits_.archive", ".commits_.archive.99999999999_1-0-1", ".commits_.archive.x", ".commits_.archivé"]
    {
        assert_eq!(number_of(name), 0, "{name}");
    }
}

#[test]
fn states_become_one_entry_with_metadata_and_plan() {
    let s = store();
    let plan = CompactionPlan::default();
    let profile = ArchivedMetaEntry {
        inflight_replace: Some(commit("PROFILE")),
        ..entry("3", "replacecommit", Some("INFLIGHT"))
    };
    let requested = ArchivedMetaEntry {
        requested_replace: Some(RequestedReplaceMetadata::default()),
        ..entry("3", "replacecommit", Some("REQUESTED"))
    };
    let replaced = ArchivedMetaEntry {
        replace_commit: Some(ReplaceCommitMetadata::default()),
        ..entry("3", "replacecommit", Some("COMPLETED"))
    };
    let first = [
        ArchivedMetaEntry { compaction_plan: Some(plan.clone()), ..entry("1", "compaction", Some("REQUESTED")) },
        ArchivedMetaEntry { compaction_plan: Some(plan.clone()), ..entry("1", "compaction", Some("INFLIGHT")) },
        ArchivedMetaEntry { commit: Some(commit("COMPACT")), ..entry("1", "commit", Some("COMPLETED")) },
        ArchivedMetaEntry { commit: Some(commit("PROFILE")), ..entry("2", "deltacommit", Some("INFLIGHT")) },
        ArchivedMetaEntry { commit: Some(commit("UPSERT")), ..entry("2", "deltacommit", Some("COMPLETED")) },
        profile,
        requested,
        replaced,
    ];
    // The states of one action may stand in two blocks.
    s.create("h/.commits_.archive.1_1-0-1", [log(&first[..2]), log(&first[2..])].concat()).unwrap();
    let clean =
        ArchivedMetaEntry { cleaner_plan: Some(CleanerPlan::default()), ..entry("4", "clean", Some("REQUESTED")) };
    s.create("h/.commits_.archive.2_1-0-1", log(&[clean.clone(), entry("4", "clean", Some("COMPLETED"))])).unwrap();
    s.create("h/other", "no archive").unwrap();

    let entries = read_all(&s).unwrap();
    assert_eq!(
        summary(&entries),
        [
            ("1", "19", Action::Commit),
            ("2", "29", Action::DeltaCommit),
            ("3", "39", Action::ReplaceCommit),
            ("4", "49", Action::Clean)
        ]
    );
    assert_eq!(entries[0].plan.as_deref().map(decode::<CompactionPlan>).unwrap().unwrap(), plan);
    assert_eq!(entries[0].metadata.as_deref().map(decode::<CommitMetadata>).unwrap().unwrap(), commit("COMPACT"));
    assert_eq!(entries[1].plan, None);
    assert_eq!(entries[2].plan.as_deref().map(decode::<CommitMetadata>).unwrap().unwrap(), commit("PROFILE"));
    assert_eq!((entries[3].metadata.as_ref(), entries[3].plan.is_some()), (None, true));

    let heads = read(&s, "h", &TimeRange::closed(Some("2"), Some("3")), LoadMode::Action).unwrap();
    assert_eq!(summary(&heads), summary(&entries[1..3]));
    assert!(heads.iter().all(|e| e.metadata.is_none() && e.plan.is_none()));
}

#[test]
fn every_body_has_its_place() {
    let all = ArchivedMetaEntry {
        clean: Some(Default::default()),
        rollback: Some(RollbackMetadata::default()),
        savepoint: Some(SavepointMetadata::default()),
        index_commit: Some(IndexCommitMetadata::default()),
        commit: Some(commit("UPSERT")),
        replace_commit: Some(ReplaceCommitMetadata::default()),
        compaction_plan: Some(CompactionPlan::default()),
        ..Default::default()
    };
    let named = |action, state| {
        body_of(&all, action, state).unwrap().map(|b| hoodoo_format::avro::container::record_name(&b).unwrap())
    };
    let done = |action| named(action, State::Completed);
    assert_eq!(done(Action::Clean).as_deref(), Some("HoodieCleanMetadata"));
    assert_eq!(done(Action::Rollback).as_deref(), Some("HoodieRollbackMetadata"));
    assert_eq!(done(Action::Savepoint).as_deref(), Some("HoodieSavepointMetadata"));
    assert_eq!(done(Action::Indexing).as_deref(), Some("HoodieIndexCommitMetadata"));
    assert_eq!(done(Action::Compaction).as_deref(), Some("HoodieCommitMetadata"));
    assert_eq!(done(Action::Clustering).as_deref(), Some("HoodieReplaceCommitMetadata"));
    assert_eq!(done(Action::Restore), None);
    assert_eq!(named(Action::LogCompaction, State::Inflight).as_deref(), Some("HoodieCompactionPlan"));
    assert_eq!(named(Action::Rollback, State::Requested), None);
}

#[test]
fn the_oldest_archives_have_neither_states_nor_times() {
    let s = store();
    let old = ArchivedMetaEntry { state_transition_time: None, ..entry("1", "commit", None) };
    let pending = entry("2", "commit", Some("INFLIGHT"));
    s.create("h/.commits_.archive.1_1-0-1", log(&[old, pending])).unwrap();
    assert_eq!(summary(&read_all(&s).unwrap()), [("1", "1", Action::Commit)]);
}

#[test]
fn an_instant_in_two_files_comes_once_and_the_oldest_counts() {
    let s = store();
    let of = |name: &str| ArchivedMetaEntry { commit: Some(commit(name)), ..entry("1", "commit", Some("COMPLETED")) };
    // As numbers 10 is after 9.
    s.create("h/.commits_.archive.10_1-0-1", log(&[of("LATER")])).unwrap();
    s.create("h/.commits_.archive.9_1-0-1", log(&[of("FIRST")])).unwrap();
    let entries = read_all(&s).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].metadata.as_deref().map(decode::<CommitMetadata>).unwrap().unwrap(), commit("FIRST"));
}

#[test]
fn a_file_that_a_merge_left_unfinished_is_passed_over() {
    let s = store();
    let whole = log(&[entry("1", "commit", Some("COMPLETED"))]);
    s.create("h/.commits_.archive.1_1-0-1", whole.clone()).unwrap();
    s.create("h/.commits_.archive.2_1-0-1", "not a log").unwrap();
    assert_eq!(read_all(&s).unwrap_err().kind(), ErrorKind::Corrupt);

    let mut plan = MergeArchiveFilePlan {
        merged_archive_file_name: Some(".commits_.archive.3_1-0-1".into()),
        ..Default::default()
    };
    s.create("h/mergeArchivePlan", encode(&plan).unwrap()).unwrap();
    let error = read_all(&s).unwrap_err();
    assert!(error.to_string().contains(".commits_.archive.2_1-0-1"), "{error}");

    plan.merged_archive_file_name = Some(".commits_.archive.2_1-0-1".into());
    s.replace("h/mergeArchivePlan", encode(&plan).unwrap()).unwrap();
    assert_eq!(summary(&read_all(&s).unwrap()), [("1", "19", Action::Commit)]);

    // A plan that cannot be read excuses nothing.
    s.replace("h/mergeArchivePlan", "damaged").unwrap();
    assert_eq!(read_all(&s).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_block_that_was_cut_off_is_passed_over() {
    let s = store();
    let (one, two) = (log(&[entry("1", "commit", Some("COMPLETED"))]), log(&[entry("2", "commit", Some("COMPLETED"))]));
    let cut = [&one[..], &two[..two.len() - 3], &one].concat();
    s.create("h/.commits_.archive.1_1-0-1", cut).unwrap();
    assert_eq!(summary(&read_all(&s).unwrap()), [("1", "19", Action::Commit)]);
    assert!(read_all(&store()).unwrap().is_empty());
}

#[test]
fn an_archive_of_hudi_can_be_cut_anywhere() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logs/v6_archive.hudi_log");
    let bytes = std::fs::read(path).unwrap();
    let s = store();
    let mut counts = Vec::new();
    for cut in (0..bytes.len()).step_by(61).chain([bytes.len()]) {
        s.replace("h/.commits_.archive.1_1-0-1", bytes[..cut].to_vec()).unwrap();
        counts.push(read_all(&s).unwrap().len());
    }
    assert!(counts.is_sorted() && counts.first() == Some(&0) && counts.last() == Some(&1), "{counts:?}");
}

#[test]
fn the_schema_is_that_of_hudi() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logs/v6_archive.hudi_log");
    let file = LogFile::new(bytes::Bytes::from(std::fs::read(path).unwrap()));
    let block = file.blocks().next().unwrap().unwrap();
    let theirs: serde_json::Value = serde_json::from_str(AvroRecords::schema(&block).unwrap()).unwrap();
    let ours: serde_json::Value = serde_json::from_str(ArchivedMetaEntry::avro_schema().json()).unwrap();
    let fields = |schema: &serde_json::Value| -> Vec<(String, Vec<String>)> {
        let short = |t: &serde_json::Value| t.get("name").or(t.get("type")).unwrap_or(t).as_str().unwrap().to_owned();
        let of = |f: &serde_json::Value| {
            (f["name"].as_str().unwrap().to_owned(), f["type"].as_array().unwrap().iter().map(short).collect())
        };
        schema["fields"].as_array().unwrap().iter().map(of).collect()
    };
    assert_eq!(fields(&ours), fields(&theirs));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_archives_are_errors_or_values(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        keep in any::<prop::sample::Index>(),
    ) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logs/v6_archive.hudi_log");
        let mut bytes = std::fs::read(path).unwrap();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(keep.index(bytes.len()) + 1);
        let s = store();
        s.create("h/.commits_.archive.1_1-0-1", bytes).unwrap();
        if let Err(e) = read_all(&s) {
            prop_assert!(matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{e}");
        }
    }
}
