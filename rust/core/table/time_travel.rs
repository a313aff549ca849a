//! The table as it was at an instant: given when every file of that state is there, refused when one is gone.
//!
//! A cleaned file is simply absent from a listing, so that a look back past the cleaner would quietly give too few rows.
//! What cleans of the active timeline deleted tells whether a state after the first active commit is whole. Otherwise the
//! commits up to the instant, archived ones too, name the files that have to be there, and the file groups that were
//! replaced by then. Hudi refuses each instant before the last clean's `earliestCommitToRetain`
//! (`TimelineUtils.validateTimestampAsOf`), whatever is left.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::archived_commits::ArchivedCommits;
use super::cleaned_files::{Cleaned, KnownCleans};
use super::committed_files::{READ_A_LATER_INSTANT, gone_since};
use super::{HudiTable, TableView};
use crate::error::{Error, Result};
use crate::file_group::{BaseFile, LogFile, join};
use crate::format::avro::metadata::{SavepointMetadata, decode};
use crate::format::instant::{Action, Instant, Layout};
use crate::storage::{FileMeta, Storage};
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode, TimeRange, entries};

/// The files as they were at an instant, as far as they are there. The history is read where the instant was archived.
///
/// # Errors
/// `Corrupt` and `Storage` when commits cannot be read.
pub(super) fn view_at(table: &HudiTable, timeline: &Timeline, as_of: &str) -> Result<TableView> {
    match is_archived(timeline, as_of) {
        true => ArchivedCommits::read(table, timeline, as_of)?.view(table, timeline, as_of),
        false => {
            let view = TableView::new(table.storage().clone(), timeline.as_of(as_of))?;
            Ok(view.with_metadata_table(table.metadata_source(timeline)?))
        }
    }
}

/// The same, all files being there: those of some file groups (partition, id), or of all.
///
/// # Errors
/// `InvalidOption` when a file of that state is gone.
pub(super) fn complete_view_at(
    table: &HudiTable,
    timeline: &Timeline,
    as_of: &str,
    groups: Option<&HashSet<(String, String)>>,
) -> Result<TableView> {
    if !is_archived(timeline, as_of) {
        let then = view_at(table, timeline, as_of)?.comparing(KnownCleans::of(timeline));
        if groups.is_none() {
            match lost_of_savepoint(timeline, &then)?.as_slice() {
                [] => {}
                lost => return Err(refused(table.storage(), timeline, as_of, lost)),
            }
        }
        if !may_lack_files(table, timeline, &then, as_of)? {
            return Ok(then);
        }
    }
    let archived = ArchivedCommits::read(table, timeline, as_of)?;
    let then = archived.view(table, timeline, as_of)?;
    match archived.missing_files(&then, groups)?.as_slice() {
        [] => Ok(then),
        missing => Err(refused(table.storage(), timeline, as_of, missing)),
    }
}

/// Whether an instant is before the first write that is on the active timeline.
fn is_archived(timeline: &Timeline, as_of: &str) -> bool {
    timeline.first_active().is_some_and(|first| as_of < first)
}

/// Files of the state that a view shows which its savepoint holds, and which are gone all the same: Hudi's cleaner deletes such.
fn lost_of_savepoint(timeline: &Timeline, then: &TableView) -> Result<Vec<String>> {
    let seen = then.timeline().completed_writes().next_back().map(|i| i.requested.as_str());
    let Some(savepoint) = timeline.completed(Action::Savepoint).find(|s| Some(s.requested.as_str()) == seen) else {
        return Ok(Vec::new());
    };
    let body = timeline.read(then.storage(), savepoint)?;
    let held: SavepointMetadata = decode(&body).map_err(|e| e.with("instant", savepoint))?;
    let there = then.partition_files()?;
    let mut lost = Vec::new();
    for (partition, held) in held.partition_metadata {
        let files = there.get(&partition).map(Vec::as_slice).unwrap_or_default();
        let paths = held.savepoint_data_file.into_iter().map(|name| join(&partition, &name));
        lost.extend(paths.filter(|path| !files.iter().any(|file| file.path == *path)));
    }
    Ok(lost)
}

