//! Putting a plan on the timeline, and carrying one out.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant as Stopwatch;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

use super::super::{BeforeComplete, read_plan, settle_metadata_table};
use super::plan::{CompactionOptions, plan_compaction};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
use crate::file_group::markers::{MarkerType, create_marker, delete_markers};
use crate::file_group::{BaseFile, FileSlice, LogFile, join};
use crate::format::avro::metadata::{
    CommitMetadata, CompactionOperation, CompactionPlan, RuntimeStats, WriteStat, encode,
};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::instant::{Action, Instant, State};
use crate::parallel::run_parallel;
use crate::storage::FileMeta;
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
    /// Requested time of its instant.
    pub instant: String,
    /// Completion time.
    pub completed: String,
    /// The files that were written.
    pub stats: Vec<WriteStat>,
}

/// Requested times of compactions that are planned, oldest first.
pub fn pending(table: &HudiTable) -> Result<Vec<String>> {
    let timeline = table.timeline()?;
    Ok(timeline.pending().filter(|i| i.action == Action::Compaction).map(|i| i.requested.clone()).collect())
}

/// Whether a compaction is due by the options.
pub fn due(table: &HudiTable) -> Result<bool> {
    let options = CompactionOptions::from_options(table.options())?;
    let zone = table.config().timeline().zone;
    Ok(options.is_due(&table.timeline()?, zone, table.clock().now_ms()))
}

/// Plans a compaction of all slices that have log files; `None` when there is none, or other plans take them all.
///
/// # Errors
/// `Unsupported` for a copy-on-write table; `InvalidOption`; `Storage`.
pub fn schedule(table: &HudiTable) -> Result<Option<String>> {
    if table.config().table_type() != TableType::MergeOnRead {
        return Err(Error::unsupported("only merge-on-read tables have something to compact")
            .with("table", table.storage().uri()));
    }
    let options = CompactionOptions::from_options(table.options())?;
    let writer = table.timeline_writer()?;
    // Looked at first, and without a lock: most often there is nothing to do.
    if plan_now(table, &table.timeline()?, &options)?.is_none() {
        return Ok(None);
    }
    let mut nothing_left = false;
    let requested = writer.request(Action::Compaction, |time| {
        let timeline = table.timeline()?;
        // Completed before the plan: what completes later belongs to the next slice.
        let plan = plan_now(table, &timeline, &options)?;
        nothing_left = plan.is_none();
        let plan = plan.ok_or_else(|| Error::conflict("the slices were compacted meanwhile").with("instant", time))?;
        encode(&plan)
    });
    match requested {
        Err(_) if nothing_left => Ok(None),
        other => other.map(|instant| Some(instant.requested)),
    }
}

fn plan_now(table: &HudiTable, timeline: &Timeline, options: &CompactionOptions) -> Result<Option<CompactionPlan>> {
    let view = TableView::new(table.storage().clone(), timeline.clone())?;
    let busy = planned_groups(table.storage(), timeline, &PLANS)?;
    Ok(plan_compaction(view.all_latest_slices()?, &busy, options))
}

/// Carries out the plan with this requested time. A try that died is taken back first. `None` when the plan is an empty
/// file, which is then removed.
///
/// # Errors
/// `InvalidOption` when there is no such plan; `Corrupt`; `Conflict` when another process completed it; `Storage`.
pub fn run(table: &HudiTable, requested: &str, before_complete: BeforeComplete<'_>) -> Result<Option<Compacted>> {
    let writer = table.timeline_writer()?;
    let timeline = writer.load()?;
    let known = timeline.pending().find(|i| i.requested == requested && i.action == Action::Compaction);
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
    let view = TableView::new(table.storage().clone(), timeline)?;
    let schema = TableSchema::resolve(table.config(), &view)?.ok_or_else(|| {
        Error::corrupt("the table has a planned compaction, but no commit that tells its columns")
            .with("table", table.storage().uri())
    })?;
    let unit = Unit::new(table, &view, &schema.data, &instant.requested, operations.len())?;
    let threads = table.threads()?;
    let numbered: Vec<(usize, CompactionOperation)> = operations.into_iter().enumerate().collect();
    let stats = run_parallel(numbered, threads, |(task, operation)| unit.compact(&operation, task))?;
    complete(table, &writer, &instant, &schema.data, stats, before_complete).map(Some)
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
            if BaseFile::parse(&file).is_some_and(|base| base.instant == instant.requested) {
                table.storage().delete(&file.path)?;
            }
        }
    }
    delete_markers(table.storage(), &instant.requested)?;
    writer.revert(instant).map(|_| ())
}

fn complete(
    table: &HudiTable,
    writer: &TimelineWriter,
    instant: &Instant,
    schema: &arrow::datatypes::Schema,
    stats: Vec<WriteStat>,
    before_complete: BeforeComplete<'_>,
) -> Result<Compacted> {
    let mut by_partition: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
    for stat in &stats {
        by_partition.entry(stat.partition_path.clone().unwrap_or_default()).or_default().push(stat.clone());
    }
    let avro = table_schema_to_avro(schema, table.config().name(), false)?;
    let body = encode(&CommitMetadata {
        partition_to_write_stats: by_partition,
        compacted: Some(true),
        extra_metadata: [("schema".to_owned(), avro)].into(),
        version: None,
        operation_type: Some("COMPACT".to_owned()),
    })?;
    let done = writer.complete(instant, body, |_| settle_metadata_table(table, before_complete))?;
    if let Err(e) = delete_markers(table.storage(), &instant.requested) {
        tracing::warn!("markers of {} are left behind: {e}", instant.requested);
    }
    Ok(Compacted { instant: done.requested, completed: done.completed.unwrap_or_default(), stats })
}

/// What all operations of a plan share.
struct Unit<'a> {
    table: &'a HudiTable,
    instant: &'a str,
    reader: SliceReader,
    schema: SchemaRef,
    options: BaseFileOptions,
}

impl<'a> Unit<'a> {
    fn new(
        table: &'a HudiTable,
        view: &TableView,
        data: &SchemaRef,
        instant: &'a str,
        operations: usize,
    ) -> Result<Self> {
        let (schema, mut options) = table.file_settings(data)?;
        options.threads = (table.threads()? / operations.max(1)).max(1);
        let timeline = Arc::new(view.timeline().clone());
        let reader = table.slice_reader(timeline, schema.clone())?;
        Ok(Self { table, instant, reader, schema, options })
    }

    fn compact(&self, operation: &CompactionOperation, task: usize) -> Result<WriteStat> {
        let started = Stopwatch::now();
        let slice = self.slice(operation)?;
        let named = |e: Error| e.with("file group", &slice.file_id);
        let token = format!("{task}-0-0");
        let name = BaseFile::file_name(&slice.file_id, &token, self.instant);
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
