//! The instant of a write, from requested to completed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::format::avro::metadata::{
    CommitMetadata, RequestedReplaceMetadata, RollbackPlan, WriteStat, decode, encode,
};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::instant::Action;
use crate::format::internal_schema::{LATEST_SCHEMA, SchemaHistory};
use crate::metadata_table::write::{FileChanges, KeyWrites};
use crate::storage::{Storage, optional};
use crate::table::commit_metadata::read_plan;
use crate::table::{
    ColumnChange, HudiTable, ListedFolders, TableSchema, TableType, TableView, refuse_cleaned, store_schemas,
};
use crate::timeline::{LockGuard, Timeline};
use crate::timings::Timings;
use crate::transaction::{
    Concurrency, DataFiles, Ending, Follow, Footprint, Intent, Transaction, commit_metadata, refuse_early,
    refuse_outdated, refuse_planned, reported_files,
};
use crate::write::config::{IndexType, Operation, WriteConfig};
use crate::write::locate::pending_file_groups::UpdateStrategy;

const COLUMNS_FIRST: &str = "Nothing was written. Write again: the write then begins after the other. If that happens each \
                             time, change the columns first, by ALTER TABLE";

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
    /// Where the time went; empty for table services.
    pub timings: Timings,
}

/// The table that a write is planned from.
#[derive(Clone)]
pub(crate) struct PlannedFrom {
    /// Its timeline.
    pub timeline: Timeline,
    /// Its columns; `None` where it has none yet.
    pub columns: Option<SchemaRef>,
    /// The schemas that it had, where fields have ids.
    history: Option<SchemaHistory>,
    /// The folders that were listed for the plan.
    listed: ListedFolders,
}

/// A write that was committed just now.
pub(crate) struct Committed {
    /// What it did.
    pub outcome: CommitOutcome,
    /// The timeline with it.
    pub timeline: Timeline,
    /// What goes on behind it, until this is dropped.
    pub ending: Ending,
}

/// A write that has its instant and is not committed yet.
pub(crate) struct PendingCommit {
    transaction: Transaction,
    operation: Operation,
    planned_from: PlannedFrom,
    /// Entries of the commit metadata, beside those that the options give.
    entries: BTreeMap<String, String>,
}

impl PendingCommit {
    /// The same commit with entries in its metadata (`extraMetadata`).
    #[must_use]
    pub(crate) fn with_entries(self, entries: BTreeMap<String, String>) -> Self {
        Self { entries, ..self }
    }

    /// Takes an instant and puts it on the timeline. `profile` declares what the write will touch: per partition the rows
    /// that are new, per file group the rows that meet it. `held`: the table lock, where the caller holds it for all of the
    /// write, and has planned it since; `has_tasks`: whether other processes make its files.
    pub(crate) fn begin(
        table: &HudiTable,
        operation: Operation,
        planned_from: PlannedFrom,
        profile: BTreeMap<String, Vec<WriteStat>>,
        held: Option<&LockGuard>,
        has_tasks: bool,
    ) -> Result<Self> {
        let action = match table.config().table_type() {
            _ if operation.replaces() => Action::ReplaceCommit,
            TableType::CopyOnWrite => Action::Commit,
            TableType::MergeOnRead => Action::DeltaCommit,
        };
        let requested = || match operation {
            Operation::DeletePartition => encode(&RequestedReplaceMetadata {
                operation_type: Some(operation.name().into()),
                extra_metadata: Some(BTreeMap::new()),
                version: Some(1),
                ..Default::default()
            }),
            _ if operation.replaces() => encode(&RequestedReplaceMetadata { version: None, ..Default::default() }),
            _ => Ok(Vec::new()),
        };
        let met = stats_of(&profile);
        let plan = |now: &Timeline| {
            refuse_cleaned(table.storage(), &planned_from.timeline, &planned_from.listed, now)?;
            planned_from.refuse_planned(table, now, &Footprint::new(Intent::default(), &met, &BTreeMap::new()))?;
            requested()
        };
        let profile = match operation {
            Operation::BulkInsert => Vec::new(),
            _ => encode(&CommitMetadata {
                partition_to_write_stats: profile,
                compacted: Some(false),
                operation_type: Some(operation.name().into()),
                ..Default::default()
            })?,
        };
        let held = held.map(|held| (held, &planned_from.timeline));
        let mut transaction = Transaction::begin(table, action, held, has_tasks, plan, profile)?;
        if Concurrency::from_options(table.options())?.looks_early {
            let now = transaction.timeline().load()?;
            if let Err(e) = refuse_early(table, &now, transaction.requested(), &met) {
                transaction.take_back()?;
                return Err(e);
            }
        }
        if has_tasks {
            transaction.started()?;
        }
        Ok(Self { transaction, operation, planned_from, entries: BTreeMap::new() })
    }

