//! One operation of a plan: the files of a slice become one.

use std::sync::Arc;
use std::time::{Duration, Instant as Stopwatch};

use arrow::datatypes::SchemaRef;

use super::super::schema_of;
use super::super::task_files::set_file_name;
use super::log_compaction::MergedLog;
use super::plan::Kind;
use super::splice::{can_splice, splice};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileReader, BaseFileWriter, Splice};
use crate::file_group::log::{BlockFormat, BlockSettings};
use crate::file_group::markers::MarkerType;
use crate::file_group::{BaseFile, FileSlice, LogFile, join};
use crate::format::avro::metadata::{CompactionOperation, RuntimeStats, WriteStat};
use crate::format::log::HeaderKey;
use crate::storage::{FileMeta, FileReader};
use crate::table::slice_reader::{LogCounts, MergedLogs, SliceReader};
use crate::table::{HudiTable, TableView};
use crate::transaction::DataFiles;

/// Bytes of a row group, however small the budget is.
const LEAST_ROW_GROUP: usize = 1 << 20;

/// What all operations of a plan share.
pub(super) struct Unit<'a> {
    pub(super) table: &'a HudiTable,
    view: &'a TableView,
    instant: &'a str,
    pub(super) reader: SliceReader,
    pub(super) schema: SchemaRef,
    pub(super) options: BaseFileOptions,
    /// Columns that the record key spells.
    pub(super) key_columns: Vec<String>,
    files: Arc<DataFiles>,
}

impl<'a> Unit<'a> {
    pub(super) fn new(
        table: &'a HudiTable,
        files: Arc<DataFiles>,
        view: &'a TableView,
        instant: &'a str,
        operations: usize,
    ) -> Result<Self> {
        let data = schema_of(table, view)?.data;
        let key_columns = table.key_config()?.exact_key_columns(&data);
        let (schema, mut options) = table.file_settings(&data)?;
        options.threads = (table.threads()? / operations.max(1)).max(1);
        let timeline = Arc::new(view.timeline().clone());
        let reader = table.slice_reader(timeline, schema.clone())?;
        // Besides the records, the row group that is written is in memory.
        options.row_group_bytes = options.row_group_bytes.min((reader.budget() / 4).max(LEAST_ROW_GROUP));
        Ok(Self { table, view, instant, reader, schema, options, key_columns, files })
    }

    pub(super) fn run(&self, kind: Kind, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        match kind {
            Kind::Base => self.compact(operation, token),
            Kind::Log => self.compact_logs(operation, token),
        }
    }

    fn compact(&self, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        let started = Stopwatch::now();
        let slice = self.slice(operation)?;
        let named = |e: Error| e.with("file group", &slice.file_id);
        let name = BaseFile::file_name(&slice.file_id, token, self.instant);
        let path = join(&slice.partition, &name);
        let kind = if slice.base.is_some() { MarkerType::Merge } else { MarkerType::Create };
        let sink = self.files.create(&path, kind)?;
        let mut writer = BaseFileWriter::try_new(sink, self.schema.clone(), self.options.clone())?;
        set_file_name(self.table, &mut writer, &name);
        let mut logs = self.reader.merged_logs(&slice, &self.schema).map_err(named)?;
        let read = started.elapsed();
        let counts = logs.counts;
        let merged = match self.old_file(&slice, &logs).map_err(named)? {
            Some((reader, how)) => {
                splice(&reader, &how, &mut writer, &mut logs, self, &name).map_err(named)?;
                logs.merge.counts()
            }
            None => {
                let mut rows = self.reader.rows(&slice, logs).map_err(named)?;
                for batch in &mut rows {
                    writer.write(&batch.map_err(named)?)?;
                }
                rows.merged()
            }
        };
        let (sink, written) = writer.finish().map_err(|e| e.with("file", &path))?;
        let bytes = self.files.publish(&path, kind, sink)?;
        Ok(WriteStat {
            prev_base_file: slice.base.as_ref().map(|b| b.name().to_owned()),
            num_writes: count(written.rows),
            num_update_writes: count(merged.updated),
            num_deletes: count(merged.deleted),
            num_inserts: count(merged.inserted),
            total_updated_records_compacted: count(counts.records),
            ..stat(&slice, path, bytes, counts, read, started)
        })
    }

    /// The base file of a slice, where its row groups can be taken over.
    fn old_file(&self, slice: &FileSlice, logs: &MergedLogs) -> Result<Option<(BaseFileReader<FileReader>, Splice)>> {
        let Some(base) = &slice.base else { return Ok(None) };
        let reader = BaseFileReader::open(self.table.storage().reader(&base.path, base.size)?)?;
        let how = can_splice(&reader, logs, self)?;
        Ok(how.map(|how| (reader, how)))
    }

