//! Keys of records, by shard and in the order of their bytes, as the HFiles of the shards need them.
//!
//! They are collected by several threads, from files in any order, on the disk where memory does not hold them. Each comes out
//! once: a key that was taken out here and put in there is in.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};

use crate::error::{Error, Result};
use crate::metadata_table::record_index_shards::RecordIndexShards;
use crate::sort::{Keyer, Rows, Sorter};
use crate::storage::SpillOptions;

/// The number of the value of a key that is gone.
pub(super) const GONE: u32 = u32::MAX;

/// The columns of such keys on their way: shard, key, number of the value.
///
/// # Errors
/// `Internal` for arrays of several lengths.
pub(crate) fn key_rows(shards: UInt32Array, keys: &StringArray, values: UInt32Array) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = vec![Arc::new(shards), Arc::new(keys.clone()), Arc::new(values)];
    Ok(RecordBatch::try_new(key_rows_schema(), columns)?)
}

/// The schema of [`key_rows`].
pub(crate) fn key_rows_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("shard", DataType::UInt32, false),
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::UInt32, false),
    ]))
}

/// Collects keys.
pub(crate) struct ShardedKeys {
    keyer: Keyer,
    sorter: Mutex<Sorter>,
    batches: AtomicU64,
}

impl ShardedKeys {
    /// None yet.
    ///
    /// # Errors
    /// None for the columns that they have.
    pub(crate) fn new(spill: SpillOptions) -> Result<Self> {
        let by_key = Arc::new(|rows: &RecordBatch| Ok(rows.columns().iter().take(2).cloned().collect()));
        let sorter = Sorter::new(key_rows_schema(), by_key, spill, 1)?;
        let keyer = sorter.keyer();
        Ok(Self { keyer, sorter: Mutex::new(sorter), batches: AtomicU64::new(0) })
    }

    /// Adds keys, each with its shard, and all with the number of their value.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(super) fn add(&self, shards: UInt32Array, keys: &StringArray, value: u32) -> Result<()> {
        self.add_rows(key_rows(shards, keys, UInt32Array::from_value(value, keys.len()))?)
    }

    /// Adds [`key_rows`].
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn add_rows(&self, rows: RecordBatch) -> Result<()> {
        let keyed = self.keyer.keyed(rows)?;
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        self.sorter.lock().unwrap_or_else(PoisonError::into_inner).push_keyed(number, keyed)
    }

    /// The keys in their order.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn finish(self) -> Result<Rows> {
        self.sorter.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
    }
}

/// What an action changes in an index of keys, sorted by shard and key.
pub(crate) struct KeyChanges {
    /// The partition of the metadata table.
    pub(super) partition: String,
    /// The shards, new ones among them.
    pub(super) file_ids: Vec<String>,
    /// Where these begin.
    pub(super) known_shards: usize,
    /// Whether each data partition has shards of its own.
    pub(super) is_partitioned: bool,
    /// The values of records, by number.
    pub(super) values: Vec<Vec<u8>>,
    /// The value of a key that is gone; `None`: the key is deleted.
    pub(super) gone: Option<Vec<u8>>,
    pub(super) rows: Rows,
}

impl KeyChanges {
    /// Whether the shards that the record index had when the keys were collected are these.
    pub(crate) fn are_for(&self, shards: &RecordIndexShards) -> bool {
        self.are_for_shards(shards.file_ids())
            && (self.known_shards == 0 || self.is_partitioned == shards.is_partitioned())
    }

    /// Whether the shards that the index had when the keys were collected are these.
    pub(crate) fn are_for_shards(&self, file_ids: &[String]) -> bool {
        self.file_ids.get(..self.known_shards) == Some(file_ids)
    }

    /// The partition of the metadata table.
    pub(crate) fn partition(&self) -> &str {
        &self.partition
    }

    /// File ids of the shards.
    pub(in crate::metadata_table) fn file_ids(&self) -> &[String] {
        &self.file_ids
    }

    /// The shards that the index does not have yet.
    pub(in crate::metadata_table) fn new_shards(&self) -> Range<usize> {
        self.known_shards..self.file_ids.len()
    }

    /// Takes them apart: the values of records, that of keys that are gone, and the keys.
    pub(super) fn into_parts(self) -> (Vec<Vec<u8>>, Option<Vec<u8>>, SortedKeys) {
        (self.values, self.gone, SortedKeys { rows: self.rows })
    }
}

/// Takes a shard, a key and the number of its value; `None`: the key is gone.
pub(super) type EachKey<'e> = dyn FnMut(usize, &str, Option<u32>) -> Result<()> + 'e;

/// Keys by shard and by their bytes.
pub(super) struct SortedKeys {
    rows: Rows,
}

impl SortedKeys {
    /// Passes each key to `each` once.
    ///
    /// # Errors
    /// `Storage`; those of `each`.
    pub(super) fn for_each(self, each: &mut EachKey<'_>) -> Result<()> {
        let mut give = |shard: u32, key: &str, location: u32| {
            each(shard as usize, key, Some(location).filter(|location| *location != GONE))
        };
        let (mut last_key, mut last) = (String::new(), None);
        for batch in self.rows {
            let batch = batch?;
            let (shards, keys, locations) = columns(&batch)?;
            for row in 0..batch.num_rows() {
                let (shard, key, location) = (shards.value(row), keys.value(row), locations.value(row));
                match &mut last {
                    Some((known, at)) if *known == shard && last_key == key => {
                        if location != GONE {
                            *at = location;
                        }
                        continue;
                    }
                    Some((known, at)) => give(*known, &last_key, *at)?,
                    None => {}
                }
                last_key.clear();
                last_key.push_str(key);
                last = Some((shard, location));
            }
        }
        match last {
            Some((shard, location)) => give(shard, &last_key, location),
            None => Ok(()),
        }
    }
}

/// The columns of [`key_rows`].
pub(super) type Columns<'a> = (&'a UInt32Array, &'a StringArray, &'a UInt32Array);

/// Takes [`key_rows`] apart.
///
/// # Errors
/// `Internal` for other columns.
pub(super) fn columns(batch: &RecordBatch) -> Result<Columns<'_>> {
    let lost = || Error::internal("sorted keys have other columns than they had");
    let [shards, keys, locations] = batch.columns() else { return Err(lost()) };
    Ok((
        shards.as_primitive_opt::<UInt32Type>().ok_or_else(lost)?,
        keys.as_string_opt::<i32>().ok_or_else(lost)?,
        locations.as_primitive_opt::<UInt32Type>().ok_or_else(lost)?,
    ))
}
