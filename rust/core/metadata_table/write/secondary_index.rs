//! The entries of a secondary index that came and went with an action.
//!
//! As in Hudi, an entry that is gone gets a record that says so, and no delete.

use arrow::array::{Array, StringArray, UInt32Array};

use super::sharded_keys::{GONE, KeyChanges, ShardedKeys};
use crate::error::Result;
use crate::metadata_table::encode::secondary_record;
use crate::metadata_table::key_shards::KeyShards;
use crate::metadata_table::secondary_entries::SecondaryIndex;
use crate::storage::SpillOptions;

/// Collects entries.
pub(crate) struct EntryCollector {
    shards: KeyShards,
    keys: ShardedKeys,
}

impl EntryCollector {
    /// A collector for an index with these shards.
    ///
    /// # Errors
    /// None for the columns that it has.
    pub(crate) fn new(index: SecondaryIndex, file_ids: Vec<String>, spill: SpillOptions) -> Result<Self> {
        Ok(Self { shards: KeyShards::Values { index, file_ids }, keys: ShardedKeys::new(spill)? })
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

    /// The same of one shard.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn remove_from(&self, shard: u32, entries: &StringArray) -> Result<()> {
        self.keys.add(UInt32Array::from_value(shard, entries.len()), entries, GONE)
    }

    fn add(&self, entries: &StringArray, value: u32) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        match self.shards.of_keys("", entries)? {
            Some(shards) => self.keys.add(shards, entries, value),
            None => Ok(()),
        }
    }

    /// The entries in their order. `known_shards` are those that the index has already.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn finish(self, known_shards: usize) -> Result<KeyChanges> {
        Ok(KeyChanges {
            partition: self.shards.partition().to_owned(),
            file_ids: self.shards.file_ids().to_vec(),
            known_shards,
            is_partitioned: false,
            values: vec![secondary_record(false)],
            gone: Some(secondary_record(true)),
            rows: self.keys.finish()?,
        })
    }
}
