//! Putting a plan on the timeline, and carrying one out.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant as Stopwatch;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

use super::super::{BeforeComplete, read_plan, settle_metadata_table};
use super::log_compaction::MergedLog;
use super::plan::{CompactionOptions, Kind, plan_compaction, plan_log_compaction};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
use crate::file_group::log::{BlockFormat, BlockSettings};
use crate::file_group::markers::{MarkerType, create_marker, delete_markers, remove_unreported_files};
use crate::file_group::{BaseFile, FileSlice, LogFile, join};
use crate::format::avro::metadata::{
    CommitMetadata, CompactionOperation, CompactionPlan, RuntimeStats, WriteStat, encode,
};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::instant::{Action, Instant, State};
use crate::format::log::HeaderKey;
use crate::parallel::run_parallel;
use crate::storage::FileMeta;
use crate::table::commit_metadata::read_write_metadata;
use crate::table::slice_reader::SliceReader;
use crate::table::{HudiTable, META_COLUMNS, TableSchema, TableType, TableView, planned_groups};
use crate::timeline::{Timeline, TimelineWriter};

/// Actions whose plans keep a file group from being compacted.
const PLANS: [Action; 4] = [Action::Compaction, Action::LogCompaction, Action::Clustering, Action::ReplaceCommit];
/// Place of the file name among the meta columns.
const FILE_NAME: usize = META_COLUMNS.len() - 1;

/// What a compaction did.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// What was compacted.
    pub kind: Kind,
    /// Requested time of its instant.
    pub instant: String,
    /// Completion time.
    pub completed: String,
    /// The files that were written.
    pub stats: Vec<WriteStat>,
}

/// Requested times of compactions that are planned, oldest first.
pub fn pending(table: &HudiTable, kind: Kind) -> Result<Vec<String>> {
    let timeline = table.timeline()?;
    Ok(timeline.pending().filter(|i| i.action == kind.action()).map(|i| i.requested.clone()).collect())
}

/// Whether a compaction is due by the options.
pub fn due(table: &HudiTable, kind: Kind) -> Result<bool> {
    let options = CompactionOptions::from_options(table.options())?;
    let timeline = table.timeline()?;
    match kind {
        Kind::Base => Ok(options.is_due(&timeline, table.config().timeline().zone, table.clock().now_ms())),
        Kind::Log => Ok(since_compaction(table, &timeline)?.0 >= options.log_threshold),
    }
}

/// Delta commits since the last compaction, of logs or of all: how many, and the requested time of the log compaction.
fn since_compaction(table: &HudiTable, timeline: &Timeline) -> Result<(usize, Option<String>)> {
    let compacted = timeline.completed(Action::Commit).next_back().map(|i| i.requested.as_str());
    let mut since = 0;
    for instant in timeline.completed(Action::DeltaCommit).rev() {
        if compacted.is_some_and(|compacted| instant.requested.as_str() <= compacted) {
            break;
        }
        let metadata = read_write_metadata(table.storage(), timeline, instant)?;
        if metadata.operation_type.as_deref() == Some(Kind::Log.operation()) {
            return Ok((since, Some(instant.requested.clone())));
        }
        since += 1;
    }
    Ok((since, None))
}

/// Plans a compaction of all slices that have log files; `None` when there is none, or other plans take them all.
///
/// # Errors
/// `Unsupported` for a copy-on-write table; `InvalidOption`; `Storage`.
pub fn schedule(table: &HudiTable, kind: Kind) -> Result<Option<String>> {
    if table.config().table_type() != TableType::MergeOnRead {
        return Err(Error::unsupported("only merge-on-read tables have something to compact")
            .with("table", table.storage().uri()));
    }
    let options = CompactionOptions::from_options(table.options())?;
    let writer = table.timeline_writer()?;
    // Looked at first, and without a lock: most often there is nothing to do.
    if plan_now(table, &table.timeline()?, &options, kind)?.is_none() {
        return Ok(None);
    }
    let mut nothing_left = false;
    let requested = writer.request(kind.action(), |time| {
        let timeline = table.timeline()?;
        // Completed before the plan: what completes later belongs to the next slice.
        let plan = plan_now(table, &timeline, &options, kind)?;
        nothing_left = plan.is_none();
        let plan = plan.ok_or_else(|| Error::conflict("the slices were compacted meanwhile").with("instant", time))?;
        encode(&plan)
    });
    match requested {
        Err(_) if nothing_left => Ok(None),
        other => other.map(|instant| Some(instant.requested)),
    }
}

