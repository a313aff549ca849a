//! Carrying a plan out: from inflight to completed.

use std::collections::{BTreeMap, BTreeSet};

use super::super::failed_attempt;
use super::super::task_files::remove_files_of;
use super::super::{read_plan, schema_at};
use super::plan::Kind;
use super::task::{CompactionTask, new_attempt};
use super::unit::Unit;
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::join;
use crate::format::avro::metadata::{CommitMetadata, CompactionOperation, CompactionPlan, WriteStat, encode};
use crate::format::instant::{Instant, State};
use crate::metadata_table::write::{FileChanges, KeyWrites};
use crate::parallel::run_parallel;
use crate::table::{HudiTable, TableView};
use crate::timeline::{Heartbeat, heartbeat};
use crate::transaction::{DataFiles, Follow, Transaction, commit_metadata, forget, reported_files};

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
    /// What went wrong after it was published.
    pub warnings: Vec<String>,
}

/// Carries out the plan with this requested time. A try that died is taken back first. `None` when the plan is an empty
/// file, which is then removed.
///
/// # Errors
/// `InvalidOption` when there is no such plan; `Corrupt`; `Conflict` when another process completed it; `Storage`.
pub fn run(table: &HudiTable, requested: &str) -> Result<Option<Compacted>> {
    let Some(job) = CompactionJob::begin(table, requested, false)? else { return Ok(None) };
    let unit = Unit::new(table, job.transaction.files().clone(), &job.view, requested, job.tasks.len())?;
    let partitions: BTreeSet<String> =
        job.tasks.iter().map(|t| t.operation.partition_path.clone().unwrap_or_default()).collect();
    job.view.list_ahead(&partitions.into_iter().collect::<Vec<_>>())?;
    let numbered: Vec<(usize, &CompactionTask)> = job.tasks.iter().enumerate().collect();
    let stats = run_parallel(numbered, table.threads()?, |(number, task)| unit.run(task, &format!("{number}-0-0")))?;
    job.complete(stats).map(Some)
}

/// A compaction under way, whose operations may be carried out by several processes.
pub struct CompactionJob {
    transaction: Transaction,
    /// The table as it was when the work began.
    view: TableView,
    kind: Kind,
    /// What is to be done, each by itself.
    pub tasks: Vec<CompactionTask>,
}

impl CompactionJob {
    /// Begins the plan with this requested time; a try that died is taken back first. `has_tasks`: whether other processes
    /// carry out its operations. `None` when the plan is an empty file, which is then removed.
    ///
    /// # Errors
    /// Those of [`run`]; `Conflict` when another process carries it out.
    pub fn begin(table: &HudiTable, requested: &str, has_tasks: bool) -> Result<Option<Self>> {
        let writer = table.timeline_writer()?;
        let heartbeat = Heartbeat::take_over(table.storage(), table.clock(), requested)?;
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
            let remove_files = |table: &HudiTable| take_back(table, &instant, &operations);
            instant = failed_attempt::take_back(table, &writer, &instant, &heartbeat, remove_files)?;
        }
        let instant = writer.start(&instant, Vec::new())?;
        let transaction = Transaction::take_over(table, writer, instant, heartbeat, has_tasks).behind(&timeline);
        let attempt = new_attempt(table.clock().as_ref());
        let view = table.view_of(timeline)?;
        let mut tasks = Vec::with_capacity(operations.len());
        for operation in operations {
            if !is_obsolete(&view, &operation)? {
                tasks.push(CompactionTask { kind, operation, attempt });
            }
        }
        Ok(Some(Self { transaction, view, kind, tasks }))
    }

    /// Requested time.
    pub fn instant(&self) -> &str {
        self.transaction.requested()
    }

    /// What is compacted.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Publishes the files that `stats` name. Files of attempts that no stat names are removed first.
    ///
    /// # Errors
    /// `Conflict` when another process completed it; `Storage`.
    pub fn complete(self, stats: Vec<WriteStat>) -> Result<Compacted> {
        let Self { mut transaction, view, kind, tasks } = self;
        let table = transaction.table();
        let schema = schema_at(table, &view, transaction.requested())?;
        let mut metadata = commit_metadata(table, kind.operation(), &stats, &schema.data)?;
        metadata.extra_metadata.extend(schema.field_ids());
        let body = encode(&CommitMetadata { compacted: Some(true), ..metadata })?;
        let reported = reported_files(&stats);
        let changes = FileChanges::of_writes(&stats);
        let changes = match kind {
            Kind::Log => changes.with_columns(schema.data),
            Kind::Base => {
                let logs = tasks.into_iter().flat_map(|task| task.operation.delta_file_paths.unwrap_or_default());
                let name = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
                changes.with_keys(KeyWrites {
                    stats: stats.clone(),
                    emptied: BTreeMap::new(),
                    columns: schema.data,
                    keeps_rows: false,
                    compacted: Some(logs.map(name).collect()),
                })
            }
        };
        let done = transaction.complete(body, Follow::Files(&changes), &reported, |_| Ok(()))?;
        Ok(Compacted {
            kind,
            instant: done.instant.requested,
            completed: done.instant.completed.unwrap_or_default(),
            stats,
            warnings: done.warnings.into_iter().chain(done.ending.finish()).collect(),
        })
    }
}

/// Whether nobody needs the result of an operation any more: its file group was replaced, and a clean has deleted what it would
/// read. Hudi's cleaner by file versions does that.
fn is_obsolete(view: &TableView, operation: &CompactionOperation) -> Result<bool> {
    let partition = operation.partition_path.as_deref().unwrap_or_default();
    if view.replaced_at(partition, operation.file_id.as_deref().unwrap_or_default()).is_none() {
        return Ok(false);
    }
    let base = operation.data_file_path.iter().filter(|name| !name.is_empty());
    for name in base.chain(operation.delta_file_paths.iter().flatten()) {
        let is_there = match view.file(&join(partition, name.rsplit('/').next().unwrap_or(name))) {
            Err(e) if e.kind() == ErrorKind::Corrupt => false,
            other => other?.is_some(),
        };
        if !is_there {
            tracing::info!(
                partition,
                file = name,
                "a planned compaction of a file group that was replaced is left out"
            );
            return Ok(true);
        }
    }
    Ok(false)
}

/// Executes a task of a compaction that another process began; `token` tells this attempt of the task from others.
///
/// # Errors
/// `Conflict` when the compaction is over; `Corrupt`; `Storage`.
pub fn run_task(table: &HudiTable, requested: &str, task: &CompactionTask, token: &str) -> Result<WriteStat> {
    let files = DataFiles::of_task(table, requested)?.arc();
    let view = table.view(None)?;
    let stat = Unit::new(table, files, &view, requested, usize::MAX)?.run(task, token)?;
    // That process does not know what is still to be synced here.
    table.storage().sync()?;
    Ok(stat)
}

/// Whether a process carries out the plan with this requested time.
///
/// # Errors
/// `Storage`.
pub(crate) fn is_under_way(table: &HudiTable, requested: &str) -> Result<bool> {
    heartbeat::is_alive(table.storage(), table.clock(), requested)
}

/// Removes what a try that died had written.
fn take_back(table: &HudiTable, instant: &Instant, operations: &[CompactionOperation]) -> Result<()> {
    let partitions = operations.iter().map(|o| o.partition_path.as_deref().unwrap_or(""));
    let writes_logs = instant.action == Kind::Log.action();
    remove_files_of(table.storage(), &instant.requested, partitions, writes_logs)?;
    forget(table, &instant.requested)
}
