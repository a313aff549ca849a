//! Carries out the plan of a rollback.

use std::collections::{BTreeMap, HashSet};

use super::super::planned_files::{data_file, partition_of, plain_path};
use crate::error::{Error, Result};
use crate::file_group::markers::delete_markers;
use crate::format::avro::metadata::{InstantInfo, RollbackMetadata, RollbackPartitionMetadata, RollbackPlan, encode};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::both;
use crate::storage::Storage;
use crate::table::HudiTable;
use crate::timeline::{Heartbeat, Timeline, TimelineWriter, heartbeat};
use crate::transaction::{Follow, Transaction, Undo, forget};

/// What a rollback takes back.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// A write that did not complete.
    Failed,
    /// One that Hudi had made inflight again, though its metadata table has merged what it knows of it with the rest.
    Merged(&'a Undo),
    /// One that had completed and was made inflight again.
    Completed(&'a Undo),
}

/// Takes back a write that did not complete. Hudi begins to roll a completed one back before its metadata table refuses
/// that.
///
/// # Errors
/// Those of [`carry_out`].
pub(super) fn carry_out_failed(
    table: &HudiTable,
    writer: &TimelineWriter,
    rollback: &Instant,
    plan: &RollbackPlan,
) -> Result<RollbackMetadata> {
    let files = files_of(plan).map_err(|e| e.with("table", table.storage().uri()).with("instant", rollback))?;
    if !Undo::is_merged(table, &writer.load()?, &files)? {
        return carry_out(table, writer, rollback, plan, Target::Failed);
    }
    let held = writer.lock().acquire()?;
    let writer = writer.clone().with_lock(writer.lock().holding(&held));
    // Who has waited for the lock may be late: the metadata table that the first one made must stay.
    check_pending(table, &writer.load()?, rollback)?;
    let undo = Undo::of_merged(table, &rollback.requested)?;
    carry_out(table, &writer, rollback, plan, Target::Merged(&undo))
}

/// Deletes the files and the instant.
///
/// # Errors
/// `Conflict` if others did it; `Corrupt`; `Unsupported`; `Lock`; `Storage`.
pub(super) fn carry_out(
    table: &HudiTable,
    writer: &TimelineWriter,
    rollback: &Instant,
    plan: &RollbackPlan,
    kind: Target<'_>,
) -> Result<RollbackMetadata> {
    let storage = table.storage();
    let named = |e: Error| e.with("table", storage.uri()).with("instant", rollback);
    let (info, target) = target_of(plan).map_err(named)?;
    let files = files_of(plan).map_err(named)?;
    let heartbeat = Heartbeat::take_over(storage, table.clock(), &rollback.requested)?;
    let timeline = writer.load()?;
    refuse_completed(&timeline, &target).map_err(named)?;
    check_pending(table, &timeline, rollback)?;
    let started = writer.start(rollback, Vec::new())?;
    let begun = table.clock().now_ms();
    delete_files(table, &files)?;
    let metadata = metadata(storage, rollback, &info, &files, table.clock().now_ms() - begun);
    let mut transaction = Transaction::take_over(table, writer.clone(), started, heartbeat, false);
    let follow = match kind {
        // The metadata table never had the files: what the write committed there is taken back.
        Target::Failed => Follow::Nothing,
        Target::Merged(undo) | Target::Completed(undo) => undo.follow_rollback(),
    };
    transaction.complete(encode(&metadata)?, follow, &HashSet::new(), |timeline| {
        refuse_completed(timeline, &target)?;
        match kind {
            Target::Failed => {
                forget(table, &target.requested)?;
                remove_target(storage, writer, timeline, &target)
            }
            Target::Merged(_) => remove_target(storage, writer, timeline, &target),
            Target::Completed(undo) => {
                undo.forget(table)?;
                writer.remove(timeline, &target.requested, target.action).map(|_| ())
            }
        }
    })?;
    let remove_heartbeat = || heartbeat::remove(storage, &target.requested);
    both(storage.is_remote(), || delete_markers(storage, &target.requested), remove_heartbeat)?;
    Ok(metadata)
}

/// Checks that nobody else has finished the rollback.
fn check_pending(table: &HudiTable, timeline: &Timeline, rollback: &Instant) -> Result<()> {
    if timeline.pending().any(|i| i.requested == rollback.requested && i.action == rollback.action) {
        return Ok(());
    }
    Err(Error::conflict("another process finished the rollback")
        .with("table", table.storage().uri())
        .with("instant", rollback))
}

/// The instant that a plan rolls back.
pub(super) fn target_of(plan: &RollbackPlan) -> Result<(InstantInfo, Instant)> {
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

/// Whether the write is completed after all.
pub(super) fn is_completed(timeline: &Timeline, target: &Instant) -> bool {
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
    // A missing file is no error.
    table.storage().delete_many(files.to_vec(), table.threads()?).map(|_| ())
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
