//! The file that is made.

use arrow::datatypes::SchemaRef;

use crate::file_group::base::BaseFileOptions;

/// The new file.
pub(crate) struct Target<'a> {
    /// Its columns.
    pub schema: &'a SchemaRef,
    /// How it is written.
    pub options: &'a BaseFileOptions,
    /// Threads for its columns.
    pub threads: usize,
    /// Whether its records have meta columns.
    pub populate_meta: bool,
    /// What each of its columns holds.
    pub columns: Vec<ColumnValues>,
}

/// What a column of the new file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ColumnValues {
    /// One string in all rows.
    Constant(String),
    /// No values.
    Null,
    /// A newer record says the same as the stored one in whose place it comes: both have the same key.
    OfKey,
    /// The stored value stays, whatever the newer record says.
    Stored,
    /// What became of the records.
    Merged,
}
