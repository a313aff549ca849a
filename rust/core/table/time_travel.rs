//! Whether the files of an earlier state are still there.
//!
//! A cleaned file is simply absent from a listing, so that a look back past the cleaner would quietly give too few
//! rows. Hudi refuses instants before the last clean's `earliestCommitToRetain` (`TimelineUtils.validateTimestampAsOf`);
//! this does too, and covers what that check leaves open: cleaners without such a commit (`KEEP_LATEST_FILE_VERSIONS`)
//! and a clean that died half way. A savepointed instant keeps its files, so it can be read whatever was cleaned.

use super::TableView;
use crate::error::{Error, Result};
use crate::file_group::{BaseFile, LogFile};
use crate::format::avro::metadata::{CleanMetadata, CleanerPlan, decode};
use crate::format::instant::{Action, Instant, State};
use crate::storage::{FileMeta, Storage};
use crate::timeline::Timeline;

/// Refuses a look back at `as_of` when a cleaner has deleted files of that state. `timeline` is the whole timeline,
/// `then` the view of it as of that instant.
///
/// # Errors
/// `InvalidOption` naming the clean and the first instant that can be read.
pub(super) fn check_not_cleaned(timeline: &Timeline, then: &TableView, as_of: &str) -> Result<()> {
    let seen = then.timeline().completed_writes().next_back().map(|i| i.requested.as_str());
    let newest = timeline.completed_writes().next_back().map(|i| i.requested.as_str());
    // No cleaner touches the newest state, and a savepoint holds on to its own.
    if seen == newest || timeline.completed(Action::Savepoint).any(|s| Some(s.requested.as_str()) == seen) {
        return Ok(());
    }
    let storage = then.storage();
    for clean in timeline.instants().iter().rev().filter(|i| i.action == Action::Clean) {
        let cleaned = Cleaned::read(storage, timeline, clean)?;
        match cleaned.earliest_to_retain.as_deref() {
            Some(earliest) if as_of < earliest => return Err(refused(storage, as_of, clean, Some(earliest))),
            // One before may have kept less, under other options.
            Some(_) => {}
            None if cleaned.took_from(then)? => return Err(refused(storage, as_of, clean, None)),
            None => {}
        }
    }
    // What archived cleans deleted had been succeeded by commits before the first one that is active.
    let first = timeline.first_active();
    match (first, timeline.instants().iter().find(|i| i.action == Action::Clean)) {
        (Some(first), Some(clean)) if as_of < first => Err(refused(storage, as_of, clean, Some(first))),
        _ => Ok(()),
    }
}

fn refused(storage: &Storage, as_of: &str, clean: &Instant, earliest: Option<&str>) -> Error {
    let error = Error::invalid_option(format!("the table as it was at {as_of} is gone: its files were cleaned"))
        .with("table", storage.uri())
        .with("clean", clean);
    match earliest {
        Some(earliest) => error.with("earliest readable instant", earliest),
        None => error,
    }
    .remedy(
        "Read a later instant; to look back further, keep more commits (hoodie.clean.commits.retained) or savepoint",
    )
}

/// What one clean did, or was about to do.
struct Cleaned {
    earliest_to_retain: Option<String>,
    /// Partition and file name.
    files: Vec<(String, String)>,
}

impl Cleaned {
    fn read(storage: &Storage, timeline: &Timeline, clean: &Instant) -> Result<Self> {
        let named = |e: Error| e.with("table", storage.uri()).with("instant", clean);
        let some = |text: String| Some(text).filter(|t| !t.is_empty());
        if clean.is_completed() {
            let body = timeline.read(storage, clean)?;
            let done: CleanMetadata = decode(&body).map_err(named)?;
            let files = done.partition_metadata.into_iter().flat_map(|(partition, deleted)| {
                deleted.delete_path_patterns.into_iter().map(move |name| (partition.clone(), name))
            });
            return Ok(Self { earliest_to_retain: some(done.earliest_commit_to_retain), files: files.collect() });
        }
        let body = timeline.read(storage, &Instant { state: State::Requested, ..clean.clone() })?;
        if body.is_empty() {
            // Its plan was never written, so that nothing was deleted by it.
            return Ok(Self { earliest_to_retain: None, files: Vec::new() });
        }
        let plan: CleanerPlan = decode(&body).map_err(named)?;
        let files = plan.file_paths_to_be_deleted_per_partition.unwrap_or_default().into_iter();
        let files = files.flat_map(|(partition, infos)| {
            infos.into_iter().filter_map(move |info| Some((partition.clone(), info.file_path?)))
        });
        let earliest_to_retain = plan.earliest_instant_to_retain.and_then(|i| some(i.timestamp));
        Ok(Self { earliest_to_retain, files: files.collect() })
    }

    /// Whether a deleted file belonged to the state that the view shows: no later file of its group stands in for it.
    fn took_from(&self, then: &TableView) -> Result<bool> {
        for (partition, path) in &self.files {
            let name = path.rsplit('/').next().unwrap_or(path);
            let file = FileMeta { path: name.to_owned(), size: 0, modified_ms: 0 };
            let base = BaseFile::parse(&file).map(|b| (b.file_id, b.instant));
            let Some((file_id, instant)) = base.or_else(|| LogFile::parse(&file).map(|l| (l.file_id, l.instant)))
            else {
                continue;
            };
            if !then.timeline().is_committed(&instant) || then.replaced_at(partition, &file_id).is_some() {
                continue;
            }
            let groups = then.file_groups(partition)?;
            let group = groups.iter().find(|g| g.file_id == file_id);
            if group.is_none_or(|g| g.slices.iter().all(|s| s.base_instant < instant)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
