//! Archived instants, as rows and as columns.

use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, BinaryArray, BinaryBuilder, Int32Array, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use hoodoo_format::instant::Action;
use hoodoo_runtime::error::{Error, Result};

/// Names of the columns, in the order of the files.
pub(super) const INSTANT_TIME: &str = "instantTime";
pub(super) const COMPLETION_TIME: &str = "completionTime";
pub(super) const ACTION: &str = "action";
pub(super) const METADATA: &str = "metadata";
pub(super) const PLAN: &str = "plan";
pub(super) const VERSION: &str = "version";

/// The columns of a history file.
pub(super) static FILE_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new(INSTANT_TIME, DataType::Utf8, true),
        Field::new(COMPLETION_TIME, DataType::Utf8, true),
        Field::new(ACTION, DataType::Utf8, true),
        Field::new(METADATA, DataType::Binary, true),
        Field::new(PLAN, DataType::Binary, true),
        Field::new(VERSION, DataType::Int32, false),
    ]))
});

/// Which columns are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMode {
    /// Requested and completion times.
    Time,
    /// These, and the action.
    Action,
    /// These, and the metadata of the completed instant.
    Metadata,
    /// Times, action and plan.
    Plan,
    /// All columns.
    Full,
}

impl LoadMode {
    /// The names of the columns.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            LoadMode::Time => &[INSTANT_TIME, COMPLETION_TIME],
            LoadMode::Action => &[INSTANT_TIME, COMPLETION_TIME, ACTION],
            LoadMode::Metadata => &[INSTANT_TIME, COMPLETION_TIME, ACTION, METADATA],
            LoadMode::Plan => &[INSTANT_TIME, COMPLETION_TIME, ACTION, PLAN],
            LoadMode::Full => &[INSTANT_TIME, COMPLETION_TIME, ACTION, METADATA, PLAN],
        }
    }

    /// Places of the columns in a history file's schema.
    pub(super) fn columns_of_file(self) -> Vec<usize> {
        let places = FILE_SCHEMA.fields().iter().enumerate();
        places.filter(|(_, f)| self.columns().contains(&f.name().as_str())).map(|(at, _)| at).collect()
    }

    /// The columns as a schema.
    pub fn schema(self) -> SchemaRef {
        let wanted = |f: &&Arc<Field>| self.columns().contains(&f.name().as_str());
        Arc::new(Schema::new(FILE_SCHEMA.fields().iter().filter(wanted).cloned().collect::<Vec<_>>()))
    }

    /// Whether bodies of instants are read, which are large.
    pub(super) fn has_bodies(self) -> bool {
        !matches!(self, LoadMode::Time | LoadMode::Action)
    }
}

/// A range of requested times, compared as strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeRange {
    /// Where it begins.
    pub start: Bound<String>,
    /// Where it ends.
    pub end: Bound<String>,
}

impl TimeRange {
    /// All times.
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// `since <= time <= until`.
    pub fn closed(since: Option<&str>, until: Option<&str>) -> Self {
        let bound = |t: Option<&str>| t.map_or(Bound::Unbounded, |t| Bound::Included(t.to_owned()));
        Self { start: bound(since), end: bound(until) }
    }

    /// `since <= time < until`.
    pub fn closed_open(since: &str, until: &str) -> Self {
        Self { start: Bound::Included(since.to_owned()), end: Bound::Excluded(until.to_owned()) }
    }

    /// `after < time <= until`, the range of an incremental read.
    pub fn open_closed(after: &str, until: &str) -> Self {
        Self { start: Bound::Excluded(after.to_owned()), end: Bound::Included(until.to_owned()) }
    }

    fn bounds(&self) -> (Bound<&str>, Bound<&str>) {
        (self.start.as_ref().map(String::as_str), self.end.as_ref().map(String::as_str))
    }

    /// Whether a time is in it.
    pub fn contains(&self, time: &str) -> bool {
        let (start, end) = self.bounds();
        RangeBounds::<str>::contains(&(start, end), time)
    }

    /// Whether some time of `min..=max` may be in it.
    pub fn overlaps(&self, min: &str, max: &str) -> bool {
        let (start, end) = self.bounds();
        RangeBounds::<str>::contains(&(start, Bound::Unbounded), max)
            && RangeBounds::<str>::contains(&(Bound::Unbounded, end), min)
    }

