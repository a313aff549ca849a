//! Record mergers that are written in Python.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, BooleanArray, RecordBatch, make_array};
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use hoodoo::merge::{MergeContext, MergedRows, OrderingValues, RecordMerger, Records};
use hoodoo::table::HudiTable;
use hoodoo::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::call::keep;
use crate::error::to_py;

/// The option that names the classes.
const CLASSES: &str = "hoodie.write.record.merge.custom.implementation.classes";

/// Gives a table the merger that it asks for, from the classes that its options name. Nothing is imported for a table
/// that asks for none.
pub fn with_mergers(py: Python<'_>, table: HudiTable) -> PyResult<HudiTable> {
    let Some(wanted) = table.missing_merger().map_err(to_py)? else { return Ok(table) };
    let Some(classes) = table.options().get(CLASSES) else { return Ok(table) };
    let loaded = py.import("hoodoo.record_merger")?.call_method1("load_mergers", (classes, wanted))?;
    let mut mergers: Vec<Arc<dyn RecordMerger>> = Vec::new();
    for merger in loaded.try_iter()? {
        mergers.push(Arc::new(PythonMerger::new(&merger?)?));
    }
    Ok(table.with_mergers(mergers))
}

/// A merger whose work a Python object does.
#[derive(Debug)]
pub struct PythonMerger {
    merger: Py<PyAny>,
    strategy_id: String,
}

impl PythonMerger {
    /// The merger of an instance of `hoodoo.RecordMerger`.
    pub fn new(merger: &Bound<'_, PyAny>) -> PyResult<Self> {
        let strategy_id = merger.getattr("strategy_id")?.extract()?;
        Ok(Self { merger: merger.clone().unbind(), strategy_id })
    }

    fn call(&self, partial: bool, older: &Records, newer: &Records, context: &MergeContext) -> Result<MergedRows> {
        Python::attach(|py| {
            let call = || -> PyResult<MergedRows> {
                let run = py.import("hoodoo.record_merger")?.getattr("run_merger")?;
                let properties = PyDict::new(py);
                for (key, value) in &context.properties {
                    properties.set_item(key, value)?;
                }
                let context = (PyList::new(py, &context.ordering)?, properties);
                let (older, newer) = (side(py, older)?, side(py, newer)?);
                let result = run.call1((self.merger.bind(py), partial, older, newer, context))?;
                let (data, deleted, present): (Bound<'_, PyAny>, Bound<'_, PyAny>, Option<Vec<Bound<'_, PyAny>>>) =
                    result.extract()?;
                let present = present.map(|p| p.iter().map(booleans).collect::<PyResult<Vec<_>>>()).transpose()?;
                Ok(MergedRows { data: RecordBatch::from_pyarrow_bound(&data)?, deleted: booleans(&deleted)?, present })
            };
            call().map_err(|e| {
                keep(py, &e);
                self.failed(py, &e)
            })
        })
    }

    fn failed(&self, py: Python<'_>, error: &PyErr) -> Error {
        let trace = error.traceback(py).and_then(|t| t.format().ok()).unwrap_or_default();
        Error::schema(format!("the record merger {} failed: {error}", self.strategy_id))
            .with("merger", &self.strategy_id)
            .with("traceback", trace.trim_end())
            .remedy("Mend the merger: nothing was written. hoodoo.testing.check_merger tries it on made-up records")
    }
}

impl RecordMerger for PythonMerger {
    fn strategy_id(&self) -> &str {
        &self.strategy_id
    }

    fn merge(&self, older: &Records, newer: &Records, context: &MergeContext) -> Result<MergedRows> {
        self.call(false, older, newer, context)
    }

    fn partial_merge(&self, older: &Records, newer: &Records, context: &MergeContext) -> Result<MergedRows> {
        self.call(true, older, newer, context)
    }
}

fn array<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    array.to_data().to_pyarrow(py)
}

fn booleans(object: &Bound<'_, PyAny>) -> PyResult<BooleanArray> {
    let array = make_array(ArrayData::from_pyarrow_bound(object)?);
    let found = array.as_any().downcast_ref::<BooleanArray>().cloned();
    found.ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("expected an Arrow array of booleans"))
}

/// One side of the pairs: (columns, keys, ordering values, which of these are the default, deletes, present columns).
fn side<'py>(py: Python<'py>, records: &Records) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
    let keys: ArrayRef = Arc::new(records.keys.clone());
    let mask = |mask: &BooleanArray| -> PyResult<Bound<'py, PyAny>> { mask.to_data().to_pyarrow(py) };
    let values = records.ordering.columns().iter().map(|c| array(py, c)).collect::<PyResult<Vec<_>>>()?;
    let present = records.present.as_ref().map(|p| p.iter().map(mask).collect::<PyResult<Vec<_>>>()).transpose()?;
    let default = is_default(&records.ordering, records.len());
    let parts =
        (records.data.to_pyarrow(py)?, array(py, &keys)?, values, mask(&default)?, mask(&records.deleted)?, present);
    parts.into_pyobject(py)
}

fn is_default(ordering: &OrderingValues, rows: usize) -> BooleanArray {
    (0..rows).map(|row| Some(ordering.is_default(row))).collect()
}
