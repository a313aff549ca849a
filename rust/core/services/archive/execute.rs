//! Moves instants to the history.
//!
//! What is due is found out, and its files are read, before the table lock is taken, for which all writers wait: under the
//! lock the newest timeline only has to confirm the plan. The order makes a crash safe at any point: the history gets the
//! instants and publishes a new version; then their pending files are deleted, then the completed ones. An instant is
//! always in at least one of both, and readers take the active one if it is in both.

use std::collections::HashSet;

use super::actions::{ActiveAction, delete_instants, gather, read_some};
use super::input::MadePlan;
use super::plan::{ArchiveOptions, ArchivePlan};
use crate::error::{ErrorKind, Result};
use crate::file_group::markers::{delete_markers, marked_instants};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::both;
use crate::storage::Storage;
use crate::table::HudiTable;
use crate::timeline::history::{
    Compacted, CompactionLimits, HistoryEntry, HistoryReader, HistoryWriter, LoadMode, Snapshot,
};
use crate::timeline::{LockGuard, Timeline};

/// How often a plan is made without the lock, if other writers change what it stands on before it is executed.
const TRIES: usize = 2;

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
    let made = MadePlan::new(table, &writer.load()?, &ArchiveOptions::from_options(table.options())?)?;
    Ok(made.plan)
}

/// Archives the due instants, and compacts the history if there were any. Takes the table lock only if something is due.
///
/// # Errors
/// As [`planned`]. No instant is deleted before it is in the history.
pub fn archive(table: &HudiTable) -> Result<ArchiveOutcome> {
    archive_if_due(table, &table.timeline_writer()?.load()?)
}

/// The same from a newly loaded timeline.
///
/// # Errors
/// As [`planned`].
pub(crate) fn archive_if_due(table: &HudiTable, timeline: &Timeline) -> Result<ArchiveOutcome> {
    let options = ArchiveOptions::from_options(table.options())?;
    let mut newer: Option<Timeline> = None;
    for _ in 0..TRIES {
        let timeline = newer.as_ref().unwrap_or(timeline);
        // The work of an interrupted archiving is finished under the lock.
        if !half_archived(timeline).is_empty() {
            break;
        }
        let done = Prepared::new(table, timeline, &options).and_then(|prepared| prepared.archive(table, &options));
        match done {
            Ok(Some(outcome)) => return Ok(outcome),
            // Another process archived them meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
            Ok(None) => {}
        }
        newer = Some(table.timeline_writer()?.load()?);
    }
    archive_locked(table, &options)
}

/// A plan and the first entries of the history that it makes.
struct Prepared {
    plan: MadePlan,
    entries: Vec<HistoryEntry>,
    /// Instants that have markers.
    marked: HashSet<String>,
}

impl Prepared {
    fn new(table: &HudiTable, timeline: &Timeline, options: &ArchiveOptions) -> Result<Self> {
        let plan = MadePlan::new(table, timeline, options)?;
        if plan.plan.instants.is_empty() {
            return Ok(Self { plan, entries: Vec::new(), marked: HashSet::new() });
        }
        let (storage, threads) = (table.storage(), table.threads()?);
        let actions = gather(timeline, &plan.plan.instants);
        let (entries, marked) = both(
            storage.is_remote(),
            || read_some(storage, &timeline.config().folder, &actions, threads),
            || marked_instants(storage),
        )?;
        Ok(Self { plan, entries, marked: marked.into_iter().collect() })
    }

    /// Executes the plan under the lock; `None` if it does not hold any more.
    fn archive(self, table: &HudiTable, options: &ArchiveOptions) -> Result<Option<ArchiveOutcome>> {
        let Self { plan: made, entries, marked } = self;
        if made.plan.instants.is_empty() {
            return Ok(Some(ArchiveOutcome { plan: made.plan, ..ArchiveOutcome::default() }));
        }
        let (storage, writer) = (table.storage(), table.timeline_writer()?);
        let history = history_of(table)?;
        let held = writer.lock().acquire()?;
        let (timeline, snapshot) = both(storage.is_remote(), || writer.load(), || history.load())?;
        held.check()?;
        if !half_archived(&timeline).is_empty() || !made.holds(storage, &timeline, options)? {
            return Ok(None);
        }
        let threads = table.threads()?;
        let work = Move { storage, threads, held: &held, timeline: &timeline, history, snapshot, marked };
        work.run(made.plan, Some(entries), &options.history).map(Some)
    }
}

