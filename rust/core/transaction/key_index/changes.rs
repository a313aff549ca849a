//! What changed in an index of keys since its shards were written.

use arrow::array::StringArray;

use super::plan::location;
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::metadata_table::key_shards::KeyShards;
use crate::metadata_table::write::KeyChanges;
use crate::metadata_table::write::record_index::KeyCollector;
use crate::metadata_table::write::secondary_index::EntryCollector;
use crate::table::HudiTable;
use crate::timeline::TimeZone;
use crate::transaction::record_index::{new_shards, spill_options};

/// Collects keys that are gone and keys that are new. One that is both is new.
pub(super) enum Changes {
    /// Of a record index.
    Records(KeyCollector, TimeZone),
    /// Of a secondary index.
    Values(EntryCollector),
}

impl Changes {
    /// None yet, of an index with these shards.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub(super) fn new(table: &HudiTable, shards: &KeyShards) -> Result<Self> {
        let spill = spill_options(table)?;
        Ok(match shards {
            KeyShards::Values { index, file_ids } => {
                Self::Values(EntryCollector::new(index.clone(), file_ids.clone(), spill)?)
            }
            KeyShards::Records(shards) => {
                let keys = KeyCollector::new(shards.clone(), new_shards(table)?, spill)?;
                Self::Records(keys, table.config().timeline().zone)
            }
        })
    }

    /// Gives data partitions shards that have none, where each has some.
    pub(super) fn add_partitions<'p>(&mut self, partitions: impl IntoIterator<Item = &'p str>) {
        if let Self::Records(keys, _) = self {
            keys.add_partitions(partitions);
        }
    }

    /// A number for keys of a slice that are put in.
    ///
    /// # Errors
    /// `Corrupt` for a slice whose instant is no time.
    pub(super) fn begin(&self, slice: &FileSlice) -> Result<u32> {
        match self {
            Self::Records(keys, zone) => Ok(keys.location(location(slice, *zone)?)),
            Self::Values(_) => Ok(0),
        }
    }

    /// Adds keys of a slice that are there now; `number` is that of [`Changes::begin`].
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(super) fn put(&self, slice: &FileSlice, keys: &StringArray, number: u32) -> Result<()> {
        match self {
            Self::Records(records, _) => records.put(&slice.partition, keys, number),
            Self::Values(entries) => entries.put(keys),
        }
    }

    /// Adds keys of a slice that are gone.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(super) fn remove(&self, slice: &FileSlice, keys: &StringArray) -> Result<()> {
        match self {
            Self::Records(records, _) => records.remove(&slice.partition, keys),
            Self::Values(entries) => entries.remove(keys),
        }
    }

    /// Adds keys of a shard that are gone.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(super) fn remove_from(&self, shard: u32, keys: &StringArray) -> Result<()> {
        match self {
            Self::Records(records, _) => records.remove_from(shard, keys),
            Self::Values(entries) => entries.remove_from(shard, keys),
        }
    }

    /// All of them.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn finish(self) -> Result<KeyChanges> {
        match self {
            Self::Records(records, _) => records.finish(0),
            Self::Values(entries) => entries.finish(0),
        }
    }
}
