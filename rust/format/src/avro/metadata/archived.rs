//! The archive of a version 6 timeline: one record for each state file of an archived action.

use std::collections::BTreeMap;

use super::clean::{CleanMetadata, CleanerPlan};
use super::clustering::RequestedReplaceMetadata;
use super::commit::{CommitMetadata, ReplaceCommitMetadata, WriteStat};
use super::compaction::CompactionPlan;
use super::index::IndexCommitMetadata;
use super::record::{record, version_one};
use super::rollback::RollbackMetadata;
use super::savepoint::SavepointMetadata;

record! {
    /// One state of one action. At most one of the bodies is there; which, follows from action and state.
    pub struct ArchivedMetaEntry "HoodieArchivedMetaEntry" in timeline {
        /// Of a completed commit or delta commit, and the profile of an inflight one.
        pub commit: Option<CommitMetadata> => "hoodieCommitMetadata",
        /// Of a completed clean.
        pub clean: Option<CleanMetadata> => "hoodieCleanMetadata",
        /// Of a compaction, in archives older than the plan; Hudi does not read it any more.
        pub compaction: Option<OldCompactionMetadata> => "hoodieCompactionMetadata",
        /// Of a completed rollback.
        pub rollback: Option<RollbackMetadata> => "hoodieRollbackMetadata",
        /// Of a savepoint.
        pub savepoint: Option<SavepointMetadata> => "hoodieSavePointMetadata",
        /// Requested time.
        pub commit_time: Option<String> => "commitTime",
        /// Name of the action; a compaction completes as `commit`.
        pub action_type: Option<String> => "actionType",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
        /// Of a compaction that is not completed.
        pub compaction_plan: Option<CompactionPlan> => "hoodieCompactionPlan",
        /// Of a clean that is not completed.
        pub cleaner_plan: Option<CleanerPlan> => "hoodieCleanerPlan",
        /// `REQUESTED`, `INFLIGHT` or `COMPLETED`; null in the oldest archives, which have only completed actions.
        pub action_state: Option<String> => "actionState",
        /// Of a completed replacecommit.
        pub replace_commit: Option<ReplaceCommitMetadata> => "hoodieReplaceCommitMetadata",
        /// Of a requested replacecommit.
        pub requested_replace: Option<RequestedReplaceMetadata> => "hoodieRequestedReplaceMetadata",
        /// Of an inflight replacecommit. (Hudi's field name begins with a capital.)
        pub inflight_replace: Option<CommitMetadata> => "HoodieInflightReplaceMetadata",
        /// Of a completed indexing.
        pub index_commit: Option<IndexCommitMetadata> => "hoodieIndexCommitMetadata",
        /// When it came into this state: for a completed one, the completion time. Null in older archives.
        pub state_transition_time: Option<String> => "stateTransitionTime",
    }
}

record! {
    /// What a compaction did, in the oldest archives.
    pub struct OldCompactionMetadata "HoodieCompactionMetadata" {
        /// Figures of each file, by partition path.
        pub partition_to_compaction_write_stats: Option<BTreeMap<String, Vec<OldCompactionWriteStat>>>
            => "partitionToCompactionWriteStats"
            as (without_default::<Option<BTreeMap<String, Vec<OldCompactionWriteStat>>>>()),
    }
}

record! {
    /// One file of a compaction, in the oldest archives.
    pub struct OldCompactionWriteStat "HoodieCompactionWriteStat" {
        /// Relative partition path.
        pub partition_path: Option<String> => "partitionPath",
        /// Records read from logs.
        pub total_log_records: Option<i64> => "totalLogRecords",
        /// Logs read.
        pub total_log_files: Option<i64> => "totalLogFiles",
        /// Records that changed.
        pub total_updated_records_compacted: Option<i64> => "totalUpdatedRecordsCompacted",
        /// The file that was written.
        pub write_stat: Option<WriteStat> => "hoodieWriteStat",
    }
}

record! {
    /// Which archive files were being merged into one; it lies beside them while that goes on.
    pub struct MergeArchiveFilePlan "HoodieMergeArchiveFilePlan" in timeline {
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
        /// Names of the files that are merged.
        pub candidates: Option<Vec<String>> => "candidate",
        /// Name of the file that they are merged into.
        pub merged_archive_file_name: Option<String> => "mergedArchiveFileName",
    }
}