fn plan_now(
    table: &HudiTable,
    timeline: &Timeline,
    options: &CompactionOptions,
    kind: Kind,
) -> Result<Option<CompactionPlan>> {
    let view = TableView::new(table.storage().clone(), timeline.clone())?;
    let busy = planned_groups(table.storage(), timeline, &PLANS)?;
    let slices = view.all_latest_slices()?;
    Ok(match kind {
        Kind::Base => plan_compaction(slices, &busy, options),
        Kind::Log => {
            let (_, compacted) = since_compaction(table, timeline)?;
            plan_log_compaction(slices, &busy, options.log_threshold, compacted.as_deref())
        }
    })
}

/// Carries out the plan with this requested time. A try that died is taken back first. `None` when the plan is an empty
/// file, which is then removed.
///
/// # Errors
/// `InvalidOption` when there is no such plan; `Corrupt`; `Conflict` when another process completed it; `Storage`.
pub fn run(table: &HudiTable, requested: &str, before_complete: BeforeComplete<'_>) -> Result<Option<Compacted>> {
    let Some(job) = CompactionJob::begin(table, requested)? else { return Ok(None) };
    let unit = Unit::new(table, requested, job.operations.len(), false)?;
    let numbered: Vec<(usize, &CompactionOperation)> = job.operations.iter().enumerate().collect();
    let stats = run_parallel(numbered, table.threads()?, |(task, operation)| {
        unit.run(job.kind, operation, &format!("{task}-0-0"))
    })?;
    job.complete(stats, before_complete).map(Some)
}

/// A compaction under way, whose operations may be carried out by several processes.
pub struct CompactionJob {
    table: HudiTable,
    writer: TimelineWriter,
    instant: Instant,
    kind: Kind,
    /// What is to be done, each by itself.
    pub operations: Vec<CompactionOperation>,
}

impl CompactionJob {
    /// Begins the plan with this requested time; a try that died is taken back first. `None` when the plan is an empty
    /// file, which is then removed.
    ///
    /// # Errors
    /// Those of [`run`].
    pub fn begin(table: &HudiTable, requested: &str) -> Result<Option<Self>> {
        let writer = table.timeline_writer()?;
        let timeline = writer.load()?;
        let kinds = [Kind::Base, Kind::Log];
        let known =
            timeline.pending().find(|i| i.requested == requested && kinds.iter().any(|k| k.action() == i.action));
        let kind = if known.is_some_and(|i| i.action == Kind::Log.action()) { Kind::Log } else { Kind::Base };
        let mut instant = known.cloned().ok_or_else(|| {
            Error::invalid_option("there is no planned compaction with this time")
                .with("table", table.storage().uri())
                .with("instant", requested)
                .remedy("Look at the timeline for the requested times of pending compactions")
        })?;
        let Some(plan) = read_plan::<CompactionPlan>(table.storage(), &writer, &timeline, &instant)? else {
            return Ok(None);
        };
        let operations = plan.operations.unwrap_or_default();
        if instant.state == State::Inflight {
            take_back(table, &writer, &instant, &operations)?;
            instant = Instant { state: State::Requested, ..instant };
        }
        let instant = writer.start(&instant, Vec::new())?;
        Ok(Some(Self { table: table.clone(), writer, instant, kind, operations }))
    }

