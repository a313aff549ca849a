//! Executes a plan: from inflight to completed, or rolled back.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::failed_attempt;
use super::super::planned_files::{data_file, has_rows};
use super::super::task_files::remove_files_of;
use super::super::{schema_at, schema_of};
use super::execution_strategy::ExecutionStrategy;
use super::group_rewriter::{ClusteredFile, GroupRewriter};
use super::options::ClusteringOptions;
use super::schedule::plan_of;
use super::task::ClusteringTask;
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::FileSlice;
use crate::format::avro::metadata::{ClusteringGroup, ReplaceCommitMetadata, SliceInfo, WriteStat, encode};
use crate::format::instant::{Action, Instant, State};
use crate::metadata_table::write::{FileChanges, KeyWrites};
use crate::parallel::run_parallel;
use crate::table::{HudiTable, TableView};
use crate::timeline::{Heartbeat, Timeline, heartbeat};
use crate::transaction::{
    Concurrency, DataFiles, Follow, Transaction, commit_metadata, forget, refuse_writers, reported_files,
};

/// Key in the commit metadata of a JSON object with the milliseconds and column ranges of each file.
pub(crate) const FILES: &str = "hoodoo.clustering.files";
/// Default of `hoodoo.clustering.task.bytes`: bytes of base files that one task rewrites.
const TASK_BYTES: u64 = 1 << 30;
/// The operation in commit metadata.
const OPERATION: &str = "CLUSTER";

/// The result of a clustering.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustered {
    /// Requested time of its instant.
    pub instant: String,
    /// Completion time.
    pub completed: String,
    /// The files that were written.
    pub stats: Vec<WriteStat>,
    /// File groups that they replace, by partition.
    pub replaced: BTreeMap<String, Vec<String>>,
    /// What failed after it was published.
    pub warnings: Vec<String>,
}

/// Executes the plan with this requested time. Removes the files of a failed attempt first. `None` if the plan is an
/// empty file, which is then removed.
///
/// # Errors
/// `InvalidOption` if there is no such plan; `Corrupt` if files of the plan are missing; `Unsupported` for other
/// execution strategies; `Conflict` if another process executes it, or wrote to its file groups (the plan is then
/// rolled back); `Storage`.
pub fn run(table: &HudiTable, requested: &str) -> Result<Option<Clustered>> {
    let Some(job) = ClusteringJob::begin(table, requested, false)? else { return Ok(None) };
    let at_once = job.groups.len().min(table.threads()?);
    let rewriter = GroupRewriter::new(
        table,
        job.transaction.files().clone(),
        &job.view,
        requested,
        job.strategy.clone(),
        at_once,
    )?;
    let numbered: Vec<(usize, ClusteringTask)> =
        job.groups.iter().cloned().map(ClusteringTask::whole).enumerate().collect();
    let files = run_parallel(numbered, at_once, |(task, group)| rewriter.run(&group, &format!("{task}-0-0")))?;
    job.complete(files.into_iter().flatten().collect()).map(Some)
}

/// An inflight clustering, whose groups may be rewritten by several processes.
pub struct ClusteringJob {
    transaction: Transaction,
    /// The table as it was when the work began.
    view: TableView,
    strategy: ExecutionStrategy,
    groups: Vec<ClusteringGroup>,
}

