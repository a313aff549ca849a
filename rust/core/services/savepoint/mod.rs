//! Savepoints: commits whose files no cleaner deletes, and to which the table can be restored.
//!
//! On the timeline: `T.savepoint.inflight`, then `T_C.savepoint`, where `T` is the requested time of the commit. It names
//! the files of the table as it was at that commit: of each file group its newest slice.

use std::collections::{BTreeMap, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::metadata::{SavepointMetadata, SavepointPartitionMetadata, decode, encode};
use crate::format::instant::{Action, Instant, State};
use crate::services::refuse_pending_clean;
use crate::table::HudiTable;
use crate::timeline::{Timeline, TimelineWriter};

/// How often a savepoint looks again at a table that others clean.
const LOOKS: u32 = 4;

/// A savepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Savepoint {
    /// Requested time of the commit.
    pub instant: String,
    /// When the savepoint was completed.
    pub completed: String,
    /// Who made it.
    pub user: String,
    /// Why.
    pub comment: String,
    /// Number of files that it holds.
    pub files: usize,
}

/// Savepoints of a table, oldest commit first.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub fn savepoints(table: &HudiTable) -> Result<Vec<Savepoint>> {
    let timeline = table.timeline()?;
    let read = |instant: &Instant| {
        let metadata = read_savepoint(table, &timeline, instant)?;
        Ok(savepoint(instant, &metadata))
    };
    timeline.completed(Action::Savepoint).map(read).collect()
}

/// The content of a savepoint.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(in crate::services) fn read_savepoint(
    table: &HudiTable,
    timeline: &Timeline,
    instant: &Instant,
) -> Result<SavepointMetadata> {
    let body = timeline.read(table.storage(), instant)?;
    decode(&body).map_err(|e| e.with("table", table.storage().uri()).with("instant", instant))
}

fn savepoint(instant: &Instant, metadata: &SavepointMetadata) -> Savepoint {
    Savepoint {
        instant: instant.requested.clone(),
        completed: instant.completed.clone().unwrap_or_default(),
        user: metadata.savepointed_by.clone(),
        comment: metadata.comments.clone(),
        files: metadata.partition_metadata.values().map(|p| p.savepoint_data_file.len()).sum(),
    }
}

/// Makes a savepoint of the commit with this requested time, or of the newest one.
///
/// # Errors
/// `InvalidOption` if there is no such commit on the active timeline, or it has a savepoint, or files of it were cleaned;
/// `Conflict` if others clean the table or roll commits back meanwhile; `Lock`; `Corrupt`; `Storage`.
pub fn create_savepoint(table: &HudiTable, instant: Option<&str>, user: &str, comment: &str) -> Result<Savepoint> {
    let mut looks = 1;
    loop {
        match try_create(table, instant, user, comment) {
            Err(e) if e.kind() == ErrorKind::Conflict && e.is_outdated_plan() && looks < LOOKS => looks += 1,
            other => return other,
        }
    }
}

fn try_create(table: &HudiTable, instant: Option<&str>, user: &str, comment: &str) -> Result<Savepoint> {
    let storage = table.storage();
    let writer = table.timeline_writer()?;
    let timeline = writer.load()?;
    let commit = commit_of(table, &timeline, instant)?;
    refuse_pending_clean(table, &timeline)?;
    let metadata = SavepointMetadata {
        savepointed_by: user.to_owned(),
        savepointed_at: table.clock().now_ms(),
        comments: comment.to_owned(),
        partition_metadata: files_as_of(table, &timeline, &commit.requested)?,
        ..Default::default()
    };
    let seen = Removals::of(&timeline);
    let begun = Instant {
        requested: commit.requested.clone(),
        action: Action::Savepoint,
        state: State::Inflight,
        completed: None,
    };
    // One that was begun and not completed is completed now.
    let begun = writer.start(&begun, Vec::new())?;
    let holds = |now: &Timeline, (): ()| {
        let is_there = now.completed_writes().any(|i| i.requested == commit.requested);
        if is_there && Removals::of(now) == seen {
            return Ok(());
        }
        Err(Error::conflict("the table was cleaned, or a commit was rolled back, while the savepoint was made")
            .outdated_plan()
            .with("table", storage.uri())
            .with("instant", &commit)
            .remedy("Do it again"))
    };
    match writer.complete(&begun, encode(&metadata)?, |_| Ok(()), holds) {
        Ok(done) => Ok(savepoint(&done.instant, &metadata)),
        Err(e) => {
            if let Err(left) = remove(&writer, &commit.requested, false) {
                tracing::warn!(table = storage.uri(), instant = %commit, "an unfinished savepoint was left: {left}");
            }
            Err(e)
        }
    }
}

