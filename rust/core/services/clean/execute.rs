//! Loads the input of a plan, and executes plans.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::planned_files::{data_file, partition_folder};
use super::super::savepoint::read_savepoint;
use super::super::under_way::is_under_way;
use super::super::{read_plan, refuse_pending_clean};
use super::plan::{CleanInput, CleanOptions, SAVEPOINTS, commits_since, plan_clean};
use super::retention::Retention;
use crate::error::{Error, Result};
use crate::file_group::{is_partition_metadata, written_at};
use crate::format::avro::metadata::{
    CleanMetadata, CleanPartitionMetadata, CleanerPlan, CompactionPlan, SavepointMetadata, decode, encode,
};
use crate::format::instant::{Action, Instant, State};
use crate::metadata_table::write::FileChanges;
use crate::parallel::run_parallel;
use crate::storage::{FileMeta, Storage};
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, TableView};
use crate::timeline::{Heartbeat, LockGuard, Timeline, TimelineWriter};
use crate::transaction::{Follow, Transaction};

/// Partitions of an object store that are removed at a time.
const REMOVALS: usize = 16;

/// Finishes pending cleans, then plans and executes one if it is due. Returns the metadata of the last one. `None` also
/// while another process cleans the table.
///
/// # Errors
/// `InvalidOption`; `Conflict` if a savepoint or the plan of another service was created meanwhile; `Corrupt`; `Storage`.
pub fn clean(table: &HudiTable) -> Result<Option<CleanMetadata>> {
    Ok(clean_from(table, table.timeline()?)?.0)
}

/// The same, planned from a newly loaded timeline. Also returns the timeline afterwards.
///
/// # Errors
/// Those of [`clean`].
pub(crate) fn clean_from(table: &HudiTable, timeline: Timeline) -> Result<(Option<CleanMetadata>, Timeline)> {
    let options = CleanOptions::from_options(table.options())?;
    clean_by(table, timeline, &options)
}

/// The same, due or not.
///
/// # Errors
/// Those of [`clean`].
pub(crate) fn clean_now(table: &HudiTable, timeline: Timeline) -> Result<Option<CleanMetadata>> {
    let options = CleanOptions { trigger_max_commits: 0, ..CleanOptions::from_options(table.options())? };
    Ok(clean_by(table, timeline, &options)?.0)
}

fn clean_by(
    table: &HudiTable,
    timeline: Timeline,
    options: &CleanOptions,
) -> Result<(Option<CleanMetadata>, Timeline)> {
    let writer = table.timeline_writer()?;
    let pending: Vec<Instant> = timeline.pending().filter(|i| i.action == Action::Clean).cloned().collect();
    for pending in &pending {
        if is_under_way(table, pending)? {
            return Ok((None, timeline));
        }
    }
    let (mut last, mut timeline) = finish_pending(table, &writer, timeline)?;
    let planned_from = CleanBlockers::of(&timeline);
    if let Some(plan) = make_plan(table, timeline.clone(), options)? {
        // A plan that cannot be executed would block all later cleans.
        refuse_links(table.storage(), &plan)?;
        let holds = |now: &Timeline| {
            if !CleanBlockers::of(now).is_as(&planned_from) {
                return Err(Error::conflict(
                    "a savepoint or a plan was created, or a write rolled back, while the clean was planned",
                )
                .with("table", table.storage().uri())
                .remedy("Nothing was deleted; clean again"));
            }
            encode(&plan)
        };
        let transaction = Transaction::begin(table, Action::Clean, None, false, holds, Vec::new())?;
        let (done, now) = carry_out(transaction, &plan)?;
        (last, timeline) = (Some(done), now);
    }
    Ok((last, timeline))
}

/// The plan that a clean would make now, however many commits came since the last one. Writes nothing.
///
/// # Errors
/// Those of [`clean`].
pub fn planned(table: &HudiTable) -> Result<Option<CleanerPlan>> {
    let options = CleanOptions { trigger_max_commits: 0, ..CleanOptions::from_options(table.options())? };
    make_plan(table, table.timeline()?, &options)
}

