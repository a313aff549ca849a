//! Indexes whose work is done in Spark's tasks.

use std::sync::{Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::PyArrowType;
use hoodoo::client;
use hoodoo::parallel::BatchStream;
use hoodoo::services::indexing::{IndexJob, IndexReport, KeyIndexPlan, read_files, read_keys, write_shards};
use hoodoo::{Error, Result};
use pyo3::prelude::*;

use crate::call;
use crate::error::to_py;
use crate::table::{IndexRow, NativeTable, index_row};
use crate::task_json::{task_from_json, task_to_json};

/// What tasks have to know, and what each of them reads.
type Tasks = (String, Vec<String>);

/// The driver's side of an index.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativeIndexing {
    job: Mutex<Option<IndexJob>>,
    instant: String,
    files: Tasks,
    indexes: Vec<Tasks>,
}

impl NativeIndexing {
    fn take(&self) -> Result<IndexJob> {
        let gone = || Error::invalid_option("this index is over");
        self.job.lock().ok().and_then(|mut job| job.take()).ok_or_else(gone)
    }
}

fn tasks_of(job: &IndexJob) -> Result<(Tasks, Vec<Tasks>)> {
    let (plan, units) = job.files();
    let files = (task_to_json(plan)?, units.iter().map(task_to_json).collect::<Result<_>>()?);
    let index = |(plan, units): (&KeyIndexPlan, Vec<_>)| {
        let units = units.iter().map(task_to_json).collect::<Result<_>>()?;
        Ok((task_to_json(plan)?, units))
    };
    Ok((files, job.indexes().map(index).collect::<Result<_>>()?))
}

#[pymethods]
impl NativeIndexing {
    /// Begins to build an index.
    #[staticmethod]
    #[pyo3(signature = (table, partition, columns=None))]
    fn begin(py: Python<'_>, table: &NativeTable, partition: &str, columns: Option<Vec<String>>) -> PyResult<Self> {
        let (job, (files, indexes)) = call::run(py, || {
            let job = client::begin_index(&table.table, partition, columns)?;
            let tasks = tasks_of(&job)?;
            Ok((job, tasks))
        })?;
        Ok(Self { instant: job.instant().to_owned(), job: Mutex::new(Some(job)), files, indexes })
    }

    /// Requested time.
    #[getter]
    fn instant(&self) -> &str {
        &self.instant
    }

    /// What is wanted of files, and the files that each task reads, as JSON.
    #[getter]
    fn files(&self) -> Tasks {
        self.files.clone()
    }

    /// Of each index of keys its plan, and the file slices that each task reads, as JSON.
    #[getter]
    fn indexes(&self) -> Vec<Tasks> {
        self.indexes.clone()
    }

    /// Publishes the index; `reports` is what the tasks gave back.
    fn commit(&self, py: Python<'_>, reports: Vec<String>) -> PyResult<IndexRow> {
        let done = call::run(py, || {
            let job = self.take()?;
            match reports.iter().map(|report| task_from_json::<IndexReport>(report, "an index")).collect() {
                Ok(reports) => client::commit_index(job, reports),
                Err(e) => {
                    job.take_back();
                    Err(e)
                }
            }
        });
        done.map(index_row)
    }

    /// Gives the index up and removes what its tasks left.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        call::run(py, || {
            if let Ok(job) = self.take() {
                job.take_back();
            }
            Ok(())
        })
    }
}

/// Reads files; gives back what the driver has to know, as JSON.
#[pyfunction]
pub fn index_files(py: Python<'_>, table: &NativeTable, plan: &str, unit: &str) -> PyResult<Vec<String>> {
    call::run(py, || {
        read_files(&table.table, &task_from_json(plan, "an index")?, task_from_json(unit, "an index")?)?
            .iter()
            .map(task_to_json)
            .collect()
    })
}

/// The keys of file slices. Not an Arrow stream, for an error would lose its kind on the way through one.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativeKeys(Mutex<BatchStream>);

#[pymethods]
impl NativeKeys {
    /// The next batch; nothing at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<PyArrowType<RecordBatch>>> {
        let next = call::run(py, || {
            let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(stream.next().transpose()?)
        });
        Ok(next?.map(PyArrowType))
    }
}

/// The keys of file slices with their shards, batch after batch.
#[pyfunction]
pub fn index_keys(py: Python<'_>, table: &NativeTable, plan: &str, units: Vec<String>) -> PyResult<NativeKeys> {
    let stream = call::run(py, || {
        let units = units.iter().map(|unit| task_from_json(unit, "an index")).collect::<Result<_>>()?;
        read_keys(&table.table, &task_from_json(plan, "an index")?, units)
    })?;
    Ok(NativeKeys(Mutex::new(stream)))
}

/// Writes shards from sorted keys; gives back what the driver has to know, as JSON.
#[pyfunction]
pub fn write_index_shards(
    py: Python<'_>,
    table: &NativeTable,
    plan: &str,
    rows: PyArrowType<RecordBatchStreamReader>,
    token: &str,
) -> PyResult<Vec<String>> {
    let plan = task_from_json::<KeyIndexPlan>(plan, "an index").map_err(to_py)?;
    let rows = rows.0.map(|batch| batch.map_err(Error::from));
    call::run(py, || write_shards(&table.table, &plan, rows, token)?.iter().map(task_to_json).collect())
}
