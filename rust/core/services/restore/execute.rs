//! Executes restores.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::plan::{plan_restore, undone_by};
use crate::error::{Error, Result};
use crate::file_group::markers::delete_markers;
use crate::file_group::written_at;
use crate::format::avro::metadata::{
    InstantInfo, RestoreMetadata, RestorePlan, RollbackMetadata, RollbackPartitionMetadata, encode,
};
use crate::format::instant::{Action, Instant};
use crate::services::planned_files::{partition_of, plain_path};
use crate::services::rollback::older_logs;
use crate::services::savepoint::{no_savepoint, read_savepoint};
use crate::services::{read_plan, refuse_pending_clean};
use crate::storage::{FileMeta, Storage};
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, data_files, shares_log_files};
use crate::timeline::history::{HistoryReader, HistoryWriter, LoadMode};
use crate::timeline::{Heartbeat, Timeline, TimelineWriter, heartbeat};
use crate::transaction::{Transaction, Undo};

/// A restore that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Requested time of the restore.
    pub instant: String,
    /// When it was completed.
    pub completed: String,
    /// Requested times of the writes that were undone, newest first.
    pub undone: Vec<String>,
    /// Number of data files that were deleted.
    pub files_deleted: usize,
    /// What went wrong after it was completed.
    pub warnings: Vec<String>,
}

/// Restores the table to a savepoint; finishes a restore to it whose process was killed. No write may be under way.
///
/// # Errors
/// `InvalidOption` if there is no such savepoint, if a later one holds commits that would be undone, or if another restore is
/// pending; `CorruptFile` if a file of the savepoint is gone; `Conflict` while others write; `Lock`; `Storage`.
pub fn restore(table: &HudiTable, savepoint: &str) -> Result<Restored> {
    let storage = table.storage();
    let named = |e: Error| e.with("table", storage.uri()).with("savepoint", savepoint);
    let writer = table.timeline_writer()?;
    // Nobody else may begin, complete or clean anything until the table is what it was.
    let held = writer.lock().acquire()?;
    let writer = writer.clone().with_lock(writer.lock().holding(&held));
    let timeline = writer.load()?;
    let mut there = timeline.completed(Action::Savepoint).filter(|i| i.requested == savepoint);
    let saved = there.next_back().cloned().ok_or_else(|| no_savepoint(table, savepoint))?;
    check_files(table, &timeline, &saved).map_err(named)?;
    let pending = timeline.pending().find(|i| i.action == Action::Restore).cloned();
    let (transaction, plan) = match pending {
        Some(pending) => resume(table, &writer, &timeline, &pending, savepoint)?,
        None => {
            let (plan, undone) = plan_restore(&timeline, &saved).map_err(named)?;
            for pending in undone.iter().filter(|i| !i.is_completed()) {
                heartbeat::check_no_other_writer(storage, table.clock(), &pending.requested)?;
            }
            if timeline.config().was_version_6 {
                // What is left may be more than the savepoint holds: nobody knows what completed after it.
                table.complete_view_at(&timeline, savepoint).map_err(named)?;
            }
            refuse_pending_clean(table, &timeline)?;
            refuse_older_logs(table, &timeline, &undone)?;
            let begin = (&held, &timeline);
            let begun = Transaction::begin(table, Action::Restore, Some(begin), false, |_| encode(&plan), Vec::new())?;
            (begun, plan)
        }
    };
    carry_out(transaction, &writer, &plan, &saved)
}

/// Version 6 put blocks of several writes into one log file, which cannot be undone by deleting files.
fn refuse_older_logs(table: &HudiTable, timeline: &Timeline, undone: &[Instant]) -> Result<()> {
    if !timeline.config().was_version_6 {
        return Ok(());
    }
    for write in undone.iter().filter(|i| i.is_completed() && i.action.is_write()) {
        if shares_log_files(&read_write_metadata(table.storage(), timeline, write)?, &write.requested) {
            return Err(older_logs("they cannot be restored")
                .with("table", table.storage().uri())
                .with("write", write));
        }
    }
    Ok(())
}

