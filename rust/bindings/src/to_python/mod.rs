//! Results of the core as plain Python values; the classes that users see are made of them in Python.

use hoodoo::file_group::FileSlice;
use hoodoo::format::instant::Instant;
use hoodoo::write::CommitOutcome;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A commit as a dictionary.
pub fn commit<'py>(py: Python<'py>, outcome: &CommitOutcome) -> PyResult<Bound<'py, PyDict>> {
    let sum = |value: fn(&hoodoo::format::avro::metadata::WriteStat) -> Option<i64>| {
        outcome.stats.iter().filter_map(value).sum::<i64>()
    };
    let dict = PyDict::new(py);
    dict.set_item("instant", &outcome.instant)?;
    dict.set_item("completed", &outcome.completed)?;
    dict.set_item("operation", outcome.operation)?;
    dict.set_item("inserted", sum(|s| s.num_inserts))?;
    dict.set_item("updated", sum(|s| s.num_update_writes))?;
    dict.set_item("deleted", sum(|s| s.num_deletes))?;
    dict.set_item("bytes_written", sum(|s| s.file_size_in_bytes))?;
    let files: Vec<&str> = outcome.stats.iter().filter_map(|s| s.path.as_deref()).collect();
    dict.set_item("files", files)?;
    dict.set_item("replaced", &outcome.replaced)?;
    let changes = outcome.schema_changes.iter().map(|c| (&c.column, c.old.as_deref(), &c.new));
    dict.set_item("schema_changes", changes.collect::<Vec<_>>())?;
    dict.set_item("warnings", &outcome.warnings)?;
    let timings = PyDict::new(py);
    for (stage, time) in outcome.timings.iter() {
        timings.set_item(stage, time.as_secs_f64())?;
    }
    dict.set_item("timings", timings)?;
    Ok(dict)
}

/// An instant as (requested, completed, action, state).
pub fn instant(instant: &Instant) -> (String, Option<String>, &'static str, &'static str) {
    (instant.requested.clone(), instant.completed.clone(), instant.action.name(), instant.state.name())
}

/// A file slice as (partition, file id, base instant, base path, base size, log paths, log sizes).
#[allow(clippy::type_complexity)]
pub fn file_slice(slice: &FileSlice) -> (String, String, String, Option<String>, Option<u64>, Vec<String>, Vec<u64>) {
    (
        slice.partition.clone(),
        slice.file_id.clone(),
        slice.base_instant.clone(),
        slice.base.as_ref().map(|b| b.path.clone()),
        slice.base.as_ref().map(|b| b.size),
        slice.logs.iter().map(|l| l.path.clone()).collect(),
        slice.logs.iter().map(|l| l.size).collect(),
    )
}
