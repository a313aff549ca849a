//! Which writes are rolled back, and where their files are.

use std::collections::HashSet;

use super::super::indexing::remove_dead;
use super::super::planned_files::plain_path;
use super::super::read_plan;
use super::super::under_way::may_be_hudis;
use super::carry_out::{carry_out_failed, is_completed, target_of};
use super::completed::{drop_unbegun, roll_back_completed};
use super::leftovers::Leftovers;
use super::plan::{FoundFiles, failed_writes, is_written_by, plan_rollback};
use super::stale_markers::{delete_stale_markers, is_stale};
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::markers::marked_files;
use crate::format::avro::metadata::{CommitMetadata, RollbackMetadata, RollbackPlan, decode, encode};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::both;
use crate::storage::{FileMeta, Storage, optional};
use crate::table::{HudiTable, data_files};
use crate::timeline::heartbeat::{self, Heartbeats};
use crate::timeline::{Timeline, TimelineWriter};

/// Rolls back all failed writes, newest first, after finishing pending rollbacks of failed processes, and removes indexes
/// whose process was killed. Leaves writes and rollbacks with a heartbeat alone.
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
    let pending = timeline.pending().filter(|i| i.action == Action::Rollback);
    let (unfinished, of_others) = without_those_of_hudi(table, &heartbeats, pending)?;
    let left_alone = targets_of(storage, &timeline, &of_others)?;
    for rollback in &unfinished {
        let finished = || finish(table, &writer, rollback);
        done.extend(unless_others_do(table, &heartbeats, &rollback.requested, finished)?.flatten());
    }
    let timeline = if unfinished.is_empty() { timeline } else { writer.load()? };
    for failed in failed_writes(&timeline).into_iter().filter(|failed| !left_alone.contains(&failed.requested)) {
        let rolled_back = || roll_back(table, &writer, &timeline, &failed);
        done.extend(unless_others_do(table, &heartbeats, &failed.requested, rolled_back)?);
    }
    // One that is being built costs the writers beside it no lock.
    let is_dead = |index: &Instant| {
        let is_alive = heartbeats.is_alive(storage, table.clock(), &index.requested);
        heartbeats.has(&index.requested) && is_alive.is_ok_and(|is_alive| !is_alive)
    };
    let changed = remove_dead(table, &timeline, is_dead)? || !done.is_empty();
    let mut timeline = if changed { writer.load()? } else { timeline };
    if markers.iter().any(|folder| is_stale(folder, &timeline)) {
        // In an object store the markers were listed after the timeline: a write may have begun in between.
        timeline = writer.load()?;
        delete_stale_markers(table, &timeline, &markers)?;
    }
    heartbeats.remove_stale(storage, table.clock(), &|instant| timeline.is_pending(instant))?;
    Ok((done, timeline))
}

/// Pending rollbacks: those of dead processes, and those at which Hudi may be at work.
fn without_those_of_hudi<'a>(
    table: &HudiTable,
    heartbeats: &Heartbeats,
    pending: impl Iterator<Item = &'a Instant>,
) -> Result<(Vec<Instant>, Vec<Instant>)> {
    let (mut dead, mut of_others) = (Vec::new(), Vec::new());
    for rollback in pending {
        let is_hudis = !heartbeats.has(&rollback.requested) && may_be_hudis(table, rollback)?;
        if is_hudis { &mut of_others } else { &mut dead }.push(rollback.clone());
    }
    Ok((dead, of_others))
}

/// The writes that rollbacks of others take back. A plan without content is being written.
fn targets_of(storage: &Storage, timeline: &Timeline, rollbacks: &[Instant]) -> Result<HashSet<String>> {
    let mut targets = HashSet::new();
    for rollback in rollbacks {
        let requested = Instant { state: State::Requested, completed: None, ..rollback.clone() };
        let plan = optional(timeline.read(storage, &requested))?.filter(|plan| !plan.is_empty());
        let plan: Option<RollbackPlan> = plan.map(|plan| decode(&plan)).transpose()?;
        targets.extend(plan.and_then(|plan| plan.instant_to_rollback).map(|target| target.commit_time));
    }
    Ok(targets)
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

/// Rolls back one write: a pending one, or the newest completed one.
///
/// # Errors
/// `InvalidOption` if there is no such write, if it is a planned table service, and for a completed write that others build
/// on or that has a savepoint; `Conflict` while others work on the table; `Lock`; `Storage`.
pub fn rollback(table: &HudiTable, instant: &str) -> Result<RollbackMetadata> {
    let writer = table.timeline_writer()?;
    let mut timeline = writer.load()?;
    let named = |e: Error| e.with("table", table.storage().uri()).with("instant", instant);
    refuse_restore(table.storage(), &timeline)?;
    if let Some(begun) = begun_rollback(table, &writer, &timeline, instant)? {
        if let Some(done) = finish(table, &writer, &begun)? {
            return Ok(done);
        }
        timeline = writer.load()?;
    }
    if let Some(failed) = failed_writes(&timeline).into_iter().find(|i| i.requested == instant) {
        return roll_back(table, &writer, &timeline, &failed);
    }
    let known = timeline.instants().iter().find(|i| i.requested == instant && i.action.is_write());
    Err(named(match known {
        Some(i) if i.is_completed() => return roll_back_completed(table, instant),
        Some(i) => Error::invalid_option(format!("a planned {} is not a failed write", i.action))
            .remedy("Execute the plan with the engine that made it"),
        None => Error::invalid_option("there is no write with this requested time on the active timeline")
            .remedy("List writes with t.timeline.instants()"),
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
            .remedy("Finish the restore: t.restore(the savepoint); until then you cannot write to the table")),
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
        // One that is gone was rolled back by others, or was completed and archived meanwhile: its files must stay then.
        if !now.pending().any(|i| i.requested == failed.requested) {
            return Err(Error::conflict("another writer completed the write, or rolled it back")
                .with("table", storage.uri())
                .with("instant", failed));
        }
        encode(&plan)
    })?;
    tracing::info!(table = storage.uri(), instant = %failed, "rolling back a write that did not complete");
    carry_out_failed(table, writer, &requested, &plan)
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
            let listed = storage.list_folders(partitions, 1)?;
            listed.into_iter().flat_map(|(_, files)| files).collect()
        }
        None => data_files(storage)?,
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

/// Finishes a pending rollback. `None` if it has no plan yet, and if it was never begun.
fn finish(table: &HudiTable, writer: &TimelineWriter, rollback: &Instant) -> Result<Option<RollbackMetadata>> {
    let timeline = writer.load()?;
    let Some(plan) = read_plan::<RollbackPlan>(table.storage(), writer, &timeline, rollback)? else { return Ok(None) };
    if let Ok((_, target)) = target_of(&plan)
        && is_completed(&timeline, &target)
    {
        drop_unbegun(table, writer, rollback, &target)?;
        return Ok(None);
    }
    carry_out_failed(table, writer, rollback, &plan).map(Some)
}
