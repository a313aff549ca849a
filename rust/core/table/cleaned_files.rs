//! Files of a view that were removed after its timeline was loaded.
//!
//! The folders are listed later than the timeline is loaded. What was cleaned in between is not in the listing, and what took
//! its place is not on the timeline: the file group would look as if it were not there, or as it was long ago. So after a
//! listing the timeline is loaded once more. Cleans that it did not have before say which files they deleted, and if one of
//! these belongs to the state of the view, the view is outdated.

use std::collections::{BTreeMap, HashSet};

use super::current::gone;
use super::file_listing::Files;
use crate::error::{Error, Result};
use crate::file_group::{FileSlice, join};
use crate::format::avro::metadata::{CleanMetadata, CleanerPlan, decode};
use crate::format::instant::{Action, Instant, State};
use crate::storage::{FileMeta, Storage};
use crate::timeline::Timeline;

/// What is known, when a view is made, of cleans that may have deleted files of its state.
pub(super) struct KnownCleans {
    /// The timeline of the table by then.
    timeline: Timeline,
    /// Requested times of the cleans that deleted nothing of the state.
    harmless: HashSet<String>,
    /// Whether the state was found to be whole: what it lacks later is not the work of these cleans.
    is_whole: bool,
}

impl KnownCleans {
    /// For the state that a timeline shows: no clean that is on it deletes any of that. Also for an earlier state, where it
    /// was found out that the cleans of the timeline left it whole.
    pub(super) fn of(timeline: &Timeline) -> Self {
        let harmless = cleans(timeline).map(|clean| clean.requested.clone()).collect();
        Self { timeline: timeline.clone(), harmless, is_whole: true }
    }

    /// For the state as of an instant, which cleans that came later may have deleted.
    pub(super) fn until(timeline: &Timeline, as_of: &str) -> Self {
        let mut known = Self::of(timeline);
        known.harmless.retain(|clean| clean.as_str() <= as_of);
        Self { is_whole: false, ..known }
    }

    /// The same, of a state that was whole then.
    pub(super) fn of_whole_state(&self) -> Option<&Timeline> {
        self.is_whole.then_some(&self.timeline)
    }

    /// The timeline of the table when the view was made.
    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }
}

/// The slices of a partition that belong to a state, if these were its files.
pub(super) type SlicesOf<'a> = &'a dyn Fn(&str, &[FileMeta]) -> Result<Vec<FileSlice>>;

/// Fails when a listing lacks files of a state because cleans deleted them. `listed`: the files of a partition, if it was
/// listed.
///
/// # Errors
/// `Conflict` of an outdated plan; `Corrupt`; `Storage`.
pub(super) fn refuse_lacking(
    storage: &Storage,
    (now, cleans): (&Timeline, &[&Instant]),
    listed: &dyn Fn(&str) -> Option<Files>,
    slices_of: SlicesOf<'_>,
) -> Result<()> {
    for (partition, deleted) in deleted_by(storage, now, cleans)? {
        let Some(files) = listed(&partition) else { continue };
        let there: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let lacking: Vec<FileMeta> =
            deleted.into_iter().filter(|path| !there.contains(path.as_str())).map(named).collect();
        if lacking.is_empty() {
            continue;
        }
        // The partition as it was before.
        let before: Vec<FileMeta> = files.iter().chain(&lacking).cloned().collect();
        let slices = slices_of(&partition, &before)?;
        let mut needed = slices
            .iter()
            .flat_map(|slice| slice.base.iter().map(|base| &base.path).chain(slice.logs.iter().map(|log| &log.path)));
        if let Some(path) = needed.find(|path| lacking.iter().any(|file| file.path == **path)) {
            let what = "others wrote to the table and cleaned it while it was listed";
            return Err(outdated(storage, what).with("file", path));
        }
    }
    Ok(())
}

/// What one clean did, or was about to do.
pub(super) struct Cleaned {
    pub(super) earliest_to_retain: Option<String>,
    /// Partition and file name.
    pub(super) files: Vec<(String, String)>,
}

impl Cleaned {
    /// Reads its result, or else its plan.
    pub(super) fn read(storage: &Storage, timeline: &Timeline, clean: &Instant) -> Result<Self> {
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
}

fn cleans(timeline: &Timeline) -> impl Iterator<Item = &Instant> {
    timeline.instants().iter().filter(|i| i.action == Action::Clean)
}

/// The cleans that are not known. They delete before they are completed.
///
/// # Errors
/// `Conflict` of an outdated plan when a commit of the view was rolled back, or the cleans cannot be told any more.
pub(super) fn new_cleans<'a>(
    storage: &Storage,
    view: &Timeline,
    known: &KnownCleans,
    now: &'a Timeline,
) -> Result<Vec<&'a Instant>> {
    // It is taken off the timeline before its files are deleted.
    if view.completed_writes().any(|write| !now.is_committed(&write.requested)) {
        return Err(outdated(storage, "a commit was rolled back while the table was listed"));
    }
    // With all that was there, cleans that came later may have been archived too.
    let newest = known.timeline.completed_writes().next_back();
    let is_gone = newest.is_some_and(|newest| now.first_active().is_none_or(|first| first > newest.requested.as_str()));
    // Where all writes that are left have savepoints, the timeline begins behind them.
    if is_gone && now.first_active() != known.timeline.first_active() {
        return Err(outdated(storage, "the timeline was archived while the table was listed"));
    }
    Ok(cleans(now).filter(|clean| !known.harmless.contains(&clean.requested)).collect())
}

/// Paths of the files that cleans delete, by partition.
fn deleted_by(storage: &Storage, now: &Timeline, cleans: &[&Instant]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut deleted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for clean in cleans {
        // One that is not there any more was archived just now, or taken back.
        for (partition, path) in Cleaned::read(storage, now, clean).map_err(gone)?.files {
            let path = join(&partition, path.rsplit('/').next().unwrap_or(&path));
            deleted.entry(partition).or_default().push(path);
        }
    }
    Ok(deleted)
}

fn named(path: String) -> FileMeta {
    FileMeta { path, size: 0, modified_ms: 0 }
}

fn outdated(storage: &Storage, what: &str) -> Error {
    Error::conflict(what).with("table", storage.uri()).remedy("Try again").outdated_plan()
}