/// The files of the savepoint are there; otherwise the table would be worse afterwards.
fn check_files(table: &HudiTable, timeline: &Timeline, saved: &Instant) -> Result<()> {
    let storage = table.storage();
    let held = read_savepoint(table, timeline, saved)?.partition_metadata;
    let listed = storage.list_folders(held.keys().cloned().collect(), table.threads()?)?;
    for ((partition, held), (_, there)) in held.iter().zip(&listed) {
        let there: HashSet<&str> = there.iter().map(FileMeta::name).collect();
        if let Some(gone) = held.savepoint_data_file.iter().find(|name| !there.contains(name.as_str())) {
            return Err(Error::corrupt("a file that the savepoint holds is gone")
                .with("partition", partition)
                .with("file", gone)
                .remedy(
                    "Nothing was changed. Restore the file from a copy, or restore the table to another savepoint",
                ));
        }
    }
    Ok(())
}

/// Goes on with a restore whose process was killed.
fn resume(
    table: &HudiTable,
    writer: &TimelineWriter,
    timeline: &Timeline,
    pending: &Instant,
    savepoint: &str,
) -> Result<(Transaction, RestorePlan)> {
    let storage = table.storage();
    let named = |e: Error| e.with("table", storage.uri()).with("instant", pending);
    let plan: Option<RestorePlan> = read_plan(storage, writer, timeline, pending)?;
    let plan = plan.ok_or_else(|| {
        named(Error::conflict("a restore that was never planned was removed from the timeline")).remedy("Do it again")
    })?;
    if let Some(other) = plan.savepoint_to_restore_timestamp.as_ref().filter(|planned| *planned != savepoint) {
        return Err(named(Error::invalid_option("a restore to another savepoint is pending"))
            .with("its savepoint", other)
            .remedy("Finish it first: t.restore() with its savepoint"));
    }
    let heartbeat = Heartbeat::take_over(storage, table.clock(), &pending.requested)?;
    let started = writer.start(pending, Vec::new())?;
    Ok((Transaction::take_over(table, writer.clone(), started, heartbeat, false), plan))
}

fn carry_out(
    mut transaction: Transaction,
    writer: &TimelineWriter,
    plan: &RestorePlan,
    saved: &Instant,
) -> Result<Restored> {
    transaction.started()?;
    let (table, instant) = (transaction.table().clone(), transaction.instant().clone());
    let storage = table.storage();
    let begun = table.clock().now_ms();
    let timeline = writer.load()?;
    // Those that are left, if this goes on with a restore.
    let planned: HashSet<&str> = plan.instants_to_rollback.iter().map(|i| i.commit_time.as_str()).collect();
    let undone = undone_by(&timeline, &saved.requested, |i| planned.contains(i.requested.as_str()));
    let archived = archived_after(&table, &timeline, saved)?;
    let undo = Undo::begin(&table, &timeline, &undone, !archived.is_empty(), &instant.requested)?;
    writer.reopen(&timeline, undone.iter().filter(|i| i.is_completed()))?;
    let gone: HashSet<String> =
        undone.iter().map(|i| i.requested.clone()).chain(archived.iter().map(|(time, _)| time.clone())).collect();
    let files = files_of(storage, &gone)?;
    delete(&table, &files)?;
    HistoryWriter::new(storage, timeline.config())
        .with_threads(table.threads()?)
        .remove_writes(&archived.iter().map(|(time, _)| time.clone()).collect())?;
    let mut infos: Vec<InstantInfo> = undone
        .iter()
        .map(|i| InstantInfo { commit_time: i.requested.clone(), action: i.action.name().to_owned() })
        .collect();
    infos.extend(
        archived
            .into_iter()
            .rev()
            .map(|(commit_time, action)| InstantInfo { commit_time, action: action.name().to_owned() }),
    );
    let metadata = metadata(storage, &instant.requested, infos, &files, table.clock().now_ms() - begun);
    let remove = |now: &Timeline| {
        undo.forget(&table)?;
        undone.iter().try_for_each(|i| writer.remove(now, &i.requested, i.action).map(|_| ()))
    };
    let done = transaction.complete(encode(&metadata)?, undo.follow_restore(), &HashSet::new(), remove)?;
    for i in undone.iter().filter(|i| !i.is_completed()) {
        delete_markers(storage, &i.requested)?;
        heartbeat::remove(storage, &i.requested)?;
    }
    let mut warnings = done.warnings;
    warnings.extend(done.ending.finish());
    Ok(Restored {
        instant: done.instant.requested,
        completed: done.instant.completed.unwrap_or_default(),
        undone: metadata.instants_to_rollback,
        files_deleted: files.len(),
        warnings,
    })
}

