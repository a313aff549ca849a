//! Lists folders and deletes files in tasks of an engine.

use std::sync::Arc;

use hoodoo::storage::{FileMeta, FileTasks};
use hoodoo::table::HudiTable;
use hoodoo::{Error, Result};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::call::{self, Call, Callback};
use crate::table::NativeTable;
use crate::task_json::{task_from_json, task_to_json};

const DELETE: &str = "delete";
const LIST: &str = "list";
const LIST_RECURSIVE: &str = "list_recursive";
const OF: &str = "a listing or deletion of files";

/// What one task gets.
#[derive(Serialize, Deserialize)]
struct Unit {
    number: usize,
    paths: Vec<String>,
}

/// What one task reports.
#[derive(Serialize, Deserialize)]
struct Report {
    number: usize,
    /// Of a deletion: whether each file was there.
    deleted: Vec<bool>,
    /// Of a listing: path, size, milliseconds since 1970.
    files: Vec<(String, u64, i64)>,
}

/// A Python function that gets the kind of the work and units as JSON, and returns the reports of their tasks.
struct EngineTasks {
    run: Callback,
}

impl EngineTasks {
    /// The reports in the order of the chunks.
    fn run(&self, kind: &str, chunks: &[&[String]]) -> Result<Vec<Report>> {
        let unit = |(number, chunk): (usize, &&[String])| task_to_json(&Unit { number, paths: chunk.to_vec() });
        let units = chunks.iter().enumerate().map(unit).collect::<Result<Vec<_>>>()?;
        let failed = || Error::storage("a task that lists or deletes files failed");
        let reports: Vec<String> = self.run.call(failed, |run| run.call1((kind, units))?.extract())?;
        let parsed = reports.iter().map(|report| task_from_json::<Report>(report, OF));
        let mut reports = parsed.collect::<Result<Vec<_>>>()?;
        reports.sort_by_key(|report| report.number);
        if !reports.iter().map(|report| report.number).eq(0..chunks.len()) {
            return Err(Error::storage("the engine did not return one report for each task")
                .remedy("Run the service again: it goes on where this one ended"));
        }
        Ok(reports)
    }
}

impl FileTasks for EngineTasks {
    fn list(&self, chunks: &[&[String]], recursive: bool) -> Result<Vec<FileMeta>> {
        let reports = self.run(if recursive { LIST_RECURSIVE } else { LIST }, chunks)?;
        let files = reports.into_iter().flat_map(|report| report.files);
        Ok(files.map(|(path, size, modified_ms)| FileMeta { path, size, modified_ms }).collect())
    }

    fn delete(&self, chunks: &[&[String]]) -> Result<Vec<bool>> {
        let reports = self.run(DELETE, chunks)?;
        if reports.iter().zip(chunks).any(|(report, chunk)| report.deleted.len() != chunk.len()) {
            return Err(Error::storage("a task did not report each file that it deleted"));
        }
        Ok(reports.into_iter().flat_map(|report| report.deleted).collect())
    }
}

/// The table, whose files an engine lists and deletes where there is much of it: by a function of Python, if there is one.
pub fn with_file_tasks(call: &Call, table: &HudiTable, run: Option<Bound<'_, PyAny>>) -> HudiTable {
    match run {
        Some(run) => table.with_file_tasks(Arc::new(EngineTasks { run: call.callback(run) })),
        None => table.clone(),
    }
}

/// Lists or deletes in a task; returns the report for the driver, as JSON.
#[pyfunction]
pub fn run_file_task(py: Python<'_>, table: &NativeTable, kind: &str, unit: &str) -> PyResult<String> {
    call::run(py, || {
        let Unit { number, paths } = task_from_json(unit, OF)?;
        let (storage, threads) = (table.table.storage(), table.table.threads()?);
        let (mut deleted, mut listed) = (Vec::new(), Vec::new());
        match kind {
            DELETE => {
                deleted = storage.delete_many(paths, threads)?;
                // The driver completes the action, and knows nothing of the changes of this process.
                storage.sync()?;
            }
            LIST_RECURSIVE => listed = storage.list_all_recursive(&paths)?,
            LIST => listed = storage.list_folders(paths, threads)?.into_iter().flat_map(|(_, files)| files).collect(),
            other => return Err(Error::invalid_option(format!("unknown task '{other}' of {OF}"))),
        }
        let files = listed.into_iter().map(|file| (file.path, file.size, file.modified_ms)).collect();
        task_to_json(&Report { number, deleted, files })
    })
}
