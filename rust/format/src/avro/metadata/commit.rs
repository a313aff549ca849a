//! Commit, deltacommit and replacecommit.

use std::collections::BTreeMap;

use super::record::record;
use crate::column_range::SharedRanges;

record! {
    /// What a commit, delta commit, compaction or log compaction did.
    pub struct CommitMetadata "HoodieCommitMetadata" in timeline {
        /// Write stats by relative partition path (`""` for a table without partitions). Never null for Hudi.
        #[serde(deserialize_with = "super::record::null_as_default")]
        pub partition_to_write_stats: BTreeMap<String, Vec<WriteStat>> => "partitionToWriteStats"
            as (plain::<Option<BTreeMap<String, Vec<WriteStat>>>>()),
        /// True only for compaction and log compaction.
        pub compacted: Option<bool> => "compacted",
        /// Free entries; `schema` holds the table schema without meta columns. Never null for Hudi.
        #[serde(deserialize_with = "super::record::without_nulls")]
        pub extra_metadata: BTreeMap<String, String> => "extraMetadata" as (plain::<Option<BTreeMap<String, String>>>()),
        /// Null in what Hudi writes.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)),
        /// The operation's enum name, such as `UPSERT`.
        pub operation_type: Option<String> => "operationType",
    }
}

record! {
    /// What an operation did that also replaced whole file groups: insert overwrite, delete partition, clustering.
    pub struct ReplaceCommitMetadata "HoodieReplaceCommitMetadata" in timeline {
        /// See [`CommitMetadata::partition_to_write_stats`].
        #[serde(deserialize_with = "super::record::null_as_default")]
        pub partition_to_write_stats: BTreeMap<String, Vec<WriteStat>> => "partitionToWriteStats"
            as (plain::<Option<BTreeMap<String, Vec<WriteStat>>>>()),
        /// See [`CommitMetadata::compacted`].
        pub compacted: Option<bool> => "compacted",
        /// See [`CommitMetadata::extra_metadata`].
        #[serde(deserialize_with = "super::record::without_nulls")]
        pub extra_metadata: BTreeMap<String, String> => "extraMetadata" as (plain::<Option<BTreeMap<String, String>>>()),
        /// Null in what Hudi writes.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)),
        /// The operation's enum name, such as `INSERT_OVERWRITE`.
        pub operation_type: Option<String> => "operationType",
        /// The ids of the file groups that this commit replaces, by partition path. Never null for Hudi.
        #[serde(deserialize_with = "super::record::null_as_default")]
        pub partition_to_replace_file_ids: BTreeMap<String, Vec<String>> => "partitionToReplaceFileIds"
            as (plain::<Option<BTreeMap<String, Vec<String>>>>()),
    }
}