impl ClusteringJob {
    /// Starts the plan with this requested time; removes the files of a failed attempt first. `has_tasks`: whether
    /// other processes rewrite its groups. `None` if the plan is an empty file, which is then removed.
    ///
    /// # Errors
    /// Those of [`run`].
    pub fn begin(table: &HudiTable, requested: &str, has_tasks: bool) -> Result<Option<Self>> {
        let writer = table.timeline_writer()?;
        let heartbeat = Heartbeat::take_over(table.storage(), table.clock(), requested)?;
        let timeline = writer.load()?;
        let mut instant = find(table, &timeline, requested)?;
        let Some(plan) = plan_of(table, &timeline, &instant)? else {
            if instant.action == Action::Clustering {
                writer.remove_pending(&instant)?;
                return Ok(None);
            }
            return Err(no_such_plan(table, requested));
        };
        let strategy = ExecutionStrategy::of(&plan, &ClusteringOptions::from_options(table.options())?)
            .map_err(|e| e.with("table", table.storage().uri()).with("instant", requested))?;
        let groups = plan.input_groups.unwrap_or_default();
        if instant.state == State::Inflight {
            let remove_files = |table: &HudiTable| take_back(table, &instant, &groups);
            instant = failed_attempt::take_back(table, &writer, &instant, &heartbeat, remove_files)?;
        }
        let view = table.view_of(timeline)?;
        // Checked first, because the rewrite could not be committed. A write that completed after the plan was made may have
        // left the timeline since: only the files tell. The rewrite needs their listing too.
        if let Err(e) = check_unchanged(table, &view, &groups) {
            if is_outdated(&e) {
                writer.remove_pending(&instant)?;
            }
            return Err(e);
        }
        let instant = writer.start(&instant, Vec::new())?;
        let transaction = Transaction::take_over(table, writer, instant, heartbeat, has_tasks).behind(view.timeline());
        Ok(Some(Self { transaction, view, strategy, groups }))
    }

    /// Requested time.
    pub fn instant(&self) -> &str {
        self.transaction.requested()
    }

    /// The tasks: one a group, or several where a group has more than `hoodoo.clustering.task.bytes`.
    ///
    /// # Errors
    /// `InvalidOption`; `Corrupt` if a file of the plan is missing; `Storage`.
    pub fn tasks(&self) -> Result<Vec<ClusteringTask>> {
        let most_bytes = self.transaction.table().options().number("hoodoo.clustering.task.bytes", TASK_BYTES)?;
        let (table, files) = (self.transaction.table(), self.transaction.files().clone());
        let rewriter = GroupRewriter::new(table, files, &self.view, self.instant(), self.strategy.clone(), 1)?;
        let mut tasks = Vec::new();
        for group in &self.groups {
            tasks.extend(rewriter.divide(group.clone(), most_bytes)?);
        }
        Ok(tasks)
    }

    /// Publishes the files. Removes the files of other attempts first.
    ///
    /// # Errors
    /// `Conflict` if another process completed it, or wrote to a file group of the plan: then the plan and its files
    /// are removed; `Storage`.
    pub fn complete(mut self, files: Vec<ClusteredFile>) -> Result<Clustered> {
        let table = self.transaction.table().clone();
        let replaced = self.replaced();
        let body = encode(&self.metadata(&files, &replaced)?)?;
        let stats: Vec<WriteStat> = files.into_iter().map(|f| f.stat).collect();
        let reported = reported_files(&stats);
        let mut outdated = false;
        let (groups, begun, requested) = (&self.groups, self.view.timeline(), self.instant().to_owned());
        // All keys of the old file groups are in the new ones.
        let (emptied, columns) = (BTreeMap::new(), schema_of(&table, &self.view)?.data);
        let changes = FileChanges::of_writes(&stats).with_keys(KeyWrites {
            stats: stats.clone(),
            emptied,
            columns,
            keeps_rows: true,
            compacted: None,
        });
        let writers_first = Concurrency::from_options(table.options())?.writers_first;
        let done = self.transaction.complete(body, Follow::Files(&changes), &reported, |timeline| {
            if writers_first {
                refuse_writers(&table, timeline, &groups_of(groups))?;
            }
            if !timeline.changed_since(begun, &requested) {
                return Ok(());
            }
            let unchanged = check_unchanged(&table, &table.view_of(timeline.clone())?, groups);
            outdated = unchanged.as_ref().is_err_and(is_outdated);
            unchanged
        });
        let done = match done {
            Err(e) if outdated => {
                // The plan can never be completed, and it would block writers.
                take_back(&table, self.transaction.instant(), &self.groups)?;
                self.transaction.timeline().remove_pending(self.transaction.instant())?;
                return Err(e);
            }
            other => other?,
        };
        Ok(Clustered {
            instant: done.instant.requested,
            completed: done.instant.completed.unwrap_or_default(),
            stats,
            replaced,
            warnings: done.warnings.into_iter().chain(done.ending.finish()).collect(),
        })
    }

