//! Lookups in `record_index`: which file groups have some keys.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};

use super::kind::Kind;
use super::record_index_shards::{RecordIndexShards, shard_in};
use super::{MetadataTable, raw};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::format::log::Wanted;
use crate::parallel::run_parallel;

/// The partition with the file group of each record key.
pub(crate) const RECORD_INDEX: &str = "record_index";

/// Where a record is, by the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLocation {
    /// The number of the key in the list of those that were looked up.
    pub key: usize,
    /// The partition, `""` in a table without partitions.
    pub partition: Arc<str>,
    /// The file group.
    pub file_id: Arc<str>,
    /// The instant that put the record there.
    pub instant: Arc<str>,
}

/// Where the records of some keys are, by number of the key. Keys that the index does not have are left out: none of the
/// table's records has them. In an index by partition a key may be in several partitions.
///
/// # Errors
/// `InvalidOption` without this index; `Corrupt`, with the file; `Storage`.
pub fn look_up_keys(metadata: &MetadataTable, keys: &StringArray, threads: usize) -> Result<Vec<KeyLocation>> {
    RecordIndex::open(metadata)?.look_up(None, keys, threads)
}

/// The record index of a table.
pub(crate) struct RecordIndex<'m> {
    metadata: &'m MetadataTable,
    shards: RecordIndexShards,
    /// The newest slice of each shard, in the order of the shards.
    slices: Vec<FileSlice>,
}

impl<'m> RecordIndex<'m> {
    /// Finds the shards.
    ///
    /// # Errors
    /// `InvalidOption` without this index; `Corrupt` if one of them is missing; `Storage`.
    pub(crate) fn open(metadata: &'m MetadataTable) -> Result<Self> {
        let mut found: HashMap<String, FileSlice> =
            metadata.shards(RECORD_INDEX)?.into_iter().map(|slice| (slice.file_id.clone(), slice)).collect();
        let shards = RecordIndexShards::of_file_ids(found.keys().map(String::as_str))?;
        let slices = shards.file_ids().iter().filter_map(|id| found.remove(id)).collect();
        Ok(Self { metadata, shards, slices })
    }

    /// Whether each data partition has shards of its own.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.shards.is_partitioned()
    }

    /// Where the records of some keys are: in a data partition, or, for `None`, in the table.
    ///
    /// Each shard reads its log files and the blocks of its base file that may have its keys, once; the shards are read at
    /// the same time.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(crate) fn look_up(
        &self,
        partition: Option<&str>,
        keys: &StringArray,
        threads: usize,
    ) -> Result<Vec<KeyLocation>> {
        let mut numbers: HashMap<&str, Vec<usize>> = HashMap::with_capacity(keys.len());
        for (number, key) in keys.iter().enumerate() {
            if let Some(key) = key {
                numbers.entry(key).or_default().push(number);
            }
        }
        let groups: Vec<Range<usize>> = match partition {
            Some(partition) => self.shards.of_partition(partition).into_iter().collect(),
            None => self.shards.groups().collect(),
        };
        let mut wanted: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for group in &groups {
            for key in numbers.keys() {
                wanted.entry(shard_in(group, key)).or_default().push((*key).to_owned());
            }
        }
        let found = run_parallel(wanted.into_iter().collect(), threads, |(shard, mut keys): (usize, Vec<String>)| {
            keys.sort_unstable();
            let mut rows = Vec::new();
            let slice = self.slices.get(shard).ok_or_else(|| Error::internal("a shard of the record index is lost"))?;
            self.metadata.each_wanted(Kind::RecordIndex, slice, Wanted::Keys(&keys), &mut |batch| {
                rows.push(batch);
                Ok(())
            })?;
            Ok(rows)
        })?;
        let mut locations = Locations { numbers, names: HashMap::new(), found: Vec::new() };
        found.iter().flatten().try_for_each(|rows| locations.add(rows))?;
        locations.found.sort_by_key(|location| location.key);
        // Keys of other partitions are in the shards of the whole table too.
        locations.found.retain(|location| partition.is_none_or(|partition| *location.partition == *partition));
        Ok(locations.found)
    }
}

struct Locations<'k> {
    numbers: HashMap<&'k str, Vec<usize>>,
    /// Names that were met, each kept once.
    names: HashMap<String, Arc<str>>,
    found: Vec<KeyLocation>,
}

impl Locations<'_> {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let mistyped = || Error::internal("rows of the record index have other types");
        let strings = |name: &str| raw::flat(rows, name)?.as_string_opt::<i32>().ok_or_else(mistyped);
        let (keys, partitions) = (strings("key")?, strings("partition")?);
        let (file_ids, instants) = (strings("file_id")?, strings("instant_time")?);
        for row in 0..rows.num_rows() {
            let Some(numbers) = self.numbers.get(keys.value(row)).cloned() else { continue };
            let text =
                |column: &StringArray| if column.is_valid(row) { column.value(row).to_owned() } else { String::new() };
            let partition = Some(text(partitions)).filter(|partition| partition != ".").unwrap_or_default();
            let partition = self.name(partition);
            let (file_id, instant) = (self.name(text(file_ids)), self.name(text(instants)));
            self.found.extend(numbers.into_iter().map(|key| KeyLocation {
                key,
                partition: partition.clone(),
                file_id: file_id.clone(),
                instant: instant.clone(),
            }));
        }
        Ok(())
    }

    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(&name) {
            return known.clone();
        }
        let kept: Arc<str> = name.as_str().into();
        self.names.insert(name, kept.clone());
        kept
    }
}
