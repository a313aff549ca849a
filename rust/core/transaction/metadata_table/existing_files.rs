//! The files that a table has, for a metadata table that is made when there are some.

use arrow::datatypes::SchemaRef;

use crate::error::{ErrorKind, Result};
use crate::file_group::base::BaseFileReader;
use crate::file_group::log::{LogBatch, LogScan};
use crate::file_group::{BaseFile, LogFile, cdc_log_instant, data_file_instant};
use crate::format::column_range::{FileRanges, SharedRanges};
use crate::metadata_table::column_ranges::{BatchRanges, ranges_of_footer};
use crate::metadata_table::write::{AddedFile, FileChanges};
use crate::parallel::run_parallel;
use crate::storage::FileMeta;
use crate::table::{HudiTable, TableView};

/// Bytes of a log block that are decoded at a time.
const BATCH_BYTES: usize = 1 << 20;

/// All files of completed instants, as if one action had added them. `columns` have ranges; `schema` is that of data files.
/// The folders of the table are listed.
///
/// # Errors
/// `Storage`.
pub(super) fn existing_files(
    table: &HudiTable,
    view: &TableView,
    columns: &[String],
    schema: &SchemaRef,
) -> Result<FileChanges> {
    let is_committed = |file: &FileMeta| {
        let instant = data_file_instant(file).or_else(|| cdc_log_instant(file));
        instant.is_some_and(|instant| view.timeline().is_committed(&instant))
    };
    let mut work: Vec<(String, FileMeta)> = Vec::new();
    let mut changes = FileChanges::default();
    for (partition, files) in view.partition_files()? {
        let committed = files.into_iter().filter(|file| file.size > 0 && is_committed(file));
        work.extend(committed.map(|file| (partition.clone(), file)));
    }
    let added = run_parallel(work, table.threads()?, |(partition, file)| {
        let ranges = match ranges_of(table, &file, columns, schema) {
            Ok(ranges) => ranges,
            // Readers say what is wrong with the file. Without ranges it is always read.
            Err(e) if matches!(e.kind(), ErrorKind::Storage | ErrorKind::Interrupted) => return Err(e),
            Err(e) => {
                tracing::warn!(table = table.storage().uri(), file = file.path, "the file gets no statistics: {e}");
                None
            }
        };
        let name = file.name().to_owned();
        Ok((partition, AddedFile { name, size: file.size, ranges: ranges.map(SharedRanges::from) }))
    })?;
    for (partition, file) in added {
        changes.partitions.entry(partition).or_default().added.push(file);
    }
    Ok(changes)
}

fn ranges_of(table: &HudiTable, file: &FileMeta, columns: &[String], schema: &SchemaRef) -> Result<Option<FileRanges>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let storage = table.storage();
    if BaseFile::parse(file).is_some() {
        let reader = BaseFileReader::open(storage.reader(&file.path, file.size)?)?;
        return Ok(Some(ranges_of_footer(reader.metadata(), columns)));
    }
    let Some(log) = LogFile::parse(file) else { return Ok(None) };
    let scan = LogScan::open(storage, std::slice::from_ref(&log), |_| true)?;
    if scan.is_partial() || scan.truncated_files().next().is_some() {
        return Ok(None);
    }
    let mut ranges = BatchRanges::new(schema, columns);
    for block in 0..scan.blocks() {
        scan.read(block, schema, BATCH_BYTES, &mut |content| match content {
            LogBatch::Records(records) => ranges.add(&records),
            LogBatch::Deletes(_) => Ok(()),
        })?;
    }
    Ok(Some(ranges.finish()))
}