record! {
    /// One file that a commit wrote.
    pub struct WriteStat "HoodieWriteStat" {
        /// Id of the file group, without write token.
        pub file_id: Option<String> => "fileId",
        /// `<partition>/<file name>`, relative to the table.
        pub path: Option<String> => "path",
        /// The instant of the slice before, the text `null` for a new file group.
        pub prev_commit: Option<String> => "prevCommit",
        /// Records in the new file, or in the log blocks.
        pub num_writes: Option<i64> => "numWrites",
        /// Records deleted.
        pub num_deletes: Option<i64> => "numDeletes",
        /// Records updated.
        pub num_update_writes: Option<i64> => "numUpdateWrites",
        /// Bytes written.
        pub total_write_bytes: Option<i64> => "totalWriteBytes",
        /// Records that could not be written.
        pub total_write_errors: Option<i64> => "totalWriteErrors",
        /// Relative partition path.
        pub partition_path: Option<String> => "partitionPath",
        /// Compaction: records read from logs.
        pub total_log_records: Option<i64> => "totalLogRecords",
        /// Compaction: log files read.
        pub total_log_files: Option<i64> => "totalLogFiles",
        /// Compaction: records that logs changed.
        pub total_updated_records_compacted: Option<i64> => "totalUpdatedRecordsCompacted",
        /// Records inserted.
        pub num_inserts: Option<i64> => "numInserts",
        /// Compaction: log blocks read.
        pub total_log_blocks: Option<i64> => "totalLogBlocks",
        /// Compaction: damaged log blocks met.
        pub total_corrupt_log_block: Option<i64> => "totalCorruptLogBlock",
        /// Compaction: rollback blocks met.
        pub total_rollback_blocks: Option<i64> => "totalRollbackBlocks",
        /// Size of the file.
        pub file_size_in_bytes: Option<i64> => "fileSizeInBytes",
        /// Log writes: version in the file name.
        pub log_version: Option<i32> => "logVersion",
        /// Log writes: offset of the first block.
        pub log_offset: Option<i64> => "logOffset",
        /// Log writes: name of the base file, or `""`.
        pub base_file: Option<String> => "baseFile",
        /// Log writes: names of the log files.
        pub log_files: Option<Vec<String>> => "logFiles",
        /// Sizes of change-data files by path.
        pub cdc_stats: Option<BTreeMap<String, i64>> => "cdcStats",
        /// Name of the base file before.
        pub prev_base_file: Option<String> => "prevBaseFile",
        /// Smallest event time, when tracked.
        pub min_event_time: Option<i64> => "minEventTime",
        /// Largest event time, when tracked.
        pub max_event_time: Option<i64> => "maxEventTime",
        /// How long it took.
        pub runtime_stats: Option<RuntimeStats> => "runtimeStats",
        /// Compaction: log files compacted.
        pub total_log_files_compacted: Option<i64> => "totalLogFilesCompacted",
        /// Compaction: time spent on reading logs.
        pub total_log_read_time_ms: Option<i64> => "totalLogReadTimeMs",
        /// Compaction: bytes of logs compacted.
        pub total_log_size_compacted: Option<i64> => "totalLogSizeCompacted",
        /// Where the file was written first, if elsewhere.
        pub temp_path: Option<String> => "tempPath",
        /// Records updated (a second spelling that Hudi has).
        pub num_updates: Option<i64> => "numUpdates",
        beside {
            /// Ranges of the columns of the file, on their way from who wrote it to who commits. The commit does not have
            /// them, the metadata table does. `None`: nothing is known.
            #[serde(rename = "hoodoo.columnRanges", skip_serializing_if = "Option::is_none")]
            pub column_ranges: Option<SharedRanges>,
        }
    }
}

record! {
    /// Milliseconds spent on one file.
    pub struct RuntimeStats "HoodieRuntimeStats" {
        /// Scanning logs.
        pub total_scan_time: Option<i64> => "totalScanTime",
        /// Creating files.
        pub total_create_time: Option<i64> => "totalCreateTime",
        /// Merging.
        pub total_upsert_time: Option<i64> => "totalUpsertTime",
    }
}

impl CommitMetadata {
    /// The metadata of an operation that also replaced file groups: their ids by partition.
    pub fn replacing(self, replaced: BTreeMap<String, Vec<String>>) -> ReplaceCommitMetadata {
        ReplaceCommitMetadata {
            partition_to_write_stats: self.partition_to_write_stats,
            compacted: self.compacted,
            extra_metadata: self.extra_metadata,
            version: self.version,
            operation_type: self.operation_type,
            partition_to_replace_file_ids: replaced,
        }
    }
}

impl From<ReplaceCommitMetadata> for CommitMetadata {
    fn from(metadata: ReplaceCommitMetadata) -> Self {
        Self {
            partition_to_write_stats: metadata.partition_to_write_stats,
            compacted: metadata.compacted,
            extra_metadata: metadata.extra_metadata,
            version: metadata.version,
            operation_type: metadata.operation_type,
        }
    }
}
