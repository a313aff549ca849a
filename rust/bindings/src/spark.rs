//! Writes and reads whose work is done in Spark's tasks.

use std::collections::BTreeMap;
use std::sync::Mutex;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::PyArrowType;
use hoodoo::client::{self, BegunWrite};
use hoodoo::table::scan::ScanRequest;
use hoodoo::table::{HudiTable, PlannedRead, QueryRequest, ReadUnit};
use hoodoo::write::Operation;
use hoodoo::write::task::{self, Router, RowKeyer, TaskPlan, TaskReport};
use hoodoo::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{self, Call};
use crate::error::to_py;
use crate::table::NativeTable;
use crate::task_json::{task_from_json, task_to_json};

/// The driver's side of a write.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativeWrite {
    table: HudiTable,
    write: Mutex<Option<BegunWrite>>,
    plan: String,
}

fn gone() -> Error {
    Error::invalid_option("this write is over")
}

#[pymethods]
impl NativeWrite {
    #[staticmethod]
    #[pyo3(signature = (table, operation, schema, buckets, batch_rows, partial=false, widened=Vec::new()))]
    #[allow(clippy::too_many_arguments)]
    fn begin(
        py: Python<'_>,
        table: &NativeTable,
        operation: &str,
        schema: PyArrowType<Schema>,
        buckets: u32,
        batch_rows: usize,
        partial: bool,
        widened: Vec<String>,
    ) -> PyResult<Self> {
        let operation = Operation::parse(operation).map_err(to_py)?;
        let table = table.table.clone();
        let begin =
            || client::begin_distributed(&table, operation, &schema.0, (buckets, batch_rows), partial, &widened);
        let write = call::run(py, begin)?;
        let plan = serde_json::to_string(write.plan()).map_err(|e| to_py(Error::invalid_option(e.to_string())))?;
        Ok(Self { table, write: Mutex::new(Some(write)), plan })
    }

    /// What the tasks need, as text.
    #[getter]
    fn plan(&self) -> &str {
        &self.plan
    }

    /// Whether keys are looked for in all partitions.
    #[getter]
    fn whole_table(&self) -> PyResult<bool> {
        Ok(parse_plan(&self.plan)?.whole_table)
    }

    /// Whether the rows of a key become one, so that they have to be together.
    #[getter]
    fn combines(&self) -> PyResult<bool> {
        Ok(parse_plan(&self.plan)?.combines)
    }

    /// Whether each row has a file group of its bucket, so that the rows of a bucket have to be together.
    #[getter]
    fn by_bucket(&self) -> PyResult<bool> {
        Ok(parse_plan(&self.plan)?.bucket_index.is_some())
    }

    /// Publishes what the tasks wrote; `reports` is what they gave back. The commit keeps `extra_metadata`.
    #[pyo3(signature = (reports, extra_metadata = BTreeMap::new()))]
    fn commit<'py>(
        &self,
        py: Python<'py>,
        reports: Vec<String>,
        extra_metadata: BTreeMap<String, String>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        call::commit(py, || {
            let write = self.write.lock().ok().and_then(|mut w| w.take()).ok_or_else(gone)?;
            let reports = reports.iter().map(|r| parse_report(r)).collect::<Result<Vec<_>>>()?;
            client::commit_distributed(&self.table, write, reports, extra_metadata).map(Some)
        })
    }

    /// Gives the write up and removes what its tasks left.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        call::run(py, || {
            let begun = self.write.lock().ok().and_then(|mut w| w.take());
            client::abort_distributed(&self.table, begun)
        })
    }
}

fn parse_report(text: &str) -> Result<TaskReport> {
    serde_json::from_str(text).map_err(|e| Error::corrupt("a task gave back no report of its work").caused_by(e))
}

fn parse_plan(text: &str) -> PyResult<TaskPlan> {
    serde_json::from_str(text).map_err(|e| to_py(Error::invalid_option("a malformed plan of a write").caused_by(e)))
}

type Batches = PyArrowType<RecordBatchStreamReader>;

/// Adds a batch, or, given none, ends.
type Pack = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Option<RecordBatch>> + Send>;

/// Packs the rows of one task for a shuffle. By batches and not as a stream, for an error would lose its kind on the way
/// through one.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativePacker {
    pack: Mutex<Pack>,
}

impl NativePacker {
    fn open(
        py: Python<'_>,
        table: &NativeTable,
        plan: &str,
        make: impl FnOnce(&HudiTable, &TaskPlan) -> Result<Pack> + Send,
    ) -> PyResult<Self> {
        let plan = parse_plan(plan)?;
        let pack = call::run(py, || make(&table.table, &plan))?;
        Ok(Self { pack: Mutex::new(pack) })
    }

    fn pack(&self, py: Python<'_>, batch: Option<&RecordBatch>) -> PyResult<Option<PyArrowType<RecordBatch>>> {
        let packed = py.detach(|| {
            let mut pack = self.pack.lock().map_err(|_| gone())?;
            pack(batch)
        });
        Ok(packed.map_err(to_py)?.map(PyArrowType))
    }
}

#[pymethods]
impl NativePacker {
    /// Packs rows of these columns by the file groups that they go to, in the task of this number.
    #[staticmethod]
    fn by_route(
        py: Python<'_>,
        table: &NativeTable,
        plan: &str,
        schema: PyArrowType<Schema>,
        task: usize,
    ) -> PyResult<Self> {
        Self::open(py, table, plan, |table, plan| {
            let mut router = Router::new(table, plan, &schema.0, task)?;
            Ok(Box::new(move |batch| match batch {
                Some(batch) => router.add(batch),
                None => router.finish(),
            }))
        })
    }

