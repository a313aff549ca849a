//! Whether the metadata table has all that is completed on the table.

use crate::format::instant::{Action, Instant};
use crate::timeline::{INITIAL, Timeline};

/// The first completed action of the table that changed files and that the metadata table does not have.
///
/// A writer completes an action in the metadata table first. So one that is missing was made by a writer that does not know
/// of it, or by one that goes on without it. What was completed before the metadata table was initialized is in it.
pub(super) fn first_missing<'a>(table: &'a Timeline, metadata: &Timeline) -> Option<&'a Instant> {
    // A partition that was made later says nothing of the others.
    let initialized = metadata.first_active().filter(|first| first.starts_with(INITIAL));
    let initialized = initialized.and_then(|first| metadata.completion_time(first));
    table.instants().iter().find(|instant| {
        let completed = instant.completed.as_deref().unwrap_or(&instant.requested);
        instant.is_completed()
            && changes_files(instant.action)
            && !metadata.is_committed(&instant.requested)
            && !is_restored(instant, metadata)
            && !is_in_restore(instant, table, metadata)
            && initialized.is_none_or(|initialized| completed > initialized)
    })
}

/// Whether a restore is in the metadata table under a time of its own, as Hudi commits it there. Nothing else begins during a
/// restore.
fn is_restored(instant: &Instant, metadata: &Timeline) -> bool {
    let Some(end) = instant.completed.as_deref().filter(|_| instant.action == Action::Restore) else { return false };
    // Times that are longer are those of new partitions.
    let is_within = |i: &Instant| {
        i.requested > instant.requested && i.requested.as_str() < end && i.requested.len() == instant.requested.len()
    };
    metadata.completed(Action::DeltaCommit).any(is_within)
}

/// Whether a clean is in what a later restore by Hudi committed: Hudi takes all back that was committed to the metadata table
/// since the savepoint, cleans too, and then compares its files with those that are there.
fn is_in_restore(instant: &Instant, table: &Timeline, metadata: &Timeline) -> bool {
    let is_later = |restore: &Instant| instant.completed.as_ref().is_some_and(|done| *done < restore.requested);
    instant.action == Action::Clean
        && table.completed(Action::Restore).any(|restore| is_later(restore) && is_restored(restore, metadata))
}

/// Whether the metadata table has something that was completed after the timeline of the table was read.
pub(super) fn is_ahead(table: &Timeline, metadata: &Timeline) -> bool {
    let times = |timeline: &Timeline| timeline.instants().iter().filter_map(|i| i.completed.clone()).max();
    let newest = times(table);
    let is_known = |requested: &str| table.instants().iter().any(|i| i.requested == requested);
    // Compactions of the metadata table add nothing to it. One that was made anew may have what was completed meanwhile.
    let mut actions = metadata.completed(Action::DeltaCommit).filter(|i| !metadata.is_log_compaction(&i.requested));
    actions.any(|i| i.completed > newest && !is_known(&i.requested))
}

