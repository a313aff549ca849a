//! Planning of clusterings.

use hoodoo::client;
use hoodoo::format::avro::metadata::to_json;
use hoodoo::services::clustering::{self, Depth, PlannedGroup};
use pyo3::prelude::*;

use crate::error::to_py;
use crate::table::NativeTable;
use crate::to_python;

type SliceRow = (String, String, String, Option<String>, Option<u64>, Vec<String>, Vec<u64>);
type RangeRow = (String, Option<String>, Option<String>);
type DepthRow = (usize, f64);
type GroupRow = (Vec<SliceRow>, u64, u32, Vec<RangeRow>, Option<DepthRow>, Option<DepthRow>);
type PlanRow = (Vec<GroupRow>, Option<DepthRow>, Option<DepthRow>, String);
type PendingRow = (String, bool, usize, usize, u64, u64, Vec<String>);

fn depth(depth: Depth) -> DepthRow {
    (depth.greatest, depth.mean)
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
    py.detach(|| client::schedule_clustering(&table.table)).map_err(to_py)
}

/// What would be planned: its groups, the depth of the files before and after, and the record as text.
#[pyfunction]
pub fn explain_clustering(py: Python<'_>, table: &NativeTable) -> PyResult<Option<PlanRow>> {
    let planned = py.detach(|| client::explain_clustering(&table.table)).map_err(to_py)?;
    Ok(planned.map(|planned| {
        let record = to_json(&planned.metadata).to_string();
        let groups = planned.groups.into_iter().map(group).collect();
        (groups, planned.before.map(depth), planned.after.map(depth), record)
    }))
}

/// Plans that wait, oldest first.
#[pyfunction]
pub fn pending_clusterings(py: Python<'_>, table: &NativeTable) -> PyResult<Vec<PendingRow>> {
    let pending = py.detach(|| clustering::pending(&table.table)).map_err(to_py)?;
    let row = |p: clustering::PendingClustering| {
        (p.instant, p.is_inflight, p.groups, p.slices, p.bytes, p.outputs, p.sort_columns)
    };
    Ok(pending.into_iter().map(row).collect())
}
