//! Loads the input of a plan, and moves instants.
//!
//! The order makes a crash safe at any point: the history gets the instants and publishes a new version; then their
//! pending files are deleted, then the completed ones, oldest first. An instant is always in at least one of both, and
//! readers take the active one if it is in both.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::super::clean::SAVEPOINTS;
use super::plan::{ArchiveInput, ArchiveOptions, ArchivePlan, LastClean, MetadataTable, plan_archive};
use crate::error::{Error, Result};
use crate::file_group::markers::{delete_markers, marked_instants};
use crate::file_group::{BaseFile, LogFile};
use crate::format::avro::metadata::{CleanerPlan, CommitMetadata, RollbackMetadata, decode, encode};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::run_parallel;
use crate::storage::{FileMeta, ListedFile, Storage, optional};
use crate::table::commit_metadata::{decode_write_metadata, read_write_metadata};
use crate::table::{HudiTable, TableType};
use crate::timeline::history::{Compacted, CompactionLimits, HistoryEntry, HistoryReader, HistoryWriter, LoadMode};
use crate::timeline::{LockGuard, META_FOLDER, Timeline, TimelineConfig};

/// Bytes of bodies in one file of level 0.
const FILE_BYTES: usize = 64 << 20;
/// Actions whose files a thread reads before the total size is checked.
const ACTIONS_AT_A_TIME: usize = 32;

/// The result of archiving.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveOutcome {
    /// The plan that was executed.
    pub plan: ArchivePlan,
    /// Files of the history that were written.
    pub files: usize,
    /// The result of the compaction of the history.
    pub compacted: Compacted,
}

/// Returns the plan that [`archive`] would execute.
///
/// # Errors
/// `Unsupported` for a table of version 6 and for a metadata table; `InvalidOption`; `Corrupt`; `Storage`.
pub fn planned(table: &HudiTable) -> Result<ArchivePlan> {
    let writer = table.timeline_writer()?;
    make_plan(table, &writer.load()?, &ArchiveOptions::from_options(table.options())?)
}

/// Archives the due instants under the table lock, and compacts the history if there were any.
///
/// # Errors
/// As [`planned`]. No instant is deleted before it is in the history.
pub fn archive(table: &HudiTable) -> Result<ArchiveOutcome> {
    let options = ArchiveOptions::from_options(table.options())?;
    archive_locked(table, &options)
}

/// The same from a newly loaded timeline; takes the lock only if something is due.
///
/// # Errors
/// As [`planned`].
pub(crate) fn archive_if_due(table: &HudiTable, timeline: &Timeline) -> Result<ArchiveOutcome> {
    let options = ArchiveOptions::from_options(table.options())?;
    if half_archived(timeline).is_empty() {
        let plan = make_plan(table, timeline, &options)?;
        if plan.instants.is_empty() {
            return Ok(ArchiveOutcome { plan, ..ArchiveOutcome::default() });
        }
    }
    archive_locked(table, &options)
}

fn archive_locked(table: &HudiTable, options: &ArchiveOptions) -> Result<ArchiveOutcome> {
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    let mut timeline = writer.load()?;
    held.check()?;
    if finish_interrupted(table.storage(), &timeline)? {
        timeline = writer.load()?;
    }
    let plan = make_plan(table, &timeline, options)?;
    if plan.instants.is_empty() {
        return Ok(ArchiveOutcome { plan, ..ArchiveOutcome::default() });
    }
    let marked: HashSet<String> = marked_instants(table.storage())?.into_iter().collect();
    let archiver = Archiver { storage: table.storage(), held: &held, threads: table.threads()?, marked };
    archiver.archive(&timeline, plan, &options.history)
}

/// Moves the instants of a plan to the history.
pub(in crate::services) struct Archiver<'a> {
    pub(in crate::services) storage: &'a Storage,
    /// The table lock.
    pub(in crate::services) held: &'a LockGuard,
    pub(in crate::services) threads: usize,
    /// Instants that have markers left.
    pub(in crate::services) marked: HashSet<String>,
}