/// Writes after the savepoint that were archived (`hoodie.archive.beyond.savepoint`), oldest first.
fn archived_after(table: &HudiTable, timeline: &Timeline, saved: &Instant) -> Result<Vec<(String, Action)>> {
    let history = HistoryReader::new(table.storage(), timeline.config()).with_threads(table.threads()?);
    let entries = history.read(Some(&saved.requested), None, LoadMode::Action)?;
    let later = entries.into_iter().filter(|e| e.action.is_write() && e.requested > saved.requested);
    Ok(later.map(|e| (e.requested, e.action)).collect())
}

/// All data files of some writes, those of failed attempts too, by the requested time of their write.
fn files_of(storage: &Storage, writes: &HashSet<String>) -> Result<Vec<(String, String)>> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let of_write = |file: FileMeta| {
        let instant = written_at(&file)?;
        writes.contains(&instant).then_some((instant, file.path))
    };
    Ok(data_files(storage)?.into_iter().filter_map(of_write).collect())
}

fn delete(table: &HudiTable, files: &[(String, String)]) -> Result<()> {
    let storage = table.storage();
    let partitions: HashSet<&str> = files.iter().map(|(_, path)| partition_of(path)).collect();
    partitions.into_iter().try_for_each(|partition| storage.refuse_links(partition))?;
    let paths = files.iter().map(|(_, path)| path.clone()).collect();
    storage.delete_many(paths, table.threads()?).map(|_| ())
}

/// The result; of each write what was deleted.
fn metadata(
    storage: &Storage,
    requested: &str,
    infos: Vec<InstantInfo>,
    files: &[(String, String)],
    taken_ms: i64,
) -> RestoreMetadata {
    let mut by_write: HashMap<&str, Vec<&str>> = HashMap::new();
    for (write, path) in files {
        by_write.entry(write).or_default().push(path);
    }
    let rolled_back = |info: &InstantInfo| {
        let deleted = by_write.get(info.commit_time.as_str()).map(Vec::as_slice).unwrap_or_default();
        let mut partitions: BTreeMap<String, RollbackPartitionMetadata> = BTreeMap::new();
        for path in deleted {
            let partition = partition_of(path).to_owned();
            let entry = partitions.entry(partition.clone()).or_insert_with(|| RollbackPartitionMetadata {
                partition_path: partition,
                rollback_log_files: Some(BTreeMap::new()),
                log_files_from_failed_commit: Some(BTreeMap::new()),
                ..Default::default()
            });
            entry.success_delete_files.push(plain_path(storage, path));
        }
        RollbackMetadata {
            start_rollback_time: requested.to_owned(),
            total_files_deleted: i32::try_from(deleted.len()).unwrap_or(i32::MAX),
            commits_rollback: vec![info.commit_time.clone()],
            partition_metadata: partitions,
            instants_rollback: vec![info.clone()],
            ..Default::default()
        }
    };
    RestoreMetadata {
        start_restore_time: requested.to_owned(),
        time_taken_in_millis: taken_ms.max(0),
        instants_to_rollback: infos.iter().map(|i| i.commit_time.clone()).collect(),
        hoodie_restore_metadata: infos.iter().map(|i| (i.commit_time.clone(), vec![Some(rolled_back(i))])).collect(),
        restore_instant_info: infos,
        ..Default::default()
    }
}
