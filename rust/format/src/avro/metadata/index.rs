//! Plan and result of building an index of the metadata table.

use std::collections::BTreeMap;

use super::record::{record, version_one};

record! {
    /// Which indexes to build.
    pub struct IndexPlan "HoodieIndexPlan" in timeline {
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
        /// One entry a partition of the metadata table.
        pub index_partition_infos: Option<Vec<IndexPartitionInfo>> => "indexPartitionInfos",
    }
}

record! {
    /// One partition of the metadata table to build.
    pub struct IndexPartitionInfo "HoodieIndexPartitionInfo" {
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
        /// Its name.
        pub metadata_partition_path: Option<String> => "metadataPartitionPath",
        /// The last instant that it covers.
        pub index_upto_instant: Option<String> => "indexUptoInstant",
        /// Free entries.
        pub extra_metadata: Option<BTreeMap<String, String>> => "extraMetadata",
    }
}

record! {
    /// Which indexes were built.
    pub struct IndexCommitMetadata "HoodieIndexCommitMetadata" in timeline {
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
        /// The operation's enum name.
        pub operation_type: Option<String> => "operationType",
        /// What was built.
        pub index_partition_infos: Option<Vec<IndexPartitionInfo>> => "indexPartitionInfos",
    }
}
