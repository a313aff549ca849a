//! Cleaning, savepoints, rolling back, restoring.

use hoodoo::client;
use hoodoo::services::clean;
use hoodoo::services::savepoint::{self, Savepoint};
use pyo3::prelude::*;

use crate::call::{self, Call};
use crate::file_tasks::with_file_tasks;
use crate::table::NativeTable;

/// Instant of the clean, if there is one; earliest instant that it retains; partition and name of each file; partitions
/// that are emptied; milliseconds.
type CleanRow = (String, String, Vec<(String, String)>, Vec<String>, i64);
/// Instant, completion time, user, comment, number of files.
type SavepointRow = (String, String, String, String, usize);

fn savepoint_row(one: Savepoint) -> SavepointRow {
    (one.instant, one.completed, one.user, one.comment, one.files)
}

/// Cleans the table; nothing when there is nothing to delete. `tasks` runs tasks of an engine.
#[pyfunction]
#[pyo3(signature = (table, tasks=None))]
pub fn clean_table(py: Python<'_>, table: &NativeTable, tasks: Option<Bound<'_, PyAny>>) -> PyResult<Option<CleanRow>> {
    let call = Call::default();
    let table = with_file_tasks(&call, &table.table, tasks);
    let done = call.run(py, || client::clean(&table))?;
    Ok(done.map(|done| {
        let files = done.partition_metadata.values();
        let files =
            files.flat_map(|p| p.success_delete_files.iter().map(|name| (p.partition_path.clone(), name.clone())));
        let files = files.collect();
        let is_emptied = |deleted: Option<bool>| deleted == Some(true);
        let emptied = done.partition_metadata.values().filter(|p| is_emptied(p.is_partition_deleted));
        let emptied = emptied.map(|p| p.partition_path.clone()).collect();
        (done.start_clean_time, done.earliest_commit_to_retain, files, emptied, done.time_taken_in_millis)
    }))
}

/// What a clean would delete now.
#[pyfunction]
#[pyo3(signature = (table, tasks=None))]
pub fn plan_clean(py: Python<'_>, table: &NativeTable, tasks: Option<Bound<'_, PyAny>>) -> PyResult<Option<CleanRow>> {
    let call = Call::default();
    let table = with_file_tasks(&call, &table.table, tasks);
    let plan = call.run(py, || clean::planned(&table.reload()?))?;
    Ok(plan.map(|plan| {
        let partitions = plan.file_paths_to_be_deleted_per_partition.into_iter().flatten();
        let files = partitions.flat_map(|(partition, files)| {
            let names = files.into_iter().filter_map(|file| file.file_path);
            names.map(move |path| (partition.clone(), path.rsplit('/').next().unwrap_or_default().to_owned()))
        });
        let earliest = plan.earliest_instant_to_retain.map(|i| i.timestamp).unwrap_or_default();
        (String::new(), earliest, files.collect(), plan.partitions_to_be_deleted.unwrap_or_default(), 0)
    }))
}

/// Rolls back a write: the requested time of the rollback, and the paths of the deleted files.
#[pyfunction]
#[pyo3(signature = (table, instant, tasks=None))]
pub fn roll_back(
    py: Python<'_>,
    table: &NativeTable,
    instant: &str,
    tasks: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    let call = Call::default();
    let table = with_file_tasks(&call, &table.table, tasks);
    let done = call.run(py, || client::rollback(&table, instant))?;
    let files = done.partition_metadata.into_values().flat_map(|p| p.success_delete_files).collect();
    Ok((done.start_rollback_time, files))
}

/// All savepoints, oldest commit first.
#[pyfunction]
pub fn savepoints(py: Python<'_>, table: &NativeTable) -> PyResult<Vec<SavepointRow>> {
    let all = call::run(py, || savepoint::savepoints(&table.table.reload()?))?;
    Ok(all.into_iter().map(savepoint_row).collect())
}

/// Makes a savepoint of a commit, or of the newest one.
#[pyfunction]
#[pyo3(signature = (table, instant, user, comment))]
pub fn create_savepoint(
    py: Python<'_>,
    table: &NativeTable,
    instant: Option<String>,
    user: &str,
    comment: &str,
) -> PyResult<SavepointRow> {
    let made = || client::create_savepoint(&table.table, instant.as_deref(), user, comment);
    call::run(py, made).map(savepoint_row)
}

/// Deletes the savepoint of a commit.
#[pyfunction]
pub fn delete_savepoint(py: Python<'_>, table: &NativeTable, instant: &str) -> PyResult<()> {
    call::run(py, || client::delete_savepoint(&table.table, instant))
}

/// Restores the table to a savepoint: requested time, completion time, writes that were undone, deleted files, warnings.
#[pyfunction]
#[pyo3(signature = (table, savepoint, tasks=None))]
#[allow(clippy::type_complexity)]
pub fn restore_table(
    py: Python<'_>,
    table: &NativeTable,
    savepoint: &str,
    tasks: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, String, Vec<String>, usize, Vec<String>)> {
    let call = Call::default();
    let table = with_file_tasks(&call, &table.table, tasks);
    let done = call.run(py, || client::restore(&table, savepoint))?;
    Ok((done.instant, done.completed, done.undone, done.files_deleted, done.warnings))
}
