//! Records that do not fit into memory.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Field, FieldRef, Schema};

use super::ordering_values::OrderingValues;
use super::records::Records;
use hoodoo_runtime::error::{Error, Result};

/// Records that are put side by side at a time.
pub(super) const PART_ROWS: usize = 65_536;
/// The fewest of them.
const LEAST_PART_ROWS: usize = 1024;

/// How many bytes of records are kept in memory, and what becomes of the others.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Bytes.
    pub bytes: usize,
    /// Puts batches of one schema away; gives them back as batches that take no memory.
    pub spill: &'a dyn Fn(&[RecordBatch]) -> Result<Vec<RecordBatch>>,
}

/// A growing list of records that keeps to a budget.
pub struct Kept<'a> {
    budget: Option<Budget<'a>>,
    list: Vec<Records>,
    /// Those before this one were spilled.
    away: usize,
    resident: usize,
}

impl<'a> Kept<'a> {
    /// An empty list.
    pub fn new(budget: Option<Budget<'a>>) -> Self {
        Self { budget, list: Vec::new(), away: 0, resident: 0 }
    }

    /// Adds records.
    ///
    /// # Errors
    /// What the budget fails with.
    pub fn push(&mut self, records: Records) -> Result<()> {
        let Some(budget) = self.budget else {
            self.list.push(records);
            return Ok(());
        };
        let wide = with_keys(&records)?;
        for column in wide.columns() {
            self.resident += column.to_data().get_slice_memory_size()?;
        }
        self.list.push(records);
        if self.resident <= budget.bytes {
            return Ok(());
        }
        let here = self.list.get_mut(self.away..).unwrap_or_default();
        let wide = here.iter().map(with_keys).collect::<Result<Vec<_>>>()?;
        let mapped = (budget.spill)(&wide)?;
        if mapped.len() != here.len() {
            let (given, back) = (here.len(), mapped.len());
            return Err(Error::internal(format!("of {given} spilled batches {back} came back")));
        }
        for (records, wide) in here.iter_mut().zip(mapped) {
            replace(records, &wide)?;
        }
        self.away = self.list.len();
        self.resident = 0;
        Ok(())
    }

    /// The records.
    pub fn into_list(self) -> Vec<Records> {
        self.list
    }
}

/// How many records are put side by side at a time: fewer where they are so large that they would take much of the budget.
///
/// # Errors
/// `Schema` for columns of no known size.
pub fn rows_at_once(batches: &[Records], budget: Option<Budget<'_>>) -> Result<usize> {
    let Some(budget) = budget else { return Ok(PART_ROWS) };
    let (mut rows, mut bytes) = (0, 0);
    for batch in batches {
        rows += batch.len();
        for column in batch.data.columns() {
            bytes += column.to_data().get_slice_memory_size()?;
        }
    }
    let each = bytes / rows.max(1);
    Ok((budget.bytes / 4 / each.max(1)).clamp(LEAST_PART_ROWS, PART_ROWS))
}

/// The columns, and behind them ordering columns and keys.
fn with_keys(records: &Records) -> Result<RecordBatch> {
    let schema = records.data.schema();
    let nullable = |f: &FieldRef| Arc::new(f.as_ref().clone().with_nullable(true));
    let mut fields: Vec<FieldRef> = schema.fields().iter().map(nullable).collect();
    let mut columns: Vec<ArrayRef> = records.data.columns().to_vec();
    for column in records.ordering.columns() {
        fields.push(Arc::new(Field::new("ordering", column.data_type().clone(), true)));
        columns.push(column.clone());
    }
    fields.push(Arc::new(Field::new("key", arrow::datatypes::DataType::Utf8, true)));
    columns.push(Arc::new(records.keys.clone()));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Takes over what [`with_keys`] made.
fn replace(records: &mut Records, wide: &RecordBatch) -> Result<()> {
    let lost = || Error::internal("spilled records came back without their keys");
    if wide.num_rows() != records.len() {
        let (given, back) = (records.len(), wide.num_rows());
        return Err(Error::internal(format!("of {given} spilled records {back} came back")));
    }
    let (keys, columns) = wide.columns().split_last().ok_or_else(lost)?;
    let (data, ordering) = columns.split_at_checked(records.data.num_columns()).ok_or_else(lost)?;
    records.keys = keys.as_string_opt::<i32>().ok_or_else(lost)?.clone();
    records.ordering = OrderingValues { columns: ordering.to_vec(), ..std::mem::take(&mut records.ordering) };
    // What deletes may lack values that the schema asks for.
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(records.keys.len()));
    records.data = RecordBatch::try_new_with_options(records.data.schema(), data.to_vec(), &options)?;
    Ok(())
}
