//! What is merged into a file group, and where it goes.

use crate::file_group::base::BaseFileWriter;
use crate::merge::RowRef;
use crate::storage::FileWriter;
use crate::transaction::ChangeLog;
use crate::write::locate::lookup::MatchedRow;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::file_rows::MadeColumns;

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

/// The new base file of a merge.
pub(in crate::write) struct MergeOutput<'w, 'c> {
    /// Its writer.
    pub(in crate::write) writer: &'w mut BaseFileWriter<FileWriter>,
    /// The meta columns that have one value in all its rows.
    pub(in crate::write) made: MadeColumns,
    /// Takes what changes, where the table captures that.
    pub(in crate::write) changes: Option<&'w mut ChangeLog<'c>>,
    /// Which task of the write makes it.
    pub(in crate::write) task: usize,
}
