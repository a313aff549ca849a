//! The files that a table has, for a metadata table, or a partition of one, that is made when there are some.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Result};
use crate::file_group::base::BaseFileReader;
use crate::file_group::log::{LogBatch, LogScan};
use crate::file_group::{BaseFile, LogFile, join, written_at};
use crate::format::avro::schema::avro_to_arrow_schema;
use crate::format::column_range::{FileRanges, SharedRanges};
use crate::metadata_table::column_ranges::{BatchRanges, ranges_of_footer};
use crate::metadata_table::write::{AddedFile, FileChanges, StoredBloom, read_bloom_filter};
use crate::parallel::run_parallel;
use crate::storage::FileMeta;
use crate::table::{HudiTable, TableView};

/// Bytes of a log block that are decoded at a time.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// Files that one task reads.
const TASK_FILES: usize = 64;

/// What is wanted of each file, in a form that crosses processes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct FilesPlan {
    /// Columns whose ranges are wanted.
    pub(super) columns: Vec<String>,
    /// The columns of the table, as Avro; `None`: nothing was written to it.
    pub(super) schema: Option<String>,
    /// Whether bloom filters are wanted.
    pub(super) bloom_filters: bool,
}

/// Files that one task reads: partition, path and bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FilesUnit(Vec<(String, String, u64)>);

/// What is wanted of each file.
struct Wanted<'a> {
    columns: &'a [String],
    /// The columns of data files.
    schema: SchemaRef,
    bloom_filters: bool,
}

impl FilesPlan {
    fn wanted(&self, table: &HudiTable) -> Result<Wanted<'_>> {
        let schema = match &self.schema {
            Some(schema) => table.file_settings(&Arc::new(avro_to_arrow_schema(schema)?))?.0,
            None => Arc::new(Schema::empty()),
        };
        Ok(Wanted { columns: &self.columns, schema, bloom_filters: self.bloom_filters })
    }
}

/// What was read of a file: its partition, it, and its bloom filter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileReport {
    partition: String,
    name: String,
    size: u64,
    ranges: Option<SharedRanges>,
    bloom: Option<StoredBloom>,
}

impl FileReport {
    fn new(partition: String, file: AddedFile) -> Self {
        let AddedFile { name, size, ranges, bloom } = file;
        Self { partition, name, size, ranges, bloom: bloom.map(Arc::unwrap_or_clone) }
    }

    /// The file with its partition.
    pub(super) fn into_file(self) -> (String, AddedFile) {
        let Self { partition, name, size, ranges, bloom } = self;
        (partition, AddedFile { name, size, ranges, bloom: bloom.map(Arc::new) })
    }
}

/// The files of completed instants with their partitions. The folders of the table are listed.
///
/// # Errors
/// `Storage`.
pub(super) fn committed_files(view: &TableView) -> Result<Vec<(String, FileMeta)>> {
    let is_committed = |file: &FileMeta| written_at(file).is_some_and(|instant| view.timeline().is_committed(&instant));
    let mut found: Vec<(String, FileMeta)> = Vec::new();
    for (partition, files) in view.partition_files()? {
        let committed = files.into_iter().filter(|file| file.size > 0 && is_committed(file));
        found.extend(committed.map(|file| (partition.clone(), file)));
    }
    Ok(found)
}

/// These files, as tasks read them: so many at a time that each has some work, and the last ones do not wait for one.
pub(super) fn units_of(files: &[(String, FileMeta)]) -> Vec<FilesUnit> {
    let unit = |(partition, file): &(String, FileMeta)| (partition.clone(), file.path.clone(), file.size);
    files.chunks(TASK_FILES).map(|some| FilesUnit(some.iter().map(unit).collect())).collect()
}

/// Reads files for an index that another process builds.
///
/// # Errors
/// `Storage`.
pub(crate) fn read_unit(table: &HudiTable, plan: &FilesPlan, unit: FilesUnit) -> Result<Vec<FileReport>> {
    let file = |(partition, path, size)| (partition, FileMeta { path, size, modified_ms: 0 });
    read_files(table, plan, unit.0.into_iter().map(file).collect())
}