/// Plans and executes under the lock.
fn archive_locked(table: &HudiTable, options: &ArchiveOptions) -> Result<ArchiveOutcome> {
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    let mut timeline = writer.load()?;
    held.check()?;
    if finish_interrupted(table.storage(), &timeline)? {
        timeline = writer.load()?;
    }
    let plan = MadePlan::new(table, &timeline, options)?.plan;
    if plan.instants.is_empty() {
        return Ok(ArchiveOutcome { plan, ..ArchiveOutcome::default() });
    }
    let history = history_of(table)?;
    let snapshot = history.load()?;
    let marked = marked_instants(table.storage())?.into_iter().collect();
    let (storage, threads) = (table.storage(), table.threads()?);
    Move { storage, threads, held: &held, timeline: &timeline, history, snapshot, marked }.run(
        plan,
        None,
        &options.history,
    )
}

/// Moves the instants of a plan of another timeline in the table's storage to its history. The caller holds the table lock.
///
/// # Errors
/// `Lock`; `Corrupt`; `Storage`. No instant is deleted before it is in the history.
pub(in crate::services) fn archive_planned(
    storage: &Storage,
    threads: usize,
    held: &LockGuard,
    timeline: &Timeline,
    plan: ArchivePlan,
    limits: &CompactionLimits,
) -> Result<ArchiveOutcome> {
    let history = HistoryWriter::new(storage, timeline.config()).with_threads(threads);
    let snapshot = history.load()?;
    Move { storage, threads, held, timeline, history, snapshot, marked: HashSet::new() }.run(plan, None, limits)
}

/// The end of an archiving, under the lock.
struct Move<'a> {
    storage: &'a Storage,
    threads: usize,
    held: &'a LockGuard,
    timeline: &'a Timeline,
    history: HistoryWriter,
    /// The current version of the history.
    snapshot: Snapshot,
    marked: HashSet<String>,
}

impl Move<'_> {
    /// Moves the instants of a plan to the history. `entries`: those of the first instants, if they were read.
    fn run(
        mut self,
        plan: ArchivePlan,
        mut entries: Option<Vec<HistoryEntry>>,
        limits: &CompactionLimits,
    ) -> Result<ArchiveOutcome> {
        let mut outcome = ArchiveOutcome { plan, ..ArchiveOutcome::default() };
        let (storage, threads) = (self.storage, self.threads);
        let actions = gather(self.timeline, &outcome.plan.instants);
        let mut rest = actions.as_slice();
        while !rest.is_empty() {
            let entries = match entries.take() {
                Some(entries) => entries,
                None => read_some(storage, &self.timeline.config().folder, rest, threads)?,
            };
            let (now, later) = rest.split_at(entries.len().min(rest.len()));
            outcome.files += usize::from(self.append(now, &entries)?);
            rest = later;
        }
        self.held.verify()?;
        outcome.compacted = self.history.compact_from(self.snapshot, limits)?;
        Ok(outcome)
    }

    /// Adds entries to the history and deletes the files of their instants. Returns whether the history did not have them.
    fn append(&mut self, actions: &[ActiveAction<'_>], entries: &[HistoryEntry]) -> Result<bool> {
        let storage = self.storage;
        for action in actions.iter().filter(|a| self.marked.contains(&a.completed.requested)) {
            delete_markers(storage, &action.completed.requested)?;
        }
        // Two processes that archive at once would delete each other's files.
        self.held.verify()?;
        let added = self.history.append_to(&mut self.snapshot, entries)?.is_some();
        self.held.verify()?;
        delete_instants(storage, self.timeline, actions)?;
        Ok(added)
    }
}

fn history_of(table: &HudiTable) -> Result<HistoryWriter> {
    Ok(HistoryWriter::new(table.storage(), table.config().timeline()).with_threads(table.threads()?))
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
    history_of(table)?.compact(&options.history)
}
