//! Reading the bodies of instants, whatever the layout.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::format::avro::container::record_name;
use crate::format::avro::metadata::{
    CleanMetadata, CleanerPlan, CommitMetadata, CompactionPlan, IndexCommitMetadata, IndexPlan, ReplaceCommitMetadata,
    RequestedReplaceMetadata, RestoreMetadata, RestorePlan, RollbackMetadata, RollbackPlan, SavepointMetadata, decode,
    decode_json, to_json,
};
use crate::format::instant::{Action, Instant, State};
use crate::format::json;
use crate::storage::Storage;
use crate::timeline::history::{HistoryEntry, HistoryReader, LoadMode};
use crate::timeline::{Timeline, TimelineConfig};

/// The metadata of a completed write. Replaced file ids are empty for other actions than `replacecommit`.
pub fn read_write_metadata(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<ReplaceCommitMetadata> {
    let bytes = timeline.read(storage, instant)?;
    decode_write_metadata(&bytes, instant.action).map_err(|e| e.with("table", storage.uri()).with("instant", instant))
}

/// The metadata of the completed write with this requested time, archived or not; `None` when nothing has it.
pub(crate) fn completed_metadata(
    storage: &Storage,
    timeline: &Timeline,
    requested: &str,
) -> Result<Option<ReplaceCommitMetadata>> {
    if let Some(instant) = timeline.completed_writes().find(|i| i.requested == requested) {
        return read_write_metadata(storage, timeline, instant).map(Some);
    }
    let time = Some(requested);
    let entries = HistoryReader::new(storage, timeline.config()).read(time, time, LoadMode::Metadata)?;
    let Some(entry) = entries.into_iter().find(|entry| entry.action.is_write()) else { return Ok(None) };
    entry.metadata.map(|metadata| decode_write_metadata(&metadata, entry.action)).transpose()
}

/// The same from bytes, as the history keeps them.
pub fn decode_write_metadata(bytes: &[u8], action: Action) -> Result<ReplaceCommitMetadata> {
    if bytes.is_empty() {
        return Ok(ReplaceCommitMetadata::default());
    }
    let is_avro = bytes.starts_with(b"Obj\x01");
    if action.completed_as() == Action::ReplaceCommit {
        return if is_avro { decode(bytes) } else { decode_json(bytes) };
    }
    let commit: CommitMetadata = if is_avro { decode(bytes)? } else { decode_json(bytes)? };
    Ok(ReplaceCommitMetadata {
        partition_to_write_stats: commit.partition_to_write_stats,
        compacted: commit.compacted,
        extra_metadata: commit.extra_metadata,
        version: commit.version,
        operation_type: commit.operation_type,
        ..Default::default()
    })
}

/// The body of an instant as JSON with Hudi's field names; `null` when the file of a pending instant is empty.
pub fn read_as_json(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<serde_json::Value> {
    let bytes = timeline.read(storage, instant)?;
    if bytes.is_empty() {
        return match instant.state {
            State::Completed => Err(Error::corrupt("the file of a completed instant is empty")
                .with("table", storage.uri())
                .with("instant", instant)),
            _ => Ok(serde_json::Value::Null),
        };
    }
    body_as_json(&bytes, instant).map_err(|e| e.with("table", storage.uri()).with("instant", instant))
}

/// The metadata of an archived action as JSON with Hudi's field names; `null` when it was archived without.
///
/// # Errors
/// `InvalidOption` if the history has no such action.
pub fn read_archived_as_json(
    storage: &Storage,
    config: &TimelineConfig,
    instant: &Instant,
) -> Result<serde_json::Value> {
    let entry = archived(storage, config, instant, LoadMode::Metadata)?;
    let Some(metadata) = entry.metadata else { return Ok(serde_json::Value::Null) };
    let final_form = Instant { action: entry.action, state: State::Completed, ..instant.clone() };
    body_as_json(&metadata, &final_form).map_err(|e| e.with("table", storage.uri()).with("instant", instant))
}

/// The bytes of a completed instant's file, archived or not, or of a pending one's; empty when it is.
pub fn read_body(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<Bytes> {
    if instant.is_completed() && !timeline.files_of(&instant.requested).iter().any(|(i, _)| is_same_action(i, instant))
    {
        let entry = archived(storage, timeline.config(), instant, LoadMode::Metadata)?;
        return Ok(entry.metadata.unwrap_or_default());
    }
    timeline.read(storage, instant)
}

/// The plan of an action, archived or not, as JSON; `null` for an action that has none.
///
/// A replacecommit has two bodies before it is completed. As in the history, the inflight one comes first.
pub fn read_plan_as_json(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<serde_json::Value> {
    let json = match plan_file(storage, timeline, instant)? {
        None => return Ok(serde_json::Value::Null),
        Some((bytes, Some(pending))) => body_as_json(&bytes, &pending),
        Some((bytes, None)) => plan_as_json(&bytes),
    };
    json.map_err(|e| e.with("table", storage.uri()).with("instant", instant))
}

/// The bytes of the same plan; `None` for an action that has none.
pub fn read_plan(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<Option<Bytes>> {
    Ok(plan_file(storage, timeline, instant)?.map(|(bytes, _)| bytes))
}

/// The bytes of a plan, and the pending instant whose file they are when the action is on the active timeline.
fn plan_file(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<Option<(Bytes, Option<Instant>)>> {
    let states: Vec<&Instant> =
        timeline.files_of(&instant.requested).iter().map(|(i, _)| i).filter(|i| is_same_action(i, instant)).collect();
    if states.is_empty() {
        let plan = archived(storage, timeline.config(), instant, LoadMode::Full)?.plan;
        return Ok(plan.map(|bytes| (bytes, None)));
    }
    let has_plan = |i: &&&Instant| !i.is_completed() && !matches!(i.action, Action::Commit | Action::DeltaCommit);
    let mut pending: Vec<&Instant> = states.iter().filter(has_plan).copied().collect();
    pending.sort_by_key(|i| std::cmp::Reverse(i.state));
    for state in pending {
        let bytes = timeline.read(storage, state)?;
        if !bytes.is_empty() {
            return Ok(Some((bytes, Some(state.clone()))));
        }
    }
    Ok(None)
}

fn is_same_action(one: &Instant, other: &Instant) -> bool {
    one.requested == other.requested && one.action.completed_as() == other.action.completed_as()
}

fn archived(storage: &Storage, config: &TimelineConfig, instant: &Instant, mode: LoadMode) -> Result<HistoryEntry> {
    let time = Some(instant.requested.as_str());
    let entries = HistoryReader::new(storage, config).read(time, time, mode)?;
    let found = entries.into_iter().find(|e| e.action == instant.action.completed_as());
    found.ok_or_else(|| {
        Error::invalid_option("there is no such action on the timeline or in its history")
            .with("table", storage.uri())
            .with("instant", instant)
    })
}

/// A plan whose action may have two kinds of them: the container says which record it is.
fn plan_as_json(bytes: &[u8]) -> Result<serde_json::Value> {
    Ok(match record_name(bytes)?.as_str() {
        "HoodieCompactionPlan" => to_json::<CompactionPlan>(&decode(bytes)?),
        "HoodieCleanerPlan" => to_json::<CleanerPlan>(&decode(bytes)?),
        "HoodieRequestedReplaceMetadata" => to_json::<RequestedReplaceMetadata>(&decode(bytes)?),
        "HoodieCommitMetadata" => to_json::<CommitMetadata>(&decode(bytes)?),
        other => return Err(Error::corrupt("the history holds a plan of no known kind").with("record", other)),
    })
}

fn body_as_json(bytes: &[u8], instant: &Instant) -> Result<serde_json::Value> {
    if !bytes.starts_with(b"Obj\x01") {
        return json::parse(bytes, "an instant's file is neither Avro nor JSON");
    }
    let completed = instant.state == State::Completed;
    Ok(match (instant.action, completed) {
        (Action::Commit | Action::DeltaCommit, _) => to_json::<CommitMetadata>(&decode(bytes)?),
        (Action::Compaction | Action::LogCompaction, true) => to_json::<CommitMetadata>(&decode(bytes)?),
        (Action::Compaction | Action::LogCompaction, false) => to_json::<CompactionPlan>(&decode(bytes)?),
        (Action::ReplaceCommit | Action::Clustering, true) => to_json::<ReplaceCommitMetadata>(&decode(bytes)?),
        (Action::ReplaceCommit, false) if instant.state == State::Inflight => {
            to_json::<CommitMetadata>(&decode(bytes)?)
        }
        (Action::ReplaceCommit | Action::Clustering, false) => to_json::<RequestedReplaceMetadata>(&decode(bytes)?),
        (Action::Clean, true) => to_json::<CleanMetadata>(&decode(bytes)?),
        (Action::Clean, false) => to_json::<CleanerPlan>(&decode(bytes)?),
        (Action::Rollback, true) => to_json::<RollbackMetadata>(&decode(bytes)?),
        (Action::Rollback, false) => to_json::<RollbackPlan>(&decode(bytes)?),
        (Action::Restore, true) => to_json::<RestoreMetadata>(&decode(bytes)?),
        (Action::Restore, false) => to_json::<RestorePlan>(&decode(bytes)?),
        (Action::Savepoint, _) => to_json::<SavepointMetadata>(&decode(bytes)?),
        (Action::Indexing, true) => to_json::<IndexCommitMetadata>(&decode(bytes)?),
        (Action::Indexing, false) => to_json::<IndexPlan>(&decode(bytes)?),
    })
}
