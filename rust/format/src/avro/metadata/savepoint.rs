//! A savepoint.

use std::collections::BTreeMap;

use super::record::{record, version_one};

record! {
    /// The files that a savepoint protects.
    pub struct SavepointMetadata "HoodieSavepointMetadata" in timeline {
        /// Who made it.
        pub savepointed_by: String => "savepointedBy",
        /// When, in milliseconds since the epoch.
        pub savepointed_at: i64 => "savepointedAt",
        /// Why.
        pub comments: String => "comments",
        /// The files, by partition path.
        pub partition_metadata: BTreeMap<String, SavepointPartitionMetadata> => "partitionMetadata",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
    }
}

record! {
    /// The files that a savepoint protects in one partition.
    pub struct SavepointPartitionMetadata "HoodieSavepointPartitionMetadata" {
        /// Relative partition path.
        pub partition_path: String => "partitionPath",
        /// Names of base and log files.
        pub savepoint_data_file: Vec<String> => "savepointDataFile",
    }
}
