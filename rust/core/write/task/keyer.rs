//! Key, partition and number of the rows of a task.

use arrow::array::{Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;

use super::{KEY_COLUMNS, PLACE_COLUMNS, ROUTE_COLUMNS};
use crate::error::Result;
use crate::table::conform_batch;
use crate::table::keygen::{KeyGenerator, Partitions};
use crate::write::prepare::incoming::key_schema;
use crate::write::setup::WriteSetup;

/// Rows of one task that have numbers of their own.
const ROWS_OF_TASK: i64 = 1 << 40;

/// Makes keys, and numbers that tell in which order rows came.
pub(super) struct Keyer {
    generator: KeyGenerator,
    schema: SchemaRef,
    generates: bool,
    next_row: i64,
}

impl Keyer {
    /// A keyer for rows of these columns in the task of this number.
    pub(super) fn new(setup: &WriteSetup, given: &Schema, task: usize) -> Result<Self> {
        let keys = match setup.is_anywhere(given) {
            true => setup.keys.without_partitions(),
            false => setup.keys.clone(),
        };
        let schema = key_schema(setup.operation, &keys, &setup.schema, given);
        let generates = keys.generates_keys();
        let next_row = i64::try_from(task).unwrap_or_default().saturating_mul(ROWS_OF_TASK);
        Ok(Self { generator: KeyGenerator::new(keys, &schema)?, schema, generates, next_row })
    }

    /// Keys, empty where they are generated, and partitions.
    pub(super) fn keys(&self, batch: &RecordBatch) -> Result<(StringArray, Partitions)> {
        let keyed = conform_batch(batch, &self.schema)?;
        let keys = match self.generates {
            true => StringArray::from(vec![""; batch.num_rows()]),
            false => self.generator.record_keys(&keyed)?,
        };
        Ok((keys, self.generator.partition_paths(&keyed)?))
    }

    /// Numbers of some rows of a batch of `all` rows; later calls give higher ones.
    pub(super) fn number(&mut self, rows: &UInt32Array, all: usize) -> Int64Array {
        let numbers = rows.values().iter().map(|row| self.next_row.saturating_add(i64::from(*row)));
        let numbers = Int64Array::from_iter_values(numbers);
        self.next_row = self.next_row.saturating_add(i64::try_from(all).unwrap_or_default());
        numbers
    }
}

/// The given columns, without those that tasks add.
pub(super) fn own_fields(given: &Schema) -> impl Iterator<Item = FieldRef> + '_ {
    given.fields().iter().filter(|f| !is_added(f.name())).cloned()
}

/// Some rows of the given columns.
pub(super) fn own_columns(batch: &RecordBatch, rows: &UInt32Array) -> Result<Vec<arrow::array::ArrayRef>> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).filter(|(f, _)| !is_added(f.name()));
    Ok(columns.map(|(_, column)| take(column, rows, None)).collect::<std::result::Result<_, _>>()?)
}

fn is_added(name: &str) -> bool {
    [KEY_COLUMNS.as_slice(), &ROUTE_COLUMNS, &PLACE_COLUMNS].iter().any(|names| names.contains(&name))
}

/// Gives rows their keys: the first step of a write that looks keys up in all partitions.
pub struct RowKeyer(Keyer);

impl RowKeyer {
    /// A keyer for rows of these columns in the task of this number.
    pub fn new(table: &crate::table::HudiTable, plan: &super::TaskPlan, given: &Schema, task: usize) -> Result<Self> {
        Ok(Self(Keyer::new(&WriteSetup::of_task(table, plan)?, given, task)?))
    }

    /// The columns of keyed batches.
    pub fn schema(given: &Schema) -> SchemaRef {
        let [key, row] = KEY_COLUMNS;
        let added = [Field::new(key, DataType::Utf8, true), Field::new(row, DataType::Int64, true)];
        Arc::new(Schema::new(own_fields(given).chain(added.map(Arc::new)).collect::<Vec<FieldRef>>()))
    }

    /// Adds key and number to each row.
    pub fn key(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (keys, _) = self.0.keys(batch)?;
        let rows = UInt32Array::from_iter_values(0..u32::try_from(keys.len()).unwrap_or(u32::MAX));
        let mut columns = own_columns(batch, &rows)?;
        columns.push(Arc::new(keys));
        columns.push(Arc::new(self.0.number(&rows, rows.len())));
        Ok(RecordBatch::try_new(Self::schema(&batch.schema()), columns)?)
    }
}
