//! Finds the files of failed writes and executes rollback plans.

use std::collections::{BTreeMap, HashSet};

use super::super::planned_files::{data_file, partition_of, plain_path};
use super::super::read_plan;
use super::leftovers::Leftovers;
use super::plan::{FoundFiles, failed_writes, is_written_by, plan_rollback};
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::markers::{delete_markers, marked_files, marker_folder};
use crate::format::avro::metadata::{
    CommitMetadata, InstantInfo, RollbackMetadata, RollbackPartitionMetadata, RollbackPlan, decode, encode,
};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::{both, run_parallel};
use crate::storage::{FileMeta, Storage};
use crate::table::HudiTable;
use crate::timeline::heartbeat::{self, Heartbeats};
use crate::timeline::{Heartbeat, META_FOLDER, Timeline, TimelineWriter};
use crate::transaction::{Follow, Transaction, forget};

/// Rolls back all failed writes, newest first, after finishing pending rollbacks of failed processes. Leaves writes and
/// rollbacks with a heartbeat alone.
///
/// # Errors
/// `Conflict` while a restore is pending.
pub(crate) fn rollback_failed_writes(table: &HudiTable) -> Result<Vec<RollbackMetadata>> {
    Ok(roll_back_leftovers(table, Leftovers::look(table.storage(), table.config().timeline())?)?.0)
}

/// The same for leftovers that are loaded already. Also returns the timeline afterwards.
///
/// # Errors
/// Those of [`rollback_failed_writes`].
pub(crate) fn roll_back_leftovers(table: &HudiTable, left: Leftovers) -> Result<(Vec<RollbackMetadata>, Timeline)> {
    let storage = table.storage();
    let Leftovers { markers, heartbeats, timeline } = left;
    refuse_restore(storage, &timeline)?;
    let writer = table.timeline_writer()?;
    let mut done = Vec::new();
    let unfinished: Vec<Instant> = timeline.pending().filter(|i| i.action == Action::Rollback).cloned().collect();
    for rollback in &unfinished {
        let finished = || finish(table, &writer, rollback);
        done.extend(unless_others_do(table, &heartbeats, &rollback.requested, finished)?.flatten());
    }
    let timeline = if unfinished.is_empty() { timeline } else { writer.load()? };
    for failed in failed_writes(&timeline) {
        let rolled_back = || roll_back(table, &writer, &timeline, &failed);
        done.extend(unless_others_do(table, &heartbeats, &failed.requested, rolled_back)?);
    }
    let mut timeline = if done.is_empty() { timeline } else { writer.load()? };
    if markers.iter().any(|folder| is_stale(folder, &timeline)) {
        // In an object store the markers were listed after the timeline: a write may have begun in between.
        timeline = writer.load()?;
        delete_stale_markers(storage, &timeline, &markers)?;
    }
    heartbeats.remove_stale(storage, table.clock(), &|instant| timeline.pending().any(|i| i.requested == instant))?;
    Ok((done, timeline))
}

