//! The instant of a write, from requested to completed.

use std::collections::{BTreeMap, HashSet};

use arrow::datatypes::SchemaRef;

use super::busy_groups::UpdateStrategy;
use super::config::{Operation, WriteConfig};
use super::conflicts::{Footprint, refuse_outdated, refuse_planned};
use crate::error::{Error, Result};
use crate::file_group::markers::{clean_up, delete_markers, marked_files, remove_unreported_files};
use crate::format::avro::metadata::{
    CommitMetadata, ReplaceCommitMetadata, RequestedReplaceMetadata, RollbackPlan, WriteStat, decode, encode,
};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::instant::{Action, Instant};
use crate::storage::Storage;
use crate::table::commit_metadata::read_plan;
use crate::table::{ColumnChange, HudiTable, TableConfig, TableSchema, TableType, TableView};
use crate::timeline::{Heartbeat, LockGuard, TimeZone, Timeline, TimelineWriter, format_instant};

/// What a write did.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitOutcome {
    /// Requested time of the commit.
    pub instant: String,
    /// Completion time.
    pub completed: String,
    /// Operation.
    pub operation: &'static str,
    /// The files that were written.
    pub stats: Vec<WriteStat>,
    /// File groups that were replaced, by partition.
    pub replaced: BTreeMap<String, Vec<String>>,
    /// Columns that the commit added to the table's schema, or changed there.
    pub schema_changes: Vec<ColumnChange>,
    /// What went wrong after the commit was published. The commit stands all the same.
    pub warnings: Vec<String>,
}

/// The table that a write is planned from.
#[derive(Clone)]
pub struct PlannedFrom {
    /// Its timeline.
    pub timeline: Timeline,
    /// Its columns; `None` where it has none yet.
    pub columns: Option<SchemaRef>,
}

/// A write that has its instant and is not committed yet.
pub struct PendingCommit {
    table: HudiTable,
    timeline: TimelineWriter,
    instant: Instant,
    operation: Operation,
    planned_from: PlannedFrom,
    /// Tells other writers that this one is at work.
    _heartbeat: Heartbeat,
}

impl PendingCommit {
    /// Takes an instant and puts it on the timeline. `held`: the table lock, where the caller holds it for all of the
    /// write.
    pub fn request(
        table: &HudiTable,
        operation: Operation,
        planned_from: PlannedFrom,
        held: Option<&LockGuard>,
    ) -> Result<Self> {
        let timeline = table.timeline_writer()?;
        let timeline = match held {
            Some(held) => timeline.clone().with_lock(timeline.lock().holding(held)),
            None => timeline,
        };
        let action = match table.config().table_type() {
            _ if operation.replaces() => Action::ReplaceCommit,
            TableType::CopyOnWrite => Action::Commit,
            TableType::MergeOnRead => Action::DeltaCommit,
        };
        let mut heartbeat = None;
        let instant = timeline.request(action, |time| {
            // Before the instant is there: without a heartbeat it would look like one that failed.
            heartbeat = Some(Heartbeat::start(table.storage(), time)?);
            match operation {
                Operation::DeletePartition => encode(&RequestedReplaceMetadata {
                    operation_type: Some(operation.name().into()),
                    extra_metadata: Some(BTreeMap::new()),
                    version: Some(1),
                    ..Default::default()
                }),
                _ if operation.replaces() => encode(&RequestedReplaceMetadata { version: None, ..Default::default() }),
                _ => Ok(Vec::new()),
            }
        })?;
        let heartbeat = heartbeat.ok_or_else(|| Error::storage("a write without a heartbeat"))?;
        Ok(Self { table: table.clone(), timeline, instant, operation, planned_from, _heartbeat: heartbeat })
    }

    /// Requested time of the write.
    pub fn instant(&self) -> &str {
        &self.instant.requested
    }

    /// Declares what the write will touch: per partition the rows that are new, per file group the rows that meet it.
    pub fn start(&mut self, profile: BTreeMap<String, Vec<WriteStat>>) -> Result<()> {
        let body = match self.operation {
            Operation::BulkInsert => Vec::new(),
            _ => encode(&CommitMetadata {
                partition_to_write_stats: profile,
                compacted: Some(false),
                operation_type: Some(self.operation.name().into()),
                ..Default::default()
            })?,
        };
        self.instant = self.timeline.start(&self.instant, body)?;
        Ok(())
    }