/// Whether a cleaner may have deleted files of the state that a view shows.
fn may_lack_files(table: &HudiTable, timeline: &Timeline, then: &TableView, as_of: &str) -> Result<bool> {
    let seen = then.timeline().completed_writes().next_back().map(|i| i.requested.as_str());
    let last = timeline.completed_writes().next_back().map(|i| i.requested.as_str());
    // No cleaner touches the newest state. Files that a savepoint holds, Hudi's may delete.
    if seen == last {
        return Ok(false);
    }
    if timeline.config().was_version_6 && timeline.config().layout != Layout::V1 {
        // An upgrade deletes log files that it compacted, and there is no clean that says so.
        return Ok(true);
    }
    let newest = OnceCell::new();
    // What was cleaned before had been succeeded by then.
    let later = |i: &&Instant| i.action == Action::Clean && i.requested.as_str() > as_of;
    for clean in timeline.instants().iter().rev().filter(later) {
        let cleaned = Cleaned::read(then.storage(), timeline, clean)?;
        let keeps = cleaned.earliest_to_retain.as_deref().is_some_and(|earliest| as_of >= earliest);
        if !keeps && took_from(&cleaned, then, &newest)? {
            return Ok(true);
        }
    }
    was_cleaned_by_archived(table, timeline, as_of)
}

/// Whether a clean that came after an instant was archived: in version 6, whose archiver counts cleans by themselves, so that
/// a clean may be gone while writes before it are active (`TimelineArchiverV1.getCleanInstantsToArchive`).
fn was_cleaned_by_archived(table: &HudiTable, timeline: &Timeline, as_of: &str) -> Result<bool> {
    // They are archived in their order.
    let first = timeline.instants().iter().find(|i| i.action == Action::Clean);
    if timeline.config().layout != Layout::V1 || first.is_some_and(|first| first.requested.as_str() <= as_of) {
        return Ok(false);
    }
    let history = HistoryReader::new(table.storage(), timeline.config()).with_threads(table.threads()?);
    for batch in history.scan(TimeRange::closed(Some(as_of), None), LoadMode::Action)? {
        if entries(&batch?)?.iter().any(|entry| entry.action == Action::Clean) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refused(storage: &Storage, timeline: &Timeline, as_of: &str, missing: &[String]) -> Error {
    let example = missing.first().map(String::as_str).unwrap_or_default();
    let error = gone_since(storage.uri(), as_of, missing.len(), example);
    let clean = timeline.completed(Action::Clean).next_back();
    let cleaned = clean.and_then(|clean| Cleaned::read(storage, timeline, clean).ok());
    match cleaned.and_then(|cleaned| cleaned.earliest_to_retain).filter(|earliest| earliest.as_str() > as_of) {
        Some(earliest) => error.with("earliest readable instant", earliest),
        None => error,
    }
    .remedy(READ_A_LATER_INSTANT)
}

/// The instant that began the newest slice of each file group (partition, id).
type Newest = HashMap<(String, String), String>;

fn newest_slices(then: &TableView) -> Result<Newest> {
    let mut newest = Newest::new();
    for (partition, files) in then.partition_files()? {
        for group in then.group(&partition, &files)? {
            if let Some(slice) = group.slices.into_iter().next() {
                newest.insert((partition.clone(), group.file_id), slice.base_instant);
            }
        }
    }
    Ok(newest)
}

/// Whether a file that a clean deleted belonged to the state that the view shows: no later file of its group stands in for it.
fn took_from(cleaned: &Cleaned, then: &TableView, newest: &OnceCell<Newest>) -> Result<bool> {
    for (partition, path) in &cleaned.files {
        let name = path.rsplit('/').next().unwrap_or(path);
        let file = FileMeta { path: name.to_owned(), size: 0, modified_ms: 0 };
        let base = BaseFile::parse(&file).map(|b| (b.file_id, b.instant));
        let Some((file_id, instant)) = base.or_else(|| LogFile::parse(&file).map(|l| (l.file_id, l.instant))) else {
            continue;
        };
        if !then.timeline().is_committed(&instant) || then.replaced_at(partition, &file_id).is_some() {
            continue;
        }
        if newest.get().is_none() {
            let _ = newest.set(newest_slices(then)?);
        }
        let begun = newest.get().and_then(|newest| newest.get(&(partition.clone(), file_id)));
        if begun.is_none_or(|begun| *begun < instant) {
            return Ok(true);
        }
    }
    Ok(false)
}
