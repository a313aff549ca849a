//! The fields of a table get ids: what its files of before are read with.

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::log::LogScan;
use crate::format::internal_schema::{InternalSchema, SchemaHistory};
use crate::parallel::run_parallel;
use crate::table::{HudiTable, TableSchema, TableView};

/// The history of a table whose fields had no ids until now: the schemas of the files that are in it.
///
/// # Errors
/// `Unsupported` for types that Hudi cannot read in a schema with field ids, and for log blocks with some columns only;
/// `Corrupt`; `Storage`.
pub(super) fn first_history(table: &HudiTable, view: &TableView, schema: &TableSchema) -> Result<SchemaHistory> {
    let ids = InternalSchema::first(&schema.data)?;
    let slices = view.all_latest_slices()?;
    let instants = slices.iter().flat_map(|slice| {
        let logs = slice.logs.iter().map(|log| log.instant.as_str());
        slice.base.iter().map(|base| base.instant.as_str()).chain(logs)
    });
    let Some(oldest) = instants.min() else { return Ok(SchemaHistory::new(ids, Some(Vec::new()))) };
    let commits = table.columns_since(view, oldest)?;
    refuse_partial_blocks(table, view, slices)?;
    SchemaHistory::before_ids(ids, &commits)
}

/// Refuses log blocks with some of the columns: once fields have ids, Hudi reads null in the others, and its compaction
/// writes that.
fn refuse_partial_blocks(table: &HudiTable, view: &TableView, slices: Vec<FileSlice>) -> Result<()> {
    let with_logs = slices.into_iter().filter(|slice| !slice.logs.is_empty()).collect();
    run_parallel(with_logs, table.threads()?, |slice: FileSlice| {
        let scan = LogScan::open(table.storage(), &slice.logs, |instant| view.timeline().is_committed(instant))?;
        if !scan.is_partial() {
            return Ok(());
        }
        Err(Error::unsupported(
            "log files have rows with some of the columns (partial=True or MERGE INTO), and Hudi would read null in the others once fields have ids",
        )
        .with("partition", slice.partition)
        .with("file group", slice.file_id)
        .remedy("Compact the table first, t.compact(), and change the columns then"))
    })
    .map(|_| ())
}
