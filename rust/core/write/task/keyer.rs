//! Key, partition and number of the rows of a task.

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use std::sync::Arc;

use super::pack::{Packer, ROW, Routed, as_on_the_way, value_bytes};
use super::{ADDED_COLUMNS, TaskPlan};
use crate::error::Result;
use crate::merge::hash_key;
use crate::table::keygen::{KeyGenerator, Partitions};
use crate::table::{HudiTable, conform_batch};
use crate::write::prepare::incoming::key_schema;
use crate::write::setup::WriteSetup;

/// Buckets of keys for each task that looks them up: with many the tasks get about the same share.
const BUCKETS_OF_TASK: u64 = 16;
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

/// Some rows of the given columns, with their names.
fn own_columns(batch: &RecordBatch, rows: &UInt32Array) -> Result<Vec<(String, ArrayRef)>> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let own = columns.filter(|(f, _)| !ADDED_COLUMNS.contains(&f.name().as_str()));
    own.map(|(field, column)| Ok((field.name().clone(), take(column, rows, None)?))).collect()
}

/// Packs rows of a task with their numbers.
pub(super) struct NumberedPacker {
    columns: SchemaRef,
    packer: Packer,
}

impl NumberedPacker {
    pub(super) fn new(plan: &TaskPlan) -> Result<Self> {
        let columns = plan.columns_on_the_way(false)?;
        Ok(Self { packer: Packer::new(columns.clone(), value_bytes(plan.batch_rows))?, columns })
    }

    /// Some rows of a batch, with a partition and a route for each.
    pub(super) fn add(
        &mut self,
        keyer: &mut Keyer,
        batch: &RecordBatch,
        rows: &UInt32Array,
        (partitions, routes): (StringArray, StringArray),
    ) -> Result<Option<RecordBatch>> {
        let mut columns = own_columns(batch, rows)?;
        columns.push((ROW.to_owned(), Arc::new(keyer.number(rows, batch.num_rows()))));
        self.packer.add(Routed { rows: as_on_the_way(&self.columns, columns)?, partitions, routes })
    }

    pub(super) fn flush(&mut self) -> Result<Option<RecordBatch>> {
        self.packer.flush()
    }
}

/// Brings the rows of a key together: the first step of a write that looks keys up in all partitions.
pub struct RowKeyer {
    keyer: Keyer,
    buckets: u64,
    packer: NumberedPacker,
}

impl RowKeyer {
    /// A keyer for rows of these columns in the task of this number.
    pub fn new(table: &HudiTable, plan: &TaskPlan, given: &Schema, task: usize) -> Result<Self> {
        let keyer = Keyer::new(&WriteSetup::of_task(table, plan)?, given, task)?;
        Ok(Self { keyer, buckets: u64::from(plan.buckets) * BUCKETS_OF_TASK, packer: NumberedPacker::new(plan)? })
    }

    /// Adds rows, each routed to a bucket of keys. Packed rows come back when many wait.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let (keys, _) = self.keyer.keys(batch)?;
        let routes = keys.iter().flatten().map(|key| (hash_key(key) % self.buckets.max(1)).to_string());
        let routes = StringArray::from_iter_values(routes);
        let partitions = StringArray::from(vec![""; keys.len()]);
        let rows = UInt32Array::from_iter_values(0..u32::try_from(keys.len()).unwrap_or(u32::MAX));
        self.packer.add(&mut self.keyer, batch, &rows, (partitions, routes))
    }

    /// The rows that still wait.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        self.packer.flush()
    }
}
