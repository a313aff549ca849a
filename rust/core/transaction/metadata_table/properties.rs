//! The options and properties that say what there is of the metadata table.

use crate::error::{Error, ErrorKind, Result};
use crate::metadata_table::RECORD_INDEX;
use crate::metadata_table::expression_index::is_expression_index;
use crate::metadata_table::secondary_entries::is_secondary_index;
use crate::metadata_table::write::MAINTAINED;
use crate::table::{HudiTable, TableConfig};
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

/// Whether the options let a table have one.
pub(in crate::transaction) fn is_wanted(table: &HudiTable) -> Result<bool> {
    table.options().flag(ENABLE, true)
}

/// Whether a partition is kept up to date. An index of keys, or of an expression, that somebody is
/// building, and has not completed, is not: its shards may not be there yet.
pub(super) fn is_kept(config: &TableConfig, name: &str) -> bool {
    let is_complete = || config.complete_metadata_partitions().iter().any(|complete| complete == name);
    match name {
        RECORD_INDEX => is_complete(),
        name if is_secondary_index(name) || is_expression_index(name) => is_complete(),
        name => MAINTAINED.contains(&name),
    }
}

/// Whether an index cannot be kept because of this.
pub(super) fn is_unkept(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Corrupt | ErrorKind::InvalidOption)
}