    /// Requested time.
    pub fn instant(&self) -> &str {
        &self.instant.requested
    }

    /// What is compacted.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Publishes the files that `stats` name. Files of attempts that no stat names are removed first.
    ///
    /// # Errors
    /// `Conflict` when another process completed it; `Storage`.
    pub fn complete(self, stats: Vec<WriteStat>, before_complete: BeforeComplete<'_>) -> Result<Compacted> {
        let (storage, requested) = (self.table.storage(), &self.instant.requested);
        let mut by_partition: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
        for stat in &stats {
            by_partition.entry(stat.partition_path.clone().unwrap_or_default()).or_default().push(stat.clone());
        }
        let schema = schema_of(&self.table, &TableView::new(storage.clone(), self.writer.load()?)?)?;
        let avro = table_schema_to_avro(&schema.data, self.table.config().name(), false)?;
        let body = encode(&CommitMetadata {
            partition_to_write_stats: by_partition,
            compacted: Some(true),
            extra_metadata: [("schema".to_owned(), avro)].into(),
            version: None,
            operation_type: Some(self.kind.operation().to_owned()),
        })?;
        let reported: HashSet<&str> = stats.iter().filter_map(|s| s.path.as_deref()).collect();
        let done = self.writer.complete(&self.instant, body, |_| {
            remove_unreported_files(storage, requested, &reported)?;
            settle_metadata_table(&self.table, before_complete)
        })?;
        let late = remove_unreported_files(storage, requested, &reported);
        if let Err(e) = late.and_then(|()| delete_markers(storage, requested)) {
            tracing::warn!("markers of {requested} are left behind: {e}");
        }
        Ok(Compacted { kind: self.kind, instant: done.requested, completed: done.completed.unwrap_or_default(), stats })
    }
}

/// Carries out one operation of a compaction that another process began; `token` tells this attempt from others.
///
/// # Errors
/// `Conflict` when the compaction is over; `Corrupt`; `Storage`.
pub fn run_operation(
    table: &HudiTable,
    requested: &str,
    kind: Kind,
    operation: &CompactionOperation,
    token: &str,
) -> Result<WriteStat> {
    Unit::new(table, requested, usize::MAX, true)?.run(kind, operation, token)
}

fn schema_of(table: &HudiTable, view: &TableView) -> Result<TableSchema> {
    TableSchema::resolve(table.config(), view)?.ok_or_else(|| {
        Error::corrupt("the table has a planned compaction, but no commit that tells its columns")
            .with("table", table.storage().uri())
    })
}

/// Removes what a try that died had written.
fn take_back(
    table: &HudiTable,
    writer: &TimelineWriter,
    instant: &Instant,
    operations: &[CompactionOperation],
) -> Result<()> {
    let partitions: HashSet<&str> = operations.iter().map(|o| o.partition_path.as_deref().unwrap_or("")).collect();
    for partition in partitions {
        for file in table.storage().list(partition)?.files {
            let is_log = || LogFile::parse(&file).is_some_and(|log| log.instant == instant.requested);
            if BaseFile::parse(&file).is_some_and(|base| base.instant == instant.requested) || is_log() {
                table.storage().delete(&file.path)?;
            }
        }
    }
    delete_markers(table.storage(), &instant.requested)?;
    writer.revert(instant).map(|_| ())
}

/// What all operations of a plan share.
struct Unit<'a> {
    table: &'a HudiTable,
    instant: &'a str,
    reader: SliceReader,
    schema: SchemaRef,
    options: BaseFileOptions,
    /// Whether another process may end the compaction meanwhile.
    watched: bool,
}

