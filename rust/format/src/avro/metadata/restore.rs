//! Plan and result of a restore.

use std::collections::BTreeMap;

use serde_json::json;

use super::record::record;
use super::rollback::{InstantInfo, RollbackMetadata};

record! {
    /// Which instants a restore rolls back.
    pub struct RestorePlan "HoodieRestorePlan" in timeline {
        /// The instants, latest first.
        pub instants_to_rollback: Vec<InstantInfo> => "instantsToRollback"
            as (with_default::<Vec<InstantInfo>>(json!([]))),
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(2)) = (Some(2)),
        /// The savepoint's instant.
        pub savepoint_to_restore_timestamp: Option<String> => "savepointToRestoreTimestamp",
    }
}

record! {
    /// What a restore did.
    pub struct RestoreMetadata "HoodieRestoreMetadata" in timeline {
        /// The restore's own instant.
        pub start_restore_time: String => "startRestoreTime",
        /// How long it took.
        pub time_taken_in_millis: i64 => "timeTakenInMillis",
        /// Requested times of the instants rolled back.
        pub instants_to_rollback: Vec<String> => "instantsToRollback",
        /// Result of each rollback, by requested time.
        pub hoodie_restore_metadata: BTreeMap<String, Vec<Option<RollbackMetadata>>> => "hoodieRestoreMetadata",
        /// Version of the record.
        pub version: Option<i32> => "version" as (null_second::<i32>(1)) = (Some(1)),
        /// The instants rolled back, with their actions.
        pub restore_instant_info: Vec<InstantInfo> => "restoreInstantInfo"
            as (with_default::<Vec<InstantInfo>>(json!([]))),
    }
}
