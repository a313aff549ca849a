//! Plan and result of a clean.

use std::collections::BTreeMap;

use serde_json::json;

use super::record::{record, version_one};

record! {
    /// Which files a clean deletes.
    pub struct CleanerPlan "HoodieCleanerPlan" in timeline {
        /// The earliest commit whose files stay.
        pub earliest_instant_to_retain: Option<ActionInstant> => "earliestInstantToRetain",
        /// The last completed commit before the clean.
        pub last_completed_commit_timestamp: String => "lastCompletedCommitTimestamp"
            as (with_default::<String>(json!(""))),
        /// The cleaning policy.
        pub policy: String => "policy",
        /// Version 1 plans only; an empty map since.
        pub files_to_be_deleted_per_partition: Option<BTreeMap<String, Vec<String>>> => "filesToBeDeletedPerPartition",
        /// Version of the record; 2 is what Hudi writes now.
        #[serde(default = "version_one")]
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (Some(2)),
        /// Full paths of the files to delete, by partition path.
        pub file_paths_to_be_deleted_per_partition: Option<BTreeMap<String, Vec<CleanFileInfo>>>
            => "filePathsToBeDeletedPerPartition",
        /// Partitions that go as a whole.
        pub partitions_to_be_deleted: Option<Vec<String>> => "partitionsToBeDeleted",
        /// Free entries.
        pub extra_metadata: Option<BTreeMap<String, String>> => "extraMetadata",
    }
}

record! {
    /// An instant with its action and state.
    pub struct ActionInstant "HoodieActionInstant" {
        /// Requested time.
        pub timestamp: String => "timestamp",
        /// Action, such as `commit`.
        pub action: String => "action",
        /// State, such as `COMPLETED`.
        pub state: String => "state",
    }
}

record! {
    /// One file to clean.
    pub struct CleanFileInfo "HoodieCleanFileInfo" {
        /// Full path.
        pub file_path: Option<String> => "filePath",
        /// Whether it belongs to a bootstrapped source table.
        pub is_bootstrap_base_file: Option<bool> => "isBootstrapBaseFile",
    }
}

record! {
    /// What a clean deleted.
    pub struct CleanMetadata "HoodieCleanMetadata" in timeline {
        /// The clean's own instant.
        pub start_clean_time: String => "startCleanTime",
        /// How long it took.
        pub time_taken_in_millis: i64 => "timeTakenInMillis",
        /// Files deleted.
        pub total_files_deleted: i32 => "totalFilesDeleted",
        /// The earliest commit whose files stay, `""` where the policy has none.
        pub earliest_commit_to_retain: String => "earliestCommitToRetain",
        /// The last completed commit before the clean.
        pub last_completed_commit_timestamp: String => "lastCompletedCommitTimestamp"
            as (with_default::<String>(json!(""))),
        /// What was deleted, by partition path.
        pub partition_metadata: BTreeMap<String, CleanPartitionMetadata> => "partitionMetadata",
        /// Version of the record; 2 is what Hudi writes now.
        #[serde(default = "version_one")]
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (Some(2)),
        /// The same for files of a bootstrapped source table.
        pub bootstrap_partition_metadata: Option<BTreeMap<String, CleanPartitionMetadata>>
            => "bootstrapPartitionMetadata",
        /// Free entries.
        pub extra_metadata: Option<BTreeMap<String, String>> => "extraMetadata",
    }
}

record! {
    /// What a clean deleted in one partition.
    pub struct CleanPartitionMetadata "HoodieCleanPartitionMetadata" {
        /// Relative partition path.
        pub partition_path: String => "partitionPath",
        /// The cleaning policy.
        pub policy: String => "policy",
        /// Names of the files that were to go.
        pub delete_path_patterns: Vec<String> => "deletePathPatterns",
        /// Those that went.
        pub success_delete_files: Vec<String> => "successDeleteFiles",
        /// Those that did not.
        pub failed_delete_files: Vec<String> => "failedDeleteFiles",
        /// Whether the whole partition went.
        pub is_partition_deleted: Option<bool> => "isPartitionDeleted",
    }
}
