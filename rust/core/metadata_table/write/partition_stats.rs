//! `partition_stats`: the ranges of the partitions in which a commit wrote.

use std::collections::HashMap;

use super::changes::{AddedFile, FileChanges};
use super::records::Indexed;
use crate::error::Result;
use crate::format::column_range::{ColumnRange, FileRanges, ValueType};
use crate::format::log::Wanted;
use crate::metadata_table::column_ranges::records::{KeyedRecord, partition_stats_record};
use crate::metadata_table::column_ranges::{IndexVersion, StoredRange, each_stored_range, partition_range, type_in};
use crate::metadata_table::keys::{partition_stats_key, shard_of};
use crate::metadata_table::kind::Kind;
use crate::metadata_table::{MetadataTable, PARTITION_STATS};

/// The records that a commit writes. `stored` is the metadata table before it; `None` when it is made now, so that the commit
/// stands for all files that there are. The answer is `None` if nothing is known of a column, so that no record of it is
/// right.
pub(super) fn partition_stats(
    stored: Option<&MetadataTable>,
    changes: &FileChanges,
    indexed: &Indexed,
) -> Result<Option<Vec<KeyedRecord>>> {
    let written =
        || changes.partitions.iter().filter(|(_, one)| !one.is_removed && one.added.iter().any(AddedFile::has_rows));
    let partitions: Vec<&str> = written().map(|(partition, _)| partition.as_str()).collect();
    let keys = |partition: &str| indexed.columns.iter().map(|column| partition_stats_key(column, partition)).collect();
    let read = |stored| StoredRanges::read(stored, PARTITION_STATS, &partitions, keys);
    let known = stored.map(read).transpose()?;
    let mut records = Vec::with_capacity(partitions.len() * indexed.columns.len());
    let schema = changes.columns.as_deref().filter(|_| indexed.version == IndexVersion::V1);
    let type_of = |column: &String| schema.and_then(|schema| type_in(schema, column));
    let types: Vec<Option<ValueType>> = indexed.columns.iter().map(type_of).collect();
    for (partition, one) in written() {
        let files = one.added.iter().filter(|file| file.has_rows());
        let files: Vec<Option<&FileRanges>> =
            files.map(|file| file.ranges.as_ref().map(|ranges| ranges.get())).collect();
        for (column, value_type) in indexed.columns.iter().zip(&types) {
            let before = known
                .as_ref()
                .map_or(StoredRange::New, |known| known.of(partition, &partition_stats_key(column, partition)));
            let before = match value_type {
                Some(value_type) => before.with_type(*value_type),
                None => before,
            };
            let Some(range) = partition_range(column, &before, &files) else { return Ok(None) };
            records.push(partition_stats_record(partition, &range, indexed.version));
        }
    }
    Ok(Some(records))
}

/// The ranges that partitions have.
pub(super) struct StoredRanges {
    by_key: HashMap<String, Option<ColumnRange>>,
    /// Partitions that have files, if anyone of them lacks a range.
    with_files: Vec<String>,
}

impl StoredRanges {
    /// Reads those of some partitions from an index, where each has these keys.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(super) fn read(
        stored: &MetadataTable,
        index: &str,
        partitions: &[&str],
        keys_of: impl Fn(&str) -> Vec<String>,
    ) -> Result<Self> {
        let shards = stored.shards(index)?;
        let mut keys: Vec<Vec<String>> = vec![Vec::new(); shards.len()];
        let mut asked = 0usize;
        for key in partitions.iter().flat_map(|partition| keys_of(partition)) {
            asked += 1;
            if let Some(keys) = keys.get_mut(shard_of(&key, shards.len())) {
                keys.push(key);
            }
        }
        let mut by_key = HashMap::with_capacity(asked);
        for (shard, mut keys) in shards.iter().zip(keys).filter(|(_, keys)| !keys.is_empty()) {
            keys.sort_unstable();
            stored.each_wanted(Kind::PartitionStats, shard, Wanted::Keys(&keys), &mut |rows| {
                each_stored_range(&rows, &mut |key, range| _ = by_key.insert(key.to_owned(), range))
            })?;
        }
        let mut with_files = Vec::new();
        if by_key.len() < asked {
            let listed = stored.files_in(&partitions.iter().copied().collect())?;
            with_files.extend(listed.files.into_iter().filter(|(_, files)| !files.is_empty()).map(|(path, _)| path));
        }
        Ok(Self { by_key, with_files })
    }

    /// The range of a partition that has this key.
    pub(super) fn of(&self, partition: &str, key: &str) -> StoredRange {
        match self.by_key.get(key) {
            Some(Some(range)) => StoredRange::Known(range.clone()),
            None if !self.with_files.iter().any(|path| path == partition) => StoredRange::New,
            _ => StoredRange::Unknown,
        }
    }
}
