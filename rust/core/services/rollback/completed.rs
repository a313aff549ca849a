//! Rolling back the newest completed write.
//!
//! Under the table lock: it is checked that nothing builds on the write and that the files of the state before it are
//! there; the rollback is requested; and the completed instant is deleted, which makes it a failed write. From there on it
//! is rolled back like one, after a crash too. Hudi requests a rollback before it checks, and a refused one then stops all
//! writers.

use std::collections::HashSet;

use super::carry_out::{Target, carry_out, is_completed};
use super::plan::{FoundFiles, is_written_by, plan_rollback};
use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::metadata::{ReplaceCommitMetadata, RollbackMetadata, encode};
use crate::format::instant::{Action, Instant};
use crate::services::planned_files::plain_path;
use crate::services::refuse_pending_clean;
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, shares_log_files};
use crate::timeline::{Timeline, TimelineWriter, parse_instant_ms};
use crate::transaction::Undo;

/// Longest time between the request of a rollback and its beginning, of a process that does not take the table lock.
const BEGINS_WITHIN_MS: i64 = 10_000;

/// Rolls back a completed write.
///
/// # Errors
/// `InvalidOption` for a write that others build on or that has a savepoint, and if files of the state before it were
/// cleaned; `Conflict` while others work on the table; `Lock`; `Corrupt`; `Storage`.
pub(super) fn roll_back_completed(table: &HudiTable, instant: &str) -> Result<RollbackMetadata> {
    let storage = table.storage();
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    let writer = writer.clone().with_lock(writer.lock().holding(&held));
    let timeline = writer.load()?;
    let named = |e: Error| e.with("table", storage.uri()).with("instant", instant);
    let is_it = |i: &&Instant| i.requested == instant;
    let target = timeline.completed_writes().find(is_it).cloned();
    let target = target.ok_or_else(|| named(Error::conflict("another process has just rolled the write back")))?;
    let metadata = read_write_metadata(storage, &timeline, &target)?;
    check_newest(&timeline, &target).map_err(named)?;
    if shares_log_files(&metadata, &target.requested) {
        return Err(named(older_logs("it cannot be rolled back")));
    }
    refuse_pending_clean(table, &timeline)?;
    check_unshared(table, &timeline, &target, &metadata).map_err(named)?;
    check_state_before(table, &timeline, &target).map_err(named)?;
    let files = files_of(table, &target, &metadata)?;
    let plan = plan_rollback(&target, &FoundFiles::Listed(files), &|path| plain_path(storage, path));
    let requested = writer.request_on(Action::Rollback, |_, _| encode(&plan))?;
    let undone = begin_undo(table, &writer, &timeline, &target, &requested)?;
    tracing::info!(table = storage.uri(), instant = %target, "rolling back a completed write");
    carry_out(table, &writer, &requested, &plan, Target::Completed(&undone))
}

/// Makes the write a failed one. If that cannot be done, the request goes: it would stop Hudi's writers.
fn begin_undo(
    table: &HudiTable,
    writer: &TimelineWriter,
    timeline: &Timeline,
    target: &Instant,
    requested: &Instant,
) -> Result<Undo> {
    let begin = || {
        let undone = Undo::begin(table, timeline, std::slice::from_ref(target), false, &requested.requested)?;
        writer.reopen(timeline, std::iter::once(target))?;
        Ok(undone)
    };
    begin().inspect_err(|_| {
        if let Err(left) = writer.remove_pending(requested) {
            tracing::warn!(instant = %requested, "the request of a rollback that did not begin was left: {left}");
        }
    })
}

/// Nothing was written after the write, and nobody is about to.
fn check_newest(timeline: &Timeline, target: &Instant) -> Result<()> {
    let after = |i: &&Instant| i.action.is_write() && i.requested > target.requested;
    let later: Vec<&Instant> = timeline.instants().iter().filter(after).collect();
    if let Some(newest) = later.iter().rfind(|i| i.is_completed()) {
        return Err(Error::invalid_option("only the newest write can be rolled back, and others came after this one")
            .with("newest write", newest)
            .remedy("Roll back the later ones first, newest first, or restore the table to a savepoint"));
    }
    if let Some(pending) = later.first() {
        return Err(Error::conflict("a write or a plan that began after this write is pending")
            .with("pending", pending)
            .remedy("Wait for it, or roll it back first"));
    }
    match timeline.completed(Action::Savepoint).any(|i| i.requested == target.requested) {
        false => Ok(()),
        true => Err(Error::invalid_option("the write has a savepoint")
            .remedy("Delete the savepoint first: t.delete_savepoint(instant)")),
    }
}