impl Archiver<'_> {
    /// Moves the instants of a plan, and compacts the history.
    ///
    /// # Errors
    /// `Lock`; `Corrupt`; `Storage`. No instant is deleted before it is in the history.
    pub(in crate::services) fn archive(
        &self,
        timeline: &Timeline,
        plan: ArchivePlan,
        limits: &CompactionLimits,
    ) -> Result<ArchiveOutcome> {
        let Self { storage, held, threads, ref marked } = *self;
        let mut outcome = ArchiveOutcome { plan, ..ArchiveOutcome::default() };
        let history = HistoryWriter::new(storage, timeline.config()).with_threads(threads);
        let actions = gather(timeline, &outcome.plan.instants);
        let mut rest = actions.as_slice();
        while !rest.is_empty() {
            let (entries, taken) = read_some(storage, &timeline.config().folder, rest, threads)?;
            let (now, later) = rest.split_at(taken);
            for action in now.iter().filter(|a| marked.contains(&a.completed.requested)) {
                delete_markers(storage, &action.completed.requested)?;
            }
            // Two processes that archive at once would delete each other's files.
            held.verify()?;
            outcome.files += usize::from(history.append(&entries)?.is_some());
            held.verify()?;
            delete_instants(storage, timeline, now)?;
            rest = later;
        }
        held.verify()?;
        outcome.compacted = history.compact(limits)?;
        Ok(outcome)
    }
}

/// Deletes the remaining files of instants that an interrupted archiving has moved to the history. Returns whether
/// there were any.
pub(in crate::services) fn finish_interrupted(storage: &Storage, timeline: &Timeline) -> Result<bool> {
    let half_archived = half_archived(timeline);
    let (Some(first), Some(last)) = (half_archived.first(), half_archived.last()) else { return Ok(false) };
    let history = HistoryReader::new(storage, timeline.config());
    let there = history.read(Some(&first.requested), Some(&last.requested), LoadMode::Action)?;
    let archived = |i: &Instant| {
        there
            .iter()
            .any(|e| e.requested == i.requested && e.action == i.action && Some(&e.completed) == i.completed.as_ref())
    };
    let done: Vec<Instant> = half_archived.into_iter().filter(archived).collect();
    delete_instants(storage, timeline, &gather(timeline, &done))?;
    Ok(!done.is_empty())
}

/// Completed instants that lack one of their pending files.
pub(in crate::services) fn half_archived(timeline: &Timeline) -> Vec<Instant> {
    let files: HashSet<(&str, Action, State)> =
        timeline.raw().iter().map(|(i, _)| (i.requested.as_str(), i.action.completed_as(), i.state)).collect();
    let has = |i: &Instant, state: State| files.contains(&(i.requested.as_str(), i.action, state));
    let half = |i: &&Instant| {
        i.is_completed() && i.action != Action::Savepoint && !(has(i, State::Requested) && has(i, State::Inflight))
    };
    timeline.instants().iter().filter(half).cloned().collect()
}

/// Compacts the history, whether something was archived or not.
pub fn compact_history(table: &HudiTable) -> Result<Compacted> {
    let options = ArchiveOptions::from_options(table.options())?;
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    held.verify()?;
    HistoryWriter::new(table.storage(), table.config().timeline())
        .with_threads(table.threads()?)
        .compact(&options.history)
}

fn make_plan(table: &HudiTable, timeline: &Timeline, options: &ArchiveOptions) -> Result<ArchivePlan> {
    let storage = table.storage();
    if storage.uri().trim_end_matches('/').ends_with(&format!("{META_FOLDER}/metadata")) {
        return Err(Error::unsupported("archiving a metadata table is not supported")
            .with("table", storage.uri())
            .remedy("Archive the data table instead"));
    }
    let mut input = ArchiveInput {
        timeline,
        merge_on_read: table.config().table_type() == TableType::MergeOnRead,
        last_clean: None,
        metadata_table: MetadataTable::Absent,
        files_left: Vec::new(),
        more_bounds: Vec::new(),
    };
    if timeline.completed_writes().count() <= options.keep_max {
        // After most commits nothing is due, which needs no reads.
        return Ok(plan_archive(&input, options));
    }
    input.last_clean = last_clean(storage, timeline)?;
    input.metadata_table = metadata_table(table)?;
    let plan = plan_archive(&input, options);
    // Only for instants that would be archived: the check lists each of their partitions.
    for instant in &plan.instants {
        let left = match instant.action {
            Action::ReplaceCommit => replaced_file(storage, timeline, instant)?,
            Action::Rollback => rolled_back_file(storage, timeline, instant)?,
            _ => None,
        };
        input.files_left.extend(left.map(|file| (instant.requested.clone(), file)));
    }
    Ok(if input.files_left.is_empty() { plan } else { plan_archive(&input, options) })
}

