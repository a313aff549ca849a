//! Carrying a plan out: from inflight to completed, or back off the timeline.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::planned_files::data_file;
use super::super::schema_of;
use super::super::task_files::remove_files_of;
use super::options::ClusteringOptions;
use super::portion::Portion;
use super::recipe::Recipe;
use super::schedule::plan_of;
use super::unit::{ClusteredFile, Unit};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::format::avro::metadata::{ClusteringGroup, ReplaceCommitMetadata, SliceInfo, WriteStat, encode};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::instant::{Action, Instant, State};
use crate::parallel::run_parallel;
use crate::table::{HudiTable, TableView};
use crate::timeline::{Heartbeat, Timeline, heartbeat};
use crate::transaction::{DataFiles, Transaction};

/// Entry of the commit: for each file the milliseconds it took and the ranges of its columns, as JSON.
pub const FILES: &str = "hoodoo.clustering.files";
/// Bytes of base files that a task of several takes, unless `hoodoo.clustering.task.bytes` says otherwise.
const TASK_BYTES: u64 = 1 << 30;
/// The operation in commit metadata.
const OPERATION: &str = "CLUSTER";

/// What a clustering did.
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
    /// What went wrong after it was published.
    pub warnings: Vec<String>,
}

/// Carries out the plan with this requested time. A try that died is taken back first. `None` when the plan is an empty
/// file, which is then removed.
///
/// # Errors
/// `InvalidOption` when there is no such plan; `Corrupt` when files of it are gone; `Unsupported` for execution strategies
/// of other kinds; `Conflict` when somebody else carries it out, or wrote to its file groups (the plan is then rolled
/// back); `Storage`.
pub fn run(table: &HudiTable, requested: &str) -> Result<Option<Clustered>> {
    let Some(job) = ClusteringJob::begin(table, requested, false)? else { return Ok(None) };
    let at_once = job.groups.len().min(table.threads()?);
    let unit = Unit::new(table, job.transaction.files().clone(), &job.view, requested, job.recipe.clone(), at_once)?;
    let numbered: Vec<(usize, Portion)> = job.groups.iter().cloned().map(Portion::whole).enumerate().collect();
    let files = run_parallel(numbered, at_once, |(task, group)| unit.run(&group, &format!("{task}-0-0")))?;
    job.complete(files.into_iter().flatten().collect()).map(Some)
}

/// A clustering under way, whose groups may be rewritten by several processes.
pub struct ClusteringJob {
    transaction: Transaction,
    /// The table as it was when the work began.
    view: TableView,
    recipe: Recipe,
    groups: Vec<ClusteringGroup>,
}

