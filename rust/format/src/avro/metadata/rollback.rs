//! Plan and result of a rollback.

use std::collections::BTreeMap;

use serde_json::json;

use super::record::{record, version_one};

record! {
    /// What a rollback deletes.
    pub struct RollbackPlan "HoodieRollbackPlan" in timeline {
        /// The instant to roll back.
        pub instant_to_rollback: Option<InstantInfo> => "instantToRollback",
        /// What to delete. (Hudi's field name begins with a capital.)
        pub rollback_requests: Option<Vec<RollbackRequest>> => "RollbackRequests",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
    }
}

record! {
    /// An instant with its action.
    pub struct InstantInfo "HoodieInstantInfo" {
        /// Requested time.
        pub commit_time: String => "commitTime",
        /// Action, such as `commit`.
        pub action: String => "action",
    }
}

record! {
    /// What a rollback deletes in one file group.
    pub struct RollbackRequest "HoodieRollbackRequest" {
        /// Relative partition path.
        pub partition_path: String => "partitionPath",
        /// Id of the file group.
        pub file_id: Option<String> => "fileId",
        /// Instant of the latest base file.
        pub latest_base_instant: Option<String> => "latestBaseInstant",
        /// Full paths.
        pub files_to_be_deleted: Vec<String> => "filesToBeDeleted" as (with_default::<Vec<String>>(json!([]))),
        /// Table version 6: log files to add a rollback block to, with their sizes.
        pub log_blocks_to_be_deleted: Option<BTreeMap<String, i64>> => "logBlocksToBeDeleted",
    }
}

record! {
    /// What a rollback did.
    pub struct RollbackMetadata "HoodieRollbackMetadata" in timeline {
        /// The rollback's own instant.
        pub start_rollback_time: String => "startRollbackTime",
        /// How long it took.
        pub time_taken_in_millis: i64 => "timeTakenInMillis",
        /// Files deleted.
        pub total_files_deleted: i32 => "totalFilesDeleted",
        /// Requested times of the instants rolled back.
        pub commits_rollback: Vec<String> => "commitsRollback",
        /// What was deleted, by partition path.
        pub partition_metadata: BTreeMap<String, RollbackPartitionMetadata> => "partitionMetadata",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
        /// The instants rolled back, with their actions.
        pub instants_rollback: Vec<InstantInfo> => "instantsRollback" as (with_default::<Vec<InstantInfo>>(json!([]))),
    }
}

record! {
    /// What a rollback did in one partition.
    pub struct RollbackPartitionMetadata "HoodieRollbackPartitionMetadata" {
        /// Relative partition path.
        pub partition_path: String => "partitionPath",
        /// Full paths of the files that went.
        pub success_delete_files: Vec<String> => "successDeleteFiles",
        /// Full paths of those that did not.
        pub failed_delete_files: Vec<String> => "failedDeleteFiles",
        /// Log files that got a rollback block, with their sizes.
        pub rollback_log_files: Option<BTreeMap<String, i64>> => "rollbackLogFiles",
        /// Log files of the failed commit, with their sizes.
        pub log_files_from_failed_commit: Option<BTreeMap<String, i64>> => "logFilesFromFailedCommit",
    }
}