    /// Publishes the files that `stats` name. Files of task attempts that no stat names are removed first.
    pub fn commit(
        self,
        stats: Vec<WriteStat>,
        replaced: BTreeMap<String, Vec<String>>,
        schema: &arrow::datatypes::Schema,
    ) -> Result<CommitOutcome> {
        let storage = self.table.storage();
        let mut by_partition: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
        for stat in &stats {
            by_partition.entry(stat.partition_path.clone().unwrap_or_default()).or_default().push(stat.clone());
        }
        let avro = table_schema_to_avro(schema, self.table.config().name(), false)?;
        let mut extra_metadata = BTreeMap::new();
        if !schema.fields().is_empty() {
            extra_metadata.insert("schema".to_owned(), avro);
        }
        let operation_type = Some(self.operation.name().to_owned());
        let body = if self.operation.replaces() {
            encode(&ReplaceCommitMetadata {
                partition_to_write_stats: by_partition,
                compacted: Some(false),
                extra_metadata,
                version: None,
                operation_type,
                partition_to_replace_file_ids: replaced.clone(),
            })?
        } else {
            encode(&CommitMetadata {
                partition_to_write_stats: by_partition,
                compacted: Some(false),
                extra_metadata,
                version: None,
                operation_type,
            })?
        };
        let reported: HashSet<&str> = stats.iter().filter_map(|s| s.path.as_deref()).collect();
        let done = self.timeline.complete(&self.instant, body, |timeline| {
            refuse_rolled_back(storage, timeline, &self.instant.requested)?;
            self.refuse_outdated(timeline, &stats, &replaced)?;
            // Files of failed or doubled task attempts would be visible with the commit, so they go before it.
            remove_unreported_files(storage, &self.instant.requested, &reported)?;
            drop_metadata_table(&self.table)
        });
        let done = match done {
            Err(e) if e.is_outdated_plan() => {
                self.take_back()?;
                return Err(e);
            }
            other => other?,
        };
        Ok(CommitOutcome {
            schema_changes: Vec::new(),
            warnings: clean_up(storage, &self.instant.requested, &reported),
            instant: done.requested,
            completed: done.completed.unwrap_or_default(),
            operation: self.operation.name(),
            stats,
            replaced,
        })
    }
}

impl PendingCommit {
    /// Fails when others did something since the write was planned that gets in its way.
    fn refuse_outdated(
        &self,
        now: &Timeline,
        stats: &[WriteStat],
        replaced: &BTreeMap<String, Vec<String>>,
    ) -> Result<()> {
        let (storage, options) = (self.table.storage(), self.table.options());
        let global = WriteConfig::new(options)?.index.is_global();
        let write = Footprint::new(self.operation, global, stats, replaced);
        let then = &self.planned_from.timeline;
        refuse_outdated(storage, then, now, &self.instant.requested, &write)?;
        refuse_planned(storage, then, now, UpdateStrategy::from_options(options)?, &write)?;
        self.refuse_other_schema(now)
    }

    /// The columns that the commit names become the table's: they must not undo what others did to them.
    fn refuse_other_schema(&self, now: &Timeline) -> Result<()> {
        let newest = |timeline: &Timeline| timeline.completed_writes().map(|i| i.completed.clone()).max();
        if newest(now) == newest(&self.planned_from.timeline) {
            return Ok(());
        }
        let view = TableView::new(self.table.storage().clone(), now.clone())?;
        if TableSchema::resolve(self.table.config(), &view)?.map(|schema| schema.data) == self.planned_from.columns {
            return Ok(());
        }
        Err(Error::conflict("another writer changed the columns of the table while this write worked on it")
            .with("table", self.table.storage().uri())
            .with("instant", &self.instant)
            .remedy("Nothing was written; write again"))
    }

    /// Takes a write that cannot be published off the timeline, with all that it wrote. Nobody has seen anything of it, so
    /// no rollback is left behind. What a crash in the middle leaves, the next writer rolls back.
    pub(super) fn take_back(&self) -> Result<()> {
        let (storage, requested) = (self.table.storage(), &self.instant.requested);
        let marked = marked_files(storage, requested)?.unwrap_or_default();
        marked.iter().try_for_each(|path| storage.delete(path).map(|_| ()))?;
        delete_markers(storage, requested)?;
        self.timeline.remove_pending(&self.instant)
    }
}

/// Fails when another writer, for which this write has failed, is about to remove its files. To be asked under the table lock.
fn refuse_rolled_back(storage: &Storage, timeline: &Timeline, own: &str) -> Result<()> {
    for rollback in timeline.pending().filter(|i| i.action == Action::Rollback) {
        let Some(plan) = read_plan(storage, timeline, rollback)? else { continue };
        let plan: RollbackPlan = decode(&plan).map_err(|e| e.with("table", storage.uri()).with("instant", rollback))?;
        if plan.instant_to_rollback.is_some_and(|target| target.commit_time == own) {
            return Err(Error::conflict("another writer rolls this write back, as one that failed")
                .with("table", storage.uri())
                .with("instant", rollback)
                .remedy("Nothing was written. Write again, and let one process at a time write to the table"));
        }
    }
    Ok(())
}

/// What Hudi does to a metadata table that this write does not keep up to date: first the property, by which readers
/// decide, then the folder. The caller holds the table lock.
pub fn drop_metadata_table(table: &HudiTable) -> Result<()> {
    let storage = table.storage();
    let now = || format_instant(table.clock().now_ms(), TimeZone::Utc);
    if !TableConfig::load(storage)?.metadata_partitions().is_empty() {
        let empty = [("hoodie.table.metadata.partitions", ""), ("hoodie.table.metadata.partitions.inflight", "")];
        TableConfig::update(storage, &empty, &now())?;
    } else if !storage.has_files(".hoodie/metadata")? {
        return Ok(());
    }
    storage.delete_folder(".hoodie/metadata")
}