impl<'a> Unit<'a> {
    fn new(table: &'a HudiTable, instant: &'a str, operations: usize, watched: bool) -> Result<Self> {
        let view = table.view(None)?;
        let (schema, mut options) = table.file_settings(&schema_of(table, &view)?.data)?;
        options.threads = (table.threads()? / operations.max(1)).max(1);
        let timeline = Arc::new(view.timeline().clone());
        let reader = table.slice_reader(timeline, schema.clone())?;
        let unit = Self { table, instant, reader, schema, options, watched };
        unit.check_under_way()?;
        Ok(unit)
    }

    fn run(&self, kind: Kind, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        let stat = match kind {
            Kind::Base => self.compact(operation, token),
            Kind::Log => self.compact_logs(operation, token),
        }?;
        // A task that outlived the compaction must not leave a file behind.
        if let (Err(over), Some(path)) = (self.check_under_way(), &stat.path) {
            self.table.storage().delete(path)?;
            delete_markers(self.table.storage(), self.instant)?;
            return Err(over);
        }
        Ok(stat)
    }

    /// Fails when the compaction is over, in a process that did not begin it.
    fn check_under_way(&self) -> Result<()> {
        if !self.watched || self.table.timeline()?.pending().any(|i| i.requested == self.instant) {
            return Ok(());
        }
        Err(Error::conflict("the compaction is over, and a task was still at work")
            .with("table", self.table.storage().uri())
            .with("instant", self.instant))
    }

    fn compact(&self, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        let started = Stopwatch::now();
        let slice = self.slice(operation)?;
        let named = |e: Error| e.with("file group", &slice.file_id);
        let name = BaseFile::file_name(&slice.file_id, token, self.instant);
        let path = join(&slice.partition, &name);
        let storage = self.table.storage();
        let kind = if slice.base.is_some() { MarkerType::Merge } else { MarkerType::Create };
        create_marker(storage, self.instant, &path, kind)?;
        let mut writer = BaseFileWriter::try_new(storage.writer(&path)?, self.schema.clone(), self.options.clone())?;
        let mut rows = self.reader.read(&slice, &self.schema).map_err(named)?;
        let read_ms = started.elapsed().as_millis();
        for batch in &mut rows {
            writer.write(&self.with_file_name(&batch.map_err(named)?, &name)?)?;
        }
        let (sink, written) = writer.finish().map_err(|e| e.with("file", &path))?;
        let bytes = sink.finish()?;
        let (merged, log) = (rows.merged(), rows.counts());
        let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
        let log_bytes = slice.logs.iter().map(|l| l.size).sum();
        let zero = Some(0);
        Ok(WriteStat {
            file_id: Some(slice.file_id.clone()),
            path: Some(path),
            prev_commit: Some(slice.base_instant.clone()),
            prev_base_file: slice.base.as_ref().map(|b| b.name().to_owned()),
            partition_path: Some(slice.partition.clone()),
            num_writes: count(written.rows),
            num_update_writes: count(merged.updated),
            num_deletes: count(merged.deleted),
            num_inserts: count(merged.inserted),
            num_updates: zero,
            total_write_bytes: count(bytes),
            file_size_in_bytes: count(bytes),
            total_write_errors: zero,
            total_log_records: count(log.records),
            total_log_files: count(slice.logs.len() as u64),
            total_log_files_compacted: count(slice.logs.len() as u64),
            total_log_blocks: count(log.blocks),
            total_log_size_compacted: count(log_bytes),
            total_log_read_time_ms: i64::try_from(read_ms).ok(),
            total_updated_records_compacted: count(log.records),
            total_corrupt_log_block: zero,
            total_rollback_blocks: zero,
            runtime_stats: Some(RuntimeStats {
                total_scan_time: i64::try_from(read_ms).ok(),
                total_create_time: zero,
                total_upsert_time: i64::try_from(started.elapsed().as_millis()).ok(),
            }),
            ..Default::default()
        })
    }

