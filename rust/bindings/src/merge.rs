//! Merging rows without a table.

use std::sync::Arc;

use arrow::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::PyArrowType;
use hoodoo::client::{MergeRequest, merge_rows as merge};
use hoodoo::merge::RecordMerger;
use hoodoo::table::{Options, spill_options};
use pyo3::prelude::*;

use crate::call;
use crate::error::to_py;
use crate::from_python::StringMap;
use crate::merger::PythonMerger;

/// Merges two Arrow streams into one.
#[pyfunction]
#[pyo3(signature = (older, newer, key, ordering, options, merger=None, partial=false, sorted=false))]
#[allow(clippy::too_many_arguments)]
pub fn merge_rows<'py>(
    py: Python<'py>,
    older: PyArrowType<RecordBatchStreamReader>,
    newer: PyArrowType<RecordBatchStreamReader>,
    key: Vec<String>,
    ordering: Vec<String>,
    options: StringMap,
    merger: Option<Bound<'py, PyAny>>,
    partial: bool,
    sorted: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let merger = merger.map(|m| PythonMerger::new(&m).map(|m| Arc::new(m) as Arc<dyn RecordMerger>)).transpose()?;
    let options = Options::new(options).map_err(to_py)?;
    let request = spill_options(&options).and_then(|spill| MergeRequest::new(key, ordering, &options, merger, spill));
    let request = MergeRequest { partial, sorted, ..request.map_err(to_py)? };
    let merged = call::run(py, || merge(Box::new(older.0), Box::new(newer.0), request))?;
    call::stream(py, merged)
}