    /// Requested time of the write.
    pub(crate) fn instant(&self) -> &str {
        self.transaction.requested()
    }

    /// Makes the data files of this process.
    pub(crate) fn files(&self) -> &Arc<DataFiles> {
        self.transaction.files()
    }

    /// Publishes the files that `stats` name. Files of task attempts that no stat names are removed first.
    pub(crate) fn commit(
        self,
        stats: Vec<WriteStat>,
        replaced: BTreeMap<String, Vec<String>>,
        schema: &Schema,
    ) -> Result<Committed> {
        let Self { mut transaction, operation, planned_from, entries } = self;
        let table = transaction.table().clone();
        let mut metadata = commit_metadata(&table, operation.name(), &stats, schema)?;
        let own = transaction.requested().to_owned();
        let schemas = planned_from.schemas_after(&own, schema)?;
        let latest = schemas.as_ref().map(|(latest, _)| (LATEST_SCHEMA.to_owned(), latest.clone()));
        metadata.extra_metadata.extend(table.options().commit_entries().chain(entries).chain(latest));
        let body = match operation.replaces() {
            true => encode(&metadata.replacing(replaced.clone()))?,
            false => encode(&metadata)?,
        };
        let reported = reported_files(&stats);
        let changes = FileChanges::of_writes(&stats).with_keys(KeyWrites {
            stats: stats.clone(),
            emptied: replaced.clone(),
            columns: Arc::new(schema.clone()),
            keeps_rows: false,
            compacted: None,
        });
        let done = transaction.complete(body, Follow::Files(&changes), &reported, |now| {
            refuse_rolled_back(table.storage(), now, &own)?;
            let index = WriteConfig::new(table.options())?.index;
            let non_blocking = Concurrency::from_options(table.options())?.non_blocking;
            let is_by_bucket = index == IndexType::Bucket;
            let inserts = matches!(operation, Operation::Insert | Operation::BulkInsert);
            let intent = Intent {
                looks_keys_up: operation == Operation::Upsert || (is_by_bucket && inserts),
                is_by_bucket,
                non_blocking,
                unique_in_table: index.is_global(),
                replaces_partitions: operation.replaces(),
                replaces_table: operation == Operation::InsertOverwriteTable,
            };
            let write = Footprint::new(intent, &stats, &replaced);
            planned_from.refuse_outdated(&table, now, (&own, schema), &write)?;
            schemas.map_or(Ok(()), |(_, all)| store_schemas(table.storage(), now, &own, all))
        });
        let done = match done {
            Err(e) if e.is_outdated_plan() => {
                transaction.take_back()?;
                return Err(e);
            }
            other => other?,
        };
        let outcome = CommitOutcome {
            schema_changes: Vec::new(),
            warnings: done.warnings,
            timings: Timings::default(),
            instant: done.instant.requested,
            completed: done.instant.completed.unwrap_or_default(),
            operation: operation.name(),
            stats,
            replaced,
        };
        Ok(Committed { outcome, timeline: done.timeline, ending: done.ending })
    }

    /// Takes the write off the timeline, with all that it wrote, as one that was never begun.
    pub(in crate::write) fn take_back(mut self) -> Result<()> {
        self.transaction.take_back()
    }
}

/// The file groups of a profile, with their partitions: whether a write can be published is asked before it writes files,
/// too, so that one that cannot takes little time from others.
fn stats_of(profile: &BTreeMap<String, Vec<WriteStat>>) -> Vec<WriteStat> {
    let of = |(partition, stats): (&String, &Vec<WriteStat>)| -> Vec<WriteStat> {
        let named = |stat: &WriteStat| WriteStat { partition_path: Some(partition.clone()), ..stat.clone() };
        stats.iter().map(named).collect()
    };
    profile.iter().flat_map(of).collect()
}

impl PlannedFrom {
    /// A view of a table with these columns.
    pub(crate) fn of(table: &HudiTable, view: &TableView, columns: Option<SchemaRef>) -> Result<Self> {
        let history = TableSchema::resolve(table.config(), view)?.and_then(|schema| schema.history);
        Ok(Self { timeline: view.timeline().clone(), columns, history, listed: view.listed_folders() })
    }

