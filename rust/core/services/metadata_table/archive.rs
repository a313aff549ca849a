//! Archiving the timeline of the metadata table, by the rules of the table's own archiving, and as long as neither the
//! timeline of the table nor the files of the metadata table need its instants.

use super::MetadataServiceOptions;
use super::clean::retained_compaction;
use crate::error::Result;
use crate::format::instant::{Action, Instant};
use crate::metadata_table::services::MetadataServices;
use crate::services::archive::{
    ArchiveInput, MetadataTable, Reason, archive_planned, finish_interrupted, half_archived, last_clean, plan_archive,
};
use crate::timeline::{INITIAL, Timeline};

/// Whether there are enough instants for archiving, if nothing else needs them.
pub(super) fn may_be_due(metadata: &Timeline, options: &MetadataServiceOptions) -> bool {
    metadata.completed_writes().count() > options.archive.keep_max
}

/// Whether something is to be archived.
pub(super) fn is_due(metadata: &Timeline, table: &Timeline, options: &MetadataServiceOptions) -> bool {
    !plan_archive(&input(metadata, table, options), &options.archive).instants.is_empty()
}

fn input<'a>(metadata: &'a Timeline, table: &Timeline, options: &MetadataServiceOptions) -> ArchiveInput<'a> {
    ArchiveInput {
        timeline: metadata,
        merge_on_read: true,
        last_clean: None,
        metadata_table: MetadataTable::Absent,
        files_left: Vec::new(),
        more_bounds: bounds(metadata, table, options.commits_retained),
    }
}

/// Requested times from which on nothing can be archived.
fn bounds(metadata: &Timeline, table: &Timeline, retained: usize) -> Vec<(String, Reason)> {
    let mut bounds = Vec::new();
    // An action that is not on the timeline of the metadata table must not be on that of the table, or pending there.
    let needed = table.instants().iter().filter(|i| i.action.is_write() || !i.is_completed());
    bounds.extend(needed.map(|i| &i.requested).min().map(|from| (from.clone(), Reason::TableNeeds)));
    // Readers look an archived instant up in the history if its log file is there and a later base file too.
    if metadata.completed(Action::Commit).next().is_some() {
        let from = retained_compaction(metadata, retained).map(|i| i.requested.clone());
        bounds.push((from.unwrap_or_default(), Reason::NotCleaned));
    }
    // What was completed after a compaction is not in its base files, though it may have an earlier time, as a partition that
    // was built meanwhile has: readers of Hudi take log files of it for nothing when it is archived.
    if let Some(compaction) = metadata.completed(Action::Commit).next_back() {
        let is_left = |i: &&Instant| i.completed.as_deref() > Some(compaction.requested.as_str()) && !is_initial(i);
        bounds.extend(metadata.completed_writes().find(is_left).map(|i| (i.requested.clone(), Reason::NotCleaned)));
    }
    bounds
}

/// Whether a partition was made before all that is written. The timeline must not begin with such a time for long.
fn is_initial(instant: &Instant) -> bool {
    instant.requested.starts_with(INITIAL)
}

/// Archives the instants that are due.
///
/// # Errors
/// `Corrupt`; `Lock`; `Storage`. No instant is deleted before it is in the history.
pub(super) fn archive(
    services: &MetadataServices<'_>,
    metadata: &Timeline,
    options: &MetadataServiceOptions,
) -> Result<()> {
    let mut timeline = metadata.clone();
    if !half_archived(&timeline).is_empty() && finish_interrupted(services.storage, &timeline)? {
        timeline = Timeline::load(services.storage, timeline.config())?;
    }
    if !may_be_due(&timeline, options) {
        return Ok(());
    }
    let last_clean = last_clean(services.storage, &timeline)?;
    let input = ArchiveInput { last_clean, ..input(&timeline, services.table, options) };
    let plan = plan_archive(&input, &options.archive);
    if plan.instants.is_empty() {
        return Ok(());
    }
    let (storage, threads, limits) = (services.storage, services.threads, &options.archive.history);
    archive_planned(storage, threads, services.held, &timeline, plan, limits).map(|_| ())
}
