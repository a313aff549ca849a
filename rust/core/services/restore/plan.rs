//! Which instants a restore undoes, and in which order (pure).

use crate::error::{Error, Result};
use crate::format::avro::metadata::{InstantInfo, RestorePlan};
use crate::format::instant::{Action, Instant};
use crate::timeline::Timeline;

/// The writes and plans that began after a savepoint, those first that are pending, then by completion, the newest first: so
/// each step leaves the table as it was before a commit.
pub(super) fn undone_by(timeline: &Timeline, savepoint: &str) -> Vec<Instant> {
    let later = |i: &&Instant| i.action.is_write() && i.requested.as_str() > savepoint;
    let mut undone: Vec<Instant> = timeline.instants().iter().filter(later).cloned().collect();
    undone.sort_by(|a, b| {
        let pending_first = a.completed.is_some().cmp(&b.completed.is_some());
        pending_first.then_with(|| b.completed.cmp(&a.completed)).then_with(|| b.requested.cmp(&a.requested))
    });
    undone
}

/// The plan.
///
/// # Errors
/// `InvalidOption` if a later savepoint holds commits that would be undone.
pub(super) fn plan_restore(timeline: &Timeline, savepoint: &str) -> Result<(RestorePlan, Vec<Instant>)> {
    let mut held = timeline.completed(Action::Savepoint).filter(|i| i.requested.as_str() > savepoint);
    if let Some(later) = held.next_back() {
        return Err(Error::invalid_option("a later savepoint holds commits that the restore would undo")
            .with("later savepoint", &later.requested)
            .remedy("Restore to that one, or delete it first: t.delete_savepoint(instant)"));
    }
    let undone = undone_by(timeline, savepoint);
    let info = |i: &Instant| InstantInfo { commit_time: i.requested.clone(), action: i.action.name().to_owned() };
    let plan = RestorePlan {
        instants_to_rollback: undone.iter().map(info).collect(),
        savepoint_to_restore_timestamp: Some(savepoint.to_owned()),
        ..Default::default()
    };
    Ok((plan, undone))
}
