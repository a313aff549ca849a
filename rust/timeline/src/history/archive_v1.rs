//! The archive of layout 1 (table version 6): log files `.commits_.archive.<n>_<write token>`, one record for each state
//! file of an archived action.
//!
//! What comes out are the entries that the history of layout 2 has, one an action. As Hudi reads the archive:
//!
//! * Files are read by falling `n`. Where the same state of an action stands in two (a crash between writing and
//!   deleting, or files that were merged and not deleted yet), the one read last, the oldest, is taken.
//! * Only data blocks count; a block that was cut off is passed over.
//! * A file that cannot be read is an error, unless `mergeArchivePlan` says that it was being written when a merge of
//!   archive files was interrupted: then its records are still in the files that were to be merged.
//! * A record without a state is a completed one; the action of a completed compaction is `commit`.
//!
//! Hudi lists every state as an instant of its own, and stops at the first file without an instant in the range that it
//! looks for; we read them all, for cleans and rollbacks are archived on counts of their own and may lie further back.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use super::entry::{HistoryEntry, LoadMode, METADATA, PLAN, TimeRange};
use hoodoo_format::avro::datum::{Cursor, DatumSchema, read_datum};
use hoodoo_format::avro::metadata::{ArchivedMetaEntry, MergeArchiveFilePlan, TimelineRecord, decode, encode};
use hoodoo_format::instant::{Action, State};
use hoodoo_format::log::{AvroRecords, BlockKind, LogFile};
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_storage::{FileMeta, Storage, optional};

const PREFIX: &str = ".commits_.archive";
const MERGE_PLAN: &str = "mergeArchivePlan";

/// Completed instants of a range, by requested time and action, each once. Without bodies, only the head of each record is
/// decoded.
pub(super) fn read(storage: &Storage, folder: &str, range: &TimeRange, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        // A merge of archive files may remove some between the listing and the read: then list again.
        match read_once(storage, folder, range, mode) {
            Err(e) if e.kind() == ErrorKind::NotFound && attempts < 4 => continue,
            other => return other,
        }
    }
}

fn read_once(storage: &Storage, folder: &str, range: &TimeRange, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
    let mut files = storage.list(folder)?.files;
    files.retain(|f| f.name().starts_with(PREFIX));
    files.sort_by_key(|f| std::cmp::Reverse(number_of(f.name())));
    let mut merged = Merged { range, mode, actions: BTreeMap::new() };
    for file in &files {
        if let Err(e) = merged.add_file(storage, file)
            && !was_being_merged(storage, folder, file)
        {
            return Err(e.with("table", storage.uri()).with("file", &file.path));
        }
    }
    Ok(merged.entries())
}

/// The number of an archive file; 0 where there is none that fits, as in Hudi.
fn number_of(name: &str) -> i32 {
    let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end).and_then(|d| d.parse().ok()).unwrap_or(0)
}

/// Whether an interrupted merge left this file unfinished. A plan that cannot be read says nothing.
fn was_being_merged(storage: &Storage, folder: &str, file: &FileMeta) -> bool {
    let plan = optional(storage.read(&format!("{folder}/{MERGE_PLAN}"))).ok().flatten();
    let plan = plan.and_then(|bytes| decode::<MergeArchiveFilePlan>(&bytes).ok());
    let name = plan.and_then(|plan| plan.merged_archive_file_name);
    name.is_some_and(|name| !name.is_empty() && name.eq_ignore_ascii_case(file.name()))
}

/// What stands before the bodies of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    #[serde(rename = "commitTime")]
    time: Option<String>,
    #[serde(rename = "actionType")]
    action: Option<String>,
    #[serde(rename = "actionState")]
    state: Option<String>,
    #[serde(rename = "stateTransitionTime")]
    transition: Option<String>,
}

/// The states of one action, as far as they matter.
#[derive(Debug, Default)]
struct States {
    /// Completion time, where there is one, and metadata.
    completed: Option<(Option<String>, Option<Bytes>)>,
    requested_plan: Option<Bytes>,
    inflight_plan: Option<Bytes>,
}

struct Merged<'a> {
    range: &'a TimeRange,
    mode: LoadMode,
    actions: BTreeMap<(String, Action), States>,
}