/// Reads these files.
///
/// # Errors
/// `Storage`.
pub(super) fn read_files(
    table: &HudiTable,
    plan: &FilesPlan,
    files: Vec<(String, FileMeta)>,
) -> Result<Vec<FileReport>> {
    let read = read_unknown(table, plan, files, &HashMap::new())?;
    Ok(read.into_iter().map(|(partition, file)| FileReport::new(partition, file)).collect())
}

/// All files of completed instants, as if one action had added them. Files that are `known`, by their paths, are not read
/// again.
///
/// # Errors
/// `Storage`.
pub(super) fn existing_files(
    table: &HudiTable,
    view: &TableView,
    plan: &FilesPlan,
    known: &HashMap<String, AddedFile>,
) -> Result<FileChanges> {
    let mut changes = FileChanges::default();
    for (partition, file) in read_unknown(table, plan, committed_files(view)?, known)? {
        changes.partitions.entry(partition).or_default().added.push(file);
    }
    Ok(changes)
}

/// Reads files, but for those that are known.
///
/// # Errors
/// `Storage`.
fn read_unknown(
    table: &HudiTable,
    plan: &FilesPlan,
    files: Vec<(String, FileMeta)>,
    known: &HashMap<String, AddedFile>,
) -> Result<Vec<(String, AddedFile)>> {
    let wanted = plan.wanted(table)?;
    run_parallel(files, table.threads()?, |(partition, file)| {
        if let Some(known) = known.get(&file.path).filter(|known| known.size == file.size) {
            return Ok((partition, known.clone()));
        }
        let read = read_if_whole(table, &file, &wanted)?;
        Ok((partition, read))
    })
}

/// The same changes, with the ranges of files of which the writer collected none, because the statistics of columns came
/// into the metadata table while it wrote: Hudi's readers may leave out a file without statistics. `None` if there is no such
/// file.
///
/// # Errors
/// `Storage`.
pub(super) fn with_ranges(table: &HudiTable, changes: &FileChanges, columns: &[String]) -> Result<Option<FileChanges>> {
    let is_unknown = |file: &AddedFile| file.ranges.is_none() && file.has_rows();
    let any = changes.partitions.values().flat_map(|one| &one.added).any(is_unknown);
    let Some(schema) = changes.columns.as_ref().filter(|_| any && !columns.is_empty()) else { return Ok(None) };
    let wanted = Wanted { columns, schema: table.file_settings(schema)?.0, bloom_filters: false };
    let mut changes = changes.clone();
    let files = changes.partitions.iter_mut().flat_map(|(partition, one)| {
        let unknown = one.added.iter_mut().filter(|file| is_unknown(file));
        unknown.map(move |file| (partition.as_str(), file))
    });
    run_parallel(files.collect(), table.threads()?, |(partition, file): (&str, &mut AddedFile)| {
        let meta = FileMeta { path: join(partition, &file.name), size: file.size, modified_ms: 0 };
        file.ranges = read_if_whole(table, &meta, &wanted)?.ranges;
        Ok(())
    })?;
    Ok(Some(changes))
}

/// Reads a file; nothing is known of a damaged one.
fn read_if_whole(table: &HudiTable, file: &FileMeta, wanted: &Wanted<'_>) -> Result<AddedFile> {
    match read_file(table, file, wanted) {
        // Readers say what is wrong with the file. Without ranges it is always read.
        Err(e) if !matches!(e.kind(), ErrorKind::Storage | ErrorKind::Interrupted) => {
            tracing::warn!(table = table.storage().uri(), file = file.path, "the file gets no statistics: {e}");
            Ok(AddedFile { name: file.name().to_owned(), size: file.size, ranges: None, bloom: None })
        }
        other => other,
    }
}

fn read_file(table: &HudiTable, file: &FileMeta, wanted: &Wanted<'_>) -> Result<AddedFile> {
    let mut added = AddedFile { name: file.name().to_owned(), size: file.size, ranges: None, bloom: None };
    if !wanted.columns.is_empty() {
        let ranges = ranges_of(table, file, wanted.columns, &wanted.schema)?;
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
    // Other columns may have had other types under the same name.
    let is_wanted = |field: &&FieldRef| columns.iter().any(|column| column.split('.').next() == Some(field.name()));
    let schema = &Arc::new(Schema::new(schema.fields().iter().filter(is_wanted).cloned().collect::<Fields>()));
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
