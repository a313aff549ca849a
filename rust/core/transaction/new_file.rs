//! One new data file, from its marker to its write stat.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant as Stopwatch;

use arrow::datatypes::Schema;
use parquet::file::metadata::ParquetMetaData;

use super::data_files::DataFiles;
use crate::error::Result;
use crate::file_group::base::BaseFileWriter;
use crate::file_group::markers::MarkerType;
use crate::file_group::{BaseFile, FileSlice, LogFile, join};
use crate::format::avro::metadata::{CommitMetadata, RuntimeStats, WriteStat};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::column_range::{FileRanges, SharedRanges};
use crate::merge::MergeCounts;
use crate::metadata_table::column_ranges::ranges_of_footer;
use crate::storage::FileWriter;
use crate::table::HudiTable;

/// A published base file.
pub(crate) struct WrittenFile {
    /// Its write stat.
    pub stat: WriteStat,
    /// Its footer, without the bloom filter.
    pub footer: ParquetMetaData,
}

/// A data file that an action is writing.
pub(crate) struct NewFile {
    /// Its name.
    pub name: String,
    /// Its path in the table.
    pub path: String,
    marker: MarkerType,
    started: Stopwatch,
    /// Its write stat, before anything is counted.
    stat: WriteStat,
}

impl NewFile {
    /// The first base file of a file group; `token` is the write token.
    pub(crate) fn first(files: &DataFiles, partition: &str, file_id: &str, token: &str) -> Self {
        let name = BaseFile::file_name(file_id, token, files.instant());
        Self::new(partition, file_id, name, MarkerType::Create)
    }

    /// The next base file of a file group.
    pub(crate) fn next(files: &DataFiles, slice: &FileSlice, token: &str) -> Self {
        let name = BaseFile::file_name(&slice.file_id, token, files.instant());
        let marker = if slice.base.is_some() { MarkerType::Merge } else { MarkerType::Create };
        let mut file = Self::new(&slice.partition, &slice.file_id, name, marker);
        file.stat.prev_commit = Some(slice.base_instant.clone());
        file.stat.prev_base_file = slice.base.as_ref().map(|base| base.name().to_owned());
        file
    }

    /// A log file that is added to a file slice. Its write stat names the files of the slice before it: for Hudi's readers
    /// of changes these are the rows before the write.
    pub(crate) fn added_log(files: &DataFiles, slice: &FileSlice, version: u32, token: &str) -> Self {
        let mut file = Self::log(files, slice, version, token);
        let before = slice.logs.iter().rev().filter_map(|log| log.path.rsplit('/').next());
        // As Hudi says of them, newest first.
        file.stat.prev_commit = slice.base.as_ref().map(|base| base.instant.clone()).or(file.stat.prev_commit);
        file.stat.log_files = Some(before.map(str::to_owned).chain([file.name.clone()]).collect());
        file
    }

    /// A log file of a file slice.
    pub(crate) fn log(files: &DataFiles, slice: &FileSlice, version: u32, token: &str) -> Self {
        let name = LogFile::file_name(&slice.file_id, files.instant(), version, token);
        let mut file = Self::new(&slice.partition, &slice.file_id, name, MarkerType::Create);
        file.stat = WriteStat {
            prev_commit: Some(files.instant().to_owned()),
            log_version: i32::try_from(version).ok(),
            log_offset: Some(0),
            base_file: Some(slice.base.as_ref().map_or_else(String::new, |base| base.name().to_owned())),
            log_files: Some(vec![file.name.clone()]),
            ..file.stat
        };
        file
    }

    fn new(partition: &str, file_id: &str, name: String, marker: MarkerType) -> Self {
        let path = join(partition, &name);
        let stat = WriteStat { path: Some(path.clone()), ..empty_stat(partition, file_id) };
        Self { name, path, marker, started: Stopwatch::now(), stat }
    }

    /// Marks the file and begins it. `is_new_partition`: its partition may have no metadata file yet.
    ///
    /// # Errors
    /// Those of [`DataFiles::create`].
    pub(crate) fn create(&self, files: &DataFiles, is_new_partition: bool) -> Result<FileWriter> {
        match (&self.stat.partition_path, is_new_partition) {
            (Some(partition), true) => files.create_in_partition(partition, &self.path, self.marker),
            _ => files.create(&self.path, self.marker),
        }
    }

