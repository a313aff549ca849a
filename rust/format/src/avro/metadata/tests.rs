#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::avro::datum::{Cursor, DatumSchema};
use hoodoo_runtime::error::ErrorKind;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/timeline")
}

/// The record inside a container file, and its length, read without our own types.
fn raw_record(bytes: &[u8]) -> (serde_json::Value, serde_json::Value) {
    let value: serde_json::Value = crate::avro::container::read_first_record(bytes).unwrap();
    let start = bytes.windows(11).position(|w| w == b"avro.schema").unwrap() + 11;
    let schema = Cursor::new(&bytes[start..]).bytes().unwrap();
    (value, serde_json::from_slice(schema).unwrap())
}

/// Every field that Hudi wrote arrives in ours, and survives being written by us.
fn check<T: TimelineRecord + PartialEq + std::fmt::Debug>(name: &str) -> T {
    let bytes = fixture(name);
    let ours: T = decode(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (value, schema) = raw_record(&bytes);
    assert_eq!(schema["name"], T::NAME, "{name}");
    assert_eq!(to_json(&ours), value, "{name}");
    let again = encode(&ours).unwrap();
    assert_eq!(decode::<T>(&again).unwrap(), ours, "{name}");
    assert_eq!(raw_record(&again).0, value, "{name}");
    assert!(types(&schema) == types(&raw_record(&again).1), "{name}: our schema is not Hudi's");
    ours
}

/// A schema less what does not change what it means: documentation, and attributes that only Java uses.
fn types(schema: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match schema {
        Value::Array(items) => items.iter().map(types).collect(),
        // Field defaults count; some lists and maps of Hudi's schemas carry a stray "default" of their own.
        Value::Object(object) => {
            let is_type = object.contains_key("items") || object.contains_key("values");
            let dropped = |key: &str| key == "doc" || (key == "default" && is_type);
            let kept = object.iter().filter(|(key, _)| !dropped(key));
            kept.map(|(key, value)| (key.clone(), types(value))).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

#[test]
fn commits_of_version_9() {
    let compaction: CommitMetadata = check("v9/20260307135839895_20260307135840408.commit");
    assert_eq!(compaction.operation_type.as_deref(), Some("COMPACT"));
    assert_eq!(compaction.compacted, Some(true));
    let stat = &compaction.partition_to_write_stats["region=us"][0];
    assert_eq!(stat.prev_commit.as_deref(), Some("20260307135827749"));
    assert_eq!(stat.file_size_in_bytes, Some(436_652));
    assert_eq!((stat.num_writes, stat.num_deletes, stat.num_update_writes), (Some(2), Some(1), Some(1)));

    let insert: CommitMetadata = check("v9/20260307135838542_20260307135838744.deltacommit");
    assert!(insert.extra_metadata["schema"].contains("_record"));
    assert_eq!(insert.version, None);
    check::<CommitMetadata>("v9/20260307162541730_20260307162542487.commit");
    let profile: CommitMetadata = check("v9/20260307135838542.deltacommit.inflight");
    assert_eq!(profile.partition_to_write_stats["region=us"][0].path, None);
    check::<CommitMetadata>("v9/20260307162541730.inflight");
}

#[test]
fn replacecommits_and_clustering_of_version_9() {
    let overwrite: ReplaceCommitMetadata = check("v9/20260307135837782_20260307135838045.replacecommit");
    assert!(!overwrite.partition_to_replace_file_ids.is_empty());
    check::<ReplaceCommitMetadata>("v9/20260307135840454_20260307135840902.replacecommit");
    let request: RequestedReplaceMetadata = check("v9/20260307135837782.replacecommit.requested");
    assert_eq!(request.clustering_plan, None);
    let request: RequestedReplaceMetadata = check("v9/20260307135840454.clustering.requested");
    let plan = request.clustering_plan.unwrap();
    let slice = &plan.input_groups.as_ref().unwrap()[0].slices.as_ref().unwrap()[0];
    assert_eq!(slice.partition_path.as_deref(), Some("region=apac"));
}

#[test]
fn plans_and_results_of_services() {
    let plan: CompactionPlan = check("v9/20260307135839895.compaction.requested");
    assert_eq!(plan.version, Some(2));
    assert_eq!(plan.operations.unwrap()[0].delta_file_paths.as_ref().unwrap().len(), 2);
    check::<IndexPlan>("v9/20260307162551540.indexing.requested");
    check::<IndexCommitMetadata>("v9/20260307162551540_20260307162552168.indexing");

    let plan: CleanerPlan = check("hudi_1_2_0/20261121100800698.clean.requested");
    assert_eq!(plan.policy, "KEEP_LATEST_COMMITS");
    let clean: CleanMetadata = check("hudi_1_2_0/20261121100800698_20261121100800831.clean");
    assert_eq!(clean.total_files_deleted, 2);
    let savepoint: SavepointMetadata = check("hudi_1_2_0/20261121100759768_20261121100802029.savepoint");
    assert_eq!(savepoint.partition_metadata.len(), 2);
    let plan: RollbackPlan = check("hudi_1_2_0/20261121100806430.rollback.requested");
    assert_eq!(plan.rollback_requests.unwrap().len(), 2);
    let rollback: RollbackMetadata = check("hudi_1_2_0/20261121100806430_20261121100806704.rollback");
    assert_eq!(rollback.commits_rollback, ["20261121100803885"]);
    let plan: RestorePlan = check("hudi_1_2_0/20261121100813950.restore.requested");
    assert_eq!(plan.savepoint_to_restore_timestamp.as_deref(), Some("20261121100759768"));
    let restore: RestoreMetadata = check("hudi_1_2_0/20261121100813950_20261121100815016.restore");
    assert!(restore.hoodie_restore_metadata["20261121100802849"][0].is_some());
}

#[test]
fn json_bodies_of_version_6() {
    let replace: ReplaceCommitMetadata = decode_json(&fixture("v6/20250121000702475.replacecommit")).unwrap();
    assert_eq!(replace.partition_to_write_stats["30"][0].num_writes, Some(1));
    assert!(!replace.partition_to_replace_file_ids.is_empty());
    for name in [
        "v6/20240418173551906.commit",
        "v6/20250121000656060.deltacommit",
        "v6/20250121000656060.deltacommit.inflight",
        "v6/20250121000702475.replacecommit.inflight",
    ] {
        let commit: CommitMetadata = decode_json(&fixture(name)).unwrap();
        assert!(!commit.partition_to_write_stats.is_empty(), "{name}");
        assert!(commit.operation_type.is_some(), "{name}");
        // What came as JSON can be written as Avro.
        assert_eq!(decode::<CommitMetadata>(&encode(&commit).unwrap()).unwrap(), commit, "{name}");
    }
    // Written with an older schema, which lacks a field of the plan.
    let request: RequestedReplaceMetadata = decode(&fixture("v6/20250121000702475.replacecommit.requested")).unwrap();
    assert_eq!(request, RequestedReplaceMetadata { version: None, ..Default::default() });
    let nulls = br#"{"partitionToWriteStats": null, "extraMetadata": {"a": null, "b": "c"}, "unknown": [1]}"#;
    let commit: CommitMetadata = decode_json(nulls).unwrap();
    assert_eq!(commit.extra_metadata.into_iter().collect::<Vec<_>>(), [("b".to_owned(), "c".to_owned())]);
    assert_eq!(decode_json::<CommitMetadata>(b"{").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(decode_json::<CommitMetadata>(b"").unwrap_err().kind(), ErrorKind::Corrupt);
}

fn is_valid<T: TimelineRecord + PartialEq + std::fmt::Debug>() {
    let schema = T::avro_schema();
    let json: serde_json::Value = serde_json::from_str(schema.json()).unwrap();
    assert_eq!(json["name"], T::NAME);
    assert_eq!(json["namespace"], "org.apache.hudi.avro.model");
    DatumSchema::parse(schema.json()).unwrap();
    let value = T::default();
    assert_eq!(decode::<T>(&encode(&value).unwrap()).unwrap(), value);
}

#[test]
fn every_record_has_a_schema_and_its_default_survives() {
    is_valid::<CommitMetadata>();
    is_valid::<ReplaceCommitMetadata>();
    is_valid::<RequestedReplaceMetadata>();
    is_valid::<CompactionPlan>();
    is_valid::<CleanerPlan>();
    is_valid::<CleanMetadata>();
    is_valid::<RollbackPlan>();
    is_valid::<RollbackMetadata>();
    is_valid::<RestorePlan>();
    is_valid::<RestoreMetadata>();
    is_valid::<SavepointMetadata>();
    is_valid::<IndexPlan>();
    is_valid::<IndexCommitMetadata>();
}

#[test]
fn what_a_file_does_not_say_is_not_guessed_to_be_new() {
    let empty: CleanerPlan = decode_json(b"{}").unwrap();
    assert_eq!(empty.version, Some(1));
    assert_eq!(CleanerPlan::default().version, Some(2));
    let json = to_json(&RollbackPlan::default());
    assert!(json.get("RollbackRequests").is_some());
}

#[test]
fn empty_files_and_other_records_are_errors() {
    assert_eq!(decode::<CommitMetadata>(b"").unwrap_err().kind(), ErrorKind::Corrupt);
    let error = decode::<CommitMetadata>(&fixture("v6/20240418173551906.commit")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("record=HoodieCommitMetadata"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_files_are_errors_or_values(
        file in prop::sample::select(vec![
            "v9/20260307135839895_20260307135840408.commit",
            "hudi_1_2_0/20261121100813950_20261121100815016.restore",
        ]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = fixture(file);
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        for error in [decode::<CommitMetadata>(&bytes).err(), decode::<RestoreMetadata>(&bytes).err()].iter().flatten() {
            prop_assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported));
        }
    }
}