    /// Merges the log files of a slice with each other.
    fn compact_logs(&self, operation: &CompactionOperation, token: &str) -> Result<WriteStat> {
        let started = Stopwatch::now();
        let slice = self.slice(operation)?;
        let named = |e: Error| e.with("file group", &slice.file_id);
        let name = LogFile::file_name(&slice.file_id, self.instant, 1, token);
        let path = join(&slice.partition, &name);
        let storage = self.table.storage();
        create_marker(storage, self.instant, &path, MarkerType::Create)?;
        let log = self.reader.read_logs(&slice).map_err(named)?;
        let read_ms = started.elapsed().as_millis();
        let options = self.table.options();
        let settings = BlockSettings {
            format: BlockFormat::parse(options.get("hoodie.logfile.data.block.format").unwrap_or("avro"))?,
            block_bytes: options.number("hoodie.logfile.data.block.max.size", 256usize << 20)?.max(1),
            parquet: self.options.clone(),
            header: vec![(HeaderKey::CompactedBlockTimes, log.instants.join(","))],
        };
        let merged =
            MergedLog { schema: self.schema.clone(), table: self.table.config().name(), partition: &slice.partition };
        let (sink, written, deleted) =
            merged.write(storage.writer(&path)?, self.instant, &settings, &log.parts).map_err(named)?;
        let bytes = sink.finish()?;
        let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
        let zero = Some(0);
        Ok(WriteStat {
            file_id: Some(slice.file_id.clone()),
            path: Some(path),
            prev_commit: Some(slice.base_instant.clone()),
            partition_path: Some(slice.partition.clone()),
            num_writes: count(written),
            num_update_writes: count(written),
            num_deletes: count(deleted),
            num_inserts: zero,
            num_updates: zero,
            total_write_bytes: count(bytes),
            file_size_in_bytes: count(bytes),
            total_write_errors: zero,
            log_version: Some(1),
            log_offset: zero,
            base_file: Some(slice.base.as_ref().map_or_else(String::new, |b| b.name().to_owned())),
            log_files: Some(vec![name]),
            total_log_records: count(log.counts.records),
            total_log_files: count(slice.logs.len() as u64),
            total_log_files_compacted: count(slice.logs.len() as u64),
            total_log_blocks: count(log.counts.blocks),
            total_log_size_compacted: count(slice.logs.iter().map(|l| l.size).sum()),
            total_log_read_time_ms: i64::try_from(read_ms).ok(),
            total_updated_records_compacted: count(written),
            total_corrupt_log_block: zero,
            total_rollback_blocks: zero,
            runtime_stats: Some(RuntimeStats {
                total_scan_time: i64::try_from(read_ms).ok(),
                total_create_time: zero,
                total_upsert_time: i64::try_from(started.elapsed().as_millis()).ok(),
            }),
            ..Default::default()
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
            self.table.storage().head(&join(&partition, name))?.ok_or_else(|| missing(name))
        };
        let base = operation.data_file_path.as_deref().filter(|name| !name.is_empty());
        let base = base.map(|name| BaseFile::parse(&file(name)?).ok_or_else(|| missing(name))).transpose()?;
        let logs = operation.delta_file_paths.iter().flatten();
        let logs = logs.map(|name| LogFile::parse(&file(name)?).ok_or_else(|| missing(name)));
        Ok(FileSlice {
            file_id: operation.file_id.clone().unwrap_or_default(),
            base_instant: operation.base_instant_time.clone().unwrap_or_default(),
            base,
            logs: logs.collect::<Result<_>>()?,
            partition,
        })
    }

    /// Records keep their meta columns, but for the name of the file they are in.
    fn with_file_name(&self, batch: &RecordBatch, name: &str) -> Result<RecordBatch> {
        if !self.table.config().populates_meta_fields() {
            return Ok(batch.clone());
        }
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, batch.num_rows())));
        let columns = batch.columns().iter().enumerate();
        let columns = columns.map(|(i, column)| if i == FILE_NAME { names.clone() } else { column.clone() });
        Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
    }
}