    /// The schema with field ids after a write that leaves these columns, and all that there were with it.
    fn schemas_after(&self, own: &str, columns: &Schema) -> Result<Option<(String, String)>> {
        let Some(history) = &self.history else { return Ok(None) };
        let latest = match history.table().evolved(columns)? {
            Some(evolved) => evolved.of_version(own)?,
            None => history.table().clone(),
        };
        Ok(Some((latest.to_text(), history.text_with(&latest))))
    }

    /// Fails when others did something since the write was planned that gets in its way; `schema`: its columns.
    fn refuse_outdated(
        &self,
        table: &HudiTable,
        now: &Timeline,
        (own, schema): (&str, &Schema),
        write: &Footprint<'_>,
    ) -> Result<()> {
        refuse_outdated(table.storage(), &self.timeline, now, own, write)?;
        self.refuse_planned(table, now, write)?;
        self.refuse_other_schema(table, now, own, schema)
    }

    /// Fails when a clustering was planned of what the write changes, unless the clustering is the one to give way.
    fn refuse_planned(&self, table: &HudiTable, now: &Timeline, write: &Footprint<'_>) -> Result<()> {
        match UpdateStrategy::from_options(table.options())? {
            UpdateStrategy::Reject => refuse_planned(table.storage(), &self.timeline, now, write),
            UpdateStrategy::Allow => Ok(()),
        }
    }

    /// Whether a write that leaves these columns changes those of the table.
    fn changes_columns(&self, table: &HudiTable, columns: &Schema) -> Result<bool> {
        let Some(before) = &self.columns else { return Ok(!columns.fields().is_empty()) };
        let text = |columns: &Schema| table_schema_to_avro(columns, table.config().name(), false);
        Ok(before.fields() != columns.fields() && text(before)? != text(columns)?)
    }

    /// The columns that the commit names become the table's: they must not undo what others did to them. Nor must a commit
    /// that was requested later undo what this one does: of all commits, the one that was requested last tells the columns.
    fn refuse_other_schema(&self, table: &HudiTable, now: &Timeline, own: &str, columns: &Schema) -> Result<()> {
        let newest = |timeline: &Timeline| timeline.completed_writes().map(|i| i.completed.clone()).max();
        if newest(now) == newest(&self.timeline) {
            return Ok(());
        }
        let view = TableView::new(table.storage().clone(), now.clone())?;
        let schema = TableSchema::resolve(table.config(), &view)?;
        let ids = schema.as_ref().and_then(|schema| schema.history.as_ref()).map(SchemaHistory::table);
        let is_same = ids == self.history.as_ref().map(SchemaHistory::table);
        if is_same && schema.as_ref().map(|schema| &schema.data) == self.columns.as_ref() {
            let later = TableSchema::told_by(&view)?.filter(|commit| commit.as_str() > own);
            return match later {
                Some(later) if self.changes_columns(table, columns)? => Err(undone_by(table, own, later)),
                _ => Ok(()),
            };
        }
        Err(Error::conflict("another writer changed the columns of the table while this write worked on it")
            .with("table", table.storage().uri())
            .with("instant", own)
            .remedy("Nothing was written; write again"))
    }
}

fn undone_by(table: &HudiTable, own: &str, later: String) -> Error {
    Error::conflict("this write changes the columns of the table, and a commit with the old ones began later")
        .with("table", table.storage().uri())
        .with("instant", own)
        .with("later instant", later)
        .remedy(COLUMNS_FIRST)
        .outdated_plan()
}

/// Fails when another writer, for which this write has failed, is about to remove its files. To be asked under the table lock.
fn refuse_rolled_back(storage: &Storage, timeline: &Timeline, own: &str) -> Result<()> {
    for rollback in timeline.pending().filter(|i| i.action == Action::Rollback) {
        // One that is gone was carried out, or never begun.
        let Some(plan) = optional(read_plan(storage, timeline, rollback))?.flatten() else { continue };
        let plan: RollbackPlan = decode(&plan).map_err(|e| e.with("table", storage.uri()).with("instant", rollback))?;
        if plan.instant_to_rollback.is_some_and(|target| target.commit_time == own) {
            return Err(Error::conflict("another writer rolls this write back, as one that failed")
                .with("table", storage.uri())
                .with("instant", rollback)
                .remedy("Nothing was written. Write again. If writers run on several machines, set hoodie.write.lock.provider for all of them"));
        }
    }
    Ok(())
}