    fn replaced(&self) -> BTreeMap<String, Vec<String>> {
        let mut replaced: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for slice in slices_of(&self.groups) {
            let ids = replaced.entry(slice.partition_path.clone().unwrap_or_default()).or_default();
            ids.extend(slice.file_id.clone());
        }
        replaced
    }

    fn metadata(
        &self,
        files: &[ClusteredFile],
        replaced: &BTreeMap<String, Vec<String>>,
    ) -> Result<ReplaceCommitMetadata> {
        let table = self.transaction.table();
        let stats: Vec<WriteStat> = files.iter().map(|f| f.stat.clone()).collect();
        let schema = schema_at(table, &self.view, self.transaction.requested())?;
        let mut metadata = commit_metadata(table, OPERATION, &stats, &schema.data)?;
        metadata.extra_metadata.extend(schema.field_ids());
        metadata.extra_metadata.insert(FILES.to_owned(), file_stats(files));
        Ok(metadata.replacing(replaced.clone()))
    }
}

/// Runs a task of a clustering that another process began; `token` is unique to this attempt.
///
/// # Errors
/// `Conflict` if the clustering has ended; those of [`run`].
pub fn run_task(table: &HudiTable, requested: &str, task: &ClusteringTask, token: &str) -> Result<Vec<ClusteredFile>> {
    let view = table.view(None)?;
    let instant = find(table, view.timeline(), requested)?;
    let plan = plan_of(table, view.timeline(), &instant)?.ok_or_else(|| no_such_plan(table, requested))?;
    let strategy = ExecutionStrategy::of(&plan, &ClusteringOptions::from_options(table.options())?)?;
    // Other cores run other tasks.
    let files = DataFiles::of_task(table, requested)?.arc();
    let files = GroupRewriter::new(table, files, &view, requested, strategy, table.threads()?)?.run(task, token)?;
    // The process that commits cannot sync the files of this one.
    table.storage().sync()?;
    Ok(files)
}

/// Rolls back a planned clustering, with the files of its attempts. The input files are unchanged, so no rows are lost.
///
/// # Errors
/// `InvalidOption` if there is no such plan; `Conflict` if another process executes it; `Storage`.
pub(crate) fn roll_back(table: &HudiTable, requested: &str) -> Result<()> {
    let writer = table.timeline_writer()?;
    let instant = find(table, &writer.load()?, requested)?;
    heartbeat::check_no_other_writer(table.storage(), table.clock(), requested)?;
    let held = writer.lock().acquire()?;
    // It may have completed meanwhile.
    let timeline = writer.load()?;
    let instant = find(table, &timeline, &instant.requested)?;
    // A plan that cannot be read can still be rolled back.
    let groups = plan_of(table, &timeline, &instant).ok().flatten().and_then(|p| p.input_groups).unwrap_or_default();
    take_back(table, &instant, &groups)?;
    held.verify()?;
    writer.remove_pending(&instant)?;
    heartbeat::remove(table.storage(), requested)
}

/// Rolls back the planned clusterings to whose file groups a write has written, except those that are being executed:
/// they fail at their commit. Returns their requested times.
///
/// # Errors
/// `Corrupt` for a plan that cannot be read; `Storage`.
pub(crate) fn roll_back_outdated(table: &HudiTable, written: &[WriteStat]) -> Result<Vec<String>> {
    let changed: HashSet<(&str, &str)> = written
        .iter()
        .filter(|s| s.prev_commit.as_deref().is_some_and(|commit| commit != "null"))
        .filter_map(|s| Some((s.partition_path.as_deref().unwrap_or_default(), s.file_id.as_deref()?)))
        .collect();
    let mut done = Vec::new();
    let timeline = table.timeline()?;
    for instant in timeline.pending().filter(|i| i.action.completed_as() == Action::ReplaceCommit) {
        let groups = plan_of(table, &timeline, instant)?.and_then(|p| p.input_groups).unwrap_or_default();
        if !groups_of(&groups).is_disjoint(&changed) && !is_under_way(table, &instant.requested)? {
            roll_back(table, &instant.requested)?;
            done.push(instant.requested.clone());
        }
    }
    Ok(done)
}

