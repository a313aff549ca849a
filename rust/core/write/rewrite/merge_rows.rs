//! What is merged into a file group.

use crate::merge::RowRef;
use crate::write::locate::lookup::MatchedRow;
use crate::write::prepare::incoming::Incoming;

/// What is merged into a file group.
pub(crate) struct MergeRows<'a> {
    /// All rows of the write.
    pub incoming: &'a Incoming,
    /// Rows that meet stored records, by position; each position once.
    pub updates: &'a [MatchedRow],
    /// Rows that are new in the group.
    pub inserts: &'a [RowRef],
    /// Deletes by key win whatever the order says.
    pub delete_by_key: bool,
}