    /// Ends a base file and publishes it; `counts` says what became of its records, by their number.
    ///
    /// # Errors
    /// Those of [`BaseFileWriter::finish`] and [`NewFile::publish`].
    pub(crate) fn finish(
        self,
        files: &DataFiles,
        writer: BaseFileWriter<FileWriter>,
        counts: impl FnOnce(u64) -> MergeCounts,
    ) -> Result<WrittenFile> {
        let indexed = writer.indexed_columns();
        let (sink, written, footer) = writer.finish_with_footer().map_err(|e| e.with("file", &self.path))?;
        let ranges = indexed.map(|columns| ranges_of_footer(&footer, &columns));
        let stat = self.publish(files, sink, written.rows, counts(written.rows), ranges)?;
        Ok(WrittenFile { stat, footer })
    }

    /// Publishes the file, unless the action ended meanwhile. Returns its write stat: `written` records are
    /// in it, and `counts` says what became of which. `ranges`: those of its columns, if they are indexed.
    ///
    /// # Errors
    /// Those of [`DataFiles::publish`].
    pub(crate) fn publish(
        mut self,
        files: &DataFiles,
        sink: FileWriter,
        written: u64,
        counts: MergeCounts,
        ranges: Option<FileRanges>,
    ) -> Result<WriteStat> {
        let bytes = stat_count(files.publish(&self.path, self.marker, sink)?);
        if let Some(runtime) = &mut self.stat.runtime_stats {
            let elapsed = i64::try_from(self.started.elapsed().as_millis()).ok();
            let is_first = self.marker == MarkerType::Create && self.stat.log_files.is_none();
            *(if is_first { &mut runtime.total_create_time } else { &mut runtime.total_upsert_time }) = elapsed;
        }
        Ok(WriteStat {
            num_writes: stat_count(written),
            num_inserts: stat_count(counts.inserted),
            num_update_writes: stat_count(counts.updated),
            num_deletes: stat_count(counts.deleted),
            total_write_bytes: bytes,
            file_size_in_bytes: bytes,
            column_ranges: ranges.map(SharedRanges::from),
            ..self.stat
        })
    }
}

/// Paths of the files that write stats name, change data logs among them.
pub(crate) fn reported_files(stats: &[WriteStat]) -> HashSet<&str> {
    let logs = stats.iter().flat_map(|stat| &stat.cdc_stats).flat_map(|logs| logs.keys());
    stats.iter().filter_map(|stat| stat.path.as_deref()).chain(logs.map(String::as_str)).collect()
}

/// A count of a write stat.
pub(crate) fn stat_count(n: u64) -> Option<i64> {
    Some(i64::try_from(n).unwrap_or(i64::MAX))
}

/// A write stat whose counts are zero, as Hudi writes them, and not null.
pub(crate) fn empty_stat(partition: &str, file_id: &str) -> WriteStat {
    let zero = Some(0);
    WriteStat {
        file_id: Some(file_id.to_owned()),
        partition_path: Some(partition.to_owned()),
        prev_commit: Some("null".into()),
        num_writes: zero,
        num_deletes: zero,
        num_update_writes: zero,
        total_write_bytes: zero,
        total_write_errors: zero,
        total_log_records: zero,
        total_updated_records_compacted: zero,
        num_inserts: zero,
        total_log_blocks: zero,
        total_corrupt_log_block: zero,
        total_rollback_blocks: zero,
        file_size_in_bytes: zero,
        total_log_files_compacted: zero,
        total_log_read_time_ms: zero,
        total_log_size_compacted: zero,
        num_updates: zero,
        runtime_stats: Some(RuntimeStats { total_scan_time: zero, total_create_time: zero, total_upsert_time: zero }),
        ..Default::default()
    }
}

/// The commit metadata of an operation that wrote these files; `columns` become the table's.
///
/// # Errors
/// `Schema` for columns that Avro does not have.
pub(crate) fn commit_metadata(
    table: &HudiTable,
    operation: &str,
    stats: &[WriteStat],
    columns: &Schema,
) -> Result<CommitMetadata> {
    let mut by_partition: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
    for stat in stats {
        let stat = WriteStat { column_ranges: None, ..stat.clone() };
        by_partition.entry(stat.partition_path.clone().unwrap_or_default()).or_default().push(stat);
    }
    let avro = table_schema_to_avro(columns, table.config().name(), false)?;
    let extra = (!columns.fields().is_empty()).then(|| ("schema".to_owned(), avro));
    Ok(CommitMetadata {
        partition_to_write_stats: by_partition,
        compacted: Some(false),
        extra_metadata: extra.into_iter().collect(),
        version: None,
        operation_type: Some(operation.to_owned()),
    })
}
