//! Which instants are archived, and the archive blockers of the others. Pure.

use std::collections::HashSet;
use std::fmt;

use crate::error::{Error, Result};
use crate::format::instant::{Action, Instant};
use crate::services::clean::Retention;
use crate::table::Options;
use crate::timeline::Timeline;
use crate::timeline::history::CompactionLimits;

/// Settings of archiving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchiveOptions {
    /// Completed writes to keep (`hoodie.keep.min.commits`).
    pub keep_min: usize,
    /// Completed writes above which archiving starts (`hoodie.keep.max.commits`).
    pub keep_max: usize,
    /// Whether instants after a savepoint are archived (`hoodie.archive.beyond.savepoint`).
    pub beyond_savepoint: bool,
    /// Delta commits that trigger a compaction, if the trigger counts them (`hoodie.compact.inline.trigger.strategy`,
    /// `hoodie.compact.inline.max.delta.commits`).
    pub compacted_after: Option<usize>,
    /// What the cleaner keeps.
    pub retention: Retention,
    /// How the history is compacted.
    pub history: CompactionLimits,
}

impl ArchiveOptions {
    /// Reads the settings.
    ///
    /// # Errors
    /// `InvalidOption` for invalid numbers, or a maximum that is not above the minimum.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let keep_min = options.number("hoodie.keep.min.commits", 20)?;
        let keep_max = options.number("hoodie.keep.max.commits", 30)?;
        if keep_max <= keep_min || keep_min == 0 {
            return Err(Error::invalid_option(format!(
                "hoodie.keep.max.commits={keep_max} is not above hoodie.keep.min.commits={keep_min}, or that is 0"
            ))
            .remedy("Set hoodie.keep.min.commits to at least 1 and hoodie.keep.max.commits to more than that"));
        }
        let trigger = options.get("hoodie.compact.inline.trigger.strategy").unwrap_or("NUM_COMMITS");
        let counts = ["NUM_COMMITS", "NUM_AND_TIME"].iter().any(|t| trigger.eq_ignore_ascii_case(t));
        let delta_commits = options.number("hoodie.compact.inline.max.delta.commits", 5)?;
        let standard = CompactionLimits::default();
        let batch_size = options.number("hoodie.timeline.compaction.batch.size", standard.batch_size)?;
        if batch_size < 2 {
            return Err(Error::invalid_option(format!(
                "hoodie.timeline.compaction.batch.size={batch_size} is below 2"
            ))
            .remedy("Set it to at least 2"));
        }
        Ok(Self {
            keep_min,
            keep_max,
            beyond_savepoint: options.flag("hoodie.archive.beyond.savepoint", false)?,
            compacted_after: counts.then_some(delta_commits),
            retention: Retention::from_options(options)?,
            history: CompactionLimits {
                batch_size,
                max_bytes: options.number("hoodie.timeline.compaction.target.file.max.bytes", standard.max_bytes)?,
                retained_versions: options
                    .number("hoodie.timeline.manifest.retained.versions", standard.retained_versions)?,
            },
        })
    }
}

/// Why an instant cannot be archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A write or a table service is pending.
    Pending(Instant),
    /// The cleaner retains it: `hoodie.clean.commits.retained`, counted from the first pending write if there is one.
    CleanerRetains,
    /// The next compaction counts the delta commits since the last one.
    CompactionCounts,
    /// A savepoint protects the commit.
    Savepoint,
    /// It replaced file groups that are not cleaned yet.
    ReplacedNotCleaned,
    /// A file that it replaced or rolled back still exists.
    FilesLeft(String),
    /// The metadata table was never compacted.
    MetadataTableNeverCompacted,
    /// The metadata table was last compacted before it.
    MetadataTableNotCompacted,
    /// Of an instant of the metadata table: the table's own timeline begins with it, or has it pending.
    TableNeeds,
    /// Of an instant of the metadata table: files that its cleaner has not deleted yet are of it.
    NotCleaned,
}

