//! Moving the timeline of a table of version 6: instants from `.hoodie` to `.hoodie/timeline`, the archive from log files to
//! the history.
//!
//! The new files are written beside the old ones, which stay until `hoodie.properties` says that the new ones are the table's.
//! Hudi moves one file after the other; a crash in between leaves a table that has lost its newest commits.

use std::collections::HashSet;

use bytes::Bytes;

use super::completion_times::completion_times;
use super::properties;
use super::unfinished::Unfinished;
use crate::error::{Error, Result};
use crate::file_group::markers::delete_markers;
use crate::format::avro::metadata::{CommitMetadata, RequestedReplaceMetadata, RollbackPlan, decode, encode};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::run_parallel;
use crate::services::archive::ArchiveOptions;
use crate::storage::Storage;
use crate::table::commit_metadata::decode_write_metadata;
use crate::table::{HudiTable, TableConfig};
use crate::timeline::heartbeat::Heartbeats;
use crate::timeline::history::{HistoryReader, HistoryWriter, LoadMode};
use crate::timeline::{META_FOLDER, Timeline, TimelineConfig};

/// Archived instants that are in memory with their metadata at a time.
const ENTRIES_AT_A_TIME: usize = 20_000;

/// A file of the old timeline and the one that it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: String,
    pub(super) instant: Instant,
}

/// Makes a table of version 6 one of version 8, which is merged as before. Nothing happens if another process has done so.
///
/// # Errors
/// `Conflict` while others write; `Unsupported` after an upgrade that Hudi did not end; `InvalidOption`; `Corrupt`; `Lock`;
/// `Storage`. Then the table is as it was.
pub(super) fn move_timeline(table: &HudiTable) -> Result<()> {
    let target = TableConfig::from_properties(properties::moved(table.config(), table.options())?)?;
    let writer = table.with_config(target).timeline_writer()?;
    let held = writer.lock().acquire()?;
    let (storage, now) = (table.storage(), table.clock().now_ms());
    TableConfig::finish_update(storage)?;
    let old = table.reload()?;
    if old.config().version() >= 8 {
        return Ok(());
    }
    let target = TableConfig::from_properties(properties::moved(old.config(), table.options())?)?;
    let new = target.timeline();
    let timeline = old.timeline()?;
    check_idle(&old, &timeline)?;
    make_room(storage, new)?;
    Unfinished { from: 6, metadata_partitions: old.config().metadata_partitions() }.write(storage)?;
    let moves = moves(storage, &timeline)?;
    let abandoned: Vec<String> = timeline.pending().map(|i| i.requested.clone()).collect();
    run_parallel(moves, old.threads()?, |one: Move| {
        held.check()?;
        write_moved(storage, new, &one)
    })?;
    write_history(&old, &timeline, new, &|| held.check())?;
    storage.sync()?;
    for requested in abandoned {
        // Those of appends name files that other writes share. Without markers a rollback looks at the names of files.
        delete_markers(storage, &requested)?;
    }
    held.verify()?;
    let at = crate::timeline::format_instant(now, new.zone);
    TableConfig::rewrite(storage, |current| properties::moved(&current, table.options()), &at).map(|_| ())
}

/// Deletes the instants in the old layout, which nobody reads any more.
///
/// # Errors
/// `Storage`.
pub(super) fn delete_old(storage: &Storage) -> Result<()> {
    let files = storage.list(META_FOLDER)?.files;
    let old: Vec<&str> =
        files.iter().filter(|file| Instant::parse(file.name()).is_some()).map(|file| file.path.as_str()).collect();
    storage.delete_all(&old)
}

/// Refuses a table in which others are at work.
fn check_idle(table: &HudiTable, timeline: &Timeline) -> Result<()> {
    let storage = table.storage();
    let conflict = |what: &str, instant: &Instant| {
        Error::conflict(format!("the table cannot be upgraded while {what}"))
            .with("table", storage.uri())
            .with("instant", instant)
    };
    let heartbeats = Heartbeats::list(storage)?;
    for pending in timeline.pending() {
        if pending.action == Action::Restore {
            return Err(conflict("a restore of it is pending", pending)
                .remedy("Finish the restore with the engine that began it"));
        }
        if heartbeats.is_alive(storage, table.clock(), &pending.requested)? {
            return Err(conflict("another writer works on it", pending)
                .remedy("Stop all writers, wait until their heartbeats are over, and upgrade again"));
        }
    }
    Ok(())
}

/// Removes what an upgrade that was killed has left.
fn make_room(storage: &Storage, new: &TimelineConfig) -> Result<()> {
    if Unfinished::read(storage)?.is_some() {
        return storage.delete_folder(&new.folder);
    }
    let left = storage.list_recursive(&new.folder)?;
    match left.iter().find(|file| Instant::parse(file.name()).is_some()) {
        None => Ok(()),
        Some(file) => Err(Error::unsupported("an upgrade by Hudi began and did not end")
            .with("table", storage.uri())
            .with("file", &file.path)
            .remedy("Let Hudi finish it: write to the table with Hudi 1.2 once")),
    }
}

