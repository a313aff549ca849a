//! One operation of a plan: the files of a slice become one.
//!
//! A compaction goes row group by row group, a column at a time: what no log record changes is copied as it is. Which
//! records win is decided from the columns that merging compares; where rules make records of two, all columns of a row
//! group are read first. The rest is the work of the file group merger. Row groups that are too large for that are read
//! and written in batches.

use std::sync::Arc;
use std::time::{Duration, Instant as Stopwatch};

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;

use super::super::planned_files::has_rows;
use super::super::schema_at;
use super::log_compaction::MergedLog;
use super::plan::Kind;
use super::task::CompactionTask;
use crate::error::{Error, Result};
use crate::file_group::base::{
    BaseFileOptions, BaseFileReader, BaseFileWriter, RECORD_KEY_COLUMN, Splice, fills_up, read_bytes,
    read_column_batches,
};
use crate::file_group::log::{BlockFormat, BlockSettings};
use crate::file_group::{BaseFile, FileSlice, LogFile, join};
use crate::format::avro::metadata::{CompactionOperation, RuntimeStats, WriteStat};
use crate::format::log::HeaderKey;
use crate::merge::MergeCounts;
use crate::metadata_table::column_ranges::BatchRanges;
use crate::storage::{FileMeta, FileReader, FileWriter};
use crate::table::file_group_merger::{
    ColumnValues, FileGroupMerger, MergedRowGroup, MergedRows, NewerStrings, Target,
};
use crate::table::file_group_reader::{FileGroupReader, LogCounts, MergedLogs, SliceMerge};
use crate::table::{HudiTable, TableSchema, TableView, open_base};
use crate::transaction::{ChangeLog, ChangeLogSettings, DataFiles, FILE_NAME, NewFile, stat_count};

/// Bytes of a row group, however small the budget is.
const LEAST_ROW_GROUP: usize = 1 << 20;