impl Reason {
    /// What the user can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Reason::Pending(_) => "Finish it, or roll it back if its writer has failed",
            Reason::CleanerRetains => {
                "Nothing to do, unless pending writes are to be finished or rolled back; a lower hoodie.clean.commits.retained archives more"
            }
            Reason::CompactionCounts => "Compact the table, or lower hoodie.compact.inline.max.delta.commits",
            Reason::Savepoint => "Delete the savepoint, or set hoodie.archive.beyond.savepoint=true",
            Reason::ReplacedNotCleaned => "Clean the table; hoodie.clean.automatic=true does it after each commit",
            Reason::FilesLeft(_) => "Clean the table; if the files stay, delete those that verify() reports",
            Reason::MetadataTableNeverCompacted | Reason::MetadataTableNotCompacted => {
                "Nothing to do: writes compact the metadata table after hoodie.metadata.compact.max.delta.commits; a lower number archives more"
            }
            Reason::TableNeeds | Reason::NotCleaned => {
                "Nothing to do: it is archived when the table's own timeline is, and the metadata table is cleaned"
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Pending(instant) => write!(f, "{instant} is pending"),
            Reason::CleanerRetains => f.write_str("the cleaner still needs it"),
            Reason::CompactionCounts => f.write_str("the next compaction counts its delta commits"),
            Reason::Savepoint => f.write_str("a savepoint protects it"),
            Reason::ReplacedNotCleaned => f.write_str("the files that it replaced are not cleaned yet"),
            Reason::FilesLeft(file) => write!(f, "a file that it replaced or rolled back is still there: {file}"),
            Reason::MetadataTableNeverCompacted => f.write_str("the metadata table was never compacted"),
            Reason::MetadataTableNotCompacted => f.write_str("the metadata table was last compacted before it"),
            Reason::TableNeeds => f.write_str("the timeline of the table still needs it"),
            Reason::NotCleaned => f.write_str("files of the metadata table that are not cleaned yet are of it"),
        }
    }
}

/// An archive blocker: why instants stay that could be archived by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveBlocker {
    /// Requested time of the first instant that stays.
    pub from: String,
    /// Why.
    pub reason: Reason,
    /// Number of completed writes that it blocks.
    pub writes: usize,
}

/// What will be archived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchivePlan {
    /// Completed writes on the active timeline.
    pub writes: usize,
    /// Completed writes to keep, at least what the cleaner needs.
    pub keep_min: usize,
    /// Completed writes above which archiving starts, adjusted in the same way.
    pub keep_max: usize,
    /// The completed instants to archive, by requested time.
    pub instants: Vec<Instant>,
    /// Why the others stay, oldest first.
    pub blockers: Vec<ArchiveBlocker>,
}

/// The state of the metadata table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::services) enum MetadataTable {
    /// There is none.
    Absent,
    /// It was never compacted.
    NeverCompacted,
    /// Time of its last compaction.
    CompactedAt(String),
}

/// The last completed clean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::services) struct LastClean {
    /// Its requested time.
    pub requested: String,
    /// The earliest instant that its plan retained, if its policy has one.
    pub earliest_to_retain: Option<String>,
    /// Commits that were savepointed when it was planned.
    pub savepointed: Vec<String>,
}

/// Input of a plan.
pub(in crate::services) struct ArchiveInput<'a> {
    /// The active timeline.
    pub timeline: &'a Timeline,
    /// Whether the table is merge-on-read.
    pub merge_on_read: bool,
    /// The last completed clean.
    pub last_clean: Option<LastClean>,
    /// The metadata table.
    pub metadata_table: MetadataTable,
    /// Requested times of instants whose replaced or rolled back files still exist, with one of the files.
    pub files_left: Vec<(String, String)>,
    /// More requested times from which on nothing can be archived, each with its reason.
    pub more_bounds: Vec<(String, Reason)>,
}

/// Makes the plan. Sources: `TimelineArchiverV2.getCommitInstantsToArchive`, `ArchivalUtils`, `ClusteringUtils`,
/// `CompactionUtils` of Hudi 1.2.
pub(in crate::services) fn plan_archive(input: &ArchiveInput<'_>, options: &ArchiveOptions) -> ArchivePlan {
    let timeline = input.timeline;
    let writes: Vec<&Instant> = timeline.completed_writes().collect();
    let (keep_min, keep_max) = keep(timeline, options, &writes);
    let mut plan = ArchivePlan { writes: writes.len(), keep_min, keep_max, ..ArchivePlan::default() };
    if writes.len() <= options.keep_max {
        return plan;
    }
    let savepoints: HashSet<&str> = timeline.completed(Action::Savepoint).map(|i| i.requested.as_str()).collect();
    let stays = |i: &&&Instant| options.beyond_savepoint && savepoints.contains(i.requested.as_str());
    // By the configured number, and by the number that the cleaner needs.
    let mut wanted: Vec<&&Instant> = writes.iter().filter(|i| !stays(i)).collect();
    // By the oldest write without savepoint readers know that what is older and not there was archived.
    wanted.pop();
    wanted.truncate(writes.len() - options.keep_min);
    let count = if writes.len() <= keep_max { 0 } else { writes.len() - keep_min };
    let due: Vec<&&Instant> = wanted.iter().take(count).copied().collect();
    let mut bounds = bounds(input, options, &writes);
    bounds.extend(wanted.get(due.len()).map(|i| (i.requested.clone(), Reason::CleanerRetains)));
    bounds.sort_by(|a, b| a.0.cmp(&b.0));
    let first = bounds.first().map(|(from, _)| from.clone());
    let goes = |i: &Instant| first.as_ref().is_none_or(|from| i.requested < *from);
    plan.instants = due.iter().filter(|i| goes(i)).map(|i| (**i).clone()).collect();
    if let Some(last) = plan.instants.last().map(|i| i.requested.clone()) {
        let services = timeline
            .instants()
            .iter()
            .filter(|i| i.is_completed() && matches!(i.action, Action::Clean | Action::Rollback) && i.requested < last);
        plan.instants.extend(services.cloned());
        plan.instants.sort_by(|a, b| (&a.requested, a.action).cmp(&(&b.requested, b.action)));
    }
    plan.blockers = bounds
        .into_iter()
        .map(|(from, reason)| {
            let writes = wanted.iter().filter(|i| i.requested >= from).count();
            ArchiveBlocker { from, reason, writes }
        })
        .filter(|held| held.writes > 0)
        .collect();
    plan
}