/// A rollback takes its target back in the metadata table too, before it is completed, and adds nothing there of its own if
/// there was nothing to take back.
fn changes_files(action: Action) -> bool {
    !matches!(action.completed_as(), Action::Savepoint | Action::Indexing | Action::Rollback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::instant::Layout;
    use crate::storage::FileMeta;
    use crate::timeline::{TimeZone, TimelineConfig};

    fn timeline(names: &[&str]) -> Timeline {
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let files = names.iter().map(|name| FileMeta { path: format!("t/{name}"), size: 0, modified_ms: 0 }).collect();
        Timeline::from_files(config, files)
    }

    fn missing(table: &[&str], metadata: &[&str]) -> Option<String> {
        first_missing(&timeline(table), &timeline(metadata)).map(|i| i.requested.clone())
    }

    const INIT: &str = "00000000000000000_20260101000010000.deltacommit";

    #[test]
    fn what_was_there_when_it_was_initialized_is_in_it() {
        let (before, after) =
            ("20260101000005000_20260101000006000.commit", "20260101000009000_20260101000012000.commit");
        assert_eq!(missing(&[before], &[INIT]), None);
        assert_eq!(missing(&[before, after], &[INIT]).as_deref(), Some("20260101000009000"));
        let synced = "20260101000009000_20260101000011000.deltacommit";
        assert_eq!(missing(&[before, after], &[INIT, synced]), None);
    }

    #[test]
    fn what_is_pending_or_changes_no_files_is_not_missed() {
        let table = [
            "20260101000020000.commit.requested",
            "20260101000021000_20260101000022000.savepoint",
            "20260101000025000_20260101000026000.rollback",
        ];
        assert_eq!(missing(&table, &[INIT]), None);
        for suffix in ["clean", "deltacommit", "replacecommit"] {
            let done = format!("20260101000023000_20260101000024000.{suffix}");
            assert_eq!(missing(&[&done], &[INIT]).as_deref(), Some("20260101000023000"), "{suffix}");
        }
    }

    #[test]
    fn a_restore_has_a_time_of_its_own() {
        let restore = "20260101000021000_20260101000024000.restore";
        assert_eq!(missing(&[restore], &[INIT]).as_deref(), Some("20260101000021000"));
        assert_eq!(missing(&[restore], &[INIT, "20260101000021000_20260101000022000.deltacommit"]), None);
        assert_eq!(missing(&[restore], &[INIT, "20260101000022000_20260101000023000.deltacommit"]), None);
        for other in
            ["20260101000020000_20260101000022000.deltacommit", "20260101000025000_20260101000026000.deltacommit"]
        {
            assert_eq!(missing(&[restore], &[INIT, other]).as_deref(), Some("20260101000021000"), "{other}");
        }
    }

    #[test]
    fn a_restore_by_hudi_has_the_cleans_before_it() {
        let clean = "20260101000018000_20260101000019000.clean";
        let write = "20260101000018000_20260101000019000.commit";
        let restore = "20260101000021000_20260101000024000.restore";
        let (by_hudi, ours) =
            ("20260101000022000_20260101000023000.deltacommit", "20260101000021000_20260101000022000.deltacommit");
        assert_eq!(missing(&[clean, restore], &[INIT, by_hudi]), None);
        assert_eq!(missing(&[clean, restore], &[INIT, ours]).as_deref(), Some("20260101000018000"));
        assert_eq!(missing(&[write, restore], &[INIT, by_hudi]).as_deref(), Some("20260101000018000"));
        let later = "20260101000025000_20260101000026000.clean";
        assert_eq!(missing(&[restore, later], &[INIT, by_hudi]).as_deref(), Some("20260101000025000"));
    }

    #[test]
    fn what_was_completed_later_is_ahead() {
        let table = ["20260101000005000_20260101000006000.commit", "20260101000007000.commit.requested"];
        let ahead = |metadata: &[&str]| is_ahead(&timeline(&table), &timeline(metadata));
        assert!(!ahead(&["20260101000005000_20260101000005500.deltacommit"]));
        // It is pending here, so that it does not count.
        assert!(!ahead(&["20260101000007000_20260101000009000.deltacommit"]));
        assert!(!ahead(&["20260101000005200_20260101000005400.commit"]));
        assert!(!ahead(&["20260101000008000_20260101000009000.commit"]));
        assert!(ahead(&["20260101000008000_20260101000009000.deltacommit"]));
        assert!(ahead(&[INIT]));
    }

    #[test]
    fn what_it_archived_is_in_it() {
        let (old, new) = ("20260101000005000_20260101000006000.commit", "20260101000007000_20260101000008000.commit");
        let kept = "20260101000007000_20260101000007500.deltacommit";
        assert_eq!(missing(&[old, new], &[kept]), None);
        assert_eq!(missing(&[old, new], &[]).as_deref(), Some("20260101000005000"));
    }
}
