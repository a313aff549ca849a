//! Indexes of the metadata table, and the metadata table as a whole.

use super::checks::check_table;
use super::{after_service, ready_to_serve, reopen};
use crate::error::Result;
pub use crate::services::indexing::Expression;
use crate::services::indexing::{self, BuildRequest, IndexJob, IndexReport, Indexed};
use crate::table::HudiTable;

/// Builds an index: a partition of the metadata table, with those that it needs. Makes a metadata table where there is none.
/// Writers go on meanwhile. `columns` are those that have statistics; of an expression index, its one column.
///
/// # Errors
/// `InvalidOption` for columns that the table does not have, and if the options turn the metadata table off; `Unsupported`
/// for indexes that are not built; `Conflict`; `Lock`; `Storage`.
pub fn index(
    table: &HudiTable,
    partition: &str,
    columns: Option<Vec<String>>,
    expression: Option<Expression>,
) -> Result<Indexed> {
    let partitions = vec![partition.to_owned()];
    run(table, BuildRequest { partitions, columns, expression, ..BuildRequest::default() })
}

/// Begins to build an index whose tasks run in several processes; see [`index`].
///
/// # Errors
/// Those of [`index`].
pub fn begin_index(table: &HudiTable, partition: &str, columns: Option<Vec<String>>) -> Result<IndexJob> {
    let partitions = vec![partition.to_owned()];
    let (table, left) = ready_to_serve(table)?;
    let request = BuildRequest { partitions, columns, ..BuildRequest::default() };
    IndexJob::begin(&table, left.timeline(), request)
}

/// Commits the index that tasks built; `reports` are those of all of them, each once.
///
/// # Errors
/// Those of [`IndexJob::complete`].
pub fn commit_index(job: IndexJob, reports: Vec<IndexReport>) -> Result<Indexed> {
    let table = job.table().clone();
    let mut done = job.complete(reports)?;
    after_service(&table, &mut done.warnings);
    Ok(done)
}

/// Makes the metadata table anew, with all partitions that it has and that the options want.
///
/// # Errors
/// Those of [`index`].
pub fn rebuild_metadata_table(table: &HudiTable) -> Result<Indexed> {
    run(table, BuildRequest { from_scratch: true, ..BuildRequest::default() })
}

fn run(table: &HudiTable, request: BuildRequest) -> Result<Indexed> {
    // What is made anew may be damaged.
    let (table, left) = if request.from_scratch { reopen(table, check_table)? } else { ready_to_serve(table)? };
    let mut done = indexing::index(&table, left.timeline(), request)?;
    after_service(&table, &mut done.warnings);
    Ok(done)
}

/// Drops an index, with those that are made of it. Returns the partitions of the metadata table that are gone; none if there
/// was no such index.
///
/// # Errors
/// `InvalidOption` for `files`; `Lock`; `Storage`.
pub fn drop_index(table: &HudiTable, partition: &str) -> Result<Vec<String>> {
    let (table, _) = reopen(table, check_table)?;
    let writer = table.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    indexing::drop_partition(&table, partition)
}

/// Drops the metadata table. The next writer of Hudi builds it again. Returns whether there was one.
///
/// # Errors
/// `Lock`; `Storage`.
pub fn drop_metadata_table(table: &HudiTable) -> Result<bool> {
    let (table, _) = reopen(table, check_table)?;
    let writer = table.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    indexing::drop_all(&table)
}