/// Whether a process executes the plan with this requested time.
///
/// # Errors
/// `Storage`.
pub(crate) fn is_under_way(table: &HudiTable, requested: &str) -> Result<bool> {
    heartbeat::is_alive(table.storage(), table.clock(), requested)
}

fn find(table: &HudiTable, timeline: &Timeline, requested: &str) -> Result<Instant> {
    let is_plan = |i: &&Instant| i.requested == requested && i.action.completed_as() == Action::ReplaceCommit;
    timeline.pending().find(is_plan).cloned().ok_or_else(|| no_such_plan(table, requested))
}

fn no_such_plan(table: &HudiTable, requested: &str) -> Error {
    Error::invalid_option("there is no pending clustering with this time")
        .with("table", table.storage().uri())
        .with("instant", requested)
        .remedy("List pending clusterings with `hoodoo cluster status`")
}

/// Partition and id of the file groups of a plan.
fn groups_of(groups: &[ClusteringGroup]) -> HashSet<(&str, &str)> {
    slices_of(groups)
        .filter_map(|s| Some((s.partition_path.as_deref().unwrap_or_default(), s.file_id.as_deref()?)))
        .collect()
}

fn slices_of(groups: &[ClusteringGroup]) -> impl Iterator<Item = &SliceInfo> {
    groups.iter().flat_map(|g| g.slices.iter().flatten())
}

/// Removes the files of a failed attempt.
fn take_back(table: &HudiTable, instant: &Instant, groups: &[ClusteringGroup]) -> Result<()> {
    let partitions = slices_of(groups).map(|s| s.partition_path.as_deref().unwrap_or_default());
    remove_files_of(table.storage(), &instant.requested, partitions, false)?;
    forget(table, &instant.requested)
}

/// Fails if a file group of the plan has other files in this view than when it was planned: rows that were written since
/// would be lost.
fn check_unchanged(table: &HudiTable, view: &TableView, groups: &[ClusteringGroup]) -> Result<()> {
    let mut slices: HashMap<(String, String), FileSlice> = HashMap::new();
    let partitions: BTreeSet<&str> =
        slices_of(groups).map(|s| s.partition_path.as_deref().unwrap_or_default()).collect();
    view.list_ahead(&partitions.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>())?;
    for partition in partitions {
        for slice in view.latest_slices(partition)? {
            slices.insert((slice.partition.clone(), slice.file_id.clone()), slice);
        }
    }
    for planned in slices_of(groups) {
        let partition = planned.partition_path.clone().unwrap_or_default();
        let id = planned.file_id.clone().unwrap_or_default();
        let base = planned.data_file_path.as_deref().filter(|path| !path.is_empty());
        let logs = planned.delta_file_paths.iter().flatten().map(String::as_str).filter(|path| has_rows(path));
        let then =
            base.into_iter().chain(logs).map(|path| data_file(&partition, path)).collect::<Result<HashSet<_>>>()?;
        let now = slices.get(&(partition.clone(), id.clone()));
        let now: HashSet<String> = now
            .map(|s| s.base.iter().map(|b| b.path.clone()).chain(s.logs.iter().map(|l| l.path.clone())).collect())
            .unwrap_or_default();
        if then != now {
            return Err(Error::conflict("another writer changed a file group after its clustering was planned")
                .with("table", table.storage().uri())
                .with("partition", partition)
                .with("file group", id)
                .remedy("The plan was rolled back and no rows are lost; plan the clustering again"));
        }
    }
    Ok(())
}

/// Whether the plan can never be completed, rather than that the files could not be listed now.
fn is_outdated(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Corrupt)
}

/// Milliseconds and column ranges of each file, as JSON.
fn file_stats(files: &[ClusteredFile]) -> String {
    let mut all = serde_json::Map::new();
    for file in files {
        let columns =
            file.ranges.iter().map(|(name, (min, max))| (name.clone(), serde_json::json!({ "min": min, "max": max })));
        let columns: serde_json::Map<String, serde_json::Value> = columns.collect();
        let entry = serde_json::json!({ "milliseconds": file.milliseconds, "columns": columns });
        all.insert(file.stat.path.clone().unwrap_or_default(), entry);
    }
    serde_json::Value::Object(all).to_string()
}