/// Runs `work` on an instant, unless another writer works on it or has just done so: several writers find the same
/// failed write.
fn unless_others_do<T>(
    table: &HudiTable,
    heartbeats: &Heartbeats,
    instant: &str,
    act: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    if heartbeats.is_alive(table.storage(), table.clock(), instant)? {
        return Ok(None);
    }
    match act() {
        Err(e) if e.kind() == ErrorKind::Conflict => {
            tracing::info!(table = table.storage().uri(), instant, "another writer handles this instant: {e}");
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Rolls back one pending write.
///
/// # Errors
/// `InvalidOption` if there is no such write or it is a planned table service; `Unsupported` if it has completed.
pub fn rollback(table: &HudiTable, instant: &str) -> Result<RollbackMetadata> {
    let writer = table.timeline_writer()?;
    let timeline = writer.load()?;
    let named = |e: Error| e.with("table", table.storage().uri()).with("instant", instant);
    refuse_restore(table.storage(), &timeline)?;
    if let Some(begun) = begun_rollback(table, &writer, &timeline, instant)? {
        let finished = finish(table, &writer, &begun)?;
        return finished.ok_or_else(|| named(Error::conflict("another process finished the rollback")));
    }
    if let Some(failed) = failed_writes(&timeline).into_iter().find(|i| i.requested == instant) {
        return roll_back(table, &writer, &timeline, &failed);
    }
    let known = timeline.instants().iter().find(|i| i.requested == instant && i.action.is_write());
    Err(named(match known {
        Some(i) if i.is_completed() => Error::unsupported("rolling back a completed write is not supported"),
        Some(i) => Error::invalid_option(format!("a planned {} is not a failed write", i.action))
            .remedy("Execute the plan with the engine that made it"),
        None => Error::invalid_option("there is no pending write with this requested time")
            .remedy("List pending writes with t.timeline.instants()"),
    }))
}

fn begun_rollback(
    table: &HudiTable,
    writer: &TimelineWriter,
    timeline: &Timeline,
    instant: &str,
) -> Result<Option<Instant>> {
    for rollback in timeline.pending().filter(|i| i.action == Action::Rollback) {
        let plan: Option<RollbackPlan> = read_plan(table.storage(), writer, timeline, rollback)?;
        if plan.and_then(|p| p.instant_to_rollback).is_some_and(|target| target.commit_time == instant) {
            return Ok(Some(rollback.clone()));
        }
    }
    Ok(None)
}

fn refuse_restore(storage: &Storage, timeline: &Timeline) -> Result<()> {
    match timeline.pending().find(|i| i.action == Action::Restore) {
        None => Ok(()),
        Some(restore) => Err(Error::conflict("a restore of the table is pending")
            .with("table", storage.uri())
            .with("instant", restore)
            .remedy("Finish the restore with the engine that began it; until then you cannot write to the table")),
    }
}

pub(super) fn roll_back(
    table: &HudiTable,
    writer: &TimelineWriter,
    timeline: &Timeline,
    failed: &Instant,
) -> Result<RollbackMetadata> {
    let storage = table.storage();
    // A running writer: its files must stay.
    let check = || heartbeat::check_no_other_writer(storage, table.clock(), &failed.requested);
    let ((), found) = both(storage.is_remote(), check, || find_files(storage, timeline, failed))?;
    let plan = plan_rollback(failed, &found, &|path| plain_path(storage, path));
    let requested = writer.request_on(Action::Rollback, |now, _| {
        // Checked under the lock: the write may have just completed. After the rollback is requested it cannot.
        if is_completed(now, failed) {
            return Err(Error::conflict("another writer completed a write that looked failed")
                .with("table", storage.uri())
                .with("instant", failed)
                .remedy(
                    "Write again. If writers run on several machines, set hoodie.write.lock.provider for all of them",
                ));
        }
        encode(&plan)
    })?;
    tracing::info!(table = storage.uri(), instant = %failed, "rolling back a write that did not complete");
    carry_out(table, writer, &requested, &plan)
}

fn find_files(storage: &Storage, timeline: &Timeline, failed: &Instant) -> Result<FoundFiles> {
    let marked = marked_files(storage, &failed.requested)?;
    match marked {
        // On a local disk markers are not synced: a power failure may have lost some.
        Some(marked) if !storage.is_local() => return Ok(FoundFiles::Marked(marked)),
        // Data files are written only after the instant is inflight.
        _ if failed.state == State::Requested => {
            return Ok(marked.map_or(FoundFiles::Listed(Vec::new()), FoundFiles::Marked));
        }
        _ => {}
    }
    // Without markers Hudi deletes nothing, and the files would stay for ever.
    let files: Vec<FileMeta> = match touched_partitions(storage, timeline, failed)? {
        Some(partitions) => {
            let mut files = Vec::new();
            for partition in partitions {
                files.extend(storage.list(&partition)?.files);
            }
            files
        }
        None => all_files(storage)?,
    };
    let mut mine: Vec<String> =
        files.into_iter().filter(|f| is_written_by(f, &failed.requested)).map(|f| f.path).collect();
    mine.extend(marked.iter().flatten().cloned());
    mine.sort();
    mine.dedup();
    Ok(if marked.is_some() { FoundFiles::Marked(mine) } else { FoundFiles::Listed(mine) })
}

/// The partitions in the inflight file; `None` if it names none.
fn touched_partitions(storage: &Storage, timeline: &Timeline, failed: &Instant) -> Result<Option<Vec<String>>> {
    let Some(body) = crate::storage::optional(timeline.read(storage, failed))? else { return Ok(None) };
    // An unreadable inflight file names none; the rollback deletes it.
    let Ok(profile) = decode::<CommitMetadata>(&body) else { return Ok(None) };
    let partitions: Vec<String> = profile.partition_to_write_stats.into_keys().collect();
    Ok((!partitions.is_empty()).then_some(partitions))
}

fn all_files(storage: &Storage) -> Result<Vec<FileMeta>> {
    let top = storage.list("")?;
    let mut files = top.files;
    let below: Vec<&String> = top.folders.iter().filter(|f| f.as_str() != META_FOLDER).collect();
    files.extend(storage.list_all_recursive(&below)?);
    Ok(files)
}

/// Finishes a pending rollback. `None` if it has no plan yet.
fn finish(table: &HudiTable, writer: &TimelineWriter, rollback: &Instant) -> Result<Option<RollbackMetadata>> {
    let timeline = writer.load()?;
    let Some(plan) = read_plan::<RollbackPlan>(table.storage(), writer, &timeline, rollback)? else { return Ok(None) };
    carry_out(table, writer, rollback, &plan).map(Some)
}

fn carry_out(
    table: &HudiTable,
    writer: &TimelineWriter,
    rollback: &Instant,
    plan: &RollbackPlan,
) -> Result<RollbackMetadata> {
    let storage = table.storage();
    let named = |e: Error| e.with("table", storage.uri()).with("instant", rollback);
    let (info, target) = target_of(plan).map_err(named)?;
    let files = files_of(plan).map_err(named)?;
    let heartbeat = Heartbeat::take_over(storage, table.clock(), &rollback.requested)?;
    let timeline = writer.load()?;
    refuse_completed(&timeline, &target).map_err(named)?;
    if !timeline.pending().any(|i| i.requested == rollback.requested && i.action == rollback.action) {
        return Err(named(Error::conflict("another process finished the rollback").with("table", storage.uri())));
    }
    let started = writer.start(rollback, Vec::new())?;
    let begun = table.clock().now_ms();
    delete_files(table, &files)?;
    let metadata = metadata(storage, rollback, &info, &files, table.clock().now_ms() - begun);
    let mut transaction = Transaction::take_over(table, writer.clone(), started, heartbeat, false);
    // The metadata table never had the files: what the write committed there is taken back.
    transaction.complete(encode(&metadata)?, Follow::Nothing, &HashSet::new(), |timeline| {
        refuse_completed(timeline, &target)?;
        forget(table, &target.requested)?;
        remove_target(storage, writer, timeline, &target)
    })?;
    let remove_heartbeat = || heartbeat::remove(storage, &target.requested);
    both(storage.is_remote(), || delete_markers(storage, &target.requested), remove_heartbeat)?;
    Ok(metadata)
}

fn target_of(plan: &RollbackPlan) -> Result<(InstantInfo, Instant)> {
    let info = plan
        .instant_to_rollback
        .clone()
        .ok_or_else(|| Error::corrupt("a rollback plan does not name the instant to roll back"))?;
    let action = Action::parse(&info.action).filter(|a| a.is_write());
    let action = action.ok_or_else(|| {
        Error::unsupported(format!("rolling back an instant of action '{}' is not supported", info.action))
    })?;
    if info.commit_time.is_empty() || !info.commit_time.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Error::corrupt(format!("a rollback plan names the instant '{}'", info.commit_time)));
    }
    let target = Instant { requested: info.commit_time.clone(), action, state: State::Inflight, completed: None };
    Ok((info, target))
}

fn is_completed(timeline: &Timeline, target: &Instant) -> bool {
    timeline.instants().iter().any(|i| {
        i.is_completed() && i.requested == target.requested && i.action.completed_as() == target.action.completed_as()
    })
}

fn refuse_completed(timeline: &Timeline, target: &Instant) -> Result<()> {
    if !is_completed(timeline, target) {
        return Ok(());
    }
    Err(Error::unsupported(format!("a pending rollback is of the completed write {}", target.requested))
        .remedy("Finish this rollback with the engine that began it"))
}

/// The files that a plan deletes, relative to the table's base.
fn files_of(plan: &RollbackPlan) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for request in plan.rollback_requests.iter().flatten() {
        if request.log_blocks_to_be_deleted.as_ref().is_some_and(|blocks| !blocks.is_empty()) {
            return Err(Error::unsupported(
                "rollback plans that append rollback blocks to log files are not supported",
            )
            .remedy("Finish this rollback with the engine that began it"));
        }
        for path in &request.files_to_be_deleted {
            files.push(data_file(&request.partition_path, path)?);
        }
    }
    Ok(files)
}

