//! What an action changes in an expression index: the ranges of its files, and those of the partitions in which it wrote.

use std::collections::HashMap;

use super::changes::FileChanges;
use super::partition_stats::StoredRanges;
use super::records::PartitionUpdate;
use crate::error::{Error, Result};
use crate::file_group::join;
use crate::format::column_range::{ColumnRange, FileRanges};
use crate::metadata_table::MetadataTable;
use crate::metadata_table::column_ranges::records::{expression_partition_record, file_record};
use crate::metadata_table::column_ranges::{StoredRange, partition_range};
use crate::metadata_table::expression_index::ExpressionIndex;
use crate::metadata_table::keys::{column_stats_key, expression_partition_key};

/// The ranges of a function's values by the path of the file; `None` for a file without rows.
pub(crate) type FunctionRanges = HashMap<String, Option<ColumnRange>>;

/// What goes into an index.
pub(crate) struct ExpressionChanges {
    /// Its partition of the metadata table.
    pub(super) partition: String,
    /// Its shards.
    pub(super) file_ids: Vec<String>,
    pub(super) update: PartitionUpdate,
}

/// The records and deletes of an index. `stored` is the metadata table before them; `None` when the index is made now, so
/// that the changes stand for all files that there are. As Hudi does, a file without rows gets no record.
///
/// # Errors
/// `Unsupported` if nothing is known of a partition; `Corrupt`, with the file; `Storage`.
pub(crate) fn expression_update(
    stored: Option<&MetadataTable>,
    index: &ExpressionIndex,
    changes: &FileChanges,
    ranges: &FunctionRanges,
) -> Result<PartitionUpdate> {
    let mut update = PartitionUpdate::default();
    let mut written: Vec<(&str, Vec<FileRanges>)> = Vec::new();
    for (partition, changes) in &changes.partitions {
        let deleted = changes.deleted.iter().map(|name| column_stats_key(&index.column, partition, name));
        update.deletes.extend(deleted);
        let mut files = Vec::new();
        for file in &changes.added {
            let Some(Some(range)) = ranges.get(&join(partition, &file.name)) else { continue };
            update.records.push(file_record(partition, &file.name, range, index.version));
            files.push(FileRanges { ranges: vec![range.clone()], ..FileRanges::default() });
        }
        match changes.is_removed {
            true => update.deletes.push(expression_partition_key(&index.column, partition)),
            false if files.is_empty() => {}
            false => written.push((partition, files)),
        }
    }
    let key = |partition: &str| expression_partition_key(&index.column, partition);
    let partitions: Vec<&str> = written.iter().map(|(partition, _)| *partition).collect();
    let read = |stored| StoredRanges::read(stored, &index.partition, &partitions, |partition| vec![key(partition)]);
    let known = stored.filter(|_| !partitions.is_empty()).map(read).transpose()?;
    for (partition, files) in &written {
        let before = known.as_ref().map_or(StoredRange::New, |known| known.of(partition, &key(partition)));
        let files: Vec<Option<&FileRanges>> = files.iter().map(Some).collect();
        // Hudi's readers leave out a partition without a range.
        let range = partition_range(&index.column, &before, &files).ok_or_else(|| {
            Error::unsupported("an expression index of a partition of which nothing is known")
                .with("partition", *partition)
        })?;
        update.records.push(expression_partition_record(partition, &range, index.version));
    }
    Ok(update)
}