/// A write that was made when the table was of version 6.
pub(in crate::services) fn older_logs(what: &str) -> Error {
    Error::unsupported(format!("the write was made before the table was upgraded from version 6, and its log files have blocks of other writes: {what}"))
        .remedy("Restore the table from a copy that was made before the upgrade")
}

/// No write that began earlier, and completed later, touched the same file groups.
fn check_unshared(
    table: &HudiTable,
    timeline: &Timeline,
    target: &Instant,
    metadata: &ReplaceCommitMetadata,
) -> Result<()> {
    let groups = groups_of(metadata);
    for other in
        timeline.completed_writes().filter(|i| i.requested < target.requested && i.completed > target.completed)
    {
        let other_metadata = read_write_metadata(table.storage(), timeline, other)?;
        if !groups.is_disjoint(&groups_of(&other_metadata)) {
            return Err(Error::invalid_option("a write that completed after this one changed the same file groups")
                .with("other write", other)
                .remedy("Restore the table to a savepoint"));
        }
    }
    Ok(())
}

/// File groups that a write changed or replaced, with their partitions.
fn groups_of(metadata: &ReplaceCommitMetadata) -> HashSet<(String, String)> {
    let stats = metadata.partition_to_write_stats.iter();
    let written = stats.flat_map(|(p, stats)| stats.iter().filter_map(|s| Some((p.clone(), s.file_id.clone()?))));
    let replaced = metadata.partition_to_replace_file_ids.iter();
    written.chain(replaced.flat_map(|(p, ids)| ids.iter().map(|id| (p.clone(), id.clone())))).collect()
}

/// The files of the state before the write are all there.
fn check_state_before(table: &HudiTable, timeline: &Timeline, target: &Instant) -> Result<()> {
    let Ok(time) = target.requested.parse::<u64>() else {
        return Err(Error::corrupt("the time of an instant is no number"));
    };
    let before = format!("{:0width$}", time.saturating_sub(1), width = target.requested.len());
    match table.complete_view_at(timeline, &before) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::InvalidOption => {
            Err(Error::invalid_option("files of the table as it was before the write were cleaned")
                .remedy(
                    "It cannot be rolled back any more. Keep more commits (hoodie.clean.commits.retained) or savepoint",
                )
                .caused_by(e))
        }
        Err(e) => Err(e),
    }
}

/// All files of the write, those of failed attempts too.
fn files_of(table: &HudiTable, target: &Instant, metadata: &ReplaceCommitMetadata) -> Result<Vec<String>> {
    let storage = table.storage();
    let listed = storage.list_folders(metadata.partition_to_write_stats.keys().cloned().collect(), 1)?;
    let files = listed.into_iter().flat_map(|(_, files)| files);
    Ok(files.filter(|f| is_written_by(f, &target.requested)).map(|f| f.path).collect())
}

/// A pending rollback of a write that is completed: it was requested, and nothing of it was done. Hudi leaves such requests
/// when it refuses them, then fails each write because of them, and carries them out as soon as it can, though nobody asks
/// again. So the request goes, unless whoever made it may be about to begin.
///
/// # Errors
/// `Conflict` for a request that was just made; `Lock`; `Storage`.
pub(super) fn drop_unbegun(
    table: &HudiTable,
    writer: &TimelineWriter,
    rollback: &Instant,
    target: &Instant,
) -> Result<()> {
    let storage = table.storage();
    let held = writer.lock().acquire()?;
    let timeline = writer.load()?;
    let made = parse_instant_ms(&rollback.requested, timeline.config().zone);
    let age = made.map_or(i64::MAX, |made| table.clock().now_ms().saturating_sub(made));
    if age < BEGINS_WITHIN_MS {
        return Err(Error::conflict("another process is about to roll back a completed write")
            .with("table", storage.uri())
            .with("instant", rollback)
            .with("write", &target.requested)
            .remedy("Do it again in some seconds"));
    }
    let is_pending = timeline.pending().any(|i| i.requested == rollback.requested && i.action == Action::Rollback);
    if is_pending && is_completed(&timeline, target) {
        held.verify()?;
        tracing::warn!(
            table = storage.uri(),
            instant = %rollback,
            "a rollback of the completed write {} was requested and not begun: the request was dropped, and the write stands",
            target.requested
        );
        writer.remove_pending(rollback)?;
    }
    Ok(())
}
