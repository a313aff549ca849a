//! The options and properties that say what there is of the metadata table.

use crate::table::HudiTable;
use crate::timeline::{TimeZone, format_instant};

/// Option: whether the metadata table is kept.
pub(super) const ENABLE: &str = "hoodie.metadata.enable";
/// Property: the partitions that may be read.
pub(super) const COMPLETE: &str = "hoodie.table.metadata.partitions";
/// Property: the partitions that somebody builds.
pub(super) const INFLIGHT: &str = "hoodie.table.metadata.partitions.inflight";

/// The time of a change of the properties.
pub(super) fn now(table: &HudiTable) -> String {
    format_instant(table.clock().now_ms(), TimeZone::Utc)
}
