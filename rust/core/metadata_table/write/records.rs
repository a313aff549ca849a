//! Records and deletes for each partition of the metadata table.

use std::collections::BTreeMap;

use arrow::datatypes::Schema;

use super::MAINTAINED;
use super::changes::{AddedFile, FileChanges};
use crate::file_group::{BaseFile, join};
use crate::format::column_range::{FileRanges, SharedRanges};
use crate::metadata_table::column_ranges::IndexVersion;
use crate::metadata_table::column_ranges::records::{
    KeyedRecord, column_stats_keys, column_stats_records, unknown_ranges,
};
use crate::metadata_table::encode::{FileEntries, bloom_record, files_record};
use crate::metadata_table::keys::{ALL_PARTITIONS, bloom_key, partition_name};
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FILES};
use crate::storage::FileMeta;

/// The columns that have statistics.
#[derive(Debug, Clone)]
pub(crate) struct Indexed {
    /// Those that have statistics in all files.
    pub(crate) columns: Vec<String>,
    /// How values are stored.
    pub(crate) version: IndexVersion,
}

impl Indexed {
    /// What a file says of the indexed columns, in a table of these columns; `None` if nothing can be said of one of them.
    ///
    /// Readers of Hudi pass over a file that has statistics of one column of a filter and not of another. They do not pass over
    /// one that has none, until Hudi writes to its partition: then the range of the partition is that of the other files. So a
    /// file of which nothing is known may have all values, as one whose rows are merged with stored ones value by value.
    fn of(&self, file: Option<&FileRanges>, columns: Option<&Schema>) -> Option<FileRanges> {
        let is_indexed = |column: &String| self.columns.contains(column);
        let mut of = FileRanges::default();
        if let Some(file) = file.filter(|file| !file.is_partial) {
            of.ranges.extend(file.ranges.iter().filter(|range| is_indexed(&range.column)).cloned());
            of.unknown.extend(file.unknown.iter().filter(|unknown| is_indexed(&unknown.column)).cloned());
        }
        let is_missing = |column: &&String| {
            !of.ranges.iter().any(|one| one.column == **column) && !of.unknown.iter().any(|one| one.column == **column)
        };
        let missing: Vec<String> = self.columns.iter().filter(is_missing).cloned().collect();
        if !missing.is_empty() {
            of.unknown.extend(unknown_ranges(columns?, &missing).unknown);
        }
        Some(of)
    }
}

/// What goes into a partition of the metadata table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionUpdate {
    /// Records of a block of their own, before the others.
    pub(super) first: Vec<KeyedRecord>,
    pub(super) records: Vec<KeyedRecord>,
    pub(super) deletes: Vec<String>,
}

/// What goes into each partition of the metadata table.
pub(super) type Updates = BTreeMap<&'static str, PartitionUpdate>;

/// What goes into each of the partitions that there are. `files` always gets something: an instant that is not there means
/// that the metadata table is behind.
pub(super) fn updates(changes: &FileChanges, indexed: &Indexed, has: impl Fn(&str) -> bool) -> Updates {
    let mut updates = Updates::new();
    for name in MAINTAINED.into_iter().filter(|name| has(name)) {
        let update = match name {
            FILES => files(changes),
            COLUMN_STATS => column_stats(changes, indexed),
            BLOOM_FILTERS => bloom_filters(changes),
            _ => continue,
        };
        if update != PartitionUpdate::default() {
            updates.insert(name, update);
        }
    }
    updates
}

fn files(changes: &FileChanges) -> PartitionUpdate {
    let mut update = PartitionUpdate::default();
    for (partition, changes) in &changes.partitions {
        let name = partition_name(partition).to_owned();
        if changes.is_removed {
            update.deletes.push(name);
            continue;
        }
        let added = changes.added.iter().map(|file| (file.name.as_str(), file.size, false));
        let deleted = changes.deleted.iter().map(|name| (name.as_str(), 0, true));
        // A map has each name once.
        let entries: BTreeMap<&str, (u64, bool)> =
            deleted.chain(added).map(|(name, size, deleted)| (name, (size, deleted))).collect();
        if !entries.is_empty() {
            let entries = entries.into_iter().map(|(name, (size, deleted))| (name, size, deleted));
            update.records.push((name, files_record(entries, FileEntries::Files)));
        }
    }
    let removed = changes.partitions.iter().filter(|(_, changes)| changes.is_removed);
    let removed: Vec<_> = removed.map(|(partition, _)| (partition_name(partition), 0, true)).collect();
    if !removed.is_empty() {
        // By Hudi's rule the first delete takes back what log files before it say of a partition, and only a second one takes
        // it out of the base file.
        update.first.push((ALL_PARTITIONS.to_owned(), files_record(removed, FileEntries::Partitions)));
    }
    let touched = changes.partitions.iter().filter(|(_, changes)| changes.is_removed || !changes.added.is_empty());
    let touched = touched.map(|(partition, changes)| (partition_name(partition), 0, changes.is_removed));
    update.records.push((ALL_PARTITIONS.to_owned(), files_record(touched, FileEntries::Partitions)));
    update
}