/// Savepoints and pending plans, whose files must stay, and what brought older file slices back. If they change while a
/// clean is planned, its plan is not executed.
struct CleanBlockers {
    savepoints: BTreeSet<String>,
    /// Rollbacks and restores: a slice that was an old one may be the newest now.
    undone: BTreeSet<String>,
    /// Pending plans of table services and of other cleans.
    pending: BTreeSet<String>,
}

impl CleanBlockers {
    fn of(timeline: &Timeline) -> Self {
        let services = [Action::Compaction, Action::LogCompaction, Action::Clustering, Action::Clean, Action::Restore];
        let requested = |i: &Instant| i.requested.clone();
        Self {
            savepoints: timeline.completed(Action::Savepoint).map(requested).collect(),
            undone: timeline
                .completed(Action::Rollback)
                .chain(timeline.completed(Action::Restore))
                .map(requested)
                .collect(),
            pending: timeline.pending().filter(|i| services.contains(&i.action)).map(requested).collect(),
        }
    }

    /// Whether nothing came since the others were there.
    fn is_as(&self, before: &Self) -> bool {
        self.savepoints == before.savepoints && self.pending == before.pending && self.undone.is_subset(&before.undone)
    }
}

/// Finishes pending cleans whose process was killed.
///
/// # Errors
/// `Conflict` while another process cleans the table; those of [`clean`].
pub(crate) fn finish_cleans(table: &HudiTable, timeline: Timeline) -> Result<Timeline> {
    if timeline.pending().all(|i| i.action != Action::Clean) {
        return Ok(timeline);
    }
    let (_, timeline) = finish_pending(table, &table.timeline_writer()?, timeline)?;
    refuse_pending_clean(table, &timeline)?;
    Ok(timeline)
}

fn finish_pending(
    table: &HudiTable,
    writer: &TimelineWriter,
    mut timeline: Timeline,
) -> Result<(Option<CleanMetadata>, Timeline)> {
    if delete_empty_results(table.storage(), &timeline)? {
        timeline = writer.load()?;
    }
    let pending: Vec<Instant> = timeline.pending().filter(|i| i.action == Action::Clean).cloned().collect();
    let mut last = None;
    for instant in &pending {
        if is_under_way(table, instant)? {
            continue;
        }
        if let Some(plan) = read_plan::<CleanerPlan>(table.storage(), writer, &timeline, instant)? {
            let heartbeat = Heartbeat::take_over(table.storage(), table.clock(), &instant.requested)?;
            if !writer.load()?.pending().any(|i| i.requested == instant.requested && i.action == instant.action) {
                // Another process has just finished it.
                continue;
            }
            refuse_links(table.storage(), &plan).map_err(|e| e.with("instant", instant))?;
            let started = writer.start(instant, Vec::new())?;
            last = Some(carry_out(Transaction::take_over(table, writer.clone(), started, heartbeat, false), &plan)?.0);
        }
    }
    let timeline = if pending.is_empty() { timeline } else { writer.load()? };
    Ok((last, timeline))
}

/// Deletes completed cleans with empty files, which did not complete. Returns whether there was one.
fn delete_empty_results(storage: &Storage, timeline: &Timeline) -> Result<bool> {
    let mut found = false;
    for (instant, file) in timeline.raw() {
        if instant.action == Action::Clean && instant.is_completed() && storage.is_empty(file)? {
            storage.delete(&file.path)?;
            found = true;
        }
    }
    Ok(found)
}