impl ClusteringJob {
    /// Begins the plan with this requested time; a try that died is taken back first. `has_tasks`: whether other processes
    /// rewrite its groups. `None` when the plan is an empty file, which is then removed.
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
        let recipe = Recipe::of(&plan, &ClusteringOptions::from_options(table.options())?)
            .map_err(|e| e.with("table", table.storage().uri()).with("instant", requested))?;
        let groups = plan.input_groups.unwrap_or_default();
        if instant.state == State::Inflight {
            take_back(table, &instant, &groups)?;
            instant = writer.revert(&instant)?;
        }
        if let Err(changed) = check_unchanged(table, &timeline, requested, &groups) {
            // All the work would be for nothing.
            writer.remove_pending(&instant)?;
            return Err(changed);
        }
        let instant = writer.start(&instant, Vec::new())?;
        let transaction = Transaction::take_over(table, writer, instant, heartbeat, has_tasks);
        let view = table.view_of(timeline)?;
        Ok(Some(Self { transaction, view, recipe, groups }))
    }

    /// Requested time.
    pub fn instant(&self) -> &str {
        self.transaction.requested()
    }

    /// What tasks rewrite, each by itself: the groups, in parts where they have more than `hoodoo.clustering.task.bytes`.
    ///
    /// # Errors
    /// `InvalidOption`; `Corrupt` when a file of the plan is gone; `Storage`.
    pub fn portions(&self) -> Result<Vec<Portion>> {
        let most_bytes = self.transaction.table().options().number("hoodoo.clustering.task.bytes", TASK_BYTES)?;
        let (table, files) = (self.transaction.table(), self.transaction.files().clone());
        let unit = Unit::new(table, files, &self.view, self.instant(), self.recipe.clone(), 1)?;
        let mut portions = Vec::new();
        for group in &self.groups {
            portions.extend(unit.divide(group.clone(), most_bytes)?);
        }
        Ok(portions)
    }

    /// Publishes the files. Those of attempts that are not among them are removed first.
    ///
    /// # Errors
    /// `Conflict` when another process completed it, or wrote to a file group of the plan: then what was written is
    /// removed, and the plan with it; `Storage`.
    pub fn complete(mut self, files: Vec<ClusteredFile>) -> Result<Clustered> {
        let table = self.transaction.table().clone();
        let replaced = self.replaced();
        let body = encode(&self.metadata(&files, &replaced)?)?;
        let stats: Vec<WriteStat> = files.into_iter().map(|f| f.stat).collect();
        let reported: HashSet<&str> = stats.iter().filter_map(|s| s.path.as_deref()).collect();
        let mut outdated = false;
        let (groups, requested) = (&self.groups, self.instant().to_owned());
        let done = self.transaction.complete(body, &reported, |timeline| {
            let unchanged = check_unchanged(&table, timeline, &requested, groups);
            outdated = unchanged.is_err();
            unchanged
        });
        let done = match done {
            Err(e) if outdated => {
                // It can never be completed, and as long as it is planned it keeps writers away.
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
        let mut by_partition: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
        for stat in files.iter().map(|f| &f.stat) {
            by_partition.entry(stat.partition_path.clone().unwrap_or_default()).or_default().push(stat.clone());
        }
        let table = self.transaction.table();
        let avro = table_schema_to_avro(&schema_of(table, &self.view)?.data, table.config().name(), false)?;
        let extra = [("schema".to_owned(), avro), (FILES.to_owned(), told(files))];
        Ok(ReplaceCommitMetadata {
            partition_to_write_stats: by_partition,
            compacted: Some(false),
            extra_metadata: extra.into(),
            version: None,
            operation_type: Some(OPERATION.to_owned()),
            partition_to_replace_file_ids: replaced.clone(),
        })
    }
}

/// Rewrites a portion of a clustering that another process began; `token` tells this attempt from others.
///
/// # Errors
/// `Conflict` when the clustering is over; those of [`run`].
pub fn run_portion(table: &HudiTable, requested: &str, portion: &Portion, token: &str) -> Result<Vec<ClusteredFile>> {
    let view = table.view(None)?;
    let instant = find(table, view.timeline(), requested)?;
    let plan = plan_of(table, view.timeline(), &instant)?.ok_or_else(|| no_such_plan(table, requested))?;
    let recipe = Recipe::of(&plan, &ClusteringOptions::from_options(table.options())?)?;
    // Other cores have tasks of their own.
    let files = DataFiles::of_task(table, requested)?.arc();
    let files = Unit::new(table, files, &view, requested, recipe, table.threads()?)?.run(portion, token)?;
    // That process does not know what is still to be synced here.
    table.storage().sync()?;
    Ok(files)
}

/// Takes a planned clustering off the timeline, with all that a try of it wrote. No rows are lost: the files of the plan
/// are there as they were.
///
/// # Errors
/// `InvalidOption` when there is no such plan; `Conflict` when somebody carries it out; `Storage`.
pub fn roll_back(table: &HudiTable, requested: &str) -> Result<()> {
    let writer = table.timeline_writer()?;
    let instant = find(table, &writer.load()?, requested)?;
    heartbeat::check_no_other_writer(table.storage(), table.clock(), requested)?;
    let held = writer.lock().acquire()?;
    // What completed in the meantime stands.
    let timeline = writer.load()?;
    let instant = find(table, &timeline, &instant.requested)?;
    // A plan that cannot be read any more can be rolled back all the same.
    let groups = plan_of(table, &timeline, &instant).ok().flatten().and_then(|p| p.input_groups).unwrap_or_default();
    take_back(table, &instant, &groups)?;
    held.verify()?;
    writer.remove_pending(&instant)?;
    heartbeat::remove(table.storage(), requested)
}

/// Rolls back the planned clusterings that a write has made impossible, because it wrote to file groups of theirs, but
/// for those that somebody carries out: they fail when they are to be completed. Their requested times.
///
/// # Errors
/// `Corrupt` for a plan that cannot be read; `Storage`.
pub fn roll_back_outdated(table: &HudiTable, written: &[WriteStat]) -> Result<Vec<String>> {
    let changed: HashSet<(&str, &str)> = written
        .iter()
        .filter(|s| s.prev_commit.as_deref().is_some_and(|commit| commit != "null"))
        .filter_map(|s| Some((s.partition_path.as_deref().unwrap_or_default(), s.file_id.as_deref()?)))
        .collect();
    let mut done = Vec::new();
    let timeline = table.timeline()?;
    for instant in timeline.pending().filter(|i| i.action.completed_as() == Action::ReplaceCommit) {
        let groups = plan_of(table, &timeline, instant)?.and_then(|p| p.input_groups).unwrap_or_default();
        let mut groups_of_plan = slices_of(&groups)
            .filter_map(|s| Some((s.partition_path.as_deref().unwrap_or_default(), s.file_id.as_deref()?)));
        if groups_of_plan.any(|group| changed.contains(&group)) && !is_under_way(table, &instant.requested)? {
            roll_back(table, &instant.requested)?;
            done.push(instant.requested.clone());
        }
    }
    Ok(done)
}

/// Whether a process carries out the plan with this requested time.
///
/// # Errors
/// `Storage`.
pub fn is_under_way(table: &HudiTable, requested: &str) -> Result<bool> {
    heartbeat::is_alive(table.storage(), table.clock(), requested)
}

fn find(table: &HudiTable, timeline: &Timeline, requested: &str) -> Result<Instant> {
    let is_plan = |i: &&Instant| i.requested == requested && i.action.completed_as() == Action::ReplaceCommit;
    timeline.pending().find(is_plan).cloned().ok_or_else(|| no_such_plan(table, requested))
}

fn no_such_plan(table: &HudiTable, requested: &str) -> Error {
    Error::invalid_option("there is no planned clustering with this time")
        .with("table", table.storage().uri())
        .with("instant", requested)
        .remedy("Look at `hoodoo cluster status` for the clusterings that are planned")
}

fn slices_of(groups: &[ClusteringGroup]) -> impl Iterator<Item = &SliceInfo> {
    groups.iter().flat_map(|g| g.slices.iter().flatten())
}

/// Removes what a try that died had written.
fn take_back(table: &HudiTable, instant: &Instant, groups: &[ClusteringGroup]) -> Result<()> {
    let partitions = slices_of(groups).map(|s| s.partition_path.as_deref().unwrap_or_default());
    remove_files_of(table.storage(), &instant.requested, partitions)
}

/// Fails when a file group of the plan of this time has other files now than when it was planned: what was written to it
/// would be lost.
fn check_unchanged(table: &HudiTable, timeline: &Timeline, requested: &str, groups: &[ClusteringGroup]) -> Result<()> {
    if !timeline.changed_since(requested) {
        return Ok(());
    }
    let view = table.view_of(timeline.clone())?;
    let mut slices: HashMap<(String, String), FileSlice> = HashMap::new();
    let partitions: HashSet<&str> =
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
        let logs = planned.delta_file_paths.iter().flatten().map(String::as_str);
        let then =
            base.into_iter().chain(logs).map(|path| data_file(&partition, path)).collect::<Result<HashSet<_>>>()?;
        let now = slices.get(&(partition.clone(), id.clone()));
        let now: HashSet<String> = now
            .map(|s| s.base.iter().map(|b| b.path.clone()).chain(s.logs.iter().map(|l| l.path.clone())).collect())
            .unwrap_or_default();
        if then != now {
            return Err(Error::conflict(
                "a file group has other files now than when its clustering was planned: somebody wrote to it",
            )
            .with("table", table.storage().uri())
            .with("partition", partition)
            .with("file group", id)
            .remedy("The plan was taken back, and nothing is lost; plan the clustering again"));
        }
    }
    Ok(())
}

/// What is told about each file, as JSON.
fn told(files: &[ClusteredFile]) -> String {
    let mut all = serde_json::Map::new();
    for file in files {
        let columns = file
            .ranges
            .iter()
            .map(|(name, (least, greatest))| (name.clone(), serde_json::json!({ "min": least, "max": greatest })));
        let columns: serde_json::Map<String, serde_json::Value> = columns.collect();
        let entry = serde_json::json!({ "milliseconds": file.milliseconds, "columns": columns });
        all.insert(file.stat.path.clone().unwrap_or_default(), entry);
    }
    serde_json::Value::Object(all).to_string()
}
