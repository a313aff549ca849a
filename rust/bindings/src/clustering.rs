//! Clusterings: plans, and carrying them out, here or in Spark's tasks.

use std::sync::Mutex;

use hoodoo::client;
use hoodoo::file_group::FileSlice;
use hoodoo::format::avro::metadata::to_json;
use hoodoo::services::clustering::{
    self, ClusteredFile, ClusteringJob, ClusteringTask, Depth, FileRanges, PlannedGroup, run_task,
};
use hoodoo::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call;
use crate::error::to_py;
use crate::table::NativeTable;
use crate::task_json::{task_from_json, task_to_json};
use crate::to_python;

type SliceRow = (String, String, String, Option<String>, Option<u64>, Vec<String>, Vec<u64>);
type RangeRow = (String, Option<String>, Option<String>);
type DepthRow = (usize, f64);
type GroupRow = (Vec<SliceRow>, u64, u32, Vec<RangeRow>, Option<DepthRow>, Option<DepthRow>);
type FileRow = (SliceRow, Option<u64>, Option<(Option<String>, Option<String>)>);
type PlanRow = (Vec<GroupRow>, Option<DepthRow>, Option<DepthRow>, String);
type PendingRow = (String, bool, usize, usize, u64, u64, Vec<String>);

fn depth(depth: Depth) -> DepthRow {
    (depth.max, depth.mean)
}

fn group(planned: PlannedGroup) -> GroupRow {
    let group = planned.group;
    (
        group.slices.iter().map(to_python::file_slice).collect(),
        group.bytes,
        group.outputs,
        planned.ranges,
        planned.before.map(depth),
        planned.after.map(depth),
    )
}

/// Plans a clustering; its requested time, or nothing when there is nothing to cluster.
#[pyfunction]
pub fn schedule_clustering(py: Python<'_>, table: &NativeTable) -> PyResult<Option<String>> {
    call::run(py, || client::schedule_clustering(&table.table))
}

/// What would be planned: its groups, the depth of the files before and after, and the record as JSON.
#[pyfunction]
pub fn explain_clustering(py: Python<'_>, table: &NativeTable) -> PyResult<Option<PlanRow>> {
    let planned = call::run(py, || client::explain_clustering(&table.table))?;
    Ok(planned.map(|planned| {
        let record = to_json(&planned.metadata).to_string();
        let groups = planned.groups.into_iter().map(group).collect();
        (groups, planned.before.map(depth), planned.after.map(depth), record)
    }))
}

/// Plans that wait, oldest first.
#[pyfunction]
pub fn pending_clusterings(py: Python<'_>, table: &NativeTable) -> PyResult<Vec<PendingRow>> {
    let pending = call::run(py, || clustering::pending(&table.table))?;
    let row = |p: clustering::PendingClustering| {
        (p.instant, p.is_inflight, p.groups, p.slices, p.bytes, p.outputs, p.sort_columns)
    };
    Ok(pending.into_iter().map(row).collect())
}

/// What the files hold of a column, and their depth in it: a slice with rows, least and greatest value where the footer
/// tells them.
#[pyfunction]
pub fn column_ranges(py: Python<'_>, table: &NativeTable, column: &str) -> PyResult<(Vec<FileRow>, DepthRow)> {
    let found = call::run(py, || clustering::column_ranges(&table.table, column))?;
    let ends = |ranges: FileRanges| {
        let range = ranges.columns.into_iter().next().flatten();
        (Some(ranges.rows), range.map(|range| (range.min_string, range.max_string)))
    };
    let row = |(slice, ranges): (FileSlice, Option<FileRanges>)| {
        let (rows, range) = ranges.map_or((None, None), ends);
        (to_python::file_slice(&slice), rows, range)
    };
    Ok((found.files.into_iter().map(row).collect(), depth(found.depth)))
}

/// Carries out planned clusterings; nothing when there is nothing to cluster.
#[pyfunction]
#[pyo3(signature = (table, instant=None, new_plan=false))]
pub fn cluster<'py>(
    py: Python<'py>,
    table: &NativeTable,
    instant: Option<String>,
    new_plan: bool,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    call::commit(py, || client::cluster(&table.table, instant.as_deref(), new_plan))
}

/// Takes a planned clustering off the timeline.
#[pyfunction]
pub fn roll_back_clustering(py: Python<'_>, table: &NativeTable, instant: &str) -> PyResult<()> {
    call::run(py, || client::roll_back_clustering(&table.table, instant))
}

/// The driver's side of a clustering.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativeClustering {
    job: Mutex<Option<ClusteringJob>>,
    instant: String,
    tasks: Vec<String>,
}

#[pymethods]
impl NativeClustering {
    /// Begins a planned clustering, or one that is planned now; nothing when there is nothing to cluster.
    #[staticmethod]
    #[pyo3(signature = (table, instant=None, new_plan=false))]
    fn begin(py: Python<'_>, table: &NativeTable, instant: Option<String>, new_plan: bool) -> PyResult<Option<Self>> {
        let table = table.table.clone();
        let job = call::run(py, || client::begin_clustering(&table, instant.as_deref(), new_plan))?;
        let Some((job, tasks)) = job else { return Ok(None) };
        let tasks = tasks.iter().map(task_to_json).collect::<Result<Vec<_>>>().map_err(to_py)?;
        Ok(Some(Self { instant: job.instant().to_owned(), job: Mutex::new(Some(job)), tasks }))
    }

    /// Requested time.
    #[getter]
    fn instant(&self) -> &str {
        &self.instant
    }

    /// What is to be rewritten, each by itself, as JSON.
    #[getter]
    fn groups(&self) -> Vec<String> {
        self.tasks.clone()
    }

    /// Publishes what the tasks wrote; `files` is what they gave back.
    fn commit<'py>(&self, py: Python<'py>, files: Vec<String>) -> PyResult<Option<Bound<'py, PyDict>>> {
        call::commit(py, || {
            let gone = || Error::invalid_option("this clustering is over");
            let job = self.job.lock().ok().and_then(|mut job| job.take()).ok_or_else(gone)?;
            let files = files
                .iter()
                .map(|f| task_from_json::<Vec<ClusteredFile>>(f, "a clustering"))
                .collect::<Result<Vec<_>>>()?;
            client::commit_clustering(job, files.into_iter().flatten().collect()).map(Some)
        })
    }
}

/// Rewrites one group, or a part of it; gives back what the driver has to know, as JSON.
#[pyfunction]
pub fn cluster_group(py: Python<'_>, table: &NativeTable, instant: &str, group: &str, token: &str) -> PyResult<String> {
    let run = || {
        task_to_json(&run_task(
            &table.table,
            instant,
            &task_from_json::<ClusteringTask>(group, "a clustering")?,
            token,
        )?)
    };
    call::run(py, run)
}