    /// Packs rows of these columns by their keys, in the task of this number.
    #[staticmethod]
    fn by_key(
        py: Python<'_>,
        table: &NativeTable,
        plan: &str,
        schema: PyArrowType<Schema>,
        task: usize,
    ) -> PyResult<Self> {
        Self::open(py, table, plan, |table, plan| {
            let mut keyer = RowKeyer::new(table, plan, &schema.0, task)?;
            Ok(Box::new(move |batch| match batch {
                Some(batch) => keyer.add(batch),
                None => keyer.finish(),
            }))
        })
    }

    /// Adds rows. Packed rows come back when many wait.
    fn add(&self, py: Python<'_>, batch: PyArrowType<RecordBatch>) -> PyResult<Option<PyArrowType<RecordBatch>>> {
        self.pack(py, Some(&batch.0))
    }

    /// The rows that still wait.
    fn finish(&self, py: Python<'_>) -> PyResult<Option<PyArrowType<RecordBatch>>> {
        self.pack(py, None)
    }
}

/// Routes packed rows of a write that looks keys up in all partitions.
#[pyfunction]
pub fn locate_rows(
    py: Python<'_>,
    table: &NativeTable,
    plan: &str,
    rows: Batches,
) -> PyResult<PyArrowType<Box<dyn RecordBatchReader + Send>>> {
    let plan = parse_plan(plan)?;
    let batches = rows.0.map(|batch| batch.map_err(Error::from));
    let located = call::run(py, || task::locate_rows(&table.table, &plan, batches))?;
    // What can be wrong with the rows was found by now: an error in the stream would lose its kind.
    let located = located.map(|batch| batch.map_err(|e| ArrowError::ExternalError(Box::new(e))));
    let reader = RecordBatchIterator::new(located, task::packed_schema());
    Ok(PyArrowType(Box::new(reader)))
}

/// The partitions of rows, as reports of a task of `delete_partition`.
#[pyfunction]
pub fn report_partitions(py: Python<'_>, table: &NativeTable, plan: &str, rows: Batches) -> PyResult<Vec<String>> {
    let plan = parse_plan(plan)?;
    let given = rows.0.schema();
    let batches = rows.0.map(|batch| batch.map_err(Error::from));
    to_json_strings(call::run(py, || task::partitions_of(&table.table, &plan, &given, batches)))
}

fn to_json_strings(reports: PyResult<Vec<TaskReport>>) -> PyResult<Vec<String>> {
    let strings = reports?.iter().map(serde_json::to_string).collect::<std::result::Result<_, _>>();
    strings.map_err(|e| to_py(Error::invalid_option(e.to_string())))
}

/// Merges packed rows; gives back what the driver has to know, as text.
#[pyfunction]
pub fn apply_routes(
    py: Python<'_>,
    table: &NativeTable,
    plan: &str,
    rows: Batches,
    task: usize,
    token: &str,
) -> PyResult<Vec<String>> {
    let plan = parse_plan(plan)?;
    let rows = rows.0.map(|batch| batch.map_err(Error::from));
    to_json_strings(call::run(py, || task::apply_routes(&table.table, &plan, rows, task, token)))
}

/// Writes rows into new files as they come; gives back what the driver has to know, as text.
#[pyfunction]
pub fn write_rows(
    py: Python<'_>,
    table: &NativeTable,
    plan: &str,
    rows: Batches,
    task: usize,
    token: &str,
) -> PyResult<Vec<String>> {
    let plan = parse_plan(plan)?;
    let rows = rows.0.map(|batch| batch.map_err(Error::from));
    to_json_strings(call::run(py, || task::write_rows(&table.table, &plan, rows, task, token)))
}

/// What a query reads: file slices or changes of commits, each as JSON; the columns; the instant that all tasks read as of; and, of an incremental
/// query, the instants whose rows are wanted. The table was opened just now.
#[pyfunction]
#[pyo3(signature = (table, query=None, as_of=None, since=None, until=None, columns=None, filters=None))]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
pub fn plan_read(
    py: Python<'_>,
    table: &NativeTable,
    query: Option<String>,
    as_of: Option<String>,
    since: Option<String>,
    until: Option<String>,
    columns: Option<Vec<String>>,
    filters: Option<Bound<'_, PyAny>>,
) -> PyResult<(Vec<String>, PyArrowType<Schema>, Option<String>, Option<Vec<String>>)> {
    let call = Call::default();
    let request = ScanRequest { columns, filter: call.filter(filters), ..Default::default() };
    let planned = call.run(py, || {
        let query = table.query(QueryRequest { query, as_of, since, until, mode: None })?;
        table.table.plan_units(&query, &request)
    })?;
    let PlannedRead { units, schema, as_of, written_by } = planned;
    let units = units.iter().map(task_to_json).collect::<Result<Vec<_>>>().map_err(to_py)?;
    Ok((units, PyArrowType(schema.as_ref().clone()), as_of, written_by))
}

/// Streams some of these.
#[pyfunction]
#[pyo3(signature = (table, units, columns=None, filters=None, as_of=None, written_by=None))]
pub fn read_units<'py>(
    py: Python<'py>,
    table: &NativeTable,
    units: Vec<String>,
    columns: Option<Vec<String>>,
    filters: Option<Bound<'py, PyAny>>,
    as_of: Option<String>,
    written_by: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::default();
    let request = ScanRequest { columns, filter: call.filter(filters), as_of, read_optimized: false, written_by };
    let parse = |json: &String| task_from_json::<ReadUnit>(json, "a read");
    let units = units.iter().map(parse).collect::<Result<Vec<_>>>().map_err(to_py)?;
    let stream = call.run(py, || table.table.read_units(units, &request))?;
    crate::table::reader(py, stream)
}