/// What all operations of a plan share.
pub(super) struct Unit<'a> {
    table: &'a HudiTable,
    view: &'a TableView,
    instant: &'a str,
    reader: FileGroupReader,
    schema: SchemaRef,
    options: BaseFileOptions,
    /// Columns that the record key spells.
    key_columns: Vec<String>,
    changes: Option<ChangeLogSettings>,
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
        let TableSchema { data, history } = schema_at(table, view, instant)?;
        let key_columns = table.key_config()?.exact_key_columns(&data);
        let (schema, mut options) = table.file_settings(&data)?;
        options.threads = (table.threads()? / operations.max(1)).max(1);
        let changes = ChangeLogSettings::new(table, &schema)?;
        let timeline = Arc::new(view.timeline().clone());
        let reader = table.file_group_reader(timeline, schema.clone(), history.as_ref())?;
        // Besides the records, the row group that is written is in memory.
        options.row_group_bytes = options.row_group_bytes.min((reader.budget() / 4).max(LEAST_ROW_GROUP));
        Ok(Self { table, view, instant, reader, schema, options, key_columns, changes, files })
    }

    /// Executes a task; `token` is the write token that the engine has for this attempt of the task.
    pub(super) fn run(&self, task: &CompactionTask, token: &str) -> Result<WriteStat> {
        let token = task.token(token)?;
        match task.kind {
            Kind::Base => self.compact(&task.operation, &token),
            Kind::Log => self.compact_logs(&task.operation, &token),
        }
    }

    fn compact(&self, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        let started = Stopwatch::now();
        let slice = self.slice(operation)?;
        let named = |e: Error| e.with("file group", &slice.file_id);
        let file = NewFile::next(&self.files, &slice, token);
        let sink = file.create(&self.files, false)?;
        let mut writer = BaseFileWriter::try_new(sink, self.schema.clone(), self.options.clone())?;
        if self.table.config().populates_meta_fields() {
            writer.set_constant(FILE_NAME, file.name.clone());
        }
        let mut logs = self.reader.merged_logs(&slice, &self.schema).map_err(named)?;
        let read = started.elapsed();
        let counts = logs.counts;
        let changes = self.changes.as_ref();
        let mut changes = changes.map(|settings| ChangeLog::new(settings, &self.files, &slice, token, &[]));
        let merged = match self.old_file(&slice, &logs).map_err(named)? {
            Some((reader, how)) => {
                let output = Output { writer: &mut writer, changes: changes.as_mut(), name: &file.name };
                splice(&reader, &how, output, &mut logs, self).map_err(named)?;
                logs.merge.counts()
            }
            None => {
                let mut rows = self.reader.rows(&slice, logs).map_err(named)?;
                while let Some(batch) =
                    rows.next_merged(&mut |merge| log_changes(&mut changes, &merge)).map_err(named)?
                {
                    writer.write(&batch)?;
                }
                rows.merged()
            }
        };
        let cdc_stats = changes.map(ChangeLog::finish).transpose()?;
        let stat = WriteStat { cdc_stats, ..file.finish(&self.files, writer, |_| merged)?.stat };
        Ok(compacted(stat, &slice, counts, counts.records, read, started))
    }

    /// The base file of a slice, where its row groups can be taken over.
    fn old_file(&self, slice: &FileSlice, logs: &MergedLogs) -> Result<Option<(BaseFileReader<FileReader>, Splice)>> {
        let Some(base) = &slice.base else { return Ok(None) };
        let reader = open_base(self.table.storage(), base, self.reader.history())?;
        let how = can_splice(&reader, logs, self)?;
        Ok(how.map(|how| (reader, how)))
    }

    /// Merges the log files of a slice with each other.
    fn compact_logs(&self, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        let started = Stopwatch::now();
        let slice = self.slice(operation)?;
        let named = |e: Error| e.with("file group", &slice.file_id);
        let file = NewFile::log(&self.files, &slice, 1, token);
        let sink = file.create(&self.files, false)?;
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
        let mut ranges = self.log_ranges()?;
        let written = merged.write(sink, self.instant, &settings, &log.parts, ranges.as_mut());
        let (sink, written, deleted) = written.map_err(named)?;
        let merged = MergeCounts { updated: written, deleted, inserted: 0 };
        let stat = file.publish(&self.files, sink, written, merged, ranges.map(BatchRanges::finish))?;
        Ok(compacted(stat, &slice, log.counts, written, read, started))
    }

    /// Collects the ranges of a log file, where columns are indexed.
    fn log_ranges(&self) -> Result<Option<BatchRanges>> {
        let Some(columns) = &self.options.indexed_columns else { return Ok(None) };
        let mut ranges = BatchRanges::new(&self.schema, columns);
        if self.table.merge_settings()?.rule.picks().is_none() {
            ranges.set_partial();
        }
        Ok(Some(ranges))
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
        let logs = operation.delta_file_paths.iter().flatten().filter(|name| has_rows(name));
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

/// The new base file.
struct Output<'w, 'c> {
    writer: &'w mut BaseFileWriter<FileWriter>,
    changes: Option<&'w mut ChangeLog<'c>>,
    name: &'w str,
}

/// Logs what became of some rows, where the table captures changes.
fn log_changes(changes: &mut Option<ChangeLog<'_>>, merge: &SliceMerge<'_>) -> Result<()> {
    match (changes, merge) {
        (None, _) => Ok(()),
        (Some(changes), SliceMerge::Stored { rows, chosen, newer }) => changes.merged(rows, chosen, newer),
        (Some(changes), SliceMerge::New(rows)) => changes.inserted(rows.columns()),
    }
}

/// How row groups of the old file can be taken over; `None` where they are better written anew: they are cut otherwise,
/// or what of one is decoded at a time is more than the budget.
fn can_splice(reader: &BaseFileReader<FileReader>, logs: &MergedLogs, unit: &Unit<'_>) -> Result<Option<Splice>> {
    let groups = reader.metadata().row_groups();
    let largest = groups.iter().flat_map(|group| group.columns()).map(read_bytes).max().unwrap_or_default();
    // As it was, as it is to be, and encoded.
    let one_each = largest.saturating_mul(3).saturating_mul(unit.options.threads.max(1) as u64);
    let all = match logs.merge.keeps_one() {
        true => 0,
        false => groups.iter().map(|group| group.columns().iter().map(read_bytes).sum()).max().unwrap_or_default(),
    };
    if logs.merge.has_large_records() || one_each.saturating_add(all) > unit.reader.budget() as u64 {
        return Ok(None);
    }
    Splice::new(reader, &unit.schema, &unit.options)
}

/// Writes the row groups of the old file with the log records merged into them, and new records behind.
fn splice(
    reader: &BaseFileReader<FileReader>,
    splice: &Splice,
    output: Output<'_, '_>,
    logs: &mut MergedLogs,
    unit: &Unit<'_>,
) -> Result<()> {
    let Output { writer, mut changes, name } = output;
    let keeps_one = logs.merge.keeps_one();
    let compared = if keeps_one { logs.settings.compared_columns(&unit.schema) } else { logs.columns.clone() };
    // A merger may delete what neither record did; the filter then stands for some keys more.
    let keeps_keys = keeps_one && !logs.merge.has_deletes();
    let target = target(unit, keeps_one, name);
    let mut merger = FileGroupMerger::new(reader, splice, writer, &target, keeps_keys)?;
    let strings = NewerStrings::new(target.schema.fields().len(), unit.reader.budget());
    let groups = reader.row_groups();
    for (index, info) in groups.iter().enumerate() {
        let mut rows = Vec::new();
        for batch in read_column_batches(reader, &compared, index)? {
            let (settings, keys) = (&logs.settings, logs.settings.keys(&batch)?);
            let chosen = logs.merge.choose(&batch, &keys, &|batch| settings.ordering(batch))?;
            rows.push(MergedRows { rows: batch.num_rows(), known: Some(batch), chosen });
        }
        let mut appended = Vec::new();
        if index + 1 == groups.len() && fills_up(info.rows, logs.merge.unmet(), target.options) {
            while let Some(batch) = logs.merge.next_new()? {
                appended.push(batch);
            }
        }
        let newer: Vec<&[ArrayRef]> = logs.merge.parts().collect();
        if let Some(changes) = &mut changes {
            changes.row_group(reader, index, &rows, &newer)?;
            appended.iter().try_for_each(|batch| changes.inserted(batch.columns()))?;
        }
        let appended = appended.iter().map(|batch| batch.columns()).collect();
        merger.row_group(&MergedRowGroup { index, rows, newer, strings: &strings, appended })?;
    }
    while let Some(batch) = logs.merge.next_new()? {
        if let Some(changes) = &mut changes {
            changes.inserted(batch.columns())?;
        }
        merger.append(&batch)?;
    }
    merger.finish()
}

fn target<'u>(unit: &'u Unit<'_>, keeps_one: bool, file_name: &str) -> Target<'u> {
    let populate_meta = unit.table.config().populates_meta_fields();
    let values = |(column, name): (usize, &String)| match () {
        () if populate_meta && column == FILE_NAME => ColumnValues::Constant(file_name.to_owned()),
        // What is made of two records may say anything.
        () if !keeps_one => ColumnValues::Merged,
        () if populate_meta && name == RECORD_KEY_COLUMN || unit.key_columns.contains(name) => ColumnValues::OfKey,
        () => ColumnValues::Merged,
    };
    let columns = unit.schema.fields().iter().map(|field| field.name()).enumerate().map(values).collect();
    Target { schema: &unit.schema, options: &unit.options, threads: unit.options.threads, populate_meta, columns }
}

/// Adds the counts of a compaction to a write stat: what it read, and how many log records changed something.
fn compacted(
    stat: WriteStat,
    slice: &FileSlice,
    log: LogCounts,
    updated: u64,
    read: Duration,
    started: Stopwatch,
) -> WriteStat {
    let milliseconds = |time: Duration| i64::try_from(time.as_millis()).ok();
    let files = stat_count(slice.logs.len() as u64);
    WriteStat {
        prev_commit: Some(slice.base_instant.clone()),
        total_log_records: stat_count(log.records),
        total_log_files: files,
        total_log_files_compacted: files,
        total_log_blocks: stat_count(log.blocks),
        total_log_size_compacted: stat_count(slice.logs.iter().map(|l| l.size).sum()),
        total_log_read_time_ms: milliseconds(read),
        total_updated_records_compacted: stat_count(updated),
        runtime_stats: Some(RuntimeStats {
            total_scan_time: milliseconds(read),
            total_create_time: Some(0),
            total_upsert_time: milliseconds(started.elapsed()),
        }),
        ..stat
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
