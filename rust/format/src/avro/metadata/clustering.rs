//! The request of a replacecommit, and the clustering plan inside it.

use std::collections::BTreeMap;

use super::record::{record, version_one};

record! {
    /// The request of an operation that replaces file groups; of a clustering when it has a plan.
    pub struct RequestedReplaceMetadata "HoodieRequestedReplaceMetadata" in timeline {
        /// The operation's enum name, `CLUSTER` for clustering; null for insert overwrite.
        pub operation_type: Option<String> => "operationType",
        /// What to cluster.
        pub clustering_plan: Option<ClusteringPlan> => "clusteringPlan",
        /// Free entries.
        pub extra_metadata: Option<BTreeMap<String, String>> => "extraMetadata",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
    }
}

record! {
    /// Which file slices are rewritten together, and how.
    pub struct ClusteringPlan "HoodieClusteringPlan" {
        /// The groups, each rewritten on its own.
        pub input_groups: Option<Vec<ClusteringGroup>> => "inputGroups",
        /// How to execute it.
        pub strategy: Option<ClusteringStrategy> => "strategy",
        /// Free entries.
        pub extra_metadata: Option<BTreeMap<String, String>> => "extraMetadata",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
        /// Whether meta columns keep their values.
        pub preserve_hoodie_metadata: Option<bool> => "preserveHoodieMetadata",
        /// Partitions that could not be planned now.
        pub missing_schedule_partitions: Option<Vec<String>> => "missingSchedulePartitions",
    }
}

record! {
    /// File slices that are rewritten together.
    pub struct ClusteringGroup "HoodieClusteringGroup" {
        /// The slices.
        pub slices: Option<Vec<SliceInfo>> => "slices",
        /// Figures such as the total size.
        pub metrics: Option<BTreeMap<String, f64>> => "metrics",
        /// How many file groups to write.
        pub num_output_file_groups: Option<i32> => "numOutputFileGroups" as (null_second::<i32>(1)) = (Some(1)),
        /// Free entries.
        pub extra_metadata: Option<BTreeMap<String, String>> => "extraMetadata",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
    }
}

record! {
    /// One file slice of a clustering group.
    pub struct SliceInfo "HoodieSliceInfo" {
        /// Path of the base file.
        pub data_file_path: Option<String> => "dataFilePath",
        /// Paths of the log files.
        pub delta_file_paths: Option<Vec<String>> => "deltaFilePaths",
        /// Id of the file group.
        pub file_id: Option<String> => "fileId" as (without_default::<Option<String>>()),
        /// Relative partition path.
        pub partition_path: Option<String> => "partitionPath",
        /// Path of the bootstrap file.
        pub bootstrap_file_path: Option<String> => "bootstrapFilePath",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
    }
}

record! {
    /// How a clustering plan is executed.
    pub struct ClusteringStrategy "HoodieClusteringStrategy" {
        /// Class of the execution strategy.
        pub strategy_class_name: Option<String> => "strategyClassName",
        /// Its parameters, such as the sort columns.
        pub strategy_params: Option<BTreeMap<String, String>> => "strategyParams",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
    }
}