fn column_stats(changes: &FileChanges, indexed: &Indexed) -> PartitionUpdate {
    let (mut update, columns) = (PartitionUpdate::default(), changes.columns.as_deref());
    for (partition, changes) in &changes.partitions {
        for file in &changes.added {
            if indexed.columns.is_empty() || !file.has_rows() {
                continue;
            }
            let known = file.ranges.as_ref().map(SharedRanges::get);
            let Some(ranges) = indexed.of(known, columns) else { continue };
            update.records.extend(column_stats_records(partition, &file.name, &ranges, indexed.version));
        }
        for name in &changes.deleted {
            update.deletes.extend(column_stats_keys(partition, name, &indexed.columns));
        }
    }
    update
}

fn bloom_filters(changes: &FileChanges) -> PartitionUpdate {
    let mut update = PartitionUpdate::default();
    for (partition, changes) in &changes.partitions {
        for file in &changes.added {
            let (Some(bloom), Some(base)) = (&file.bloom, base_file(partition, file)) else { continue };
            let record = bloom_record(&bloom.filter_type, &base.instant, bloom.filter.as_bytes(), false);
            update.records.push((bloom_key(partition, &file.name), record));
        }
        update.deletes.extend(changes.deleted.iter().map(|name| bloom_key(partition, name)));
    }
    update
}

/// The base file that an added file is, if it is one.
pub(super) fn base_file(partition: &str, file: &AddedFile) -> Option<BaseFile> {
    BaseFile::parse(&FileMeta { path: join(partition, &file.name), size: file.size, modified_ms: 0 })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::super::changes::{AddedFile, PartitionChanges};
    use super::*;
    use crate::format::column_range::{ColumnRange, RangeValue, ValueType};

    fn indexed(columns: &[&str]) -> Indexed {
        Indexed { columns: columns.iter().map(|name| (*name).to_owned()).collect(), version: IndexVersion::V2 }
    }

    fn range() -> FileRanges {
        let range = ColumnRange {
            column: "a".to_owned(),
            min: Some(RangeValue::Long(1)),
            max: Some(RangeValue::Long(2)),
            value_count: 2,
            null_count: 0,
            total_size: 1,
            total_uncompressed_size: 1,
            value_type: ValueType::Long,
        };
        FileRanges { ranges: vec![range], ..FileRanges::default() }
    }

    fn added(ranges: Option<FileRanges>) -> PartitionChanges {
        let file = AddedFile { name: "f".to_owned(), size: 9, ranges: ranges.map(SharedRanges::from), bloom: None };
        PartitionChanges { added: vec![file], ..PartitionChanges::default() }
    }

    fn column_stats_of(changes: PartitionChanges, columns: &[&str]) -> usize {
        let changes = FileChanges { partitions: BTreeMap::from([("p".to_owned(), changes)]), ..FileChanges::default() };
        updates(&changes, &indexed(columns), |_| true).get(COLUMN_STATS).map_or(0, |update| update.records.len())
    }

    #[test]
    fn a_file_has_statistics_of_all_indexed_columns_or_none() {
        assert_eq!(column_stats_of(added(Some(range())), &["a"]), 1);
        for (ranges, columns) in [
            (Some(range()), ["a", "b"].as_slice()),
            (Some(range()), &[]),
            (None, &["a"]),
            (Some(FileRanges::default()), &["a"]),
        ] {
            assert_eq!(column_stats_of(added(ranges), columns), 0);
        }
    }

    #[test]
    fn each_action_has_something_in_files() {
        let none = updates(&FileChanges::default(), &indexed(&["a"]), |_| true);
        assert_eq!(none.keys().copied().collect::<Vec<_>>(), [FILES]);
        assert_eq!((none[FILES].first.len(), none[FILES].records.len()), (0, 1));
        let gone = PartitionChanges { is_removed: true, deleted: vec!["f".to_owned()], ..PartitionChanges::default() };
        let changes = FileChanges { partitions: BTreeMap::from([("p".to_owned(), gone)]), ..FileChanges::default() };
        let gone = updates(&changes, &indexed(&["a"]), |_| true);
        assert_eq!(
            (gone[FILES].deletes.as_slice(), gone[COLUMN_STATS].deletes.len()),
            (["p".to_owned()].as_slice(), 1)
        );
        assert_eq!(gone[FILES].first, gone[FILES].records);
    }
}
