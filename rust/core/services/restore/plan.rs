//! Which instants a restore undoes, and in which order (pure).

use crate::error::{Error, Result};
use crate::format::avro::metadata::{InstantInfo, RestorePlan};
use crate::format::instant::{Action, Instant};
use crate::timeline::Timeline;

/// The writes and plans that began after a savepoint, and those that `is_planned` says, those first that are pending, then by
/// completion, the newest first: so each step leaves the table as it was before a commit.
pub(super) fn undone_by(timeline: &Timeline, savepoint: &str, is_planned: impl Fn(&Instant) -> bool) -> Vec<Instant> {
    let later = |i: &&Instant| i.action.is_write() && (i.requested.as_str() > savepoint || is_planned(i));
    let mut undone: Vec<Instant> = timeline.instants().iter().filter(later).cloned().collect();
    undone.sort_by(|a, b| {
        let pending_first = a.completed.is_some().cmp(&b.completed.is_some());
        pending_first.then_with(|| b.completed.cmp(&a.completed)).then_with(|| b.requested.cmp(&a.requested))
    });
    undone
}

/// Whether an action that began before the commit of a savepoint completed after the savepoint was made. The savepoint does not
/// hold its files, and cleans may have deleted what it replaced and what it wrote.
pub(super) fn completed_after(action: &Instant, savepoint: &Instant) -> bool {
    match (&action.completed, &savepoint.completed) {
        (Some(action), Some(savepoint)) => action > savepoint,
        _ => false,
    }
}

/// The plan. Hudi's own restore keeps actions that completed after the savepoint, if they began before it: rows are gone then,
/// once cleans came by.
///
/// # Errors
/// `InvalidOption` if another savepoint holds commits that would be undone.
pub(super) fn plan_restore(timeline: &Timeline, saved: &Instant) -> Result<(RestorePlan, Vec<Instant>)> {
    let savepoint = saved.requested.as_str();
    // The completion times of version 6 are those of files, which copying changes.
    let is_known = !timeline.config().was_version_6;
    let undone = undone_by(timeline, savepoint, |i| is_known && completed_after(i, saved));
    let holds =
        |other: &Instant, i: &Instant| i.is_completed() && i.requested <= other.requested && !completed_after(i, other);
    let is_in_the_way = |i: &&Instant| {
        i.requested != savepoint && (i.requested.as_str() > savepoint || undone.iter().any(|u| holds(i, u)))
    };
    if let Some(later) = timeline.completed(Action::Savepoint).rfind(is_in_the_way) {
        return Err(Error::invalid_option("a later savepoint holds commits that the restore would undo")
            .with("later savepoint", &later.requested)
            .remedy("Restore to that one, or delete it first: t.delete_savepoint(instant)"));
    }
    let info = |i: &Instant| InstantInfo { commit_time: i.requested.clone(), action: i.action.name().to_owned() };
    let plan = RestorePlan {
        instants_to_rollback: undone.iter().map(info).collect(),
        savepoint_to_restore_timestamp: Some(savepoint.to_owned()),
        ..Default::default()
    };
    Ok((plan, undone))
}
