//! What the shards of an index of keys begin with that is built anew.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringBuilder, UInt32Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};

use super::initialize::{NewShard, SortedRecord};
use super::sharded_keys::KeyChanges;
use crate::error::{Error, Result};
use crate::storage::{SpillOptions, spill};

/// Keys that are kept together.
const BATCH_ROWS: usize = 65_536;

/// The records of a shard, in the order of their keys.
pub(crate) struct ShardRecords {
    values: Arc<Vec<Vec<u8>>>,
    batches: std::vec::IntoIter<RecordBatch>,
    current: Option<RecordBatch>,
    row: usize,
}

impl KeyChanges {
    /// The keys by shard, each shard for itself: several can be written at the same time. They are spilled where they
    /// take more memory than that.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn into_shards(self, budget: &SpillOptions) -> Result<Vec<NewShard<ShardRecords>>> {
        let file_ids = self.file_ids().to_vec();
        let (values, _, keys) = self.into_parts();
        let mut shards: Vec<Vec<RecordBatch>> = file_ids.iter().map(|_| Vec::new()).collect();
        let mut rows = Building::new(budget);
        keys.for_each(&mut |shard, key, location| {
            if rows.shard != shard || rows.count == BATCH_ROWS {
                rows.end(&mut shards)?;
                rows.shard = shard;
            }
            rows.add(key, location.unwrap_or(u32::MAX));
            Ok(())
        })?;
        rows.end(&mut shards)?;
        let values = Arc::new(values);
        let records = |batches: Vec<RecordBatch>| ShardRecords {
            values: values.clone(),
            batches: batches.into_iter(),
            current: None,
            row: 0,
        };
        let shards = file_ids.into_iter().zip(shards);
        Ok(shards.map(|(file_id, batches)| NewShard { file_id, records: records(batches) }).collect())
    }
}

/// A batch that is being filled.
struct Building<'a> {
    budget: &'a SpillOptions,
    schema: SchemaRef,
    shard: usize,
    keys: StringBuilder,
    locations: UInt32Builder,
    count: usize,
    /// Bytes of the batches in memory.
    bytes: usize,
    /// How many batches of each shard are not.
    spilled: Vec<usize>,
}

impl<'a> Building<'a> {
    fn new(budget: &'a SpillOptions) -> Self {
        let schema = Arc::new(Schema::new(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("location", DataType::UInt32, false),
        ]));
        let (keys, locations) = (StringBuilder::new(), UInt32Builder::new());
        Self { budget, schema, shard: 0, keys, locations, count: 0, bytes: 0, spilled: Vec::new() }
    }

    fn add(&mut self, key: &str, location: u32) {
        self.keys.append_value(key);
        self.locations.append_value(location);
        self.count += 1;
    }

    fn end(&mut self, shards: &mut [Vec<RecordBatch>]) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let columns: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), Arc::new(self.locations.finish())];
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        self.count = 0;
        self.bytes += batch.get_array_memory_size();
        let shard = shards.get_mut(self.shard).ok_or_else(|| Error::internal("a key has no shard"))?;
        shard.push(batch);
        if self.bytes > self.budget.budget {
            self.bytes = 0;
            self.spilled.resize(shards.len(), 0);
            for (shard, spilled) in shards.iter_mut().zip(&mut self.spilled) {
                let in_memory = shard.split_off(*spilled);
                shard.extend(spill(&self.budget.folder, &in_memory)?);
                *spilled = shard.len();
            }
        }
        Ok(())
    }
}

impl Iterator for ShardRecords {
    type Item = SortedRecord<'static>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match &self.current {
                Some(batch) if self.row < batch.num_rows() => {
                    let record = self.record(batch, self.row);
                    self.row += 1;
                    return Some(record);
                }
                _ => (self.current, self.row) = (Some(self.batches.next()?), 0),
            }
        }
    }
}

impl ShardRecords {
    fn record(&self, batch: &RecordBatch, row: usize) -> SortedRecord<'static> {
        let lost = || Error::internal("a key of a new index has no value");
        let [keys, locations] = batch.columns() else { return Err(lost()) };
        let key = keys.as_string_opt::<i32>().ok_or_else(lost)?.value(row);
        let location = locations.as_primitive_opt::<UInt32Type>().ok_or_else(lost)?.value(row);
        let value = self.values.get(location as usize).ok_or_else(lost)?;
        Ok((Cow::Owned(key.as_bytes().to_vec()), Cow::Owned(value.clone())))
    }
}
