//! Reading the bodies of instants, whatever the layout.

use crate::error::{Error, Result};
use crate::format::avro::metadata::{
    CleanMetadata, CleanerPlan, CommitMetadata, CompactionPlan, IndexCommitMetadata, IndexPlan, ReplaceCommitMetadata,
    RequestedReplaceMetadata, RestoreMetadata, RestorePlan, RollbackMetadata, RollbackPlan, SavepointMetadata, decode,
    decode_json, to_json,
};
use crate::format::instant::{Action, Instant, State};
use crate::storage::Storage;
use crate::timeline::Timeline;

/// The metadata of a completed write. Replaced file ids are empty for other actions than `replacecommit`.
pub fn read_write_metadata(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<ReplaceCommitMetadata> {
    let bytes = timeline.read(storage, instant)?;
    decode_write_metadata(&bytes, instant.action).map_err(|e| e.with("table", storage.uri()).with("instant", instant))
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

fn body_as_json(bytes: &[u8], instant: &Instant) -> Result<serde_json::Value> {
    if !bytes.starts_with(b"Obj\x01") {
        return serde_json::from_slice(bytes)
            .map_err(|e| Error::corrupt("an instant's file is neither Avro nor JSON").caused_by(e));
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