fn make_plan(table: &HudiTable, timeline: Timeline, options: &CleanOptions) -> Result<Option<CleanerPlan>> {
    let storage = table.storage();
    let last_clean = match timeline.completed(Action::Clean).next_back() {
        Some(instant) => Some(read::<CleanMetadata>(storage, &timeline, instant)?),
        None => None,
    };
    if commits_since(&timeline, last_clean.as_ref()) < options.trigger_max_commits {
        return Ok(None);
    }
    let now_ms = table.clock().now_ms();
    let earliest = options.retention.earliest(&timeline, now_ms).map(|earliest| earliest.requested.clone());
    if earliest.is_none() && !matches!(options.retention, Retention::FileVersions(_)) {
        return Ok(None);
    }
    let savepoints = savepoints(table, &timeline)?;
    let since = last_clean.as_ref().filter(|_| options.incremental);
    let since = since.and_then(|last| incremental_from(&timeline, last, &savepoints));
    let changed = match (since, earliest) {
        (Some(from), Some(earliest)) => Some(changed_partitions(storage, &timeline, from, &earliest)?),
        // Where the last clean was by versions, nothing says which commits it considered.
        _ => None,
    };
    let compactions = compactions(storage, &timeline)?;
    let view = TableView::new(storage.clone(), timeline)?;
    let partitions = match changed {
        Some(changed) => list_partitions(storage, changed)?,
        None => view.partition_files()?,
    };
    let input = CleanInput {
        view: &view,
        partitions: &partitions,
        savepoints: &savepoints,
        compactions: &compactions,
        is_partitioned: !table.config().partition_fields().is_empty(),
        full_path: &|path| storage.absolute(path),
        now_ms,
    };
    plan_clean(&input, options)
}

fn read<T: crate::format::avro::metadata::TimelineRecord>(
    storage: &Storage,
    timeline: &Timeline,
    instant: &Instant,
) -> Result<T> {
    let body = timeline.read(storage, instant)?;
    decode(&body).map_err(|e| e.with("table", storage.uri()).with("instant", instant))
}

fn savepoints(table: &HudiTable, timeline: &Timeline) -> Result<BTreeMap<String, SavepointMetadata>> {
    let read = |instant: &Instant| Ok((instant.requested.clone(), read_savepoint(table, timeline, instant)?));
    timeline.completed(Action::Savepoint).map(read).collect()
}

fn compactions(storage: &Storage, timeline: &Timeline) -> Result<Vec<CompactionPlan>> {
    let pending = timeline.pending().filter(|i| matches!(i.action, Action::Compaction | Action::LogCompaction));
    pending.map(|i| read(storage, timeline, &Instant { state: State::Requested, ..i.clone() })).collect()
}

/// Where the last clean ended, if the active timeline has all changes since.
fn incremental_from<'a>(
    timeline: &Timeline,
    last: &'a CleanMetadata,
    savepoints: &BTreeMap<String, SavepointMetadata>,
) -> Option<&'a str> {
    let from = last.earliest_commit_to_retain.as_str();
    let on_timeline = timeline.completed_writes().any(|i| i.requested == from);
    let seen = last.extra_metadata.as_ref().and_then(|extra| extra.get(SAVEPOINTS)).map_or("", String::as_str);
    // Files of a deleted savepoint may be deleted now.
    let all_there = seen.split(',').filter(|s| !s.is_empty()).all(|s| savepoints.contains_key(s));
    (on_timeline && timeline.first_active().is_some_and(|first| first <= from) && all_there).then_some(from)
}

fn changed_partitions(storage: &Storage, timeline: &Timeline, from: &str, to: &str) -> Result<BTreeSet<String>> {
    let mut changed = BTreeSet::new();
    for instant in timeline.completed_writes() {
        if instant.requested.as_str() >= from && instant.requested.as_str() < to {
            let metadata = read_write_metadata(storage, timeline, instant)?;
            changed.extend(metadata.partition_to_write_stats.into_keys());
            changed.extend(metadata.partition_to_replace_file_ids.into_keys());
        }
    }
    Ok(changed)
}

fn list_partitions(storage: &Storage, partitions: BTreeSet<String>) -> Result<BTreeMap<String, Vec<FileMeta>>> {
    let listed = storage.list_folders(partitions.into_iter().collect(), 1)?;
    Ok(listed.into_iter().filter(|(_, files)| files.iter().any(|f| is_partition_metadata(f.name()))).collect())
}

