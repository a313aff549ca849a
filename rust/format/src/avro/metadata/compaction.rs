//! The plan of a compaction or log compaction.

use std::collections::BTreeMap;

use super::record::{record, version_one};

record! {
    /// Which file slices are compacted.
    pub struct CompactionPlan "HoodieCompactionPlan" in timeline {
        /// One entry a file group.
        pub operations: Option<Vec<CompactionOperation>> => "operations",
        /// Free entries.
        pub extra_metadata: Option<BTreeMap<String, String>> => "extraMetadata",
        /// Version of the record; 2 is what Hudi writes now.
        #[serde(default = "version_one")]
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (Some(2)),
        /// The strategy that planned it.
        pub strategy: Option<CompactionStrategy> => "strategy",
        /// Whether meta columns keep their values.
        pub preserve_hoodie_metadata: Option<bool> => "preserveHoodieMetadata"
            as (null_second::<bool>(false)) = (Some(false)),
        /// Partitions that could not be planned now.
        pub missing_schedule_partitions: Option<Vec<String>> => "missingSchedulePartitions",
    }
}

/// Class that a plan of a log compaction names.
const LOG_COMPACTOR: &str = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper";

impl CompactionPlan {
    /// A plan that makes base files of base files and their log files.
    pub fn of_base_files(operations: Vec<CompactionOperation>) -> Self {
        Self {
            operations: Some(operations),
            extra_metadata: Some(BTreeMap::new()),
            version: Some(2),
            strategy: None,
            preserve_hoodie_metadata: Some(false),
            missing_schedule_partitions: Some(Vec::new()),
        }
    }

    /// A plan that makes one log file of several.
    pub fn of_logs(operations: Vec<CompactionOperation>) -> Self {
        Self {
            strategy: Some(CompactionStrategy {
                compactor_class_name: Some(LOG_COMPACTOR.to_owned()),
                strategy_params: Some(BTreeMap::new()),
                version: Some(1),
            }),
            preserve_hoodie_metadata: Some(true),
            ..Self::of_base_files(operations)
        }
    }
}

record! {
    /// The compaction of one file group.
    pub struct CompactionOperation "HoodieCompactionOperation" {
        /// Instant of the slice.
        pub base_instant_time: Option<String> => "baseInstantTime" as (without_default::<Option<String>>()),
        /// Names of the log files.
        pub delta_file_paths: Option<Vec<String>> => "deltaFilePaths",
        /// Name of the base file.
        pub data_file_path: Option<String> => "dataFilePath",
        /// Id of the file group.
        pub file_id: Option<String> => "fileId" as (without_default::<Option<String>>()),
        /// Relative partition path.
        pub partition_path: Option<String> => "partitionPath",
        /// Figures such as the size of the logs.
        pub metrics: Option<BTreeMap<String, f64>> => "metrics",
        /// Path of the bootstrap file.
        pub bootstrap_file_path: Option<String> => "bootstrapFilePath",
    }
}

record! {
    /// The strategy of a compaction plan.
    pub struct CompactionStrategy "HoodieCompactionStrategy" {
        /// Class that compacts.
        pub compactor_class_name: Option<String> => "compactorClassName",
        /// Its parameters.
        pub strategy_params: Option<BTreeMap<String, String>> => "strategyParams",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (version_one()),
    }
}
