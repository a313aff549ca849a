//! The instant of a write, from requested to completed.

use std::collections::{BTreeMap, HashSet};

use super::busy_groups::refuse_replaced;
use super::config::Operation;
use crate::error::{Error, Result};
use crate::file_group::markers::{clean_up, remove_unreported_files};
use crate::format::avro::metadata::{
    CommitMetadata, ReplaceCommitMetadata, RequestedReplaceMetadata, RollbackPlan, WriteStat, decode, encode,
};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::instant::{Action, Instant};
use crate::storage::Storage;
use crate::table::commit_metadata::read_plan;
use crate::table::{ColumnChange, HudiTable, TableConfig, TableType};
use crate::timeline::{TimeZone, Timeline, TimelineWriter, format_instant};

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

/// A write that has its instant and is not committed yet.
pub struct PendingCommit {
    table: HudiTable,
    timeline: TimelineWriter,
    instant: Instant,
    operation: Operation,
}

impl PendingCommit {
    /// Takes an instant and puts it on the timeline.
    pub fn request(table: &HudiTable, operation: Operation) -> Result<Self> {
        let timeline = table.timeline_writer()?;
        let action = match table.config().table_type() {
            _ if operation.replaces() => Action::ReplaceCommit,
            TableType::CopyOnWrite => Action::Commit,
            TableType::MergeOnRead => Action::DeltaCommit,
        };
        let instant = timeline.request(action, |_| match operation {
            Operation::DeletePartition => encode(&RequestedReplaceMetadata {
                operation_type: Some(operation.name().into()),
                extra_metadata: Some(BTreeMap::new()),
                version: Some(1),
                ..Default::default()
            }),
            _ if operation.replaces() => encode(&RequestedReplaceMetadata { version: None, ..Default::default() }),
            _ => Ok(Vec::new()),
        })?;
        Ok(Self { table: table.clone(), timeline, instant, operation })
    }

    /// A write whose instant another part of it put on the timeline.
    pub fn resume(table: &HudiTable, operation: Operation, requested: &str) -> Result<Self> {
        let timeline = table.timeline_writer()?;
        let known = timeline.load()?.pending().find(|i| i.requested == requested).cloned();
        let instant = known
            .ok_or_else(|| Error::conflict("the write is no longer on the timeline").with("instant", requested))?;
        Ok(Self { table: table.clone(), timeline, instant, operation })
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
            refuse_replaced(storage, timeline, &self.instant.requested, &stats, &replaced)?;
            // Files of failed or doubled task attempts would be visible with the commit, so they go before it.
            remove_unreported_files(storage, &self.instant.requested, &reported)?;
            drop_metadata_table(&self.table)
        })?;
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

/// Fails when another writer took this write for dead and is about to remove its files. To be asked under the table lock.
fn refuse_rolled_back(storage: &Storage, timeline: &Timeline, own: &str) -> Result<()> {
    for rollback in timeline.pending().filter(|i| i.action == Action::Rollback) {
        let Some(plan) = read_plan(storage, timeline, rollback)? else { continue };
        let plan: RollbackPlan = decode(&plan).map_err(|e| e.with("table", storage.uri()).with("instant", rollback))?;
        if plan.instant_to_rollback.is_some_and(|target| target.commit_time == own) {
            return Err(Error::conflict("another writer took this write for dead and rolls it back")
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
