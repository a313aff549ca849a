//! Where the active timeline begins: what is older and not on it was archived, hence complete.

use std::collections::HashSet;

use super::TimelineConfig;
use super::history::{HistoryReader, LoadMode};
use hoodoo_format::instant::{Action, Instant, State};
use hoodoo_runtime::error::Result;
use hoodoo_storage::Storage;

/// Begin of the times at which partitions of a metadata table are initialized, before all real ones.
pub const INITIAL: &str = "00000000000000";
/// How many archived instants are read at first for the newest write among them.
const NEWEST: usize = 64;

/// The oldest completed write without savepoint. Archiving passes over savepoints, so an older one says nothing.
pub(super) fn first_active(instants: &[Instant]) -> Option<String> {
    let writes: Vec<&Instant> = completed_writes(instants).collect();
    let is_initial = |i: &Instant| i.requested.starts_with(INITIAL);
    // A partition that a metadata table got later has such a time too, though what was written in between may be archived.
    // It completed after writes, and those of a new metadata table before all of them.
    let first_write = writes.iter().filter(|i| !is_initial(i)).filter_map(|i| i.completed.as_deref()).min();
    let is_late = |i: &Instant| is_initial(i) && first_write.is_some_and(|first| i.completed.as_deref() > Some(first));
    let savepoints = savepoints(instants);
    let first = writes.iter().find(|i| !savepoints.contains(i.requested.as_str()) && !is_late(i)).or(writes.first());
    first.map(|i| i.requested.clone())
}

/// Where the timeline begins, if no write on it tells: all have savepoints, or others took the last ones back. Then only the
/// history knows what was archived. `None` where a write tells, or nothing was archived.
///
/// Hudi takes archived writes for failed ones then (`BaseTimelineV2.getFirstNonSavepointCommit`).
///
/// # Errors
/// `Corrupt` for a damaged history; `Storage`.
pub(super) fn behind_history(
    instants: &[Instant],
    storage: &Storage,
    config: &TimelineConfig,
) -> Result<Option<String>> {
    if !is_unsure(instants) {
        return Ok(None);
    }
    let Some(archived) = newest_archived_write(storage, config)? else { return Ok(None) };
    let later = instants.iter().map(|i| &i.requested).find(|requested| **requested > archived);
    Ok(Some(later.cloned().unwrap_or_else(|| after(&archived))))
}

fn is_unsure(instants: &[Instant]) -> bool {
    let savepoints = savepoints(instants);
    let has_written = |i: &Instant| {
        i.is_completed() && matches!(i.action, Action::Savepoint | Action::Rollback | Action::Restore | Action::Clean)
    };
    completed_writes(instants).all(|i| savepoints.contains(i.requested.as_str())) && instants.iter().any(has_written)
}

fn completed_writes(instants: &[Instant]) -> impl Iterator<Item = &Instant> {
    instants.iter().filter(|i| i.action.is_write() && i.state == State::Completed)
}

fn savepoints(instants: &[Instant]) -> HashSet<&str> {
    instants.iter().filter(|i| i.action == Action::Savepoint).map(|i| i.requested.as_str()).collect()
}

/// The requested time of the newest write in the history.
///
/// # Errors
/// `Corrupt` for a damaged history; `Storage`.
pub fn newest_archived_write(storage: &Storage, config: &TimelineConfig) -> Result<Option<String>> {
    let history = HistoryReader::new(storage, config);
    let mut count = NEWEST;
    loop {
        let entries = history.newest(count, LoadMode::Action)?;
        let is_all = entries.len() < count;
        let write = entries.into_iter().rev().find(|entry| entry.action.is_write() && !entry.completed.is_empty());
        if write.is_some() || is_all {
            return Ok(write.map(|entry| entry.requested));
        }
        count = count.saturating_mul(NEWEST);
    }
}

/// The next time.
fn after(time: &str) -> String {
    match time.parse::<u128>() {
        Ok(number) => format!("{:0width$}", number + 1, width = time.len()),
        Err(_) => format!("{time}0"),
    }
}