impl Merged<'_> {
    fn add_file(&mut self, storage: &Storage, file: &FileMeta) -> Result<()> {
        let log = LogFile::new(storage.reader(&file.path, file.size)?);
        // The blocks of a file have the same schema, which is long.
        let mut known: Option<(String, DatumSchema)> = None;
        for block in log.blocks() {
            let block = block?;
            if block.kind != BlockKind::AvroData {
                continue;
            }
            let at = |e: Error| e.with("offset", block.range.start);
            let text = AvroRecords::schema(&block).map_err(at)?;
            let schema = match &known {
                Some((json, schema)) if json == text => schema,
                _ => &known.insert((text.to_owned(), DatumSchema::parse(text).map_err(at)?)).1,
            };
            let content = log.content(&block)?;
            for record in AvroRecords::new(&content).map_err(at)? {
                self.add_record(schema, record.map_err(at)?).map_err(at)?;
            }
        }
        Ok(())
    }

    fn add_record(&mut self, schema: &DatumSchema, record: &[u8]) -> Result<()> {
        let damaged = |e| Error::corrupt("a record of the archived timeline could not be read").caused_by(e);
        let head: Head = read_datum(schema, &mut Cursor::new(record)).map_err(damaged)?;
        let (Some(time), Some(action)) = (head.time, head.action) else {
            return Err(Error::corrupt("a record of the archived timeline has no time or no action"));
        };
        if !self.range.contains(&time) {
            return Ok(());
        }
        let unknown = |what: &str, name: &str| {
            Error::corrupt(format!("the archived timeline has the unknown {what} '{name}'")).with("instant", &time)
        };
        let action = Action::parse(&action).ok_or_else(|| unknown("action", &action))?;
        let state = match head.state.as_deref() {
            None | Some("COMPLETED") => State::Completed,
            Some("INFLIGHT") => State::Inflight,
            Some("REQUESTED") => State::Requested,
            Some(other) => return Err(unknown("state", other)),
        };
        let body = if self.wants_body(state) {
            let entry: ArchivedMetaEntry = read_datum(schema, &mut Cursor::new(record)).map_err(damaged)?;
            body_of(&entry, action, state)?
        } else {
            None
        };
        let states = self.actions.entry((time, action.completed_as())).or_default();
        match state {
            State::Completed => states.completed = Some((head.transition, body)),
            State::Inflight => states.inflight_plan = body.or(states.inflight_plan.take()),
            State::Requested => states.requested_plan = body.or(states.requested_plan.take()),
        }
        Ok(())
    }

    fn wants_body(&self, state: State) -> bool {
        let column = if state == State::Completed { METADATA } else { PLAN };
        self.mode.columns().contains(&column)
    }

    fn entries(self) -> Vec<HistoryEntry> {
        let complete = self.actions.into_iter().filter_map(|((requested, action), states)| {
            let (transition, metadata) = states.completed?;
            // Older archives do not know it; Hudi then goes by the requested time.
            let completed = transition.unwrap_or_else(|| requested.clone());
            // As the archiver of layout 2 has it: what an inflight replacecommit says comes before its request.
            let plan = states.inflight_plan.or(states.requested_plan);
            Some(HistoryEntry { requested, completed, action, metadata, plan })
        });
        complete.collect()
    }
}

/// The body of one state as a container file, in the form in which the history of layout 2 keeps it.
fn body_of(entry: &ArchivedMetaEntry, action: Action, state: State) -> Result<Option<Bytes>> {
    if state == State::Completed {
        return match action {
            Action::Commit | Action::DeltaCommit | Action::Compaction | Action::LogCompaction => file(&entry.commit),
            Action::ReplaceCommit | Action::Clustering => file(&entry.replace_commit),
            Action::Clean => file(&entry.clean),
            Action::Rollback => file(&entry.rollback),
            Action::Savepoint => file(&entry.savepoint),
            Action::Indexing => file(&entry.index_commit),
            // There is no field for it.
            Action::Restore => Ok(None),
        };
    }
    match action {
        Action::Compaction | Action::LogCompaction => file(&entry.compaction_plan),
        Action::Clean => file(&entry.cleaner_plan),
        Action::ReplaceCommit | Action::Clustering if state == State::Requested => file(&entry.requested_replace),
        Action::ReplaceCommit | Action::Clustering => file(&entry.inflight_replace),
        _ => Ok(None),
    }
}

fn file<T: TimelineRecord>(body: &Option<T>) -> Result<Option<Bytes>> {
    body.as_ref().map(|body| encode(body).map(Bytes::from)).transpose()
}

#[cfg(test)]
#[path = "archive_v1_tests.rs"]
mod tests;
