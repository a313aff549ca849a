//! Keeps `record_index` in step: keys that are new or are elsewhere now get their location, keys that are gone a delete.
//!
//! They are collected by several threads, from files in any order. A key that one file group lost and another one got has
//! moved, and is not deleted.

use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, StringArray, UInt32Array};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::metadata_table::RECORD_INDEX;
use crate::metadata_table::encode::record_index_record;
use crate::metadata_table::key_shards::KeyShards;
use crate::metadata_table::record_index_shards::RecordIndexShards;
use crate::metadata_table::write::sharded_keys::{GONE, KeyChanges, ShardedKeys};
use crate::storage::SpillOptions;

/// A file group, and the time of the instant that put keys there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Location {
    /// The data partition, `""` in a table without partitions.
    pub(crate) partition: String,
    /// The file group.
    pub(crate) file_id: String,
    /// Milliseconds since 1970.
    pub(crate) written_ms: i64,
}

impl Location {
    /// The record of a key that is there.
    pub(crate) fn record(&self) -> Vec<u8> {
        record_index_record(&self.partition, &self.file_id, self.written_ms)
    }
}

/// The error for a data partition that has keys and no shards.
pub(crate) fn no_shards(partition: &str) -> Error {
    Error::internal("a data partition has no shards of the record index").with("partition", partition)
}

/// Collects keys.
pub(crate) struct KeyCollector {
    shards: KeyShards,
    /// How many shards a data partition gets that has none.
    new_shards: usize,
    keys: ShardedKeys,
    locations: Mutex<Vec<Location>>,
}

impl KeyCollector {
    /// A collector for an index with these shards, with the data partitions that have none yet and get some.
    ///
    /// # Errors
    /// None for the columns that it has.
    pub(crate) fn new(shards: RecordIndexShards, new_shards: usize, spill: SpillOptions) -> Result<Self> {
        Ok(Self {
            shards: KeyShards::Records(shards),
            new_shards,
            keys: ShardedKeys::new(spill)?,
            locations: Mutex::default(),
        })
    }

    /// Gives data partitions shards that have none, so that keys of them can be collected.
    pub(crate) fn add_partitions<'a>(&mut self, partitions: impl IntoIterator<Item = &'a str>) {
        if let KeyShards::Records(shards) = &mut self.shards
            && shards.is_partitioned()
        {
            partitions.into_iter().for_each(|partition| _ = shards.add_partition(partition, self.new_shards));
        }
    }

    /// The number of a location, for [`KeyCollector::put`].
    pub(crate) fn location(&self, location: Location) -> u32 {
        let mut locations = self.locations.lock().unwrap_or_else(PoisonError::into_inner);
        locations.push(location);
        u32::try_from(locations.len() - 1).unwrap_or(GONE - 1)
    }

    /// Adds keys that are at a location now, which is in this data partition.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn put(&self, partition: &str, keys: &StringArray, location: u32) -> Result<()> {
        self.add(partition, keys, location)
    }

    /// Adds keys that are no longer in a data partition. One that is put somewhere else has moved.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn remove(&self, partition: &str, keys: &StringArray) -> Result<()> {
        self.add(partition, keys, GONE)
    }

    fn add(&self, partition: &str, keys: &StringArray, location: u32) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        match self.shards.of_keys(partition, keys)? {
            Some(shards) => self.keys.add(shards, keys, location),
            // The index has no key of a partition without shards.
            None if location == GONE => Ok(()),
            None => Err(no_shards(partition)),
        }
    }

    /// The same of one shard, and of records of any data partition.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn remove_from(&self, shard: u32, keys: &StringArray) -> Result<()> {
        self.keys.add(UInt32Array::from_value(shard, keys.len()), keys, GONE)
    }

    /// The keys in their order. `known_shards` are those that the index has already.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn finish(self, known_shards: usize) -> Result<KeyChanges> {
        let Self { shards, keys, locations, .. } = self;
        let KeyShards::Records(shards) = shards else { return Err(Error::internal("no shards of a record index")) };
        let locations = locations.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(KeyChanges {
            partition: RECORD_INDEX.to_owned(),
            file_ids: shards.file_ids().to_vec(),
            known_shards,
            is_partitioned: shards.is_partitioned(),
            values: locations.iter().map(Location::record).collect(),
            gone: None,
            rows: keys.finish()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn collector(shards: RecordIndexShards, budget: usize) -> KeyCollector {
        KeyCollector::new(shards, 2, SpillOptions { budget, folder: std::env::temp_dir() }).unwrap()
    }

    fn keys(range: std::ops::Range<usize>) -> StringArray {
        range.rev().map(|key| Some(format!("k{key:05}"))).collect()
    }

    fn location(partition: &str) -> Location {
        Location { partition: partition.to_owned(), file_id: "f".to_owned(), written_ms: 1 }
    }

    /// Shard, key and location of each.
    fn listed(changes: KeyChanges) -> Vec<(usize, String, Option<u32>)> {
        let mut found = Vec::new();
        let mut add = |shard: usize, key: &str, location: Option<u32>| {
            found.push((shard, key.to_owned(), location));
            Ok(())
        };
        changes.into_parts().2.for_each(&mut add).unwrap();
        found
    }

    #[test]
    fn a_key_that_is_gone_here_and_there_elsewhere_has_moved() {
        for budget in [usize::MAX, 1 << 16] {
            let collector = collector(RecordIndexShards::global(3), budget);
            let (old, new) = (collector.location(location("p")), collector.location(location("q")));
            collector.put("p", &keys(0..9_000), old).unwrap();
            collector.remove("p", &keys(5_000..10_000)).unwrap();
            collector.put("q", &keys(9_500..9_600), new).unwrap();
            let changes = collector.finish(3).unwrap();
            assert!(changes.are_for(&RecordIndexShards::global(3)) && !changes.are_for(&RecordIndexShards::global(4)));
            let found = listed(changes);
            assert_eq!(found.len(), 10_000);
            assert!(found.is_sorted(), "by shard and key, each once");
            let of = |wanted: Option<u32>| found.iter().filter(|(_, _, at)| *at == wanted).count();
            assert_eq!((of(Some(old)), of(Some(new)), of(None)), (9_000, 100, 900));
        }
    }

    #[test]
    fn partitions_that_are_new_get_shards() {
        let mut collector = collector(RecordIndexShards::partitioned(), usize::MAX);
        collector.add_partitions(["p"]);
        let at = collector.location(location("p"));
        collector.put("p", &keys(0..100), at).unwrap();
        // The index has no keys of this one.
        collector.remove("other", &keys(0..100)).unwrap();
        assert!(collector.put("other", &keys(0..1), at).is_err());
        let changes = collector.finish(0).unwrap();
        assert_eq!((changes.file_ids().len(), changes.new_shards()), (2, 0..2));
        assert_eq!(listed(changes).len(), 100);
    }
}