/// Which file becomes which instant.
///
/// # Errors
/// `Unsupported` for a pending rollback of a completed write; `Corrupt`; `Storage`.
pub(super) fn moves(storage: &Storage, timeline: &Timeline) -> Result<Vec<Move>> {
    let mut completed: Vec<Instant> = timeline.instants().iter().filter(|i| i.is_completed()).cloned().collect();
    completed.sort_by(|a, b| a.requested.cmp(&b.requested));
    let times = completion_times(&completed);
    let time_of = |instant: &Instant| {
        let same = |known: &Instant| known.requested == instant.requested && known.action == instant.action;
        completed.iter().position(same).and_then(|at| times.get(at)).cloned()
    };
    let clusterings = pending_clusterings(storage, timeline)?;
    let mut moves = Vec::new();
    for (instant, file) in timeline.raw() {
        let is_pending = timeline.pending().any(|i| i.requested == instant.requested && i.action == instant.action);
        if is_pending && instant.action == Action::Rollback {
            check_pending_rollback(storage, timeline, instant)?;
            // The failed write is rolled back anew.
            continue;
        }
        let action = match instant.action {
            Action::ReplaceCommit if clusterings.contains(&instant.requested) && !instant.is_completed() => {
                Action::Clustering
            }
            other => other,
        };
        let completed = if instant.is_completed() { time_of(instant) } else { None };
        moves.push(Move { from: file.path.clone(), instant: Instant { action, completed, ..instant.clone() } });
    }
    Ok(moves)
}

/// Requested times of the writes that did not complete, newest first.
pub(super) fn failed_writes(moves: &[Move]) -> Vec<String> {
    let completed: HashSet<&str> =
        moves.iter().filter(|m| m.instant.is_completed()).map(|m| m.instant.requested.as_str()).collect();
    let is_write = |action| matches!(action, Action::Commit | Action::DeltaCommit | Action::ReplaceCommit);
    let failed = moves.iter().map(|m| &m.instant);
    let failed = failed.filter(|i| is_write(i.action) && !completed.contains(i.requested.as_str()));
    let mut times: Vec<String> = failed.map(|i| i.requested.clone()).collect();
    times.sort_by(|a, b| b.cmp(a));
    times.dedup();
    times
}

/// Requested times of planned clusterings; version 6 gives them the action of other replacements too.
fn pending_clusterings(storage: &Storage, timeline: &Timeline) -> Result<HashSet<String>> {
    let mut found = HashSet::new();
    for instant in timeline.pending().filter(|i| i.action == Action::ReplaceCommit) {
        let requested = Instant { state: State::Requested, ..instant.clone() };
        let body = crate::storage::optional(timeline.read(storage, &requested))?.unwrap_or_default();
        if body.is_empty() {
            continue;
        }
        let plan: RequestedReplaceMetadata =
            decode(&body).map_err(|e| e.with("table", storage.uri()).with("instant", instant))?;
        if plan.clustering_plan.is_some() {
            found.insert(instant.requested.clone());
        }
    }
    Ok(found)
}

fn check_pending_rollback(storage: &Storage, timeline: &Timeline, rollback: &Instant) -> Result<()> {
    let requested = Instant { state: State::Requested, ..rollback.clone() };
    let body = crate::storage::optional(timeline.read(storage, &requested))?.unwrap_or_default();
    if body.is_empty() {
        return Ok(());
    }
    let plan: RollbackPlan = decode(&body).map_err(|e| e.with("table", storage.uri()).with("instant", rollback))?;
    let target = plan.instant_to_rollback.map(|target| target.commit_time).unwrap_or_default();
    if timeline.completed_writes().any(|i| i.requested == target) {
        return Err(Error::unsupported("a rollback of a completed write is pending")
            .with("table", storage.uri())
            .with("instant", rollback)
            .remedy("Finish it with the engine that began it"));
    }
    Ok(())
}

fn write_moved(storage: &Storage, new: &TimelineConfig, one: &Move) -> Result<()> {
    let body = storage.read(&one.from)?;
    let body = in_avro(body, &one.instant).map_err(|e| e.with("table", storage.uri()).with("file", &one.from))?;
    storage.create(&format!("{}/{}", new.folder, one.instant.file_name(new.layout)), body)
}

/// The metadata of writes as Avro; that of other actions, and plans, are Avro already.
fn in_avro(body: Bytes, instant: &Instant) -> Result<Bytes> {
    let is_json = body.first().is_some_and(|first| *first == b'{');
    if !is_json {
        return Ok(body);
    }
    let metadata = decode_write_metadata(&body, instant.action)?;
    let body = match instant.action {
        Action::ReplaceCommit | Action::Clustering => encode(&metadata)?,
        _ => encode(&CommitMetadata::from(metadata))?,
    };
    Ok(body.into())
}

/// Writes the archived instants into a history, oldest first.
fn write_history(
    old: &HudiTable,
    timeline: &Timeline,
    new: &TimelineConfig,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let storage = old.storage();
    let reader = HistoryReader::new(storage, timeline.config());
    let active: HashSet<(&str, Action)> =
        timeline.instants().iter().map(|i| (i.requested.as_str(), i.action.completed_as())).collect();
    let times: Vec<String> =
        reader.read(None, None, LoadMode::Action)?.into_iter().map(|entry| entry.requested).collect();
    let writer = HistoryWriter::new(storage, new).with_threads(old.threads()?);
    let limits = ArchiveOptions::from_options(old.options())?.history;
    for some in times.chunks(ENTRIES_AT_A_TIME) {
        check()?;
        let (first, last) = (some.first().map(String::as_str), some.last().map(String::as_str));
        let mut entries = reader.read(first, last, LoadMode::Full)?;
        // An archiving was killed before it took them off the timeline.
        entries.retain(|entry| !active.contains(&(entry.requested.as_str(), entry.action)));
        writer.append(&entries)?;
        writer.compact(&limits)?;
    }
    Ok(())
}
