//! The files that a table has, for a metadata table, or a partition of one, that is made when there are some.

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;

use crate::error::{ErrorKind, Result};
use crate::file_group::base::BaseFileReader;
use crate::file_group::log::{LogBatch, LogScan};
use crate::file_group::{BaseFile, LogFile, cdc_log_instant, data_file_instant};
use crate::format::column_range::{FileRanges, SharedRanges};
use crate::metadata_table::column_ranges::{BatchRanges, ranges_of_footer};
use crate::metadata_table::write::{AddedFile, FileChanges, read_bloom_filter};
use crate::parallel::run_parallel;
use crate::storage::FileMeta;
use crate::table::{HudiTable, TableView};

/// Bytes of a log block that are decoded at a time.
pub(super) const BATCH_BYTES: usize = 1 << 20;

/// What is wanted of each file.
#[derive(Clone)]
pub(crate) struct Wanted {
    /// Columns whose ranges are wanted.
    pub(crate) columns: Vec<String>,
    /// The columns of data files.
    pub(crate) schema: SchemaRef,
    /// Whether bloom filters are wanted.
    pub(crate) bloom_filters: bool,
}

/// All files of completed instants, as if one action had added them. The folders of the table are listed. Files that are
/// `known`, by their paths, are not read again.
///
/// # Errors
/// `Storage`.
pub(crate) fn existing_files(
    table: &HudiTable,
    view: &TableView,
    wanted: &Wanted,
    known: &HashMap<String, AddedFile>,
) -> Result<FileChanges> {
    let is_committed = |file: &FileMeta| {
        let instant = data_file_instant(file).or_else(|| cdc_log_instant(file));
        instant.is_some_and(|instant| view.timeline().is_committed(&instant))
    };
    let mut work: Vec<(String, FileMeta)> = Vec::new();
    for (partition, files) in view.partition_files()? {
        let committed = files.into_iter().filter(|file| file.size > 0 && is_committed(file));
        work.extend(committed.map(|file| (partition.clone(), file)));
    }
    let added = run_parallel(work, table.threads()?, |(partition, file)| {
        if let Some(known) = known.get(&file.path).filter(|known| known.size == file.size) {
            return Ok((partition, known.clone()));
        }
        let read = match read_file(table, &file, wanted) {
            // Readers say what is wrong with the file. Without ranges it is always read.
            Err(e) if !matches!(e.kind(), ErrorKind::Storage | ErrorKind::Interrupted) => {
                tracing::warn!(table = table.storage().uri(), file = file.path, "the file gets no statistics: {e}");
                AddedFile { name: file.name().to_owned(), size: file.size, ranges: None, bloom: None }
            }
            other => other?,
        };
        Ok((partition, read))
    })?;
    let mut changes = FileChanges::default();
    for (partition, file) in added {
        changes.partitions.entry(partition).or_default().added.push(file);
    }
    Ok(changes)
}

fn read_file(table: &HudiTable, file: &FileMeta, wanted: &Wanted) -> Result<AddedFile> {
    let mut added = AddedFile { name: file.name().to_owned(), size: file.size, ranges: None, bloom: None };
    if !wanted.columns.is_empty() {
        let ranges = ranges_of(table, file, &wanted.columns, &wanted.schema)?;
        added.ranges = ranges.map(|(ranges, _)| SharedRanges::from(ranges));
    }
    if wanted.bloom_filters && BaseFile::parse(file).is_some() {
        added.bloom = read_bloom_filter(table.storage(), &file.path, file.size)?;
    }
    Ok(added)
}

/// The ranges of some columns of a data file, where log files are read in columns of these types, and how many rows the file
/// has. `None` if nothing can be said of it.
///
/// # Errors
/// `Corrupt`; `Schema` for records that do not fit the columns; `Storage`.
pub(super) fn ranges_of(
    table: &HudiTable,
    file: &FileMeta,
    columns: &[String],
    schema: &SchemaRef,
) -> Result<Option<(FileRanges, u64)>> {
    let storage = table.storage();
    if BaseFile::parse(file).is_some() {
        let reader = BaseFileReader::open(storage.reader(&file.path, file.size)?)?;
        return Ok(Some((ranges_of_footer(reader.metadata(), columns), reader.rows())));
    }
    let Some(log) = LogFile::parse(file) else { return Ok(None) };
    let scan = LogScan::open(storage, std::slice::from_ref(&log), |_| true)?;
    if scan.is_partial() || scan.truncated_files().next().is_some() {
        return Ok(None);
    }
    let (mut ranges, mut rows) = (BatchRanges::new(schema, columns), 0);
    for block in 0..scan.blocks() {
        scan.read(block, schema, BATCH_BYTES, &mut |content| match content {
            LogBatch::Records(records) => {
                rows += records.num_rows() as u64;
                ranges.add(&records)
            }
            LogBatch::Deletes(_) => Ok(()),
        })?;
    }
    Ok(Some((ranges.finish(), rows)))
}

/// The columns of which the files of an action have statistics.
pub(super) fn columns_of(changes: &FileChanges) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for file in changes.partitions.values().flat_map(|one| &one.added) {
        let Some(ranges) = &file.ranges else { continue };
        let ranges = ranges.get();
        let names = ranges.ranges.iter().map(|range| &range.column);
        for name in names.chain(ranges.unknown.iter().map(|unknown| &unknown.column)) {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
    }
    columns
}