    /// Whether all times of `min..=max` are in it.
    pub(crate) fn covers(&self, min: &str, max: &str) -> bool {
        self.contains(min) && self.contains(max)
    }
}

/// One archived instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Requested time.
    pub requested: String,
    /// Completion time; empty in a legacy entry that has none.
    pub completed: String,
    /// Action, as it completed.
    pub action: Action,
    /// Body of the completed instant.
    pub metadata: Option<Bytes>,
    /// Body of the plan.
    pub plan: Option<Bytes>,
}

impl HistoryEntry {
    /// Bytes of both bodies.
    pub fn body_bytes(&self) -> usize {
        [&self.metadata, &self.plan].into_iter().flatten().map(Bytes::len).sum()
    }
}

/// The rows of a batch that was read with [`LoadMode::Action`] or more.
pub fn entries(batch: &RecordBatch) -> Result<Vec<HistoryEntry>> {
    let (requested, completed) = (string_column(batch, INSTANT_TIME)?, string_column(batch, COMPLETION_TIME)?);
    let actions = string_column(batch, ACTION)?;
    let body = |name: &str| batch.column_by_name(name).and_then(|c| c.as_any().downcast_ref::<BinaryArray>());
    let (metadata, plan) = (body(METADATA), body(PLAN));
    let value = |column: Option<&BinaryArray>, row: usize| {
        column.filter(|c| c.is_valid(row)).map(|c| Bytes::copy_from_slice(c.value(row)))
    };
    (0..batch.num_rows())
        .map(|row| {
            let name = if actions.is_valid(row) { actions.value(row) } else { "" };
            let action = Action::parse(name)
                .ok_or_else(|| Error::corrupt(format!("a history file holds the unknown action '{name}'")))?;
            Ok(HistoryEntry {
                requested: requested.value(row).to_owned(),
                completed: if completed.is_valid(row) { completed.value(row).to_owned() } else { String::new() },
                action,
                metadata: value(metadata, row),
                plan: value(plan, row),
            })
        })
        .collect()
}

/// A string column of a history batch.
pub(super) fn string_column<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<&'a StringArray> {
    batch
        .column_by_name(name)
        .and_then(|c| c.as_any().downcast_ref())
        .ok_or_else(|| Error::corrupt(format!("a history file has no usable column {name}")))
}

/// Entries as a batch with the columns of a history file.
pub(super) fn to_batch(entries: &[HistoryEntry]) -> Result<RecordBatch> {
    let mut times = (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let bytes = |body: fn(&HistoryEntry) -> &Option<Bytes>| -> usize {
        entries.iter().filter_map(|entry| body(entry).as_ref()).map(Bytes::len).sum()
    };
    let builder = |bytes: usize| BinaryBuilder::with_capacity(entries.len(), bytes);
    let mut bodies = (builder(bytes(|e| &e.metadata)), builder(bytes(|e| &e.plan)));
    for entry in entries {
        times.0.append_value(&entry.requested);
        times.1.append_value(&entry.completed);
        times.2.append_value(entry.action.completed_as().name());
        bodies.0.append_option(entry.metadata.as_deref());
        bodies.1.append_option(entry.plan.as_deref());
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times.0.finish()),
        Arc::new(times.1.finish()),
        Arc::new(times.2.finish()),
        Arc::new(bodies.0.finish()),
        Arc::new(bodies.1.finish()),
        Arc::new(Int32Array::from(vec![1; entries.len()])),
    ];
    Ok(RecordBatch::try_new(FILE_SCHEMA.clone(), columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_open_where_they_say() {
        let r = TimeRange::open_closed("10", "20");
        assert!(!r.contains("10") && r.contains("11") && r.contains("20") && !r.contains("21"));
        assert!(!r.overlaps("05", "10") && r.overlaps("05", "11") && r.overlaps("20", "30") && !r.overlaps("21", "30"));
        assert!(r.covers("11", "20") && !r.covers("10", "20"));
        let r = TimeRange::closed_open("10", "20");
        assert!(r.contains("10") && !r.contains("20") && !r.overlaps("20", "30"));
        assert!(TimeRange::all().covers("0", "9") && TimeRange::closed(Some("5"), None).contains("5"));
    }

    #[test]
    fn modes_name_their_columns() {
        assert_eq!(LoadMode::Plan.schema().fields().len(), 4);
        assert_eq!(LoadMode::Full.schema().fields().len(), 5);
    }
}
