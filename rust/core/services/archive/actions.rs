//! The files of the instants that are archived: read into entries of the history, then deleted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::error::Result;
use crate::format::avro::metadata::{CommitMetadata, encode};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::run_parallel;
use crate::storage::{ListedFile, Storage};
use crate::table::commit_metadata::decode_write_metadata;
use crate::timeline::Timeline;
use crate::timeline::history::HistoryEntry;

/// Bytes of bodies in one file of level 0.
const FILE_BYTES: usize = 64 << 20;
/// Actions whose files a thread reads before the total size is checked.
const ACTIONS_AT_A_TIME: usize = 32;

/// An action with all its files on the timeline.
pub(super) struct ActiveAction<'a> {
    pub(super) completed: &'a Instant,
    files: Vec<&'a (Instant, ListedFile)>,
}

pub(super) fn gather<'a>(timeline: &'a Timeline, instants: &'a [Instant]) -> Vec<ActiveAction<'a>> {
    let mut files: HashMap<(&str, Action), Vec<&(Instant, ListedFile)>> = HashMap::with_capacity(instants.len());
    for entry in timeline.raw() {
        files.entry((&entry.0.requested, entry.0.action.completed_as())).or_default().push(entry);
    }
    let mut files_of =
        |i: &'a Instant| files.remove(&(i.requested.as_str(), i.action.completed_as())).unwrap_or_default();
    instants.iter().map(|i| ActiveAction { completed: i, files: files_of(i) }).collect()
}

/// Reads the entries of the first actions, as many as fill a file.
pub(super) fn read_some(
    storage: &Storage,
    folder: &str,
    actions: &[ActiveAction<'_>],
    threads: usize,
) -> Result<Vec<HistoryEntry>> {
    let blocks: Vec<&[ActiveAction<'_>]> = actions.chunks(ACTIONS_AT_A_TIME).collect();
    let (next, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Each thread takes several actions at a time, because starting a thread costs as much as reading many small files.
    // They are taken in order, so that those that were read are the first ones.
    let read = |()| {
        let mut entries = Vec::new();
        while bytes.load(Ordering::Relaxed) < FILE_BYTES {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = blocks.get(number) else { break };
            let block = read_entries(storage, folder, block)?;
            bytes.fetch_add(block.iter().map(HistoryEntry::body_bytes).sum(), Ordering::Relaxed);
            entries.push((number, block));
        }
        Ok(entries)
    };
    let mut done: Vec<_> = run_parallel(vec![(); threads.clamp(1, blocks.len().max(1))], threads, read)?.concat();
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().flat_map(|(_, entries)| entries).collect())
}

fn read_entries(storage: &Storage, folder: &str, actions: &[ActiveAction<'_>]) -> Result<Vec<HistoryEntry>> {
    let paths = actions.iter().flat_map(|a| a.body_file().into_iter().chain(a.plan_files()));
    let mut contents = storage.read_all(folder, &paths.collect::<Vec<_>>())?.into_iter();
    let entry = |action: &ActiveAction| {
        let instant = action.completed;
        let body = action.body_file().and_then(|_| contents.next()).unwrap_or_default();
        let plans = contents.by_ref().take(action.plan_files().len());
        let plan = plans.filter(|plan| !plan.is_empty()).last();
        let metadata = in_avro(body, instant).map_err(|e| e.with("table", storage.uri()).with("instant", instant))?;
        Ok(HistoryEntry {
            requested: instant.requested.clone(),
            completed: instant.completed.clone().unwrap_or_default(),
            action: instant.action.completed_as(),
            metadata: Some(metadata).filter(|b| !b.is_empty()),
            plan,
        })
    };
    actions.iter().map(entry).collect()
}

impl ActiveAction<'_> {
    fn body_file(&self) -> Option<&str> {
        let is_body = |i: &Instant| i.is_completed() && i.completed == self.completed.completed;
        self.files.iter().find(|(i, _)| is_body(i)).map(|(_, file)| file.path.as_str())
    }

    /// The files that may have the content of the plan column; the last one that is not empty counts, as in Hudi
    /// (`MetadataConversionUtils.createLSMTimelineInstant`).
    fn plan_files(&self) -> Vec<&str> {
        let has_plan = |a: Action| {
            matches!(
                a,
                Action::Clean | Action::Compaction | Action::LogCompaction | Action::ReplaceCommit | Action::Clustering
            )
        };
        let mut files = Vec::new();
        for state in [State::Requested, State::Inflight] {
            for (instant, file) in self.files.iter().filter(|(i, _)| i.state == state && has_plan(i.action)) {
                let replaces = matches!(instant.action, Action::ReplaceCommit | Action::Clustering);
                // The inflight files of other actions have no plan.
                if state == State::Requested || replaces {
                    files.push(file.path.as_str());
                }
            }
        }
        files
    }

    fn paths(&self, completed: bool) -> Vec<&str> {
        let of_state = self.files.iter().filter(|(i, _)| i.is_completed() == completed);
        of_state.map(|(_, file)| file.path.as_str()).collect()
    }
}

/// A body in Avro, as the history stores it. Legacy instants have JSON.
fn in_avro(body: Bytes, instant: &Instant) -> Result<Bytes> {
    if body.is_empty() || body.starts_with(b"Obj\x01") {
        return Ok(body);
    }
    let metadata = decode_write_metadata(&body, instant.action)?;
    let body = match instant.action {
        Action::ReplaceCommit => encode(&metadata)?,
        _ => encode(&CommitMetadata::from(metadata))?,
    };
    Ok(body.into())
}

/// Deletes pending files first: an action with pending files and no completed one would look pending. Deletes the completed
/// files of writes one by one, oldest first, so that readers see no gap: a write that is not on the timeline was archived
/// if it is older than all writes there. Nobody draws such conclusions from cleans and rollbacks.
pub(super) fn delete_instants(storage: &Storage, timeline: &Timeline, actions: &[ActiveAction<'_>]) -> Result<()> {
    let mut actions: Vec<&ActiveAction<'_>> = actions.iter().collect();
    actions.sort_by(|a, b| a.completed.requested.cmp(&b.completed.requested));
    let mut pending: Vec<&str> = actions.iter().flat_map(|a| a.paths(false)).collect();
    // Nothing else would ever delete what is left of a savepoint whose process was killed.
    let begun_savepoints = actions.iter().flat_map(|a| timeline.files_of_begun_savepoint(&a.completed.requested));
    pending.extend(begun_savepoints.map(|file| file.path.as_str()));
    let (writes, others): (Vec<_>, Vec<_>) = actions.into_iter().partition(|a| a.completed.action.is_write());
    let mut completed: Vec<Vec<&str>> = vec![others.iter().flat_map(|a| a.paths(true)).collect()];
    completed.extend(writes.iter().map(|a| a.paths(true)));
    storage.delete_in_order(&timeline.config().folder, &pending, &completed, timeline.side_files())
}