/// Keeps what the cleaner still needs.
fn keep(timeline: &Timeline, options: &ArchiveOptions, writes: &[&Instant]) -> (usize, usize) {
    let Some(earliest) = options.retention.earliest_to_archive(timeline) else {
        return (options.keep_min, options.keep_max);
    };
    let needed = writes.iter().filter(|i| i.requested > earliest.requested).count() + 2;
    if options.keep_min >= needed {
        return (options.keep_min, options.keep_max);
    }
    (needed, needed + options.keep_max - options.keep_min)
}

/// Requested times from which on nothing can be archived, each with its reason.
fn bounds(input: &ArchiveInput<'_>, options: &ArchiveOptions, writes: &[&Instant]) -> Vec<(String, Reason)> {
    let timeline = input.timeline;
    let mut bounds: Vec<(String, Reason)> = Vec::new();
    if let Some(pending) = timeline.pending().find(|i| i.action.is_write()) {
        let before = writes.iter().rfind(|i| i.requested < pending.requested);
        let from = before.map_or(&pending.requested, |i| &i.requested);
        bounds.push((from.clone(), Reason::Pending(pending.clone())));
    }
    if input.merge_on_read
        && let Some(max) = options.compacted_after
        && let Some(from) = first_counted(timeline, max)
    {
        bounds.push((from, Reason::CompactionCounts));
    }
    if let Some(from) = first_replaced(timeline, input.last_clean.as_ref()) {
        bounds.push((from, Reason::ReplacedNotCleaned));
    }
    match &input.metadata_table {
        MetadataTable::Absent => {}
        MetadataTable::NeverCompacted => bounds.push((String::new(), Reason::MetadataTableNeverCompacted)),
        MetadataTable::CompactedAt(at) => {
            let later = writes.iter().find(|i| i.completed.as_deref().is_some_and(|c| c > at.as_str()));
            bounds.extend(later.map(|i| (i.requested.clone(), Reason::MetadataTableNotCompacted)));
        }
    }
    if !options.beyond_savepoint
        && let Some(first) = timeline.completed(Action::Savepoint).next()
    {
        bounds.push((first.requested.clone(), Reason::Savepoint));
    }
    bounds.extend(input.files_left.iter().map(|(at, file)| (at.clone(), Reason::FilesLeft(file.clone()))));
    bounds.extend(input.more_bounds.iter().cloned());
    bounds
}

/// The first of the delta commits that the next compaction counts, or the compaction that they come after.
fn first_counted(timeline: &Timeline, max: usize) -> Option<String> {
    let compaction = timeline.completed(Action::Commit).next_back();
    let since: Vec<&Instant> = timeline
        .instants()
        .iter()
        .filter(|i| i.action == Action::DeltaCommit && compaction.is_none_or(|c| i.requested > c.requested))
        .collect();
    if since.len() < max {
        return compaction.or(since.first().copied()).map(|i| i.requested.clone());
    }
    since.get(since.len() - max).map(|i| i.requested.clone())
}

/// The first instant whose replaced files are not cleaned yet.
fn first_replaced(timeline: &Timeline, last_clean: Option<&LastClean>) -> Option<String> {
    let replacing: Vec<&Instant> =
        timeline.instants().iter().filter(|i| matches!(i.action, Action::ReplaceCommit | Action::Clustering)).collect();
    let Some(clean) = last_clean else { return replacing.first().map(|i| i.requested.clone()) };
    let retained = clean.earliest_to_retain.as_deref();
    // A savepoint before the retained instants kept the files of a replacement in between.
    let savepoint = clean.savepointed.iter().map(String::as_str).min().filter(|savepoint| {
        let between =
            |i: &&&Instant| i.requested.as_str() >= *savepoint && retained.is_none_or(|r| i.requested.as_str() < r);
        retained.is_none_or(|r| *savepoint < r) && replacing.iter().any(|i| between(&i))
    });
    let lower = savepoint.or(retained).unwrap_or(&clean.requested);
    replacing.iter().find(|i| i.requested.as_str() >= lower).map(|i| i.requested.clone())
}