fn delete_files(table: &HudiTable, files: &[String]) -> Result<()> {
    let storage = table.storage();
    if storage.is_remote() {
        // Many by one request.
        return storage.delete_all(files);
    }
    run_parallel(files.to_vec(), table.threads()?, |path: String| {
        // A missing file is no error.
        storage.delete(&path).map(|_| ())
    })?;
    Ok(())
}

fn remove_target(storage: &Storage, writer: &TimelineWriter, timeline: &Timeline, target: &Instant) -> Result<()> {
    let is_target =
        |i: &Instant| i.requested == target.requested && i.action.completed_as() == target.action.completed_as();
    // By the existing file names: a plan may say `replacecommit` for a clustering.
    let mut actions: Vec<Action> = timeline.raw().iter().filter(|(i, _)| is_target(i)).map(|(i, _)| i.action).collect();
    actions.dedup();
    for action in actions {
        let pending = Instant { action, ..target.clone() };
        match action {
            // The plan of a table service stays: the next attempt executes it.
            Action::Compaction | Action::Clustering => {
                storage.delete(&timeline.path(&pending))?;
            }
            _ => writer.remove_pending(&pending)?,
        }
    }
    Ok(())
}

fn metadata(
    storage: &Storage,
    rollback: &Instant,
    info: &InstantInfo,
    files: &[String],
    taken_ms: i64,
) -> RollbackMetadata {
    let mut partitions: BTreeMap<String, RollbackPartitionMetadata> = BTreeMap::new();
    for path in files {
        let partition = partition_of(path);
        let entry = partitions.entry(partition.to_owned()).or_insert_with(|| RollbackPartitionMetadata {
            partition_path: partition.to_owned(),
            rollback_log_files: Some(BTreeMap::new()),
            log_files_from_failed_commit: Some(BTreeMap::new()),
            ..Default::default()
        });
        entry.success_delete_files.push(plain_path(storage, path));
    }
    RollbackMetadata {
        start_rollback_time: rollback.requested.clone(),
        time_taken_in_millis: taken_ms.max(0),
        total_files_deleted: i32::try_from(files.len()).unwrap_or(i32::MAX),
        commits_rollback: vec![info.commit_time.clone()],
        partition_metadata: partitions,
        instants_rollback: vec![info.clone()],
        ..Default::default()
    }
}

/// Deletes markers of writes that are no longer pending: the writer, or the rollback, was killed before it removed
/// them.
fn delete_stale_markers(storage: &Storage, timeline: &Timeline, folders: &[String]) -> Result<()> {
    for folder in folders.iter().filter(|folder| is_stale(folder, timeline)) {
        storage.delete_folder(folder)?;
    }
    Ok(())
}

fn is_stale(folder: &str, timeline: &Timeline) -> bool {
    let instant = folder.rsplit('/').next().unwrap_or_default();
    let is_instant = !instant.is_empty() && instant.bytes().all(|b| b.is_ascii_digit());
    is_instant && *folder == marker_folder(instant) && !timeline.pending().any(|i| i.requested == instant)
}
