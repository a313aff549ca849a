//! The entries of a secondary index that came and went with an action.
//!
//! As in Hudi, an entry that is gone gets a record that says so, and no delete.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{Array, StringArray, UInt32Array};

use super::sharded_keys::{GONE, KeyChanges, ShardedKeys};
use crate::error::Result;
use crate::metadata_table::encode::secondary_record;
use crate::metadata_table::secondary_entries::SecondaryIndex;
use crate::storage::SpillOptions;

/// Collects entries.
pub(crate) struct EntryCollector {
    index: SecondaryIndex,
    file_ids: Vec<String>,
    keys: ShardedKeys,
    /// How many slices entries may come from.
    slices: AtomicU32,
}

impl EntryCollector {
    /// A collector for an index with these shards.
    ///
    /// # Errors
    /// None for the columns that it has.
    pub(crate) fn new(index: SecondaryIndex, file_ids: Vec<String>, spill: SpillOptions) -> Result<Self> {
        Ok(Self { index, file_ids, keys: ShardedKeys::new(spill)?, slices: AtomicU32::new(1) })
    }

    /// A number for the entries of a slice, for [`EntryCollector::put_of`].
    pub(crate) fn slice(&self) -> u32 {
        self.slices.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds entries that are there now, of a slice.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn put_of(&self, slice: u32, entries: &StringArray) -> Result<()> {
        self.add(entries, slice)
    }

    /// Adds entries that are there now.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn put(&self, entries: &StringArray) -> Result<()> {
        self.add(entries, 0)
    }

    /// Adds entries that are gone, unless they are put in as well.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn remove(&self, entries: &StringArray) -> Result<()> {
        self.add(entries, GONE)
    }

    fn add(&self, entries: &StringArray, value: u32) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let shards = self.file_ids.len();
        let shard = |row: usize| u32::try_from(self.index.shard_of(entries.value(row), shards)).ok();
        self.keys.add((0..entries.len()).map(shard).collect::<UInt32Array>(), entries, value)
    }

    /// The entries in their order, apart from those of `stale` slices. `known_shards` are those that the index has already.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn finish(self, known_shards: usize, stale: HashSet<u32>) -> Result<KeyChanges> {
        Ok(KeyChanges {
            partition: self.index.partition,
            file_ids: self.file_ids,
            known_shards,
            is_partitioned: false,
            values: vec![secondary_record(false); self.slices.into_inner() as usize],
            gone: Some(secondary_record(true)),
            rows: self.keys.finish()?,
            stale,
        })
    }
}
