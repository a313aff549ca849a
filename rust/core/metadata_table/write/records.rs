//! Records and deletes for each partition of the metadata table.

use std::collections::BTreeMap;

use arrow::datatypes::Schema;

use super::changes::{FileChanges, PartitionChanges};
use super::{MAINTAINED, PARTITION_STATS};
use crate::format::column_range::FileRanges;
use crate::metadata_table::column_ranges::IndexVersion;
use crate::metadata_table::column_ranges::records::{
    KeyedRecord, column_stats_keys, column_stats_records, partition_stats_keys, partition_stats_records, unknown_ranges,
};
use crate::metadata_table::encode::{FileEntries, files_record};
use crate::metadata_table::keys::{ALL_PARTITIONS, partition_name};
use crate::metadata_table::{COLUMN_STATS, FILES};

/// The columns that have statistics.
#[derive(Debug, Clone)]
pub(crate) struct Indexed {
    /// Columns of the table, of which the types of the indexed ones are looked up.
    pub(crate) schema: Schema,
    /// The columns that have statistics in all files. A partition without a record of one of them is passed over by readers
    /// of Hudi, so a column that files before this action may lack is not among them.
    pub(crate) columns: Vec<String>,
    /// How values are stored.
    pub(crate) version: IndexVersion,
}

impl Indexed {
    /// What a file says of the indexed columns.
    fn of(&self, file: &FileRanges) -> FileRanges {
        let is_indexed = |column: &String| self.columns.contains(column);
        FileRanges {
            ranges: file.ranges.iter().filter(|range| is_indexed(&range.column)).cloned().collect(),
            unknown: file.unknown.iter().filter(|unknown| is_indexed(&unknown.column)).cloned().collect(),
            is_partial: file.is_partial,
        }
    }
}

/// What goes into a partition of the metadata table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PartitionUpdate {
    pub(super) records: Vec<KeyedRecord>,
    pub(super) deletes: Vec<String>,
}

/// What goes into each of the partitions that there are. `files` always gets something: an instant that is not there means
/// that the metadata table is behind.
pub(super) fn updates(
    changes: &FileChanges,
    indexed: &Indexed,
    has: impl Fn(&str) -> bool,
) -> BTreeMap<&'static str, PartitionUpdate> {
    let mut updates: BTreeMap<&'static str, PartitionUpdate> = BTreeMap::new();
    for name in MAINTAINED.into_iter().filter(|name| has(name)) {
        let update = match name {
            FILES => files(changes),
            COLUMN_STATS => column_stats(changes, indexed),
            PARTITION_STATS => partition_stats(changes, indexed),
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
    let touched = changes.partitions.iter().filter(|(_, changes)| changes.is_removed || !changes.added.is_empty());
    let touched = touched.map(|(partition, changes)| (partition_name(partition), 0, changes.is_removed));
    update.records.push((ALL_PARTITIONS.to_owned(), files_record(touched, FileEntries::Partitions)));
    update
}

fn column_stats(changes: &FileChanges, indexed: &Indexed) -> PartitionUpdate {
    let mut update = PartitionUpdate::default();
    for (partition, changes) in &changes.partitions {
        for file in &changes.added {
            let Some(ranges) = &file.ranges else { continue };
            let ranges = indexed.of(ranges.get());
            update.records.extend(column_stats_records(partition, &file.name, &ranges, indexed.version));
        }
        for name in &changes.deleted {
            update.deletes.extend(column_stats_keys(partition, name, &indexed.columns));
        }
    }
    update
}

fn partition_stats(changes: &FileChanges, indexed: &Indexed) -> PartitionUpdate {
    let mut update = PartitionUpdate::default();
    for (partition, changes) in &changes.partitions {
        if changes.is_removed {
            update.deletes.extend(partition_stats_keys(partition, &indexed.columns));
            continue;
        }
        if changes.added.is_empty() {
            continue;
        }
        let ranges = ranges_of(changes, indexed);
        update.records.extend(partition_stats_records(partition, &ranges, indexed.version));
    }
    update
}

/// The ranges of the files that were added to a partition. A file that says nothing of an indexed column may have any value.
fn ranges_of(changes: &PartitionChanges, indexed: &Indexed) -> Vec<FileRanges> {
    let known = changes.added.iter().map(|file| file.ranges.as_ref().map(|ranges| indexed.of(ranges.get())));
    let mut all: Vec<FileRanges> = known.map(Option::unwrap_or_default).collect();
    let is_lacking = |column: &&String| !all.iter().all(|file| has_range(file, column));
    let lacking: Vec<String> = indexed.columns.iter().filter(is_lacking).cloned().collect();
    if !lacking.is_empty() {
        all.push(unknown_ranges(&indexed.schema, &lacking));
    }
    all
}

fn has_range(file: &FileRanges, column: &str) -> bool {
    file.ranges.iter().any(|range| range.column == column) || file.unknown.iter().any(|one| one.column == column)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::datatypes::{DataType, Field};

    use super::*;
    use crate::format::column_range::{ColumnRange, RangeValue, SharedRanges, ValueType};

    fn indexed(columns: &[&str]) -> Indexed {
        Indexed {
            schema: Schema::new(vec![Field::new("a", DataType::Int64, true)]),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            version: IndexVersion::V2,
        }
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
        let file = AddedFile { name: "f".to_owned(), size: 9, ranges: ranges.map(SharedRanges::from) };
        PartitionChanges { added: vec![file], ..PartitionChanges::default() }
    }

    #[test]
    fn a_partition_with_a_file_that_says_nothing_may_have_any_value() {
        let known = ranges_of(&added(Some(range())), &indexed(&["a"]));
        assert_eq!((known.len(), known[0].ranges.len()), (1, 1));
        for lost in [None, Some(FileRanges::default())] {
            let lost = ranges_of(&added(lost), &indexed(&["a"]));
            assert_eq!((lost[0].ranges.len(), lost[1].unknown[0].value_type), (0, Some(ValueType::Long)));
        }
    }

    #[test]
    fn a_column_that_other_files_may_lack_has_no_statistics() {
        assert_eq!(ranges_of(&added(Some(range())), &indexed(&[])), [FileRanges::default()]);
        let changes = FileChanges { partitions: BTreeMap::from([("p".to_owned(), added(Some(range())))]) };
        let made = updates(&changes, &indexed(&[]), |_| true);
        assert_eq!(made.keys().copied().collect::<Vec<_>>(), [FILES]);
    }

    #[test]
    fn each_action_has_something_in_files() {
        let none = updates(&FileChanges::default(), &indexed(&["a"]), |_| true);
        assert_eq!(none.keys().copied().collect::<Vec<_>>(), [FILES]);
        assert_eq!(none[FILES].records.len(), 1);
        let gone = PartitionChanges { is_removed: true, deleted: vec!["f".to_owned()], ..PartitionChanges::default() };
        let changes = FileChanges { partitions: BTreeMap::from([("p".to_owned(), gone)]) };
        let gone = updates(&changes, &indexed(&["a"]), |_| true);
        assert_eq!((gone[FILES].deletes.as_slice(), gone[COLUMN_STATS].deletes.len()), (["p".to_owned()].as_slice(), 1));
        assert_eq!(gone[PARTITION_STATS].deletes.len(), 1);
    }
}