/// What a plan deletes in one partition: paths relative to the table's base.
struct PartitionWork {
    partition: String,
    files: Vec<(String, String)>,
    whole: bool,
}

/// Fails if a file of a plan is behind a symbolic link.
fn refuse_links(storage: &Storage, plan: &CleanerPlan) -> Result<()> {
    let work = work_of(plan).map_err(|e| e.with("table", storage.uri()))?;
    work.iter().try_for_each(|part| storage.refuse_links(&part.partition))
}

/// Executes a plan. Also returns the timeline afterwards.
fn carry_out(mut transaction: Transaction, plan: &CleanerPlan) -> Result<(CleanMetadata, Timeline)> {
    transaction.started()?;
    let (table, instant) = (transaction.table().clone(), transaction.instant().clone());
    let (table, storage) = (&table, table.storage());
    let work = work_of(plan).map_err(|e| e.with("table", storage.uri()).with("instant", &instant))?;
    let begun = table.clock().now_ms();
    let mut partition_metadata = delete(storage, table.threads()?, &work, &plan.policy)?;
    let _held = remove_emptied(&mut transaction, &work, &mut partition_metadata)?;
    let taken_ms = (table.clock().now_ms() - begun).max(0);
    let metadata = metadata_of(plan, &instant.requested, partition_metadata, taken_ms);
    let changes = FileChanges::of_clean(&metadata);
    let done = transaction.complete(encode(&metadata)?, Follow::Files(&changes), &HashSet::new(), |_| Ok(()))?;
    Ok((metadata, done.timeline))
}

/// Removes partitions that the clean emptied, unless a write is under way, which may be filling one of them again. Returns
/// the table lock, which is held until the clean is completed: no write may begin before readers know what was removed.
fn remove_emptied(
    transaction: &mut Transaction,
    work: &[PartitionWork],
    cleaned: &mut BTreeMap<String, CleanPartitionMetadata>,
) -> Result<Option<LockGuard>> {
    if work.iter().all(|part| !part.whole) {
        return Ok(None);
    }
    let held = transaction.hold_lock()?;
    let is_write = |i: &Instant| matches!(i.action, Action::Commit | Action::DeltaCommit | Action::ReplaceCommit);
    if transaction.timeline().load()?.pending().any(is_write) {
        return Ok(Some(held));
    }
    let (table, storage) = (transaction.table(), transaction.table().storage());
    // Others wait for the lock meanwhile.
    let threads = if storage.is_remote() { REMOVALS } else { table.threads()? };
    let emptied: Vec<&str> = work.iter().filter(|part| part.whole).map(|part| part.partition.as_str()).collect();
    let removed = run_parallel(emptied, threads, |partition| Ok((partition, delete_partition(storage, partition)?)))?;
    for (partition, is_removed) in removed {
        let metadata = cleaned.get_mut(partition);
        let metadata = metadata.ok_or_else(|| Error::internal("a partition was emptied without being cleaned"))?;
        metadata.is_partition_deleted = Some(is_removed);
    }
    Ok(Some(held))
}

/// The result of a clean.
fn metadata_of(
    plan: &CleanerPlan,
    requested: &str,
    partition_metadata: BTreeMap<String, CleanPartitionMetadata>,
    taken_ms: i64,
) -> CleanMetadata {
    let deleted: usize = partition_metadata.values().map(|p| p.success_delete_files.len()).sum();
    CleanMetadata {
        start_clean_time: requested.to_owned(),
        time_taken_in_millis: taken_ms,
        total_files_deleted: i32::try_from(deleted).unwrap_or(i32::MAX),
        earliest_commit_to_retain: plan
            .earliest_instant_to_retain
            .as_ref()
            .map(|i| i.timestamp.clone())
            .unwrap_or_default(),
        last_completed_commit_timestamp: plan.last_completed_commit_timestamp.clone(),
        partition_metadata,
        bootstrap_partition_metadata: Some(BTreeMap::new()),
        extra_metadata: Some(plan.extra_metadata.clone().unwrap_or_default()),
        ..Default::default()
    }
}

