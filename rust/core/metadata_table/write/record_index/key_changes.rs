//! The keys whose location an action changed.
//!
//! They are collected by several threads, from files in any order. What comes out is sorted by shard and key, as the HFiles
//! of the shards need it, and has each key once: a key that one file group lost and another one got has moved, and is not
//! deleted.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};

use crate::error::{Error, Result};
use crate::metadata_table::encode::record_index_record;
use crate::metadata_table::record_index_shards::{RecordIndexShards, shard_in};
use crate::sort::{Keyer, Rows, Sorter};
use crate::storage::SpillOptions;

/// The location of a key that is gone.
const GONE: u32 = u32::MAX;

/// A file group, and the time of the instant that put keys there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// The data partition, `""` in a table without partitions.
    pub(crate) partition: String,
    /// The file group.
    pub(crate) file_id: String,
    /// Milliseconds since 1970.
    pub(crate) written_ms: i64,
}

/// Collects keys.
pub(crate) struct KeyCollector {
    shards: RecordIndexShards,
    /// How many shards a data partition gets that has none.
    new_shards: usize,
    schema: SchemaRef,
    keyer: Keyer,
    sorter: Mutex<Sorter>,
    locations: Mutex<Vec<Location>>,
    batches: AtomicU64,
}

/// The keys, sorted by shard and key.
pub(crate) struct KeyChanges {
    /// The shards, those of new data partitions among them.
    shards: RecordIndexShards,
    /// Where these begin.
    known_shards: usize,
    /// The values of records, by number of location.
    values: Vec<Vec<u8>>,
    rows: Rows,
}

impl KeyCollector {
    /// A collector for an index with these shards, with the data partitions that have none yet and get some.
    ///
    /// # Errors
    /// None for the columns that it has.
    pub(crate) fn new(shards: RecordIndexShards, new_shards: usize, spill: SpillOptions) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("shard", DataType::UInt32, false),
            Field::new("key", DataType::Utf8, false),
            Field::new("location", DataType::UInt32, false),
        ]));
        let by_key = Arc::new(|rows: &RecordBatch| Ok(rows.columns().iter().take(2).cloned().collect()));
        let sorter = Sorter::new(schema.clone(), by_key, spill, 1)?;
        let keyer = sorter.keyer();
        Ok(Self {
            shards,
            new_shards,
            schema,
            keyer,
            sorter: Mutex::new(sorter),
            locations: Mutex::default(),
            batches: AtomicU64::new(0),
        })
    }

    /// Gives data partitions shards that have none, so that keys of them can be collected.
    pub(crate) fn add_partitions<'a>(&mut self, partitions: impl IntoIterator<Item = &'a str>) {
        if self.shards.is_partitioned() {
            for partition in partitions {
                self.shards.add_partition(partition, self.new_shards);
            }
        }
    }

    /// The number of a location, for [`KeyCollector::put`].
    pub(crate) fn location(&self, location: Location) -> u32 {
        let mut locations = lock(&self.locations);
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
        let group = self.shards.of_partition(partition);
        let group: Range<usize> = match group {
            Some(group) => group,
            // The index has no key of a partition without shards.
            None if location == GONE => return Ok(()),
            None => {
                return Err(
                    Error::internal("a data partition has no shards of the record index").with("partition", partition)
                );
            }
        };
        if keys.null_count() > 0 {
            return Err(Error::corrupt("a record has no key").with("partition", partition));
        }
        let shards: UInt32Array =
            (0..keys.len()).map(|row| u32::try_from(shard_in(&group, keys.value(row))).ok()).collect();
        let locations: ArrayRef = Arc::new(UInt32Array::from_value(location, keys.len()));
        let columns: Vec<ArrayRef> = vec![Arc::new(shards), Arc::new(keys.clone()), locations];
        let keyed = self.keyer.keyed(RecordBatch::try_new(self.schema.clone(), columns)?)?;
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        lock(&self.sorter).push_keyed(number, keyed)
    }

    /// The keys in their order. `known_shards` are those that the index has already.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn finish(self, known_shards: usize) -> Result<KeyChanges> {
        let Self { shards, sorter, locations, .. } = self;
        let locations = locations.into_inner().unwrap_or_else(PoisonError::into_inner);
        let value = |at: &Location| record_index_record(&at.partition, &at.file_id, at.written_ms);
        let rows = sorter.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        Ok(KeyChanges { shards, known_shards, values: locations.iter().map(value).collect(), rows })
    }
}

impl KeyChanges {
    /// Whether the shards that the index had when the keys were collected are these.
    pub(crate) fn are_for(&self, shards: &RecordIndexShards) -> bool {
        self.shards.file_ids().get(..self.known_shards) == Some(shards.file_ids())
            && (self.known_shards == 0 || self.shards.is_partitioned() == shards.is_partitioned())
    }

    /// File ids of the shards.
    pub(in crate::metadata_table) fn file_ids(&self) -> &[String] {
        self.shards.file_ids()
    }

    /// The shards that the index does not have yet.
    pub(in crate::metadata_table) fn new_shards(&self) -> Range<usize> {
        self.known_shards..self.shards.file_ids().len()
    }

    /// Takes them apart: the values of records, by location, and the keys.
    pub(super) fn into_parts(self) -> (Vec<Vec<u8>>, SortedKeys) {
        (self.values, SortedKeys(self.rows))
    }
}

/// Takes a shard, a key and the number of its location; `None`: the key is gone.
pub(super) type EachKey<'e> = dyn FnMut(usize, &str, Option<u32>) -> Result<()> + 'e;

/// Keys by shard and by their bytes.
pub(super) struct SortedKeys(Rows);

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
        for batch in self.0 {
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

type Columns<'a> = (&'a UInt32Array, &'a StringArray, &'a UInt32Array);

fn columns(batch: &RecordBatch) -> Result<Columns<'_>> {
    let lost = || Error::internal("sorted keys have other columns than they had");
    let [shards, keys, locations] = batch.columns() else { return Err(lost()) };
    Ok((
        shards.as_primitive_opt::<UInt32Type>().ok_or_else(lost)?,
        keys.as_string_opt::<i32>().ok_or_else(lost)?,
        locations.as_primitive_opt::<UInt32Type>().ok_or_else(lost)?,
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        changes.into_parts().1.for_each(&mut add).unwrap();
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