    /// Merges the log files of a slice with each other.
    fn compact_logs(&self, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        let started = Stopwatch::now();
        let slice = self.slice(operation)?;
        let named = |e: Error| e.with("file group", &slice.file_id);
        let name = LogFile::file_name(&slice.file_id, self.instant, 1, token);
        let path = join(&slice.partition, &name);
        let sink = self.files.create(&path, MarkerType::Create)?;
        let log = self.reader.read_logs(&slice).map_err(named)?;
        let read = started.elapsed();
        let options = self.table.options();
        let settings = BlockSettings {
            format: BlockFormat::parse(options.get("hoodie.logfile.data.block.format").unwrap_or("avro"))?,
            block_bytes: options.number("hoodie.logfile.data.block.max.size", 256usize << 20)?.max(1),
            parquet: self.options.clone(),
            header: vec![(HeaderKey::CompactedBlockTimes, log.instants.join(","))],
            positions_in: None,
        };
        let merged =
            MergedLog { schema: self.schema.clone(), table: self.table.config().name(), partition: &slice.partition };
        let (sink, written, deleted) = merged.write(sink, self.instant, &settings, &log.parts).map_err(named)?;
        let bytes = self.files.publish(&path, MarkerType::Create, sink)?;
        Ok(WriteStat {
            num_writes: count(written),
            num_update_writes: count(written),
            num_deletes: count(deleted),
            log_version: Some(1),
            log_offset: Some(0),
            base_file: Some(slice.base.as_ref().map_or_else(String::new, |b| b.name().to_owned())),
            log_files: Some(vec![name]),
            total_updated_records_compacted: count(written),
            ..stat(&slice, path, bytes, log.counts, read, started)
        })
    }

    /// The files that the plan names, as they are now.
    fn slice(&self, operation: &CompactionOperation) -> Result<FileSlice> {
        let partition = operation.partition_path.clone().unwrap_or_default();
        let missing = |name: &str| {
            Error::corrupt("a planned compaction names a file that is not there")
                .with("table", self.table.storage().uri())
                .with("instant", self.instant)
                .with("file", join(&partition, name))
        };
        // Older plans have whole paths.
        let file = |name: &str| -> Result<FileMeta> {
            let name = name.rsplit('/').next().unwrap_or(name);
            self.view.file(&join(&partition, name))?.ok_or_else(|| missing(name))
        };
        let base = operation.data_file_path.as_deref().filter(|name| !name.is_empty());
        let base = base.map(|name| BaseFile::parse(&file(name)?).ok_or_else(|| missing(name))).transpose()?;
        let logs = operation.delta_file_paths.iter().flatten();
        let logs = logs.map(|name| LogFile::parse(&file(name)?).ok_or_else(|| missing(name)));
        let logs = logs.collect::<Result<Vec<_>>>()?;
        let file_id = operation.file_id.clone().unwrap_or_default();
        check_group(&file_id, base.as_ref(), &logs)
            .map_err(|e| e.with("table", self.table.storage().uri()).with("instant", self.instant))?;
        Ok(FileSlice {
            file_id,
            base_instant: operation.base_instant_time.clone().unwrap_or_default(),
            base,
            logs,
            partition,
        })
    }
}

fn count(n: u64) -> Option<i64> {
    Some(i64::try_from(n).unwrap_or(i64::MAX))
}

fn milliseconds(time: Duration) -> Option<i64> {
    i64::try_from(time.as_millis()).ok()
}

/// What both kinds of compaction say about a file: Hudi's counters, zero where nothing was counted.
fn stat(slice: &FileSlice, path: String, bytes: u64, log: LogCounts, read: Duration, started: Stopwatch) -> WriteStat {
    WriteStat {
        path: Some(path),
        prev_commit: Some(slice.base_instant.clone()),
        total_write_bytes: count(bytes),
        file_size_in_bytes: count(bytes),
        total_log_records: count(log.records),
        total_log_files: count(slice.logs.len() as u64),
        total_log_files_compacted: count(slice.logs.len() as u64),
        total_log_blocks: count(log.blocks),
        total_log_size_compacted: count(slice.logs.iter().map(|l| l.size).sum()),
        total_log_read_time_ms: milliseconds(read),
        runtime_stats: Some(RuntimeStats {
            total_scan_time: milliseconds(read),
            total_create_time: Some(0),
            total_upsert_time: milliseconds(started.elapsed()),
        }),
        num_inserts: Some(0),
        num_updates: Some(0),
        total_write_errors: Some(0),
        total_corrupt_log_block: Some(0),
        total_rollback_blocks: Some(0),
        file_id: Some(slice.file_id.clone()),
        partition_path: Some(slice.partition.clone()),
        ..Default::default()
    }
}

/// Checks that the files of a planned slice are of the file group that the plan names: what is written takes the place of
/// that group, and the rows of another one would be there twice.
///
/// # Errors
/// `Corrupt` when one is not.
fn check_group(file_id: &str, base: Option<&BaseFile>, logs: &[LogFile]) -> Result<()> {
    let base = base.map(|base| (base.file_id.as_str(), base.path.as_str()));
    let logs = logs.iter().map(|log| (log.file_id.as_str(), log.path.as_str()));
    match base.into_iter().chain(logs).find(|(id, _)| *id != file_id) {
        Some((_, path)) => Err(Error::corrupt(format!("a plan names a file of another file group than '{file_id}'"))
            .with("file", path)
            .remedy("The plan cannot be carried out: roll it back, and plan anew")),
        None => Ok(()),
    }
}