/// Deletes the files of a plan of another table below this one: in `base`, a folder of this table. Partitions stay.
///
/// # Errors
/// `Corrupt` for a plan that names something else than data files; `Storage`.
pub(in crate::services) fn execute_below(
    storage: &Storage,
    base: &str,
    threads: usize,
    plan: &CleanerPlan,
    requested: &str,
) -> Result<CleanMetadata> {
    let mut work = work_of(plan).map_err(|e| e.with("table", storage.uri()).with("instant", requested))?;
    for part in &mut work {
        part.whole = false;
        part.files.iter_mut().for_each(|(_, path)| *path = format!("{base}/{path}"));
    }
    let partition_metadata = delete(storage, threads, &work, &plan.policy)?;
    Ok(metadata_of(plan, requested, partition_metadata, 0))
}

fn work_of(plan: &CleanerPlan) -> Result<Vec<PartitionWork>> {
    let whole: BTreeSet<&str> = plan.partitions_to_be_deleted.iter().flatten().map(String::as_str).collect();
    let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (partition, files) in plan.file_paths_to_be_deleted_per_partition.iter().flatten() {
        for file in files {
            if file.is_bootstrap_base_file == Some(true) {
                return Err(Error::unsupported(
                    "clean plans that delete files of a bootstrapped source table are not supported",
                ));
            }
            let path = file.file_path.as_deref();
            let path = path.ok_or_else(|| Error::corrupt("a clean plan has a file without a path"))?;
            paths.entry(partition).or_default().push(path);
        }
    }
    // Plans of old versions have only file names.
    for (partition, files) in plan.files_to_be_deleted_per_partition.iter().flatten() {
        paths.entry(partition).or_default().extend(files.iter().map(String::as_str));
    }
    for partition in &whole {
        // The root folder of an unpartitioned table is never deleted, though Hudi may plan it.
        if !partition.is_empty() {
            paths.entry(partition_folder(partition)?).or_default();
        }
    }
    let mut work = Vec::new();
    for (partition, paths) in paths {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let relative = data_file(partition, path)?;
            let name = relative.rsplit('/').next().unwrap_or_default().to_owned();
            files.push((name, relative));
        }
        let whole = !partition.is_empty() && whole.contains(partition);
        work.push(PartitionWork { partition: partition.to_owned(), files, whole });
    }
    Ok(work)
}

fn delete(
    storage: &Storage,
    threads: usize,
    work: &[PartitionWork],
    policy: &str,
) -> Result<BTreeMap<String, CleanPartitionMetadata>> {
    let all: Vec<String> = work.iter().flat_map(|w| w.files.iter().map(|(_, path)| path.clone())).collect();
    let mut was_there = storage.delete_many(all, threads)?.into_iter();
    let mut done = BTreeMap::new();
    for part in work {
        let mut metadata = CleanPartitionMetadata {
            partition_path: part.partition.clone(),
            policy: policy.to_owned(),
            delete_path_patterns: part.files.iter().map(|(name, _)| name.clone()).collect(),
            is_partition_deleted: Some(false),
            ..Default::default()
        };
        for ((name, _), deleted) in part.files.iter().zip(was_there.by_ref()) {
            // As in Hudi, a file that was missing counts as failed.
            let list = if deleted { &mut metadata.success_delete_files } else { &mut metadata.failed_delete_files };
            list.push(name.clone());
        }
        done.insert(part.partition.clone(), metadata);
    }
    Ok(done)
}

/// Deletes the folder of a partition that is empty after the clean. If files were written since the plan was made, the
/// folder stays.
fn delete_partition(storage: &Storage, partition: &str) -> Result<bool> {
    let left = storage.list_recursive(partition_folder(partition)?)?;
    if left.iter().any(|f| written_at(f).is_some()) {
        return Ok(false);
    }
    storage.delete_folder(partition)?;
    Ok(true)
}