pub(in crate::services) fn last_clean(storage: &Storage, timeline: &Timeline) -> Result<Option<LastClean>> {
    let Some(clean) = timeline.completed(Action::Clean).next_back() else { return Ok(None) };
    let requested = Instant { state: State::Requested, completed: None, ..clean.clone() };
    // Without its plan, replaced files count as not cleaned.
    let Some(body) = optional(timeline.read(storage, &requested))? else { return Ok(None) };
    let plan: CleanerPlan = decode(&body).map_err(|e| e.with("table", storage.uri()).with("instant", &requested))?;
    let savepointed = plan.extra_metadata.unwrap_or_default().remove(SAVEPOINTS).unwrap_or_default();
    Ok(Some(LastClean {
        requested: clean.requested.clone(),
        earliest_to_retain: plan.earliest_instant_to_retain.map(|i| i.timestamp).filter(|t| !t.is_empty()),
        savepointed: savepointed.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect(),
    }))
}

fn metadata_table(table: &HudiTable) -> Result<MetadataTable> {
    if table.config().metadata_partitions().is_empty() || !table.options().flag("hoodie.metadata.enable", true)? {
        return Ok(MetadataTable::Absent);
    }
    let base = format!("{META_FOLDER}/metadata/{META_FOLDER}/timeline");
    let config = TimelineConfig {
        folder: base.clone(),
        history_folder: format!("{base}/history"),
        ..table.config().timeline().clone()
    };
    let timeline = Timeline::load(table.storage(), &config)?;
    let last = timeline.completed(Action::Commit).next_back();
    Ok(last.map_or(MetadataTable::NeverCompacted, |i| MetadataTable::CompactedAt(i.requested.clone())))
}

/// A file of a file group that the instant replaced, if one still exists.
fn replaced_file(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<Option<String>> {
    let metadata = read_write_metadata(storage, timeline, instant)?;
    for (partition, ids) in &metadata.partition_to_replace_file_ids {
        let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let of_group = |f: &FileMeta| file_group_of(f).is_some_and(|id| ids.contains(id.as_str()));
        if let Some(left) = storage.list(partition)?.files.into_iter().find(of_group) {
            return Ok(Some(left.path));
        }
    }
    Ok(None)
}

fn file_group_of(file: &FileMeta) -> Option<String> {
    BaseFile::parse(file).map(|b| b.file_id).or_else(|| LogFile::parse(file).map(|l| l.file_id))
}

/// A file that the rollback failed to delete, if one still exists.
fn rolled_back_file(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<Option<String>> {
    let body = timeline.read(storage, instant)?;
    let done: RollbackMetadata = decode(&body).map_err(|e| e.with("table", storage.uri()).with("instant", instant))?;
    for partition in done.partition_metadata.values() {
        for failed in &partition.failed_delete_files {
            let name = failed.rsplit('/').next().unwrap_or(failed);
            let path = if partition.partition_path.is_empty() {
                name.to_owned()
            } else {
                format!("{}/{name}", partition.partition_path)
            };
            if storage.exists(&path)? {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

/// An action with all its files on the timeline.
struct ActiveAction<'a> {
    completed: &'a Instant,
    files: Vec<&'a (Instant, ListedFile)>,
}

fn gather<'a>(timeline: &'a Timeline, instants: &'a [Instant]) -> Vec<ActiveAction<'a>> {
    let mut files: HashMap<(&str, Action), Vec<&(Instant, ListedFile)>> = HashMap::with_capacity(instants.len());
    for entry in timeline.raw() {
        files.entry((&entry.0.requested, entry.0.action.completed_as())).or_default().push(entry);
    }
    let mut files_of =
        |i: &'a Instant| files.remove(&(i.requested.as_str(), i.action.completed_as())).unwrap_or_default();
    instants.iter().map(|i| ActiveAction { completed: i, files: files_of(i) }).collect()
}

/// Reads the entries of the first actions, as many as fill a file.
fn read_some(
    storage: &Storage,
    folder: &str,
    actions: &[ActiveAction<'_>],
    threads: usize,
) -> Result<(Vec<HistoryEntry>, usize)> {
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
    let entries: Vec<HistoryEntry> = done.into_iter().flat_map(|(_, entries)| entries).collect();
    let taken = entries.len();
    Ok((entries, taken))
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

/// Deletes pending files first: an action with pending files and no completed one would look pending. Deletes completed
/// files one by one, oldest first, so that readers see no gap.
fn delete_instants(storage: &Storage, timeline: &Timeline, actions: &[ActiveAction<'_>]) -> Result<()> {
    let mut actions: Vec<&ActiveAction<'_>> = actions.iter().collect();
    actions.sort_by(|a, b| a.completed.requested.cmp(&b.completed.requested));
    let pairs: Vec<_> = actions.iter().map(|a| (a.paths(false), a.paths(true))).collect();
    storage.delete_in_order(&timeline.config().folder, &pairs, timeline.side_files())
}
