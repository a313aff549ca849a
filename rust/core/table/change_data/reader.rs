//! What reading changes takes.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::rows::ChangeRows;
use crate::error::Result;
use crate::file_group::log::ChangeLogScan;
use crate::storage::Storage;
use crate::table::file_group_reader::FileGroupReader;

/// The column with the requested time of the commit that wrote a row.
pub(super) const COMMIT_TIME: &str = "_hoodie_commit_time";

/// Batches of changes.
pub(super) type Changes = Box<dyn Iterator<Item = Result<RecordBatch>>>;

/// What reading changes takes.
pub(super) struct ChangeReader {
    pub(super) storage: Storage,
    pub(super) slices: FileGroupReader,
    /// All columns of the table that files have.
    pub(super) all: SchemaRef,
    /// Makes the result.
    pub(super) rows: ChangeRows,
    /// Whether rows say which commit wrote them.
    pub(super) has_meta: bool,
    /// Whether of two records of a key one is kept as it is.
    pub(super) keeps_one: bool,
}

impl ChangeReader {
    /// Opens a change data log of a commit.
    pub(super) fn open_log(&self, instant: &str, path: &str, size: u64) -> Result<ChangeLogScan> {
        let names = self.slices.history().map(|history| history.names_at(instant)).transpose()?.flatten();
        Ok(ChangeLogScan::open(&self.storage, path, size)?.with_names(names.cloned()))
    }
}
