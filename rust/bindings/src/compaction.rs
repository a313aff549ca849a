//! Compactions whose work is done in Spark's tasks.

use std::sync::Mutex;

use hoodoo::client;
use hoodoo::format::avro::metadata::WriteStat;
use hoodoo::services::compaction::{CompactionJob, CompactionTask, run_task};
use hoodoo::table::HudiTable;
use hoodoo::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call;
use crate::error::to_py;
use crate::table::NativeTable;
use crate::task_json::{task_from_json, task_to_json};

/// The driver's side of a compaction.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativeCompaction {
    table: HudiTable,
    job: Mutex<Option<CompactionJob>>,
    instant: String,
    tasks: Vec<String>,
}

#[pymethods]
impl NativeCompaction {
    /// Begins a planned compaction, or one that is planned now; nothing when there is nothing to compact.
    #[staticmethod]
    #[pyo3(signature = (table, instant=None))]
    fn begin(py: Python<'_>, table: &NativeTable, instant: Option<String>) -> PyResult<Option<Self>> {
        let table = table.table.clone();
        let job = call::run(py, || client::begin_compaction(&table, instant.as_deref()))?;
        job.map(|job| {
            let tasks = job.tasks.iter().map(task_to_json).collect::<Result<Vec<_>>>().map_err(to_py)?;
            Ok(Self { table, instant: job.instant().to_owned(), job: Mutex::new(Some(job)), tasks })
        })
        .transpose()
    }

    /// Requested time.
    #[getter]
    fn instant(&self) -> &str {
        &self.instant
    }

    /// What is to be done, each by itself, as JSON.
    #[getter]
    fn tasks(&self) -> Vec<String> {
        self.tasks.clone()
    }

    /// Publishes what the tasks wrote; `stats` is what they gave back.
    fn commit<'py>(&self, py: Python<'py>, stats: Vec<String>) -> PyResult<Option<Bound<'py, PyDict>>> {
        call::commit(py, || {
            let gone = || Error::invalid_option("this compaction is over");
            let job = self.job.lock().ok().and_then(|mut job| job.take()).ok_or_else(gone)?;
            let stats =
                stats.iter().map(|s| task_from_json::<WriteStat>(s, "a compaction")).collect::<Result<Vec<_>>>()?;
            client::commit_compaction(&self.table, job, stats).map(Some)
        })
    }
}

/// Executes a task; gives back what the driver has to know, as JSON.
#[pyfunction]
pub fn compact_operation(
    py: Python<'_>,
    table: &NativeTable,
    instant: &str,
    task: &str,
    token: &str,
) -> PyResult<String> {
    let run = || {
        let task = task_from_json::<CompactionTask>(task, "a compaction")?;
        task_to_json(&run_task(&table.table, instant, &task, token)?)
    };
    call::run(py, run)
}