/// The commit of which a savepoint is made.
fn commit_of(table: &HudiTable, timeline: &Timeline, instant: Option<&str>) -> Result<Instant> {
    let named = |e: Error| e.with("table", table.storage().uri()).with("instant", instant.unwrap_or_default());
    let commit = match instant {
        Some(instant) => timeline.completed_writes().find(|i| i.requested == instant),
        None => timeline.completed_writes().next_back(),
    };
    let commit = commit.cloned().ok_or_else(|| {
        named(Error::invalid_option("there is no such commit on the active timeline"))
            .remedy("List commits with t.timeline.instants(); archived ones cannot get a savepoint")
    })?;
    match timeline.completed(Action::Savepoint).any(|i| i.requested == commit.requested) {
        false => Ok(commit),
        true => Err(Error::invalid_option("the commit has a savepoint already")
            .with("table", table.storage().uri())
            .with("instant", &commit.requested)
            .remedy("Delete it first to make another one: t.delete_savepoint(instant)")),
    }
}

/// The files of the table as it was at a commit: names, by partition.
fn files_as_of(
    table: &HudiTable,
    timeline: &Timeline,
    instant: &str,
) -> Result<BTreeMap<String, SavepointPartitionMetadata>> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut partitions: BTreeMap<String, SavepointPartitionMetadata> = BTreeMap::new();
    for slice in table.complete_view_at(timeline, instant)?.all_latest_slices()? {
        let held = partitions.entry(slice.partition.clone()).or_insert_with(|| SavepointPartitionMetadata {
            partition_path: slice.partition.clone(),
            savepoint_data_file: Vec::new(),
        });
        held.savepoint_data_file.extend(slice.base.iter().map(|base| name(&base.path)));
        held.savepoint_data_file.extend(slice.logs.iter().map(|log| name(&log.path)));
    }
    Ok(partitions)
}

/// What may take files away: cleans, planned ones too, rollbacks and restores.
#[derive(PartialEq, Eq)]
struct Removals(HashSet<Instant>);

impl Removals {
    fn of(timeline: &Timeline) -> Self {
        let removes = |i: &&Instant| matches!(i.action, Action::Clean | Action::Rollback | Action::Restore);
        Self(timeline.instants().iter().filter(removes).cloned().collect())
    }
}

/// Deletes the savepoint of a commit: the next clean may delete its files.
///
/// # Errors
/// `InvalidOption` if there is none; `Lock`; `Storage`.
pub fn delete_savepoint(table: &HudiTable, instant: &str) -> Result<()> {
    match remove(&table.timeline_writer()?, instant, true)? {
        true => Ok(()),
        false => Err(no_savepoint(table, instant)),
    }
}

/// Takes a savepoint off the timeline: a completed one only if `completed`. Returns whether there was one.
fn remove(writer: &TimelineWriter, instant: &str, completed: bool) -> Result<bool> {
    let held = writer.lock().acquire()?;
    let timeline = writer.load()?;
    if !completed && timeline.completed(Action::Savepoint).any(|i| i.requested == instant) {
        return Ok(false);
    }
    held.verify()?;
    writer.remove_savepoint(&timeline, instant)
}

/// There is no savepoint of this commit.
pub(in crate::services) fn no_savepoint(table: &HudiTable, instant: &str) -> Error {
    Error::invalid_option("there is no savepoint of this commit")
        .with("table", table.storage().uri())
        .with("instant", instant)
        .remedy("List savepoints with t.savepoints()")
}
