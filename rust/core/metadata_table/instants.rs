//! Which instants of the metadata table count.

use std::collections::HashSet;

use crate::format::instant::CommitTimes;
use crate::timeline::Timeline;

/// The timeline of the metadata table beside that of the table.
///
/// A writer completes its action in the metadata table first and on the table next, under the same requested time. So an
/// instant counts if the table has completed it, or if the metadata table has and it is not pending on the table. The
/// latter are archived instants, those of table services of the metadata table, and those that initialized a partition.
pub(super) struct ValidInstants {
    metadata: Timeline,
    completed: HashSet<String>,
    pending: HashSet<String>,
    /// The newest time that the timeline of the table has.
    newest: Option<String>,
}

impl ValidInstants {
    pub(super) fn new(table: &Timeline, metadata: Timeline) -> Self {
        let (completed, pending): (Vec<_>, Vec<_>) = table.instants().iter().partition(|i| i.is_completed());
        let times = |instants: Vec<&crate::format::instant::Instant>| {
            instants.into_iter().map(|i| i.requested.clone()).collect::<HashSet<_>>()
        };
        let newest = table.newest_time().map(str::to_owned);
        Self { metadata, completed: times(completed), pending: times(pending), newest }
    }

    /// Whether the blocks of an instant are read.
    pub(super) fn is_valid(&self, requested: &str) -> bool {
        self.completed.contains(requested) || !self.pending.contains(requested) && self.metadata.is_committed(requested)
    }

    /// Whether no timeline knows anything of an instant that wrote a file, though it began before they were read: it is
    /// neither completed nor archived, and none of those that are pending.
    pub(super) fn is_unknown(&self, requested: &str) -> bool {
        !self.is_valid(requested)
            && !self.pending.contains(requested)
            && self.metadata.files_of(requested).is_empty()
            && self.newest.as_deref().is_some_and(|newest| requested < newest)
    }

    /// The timeline of the metadata table.
    pub(super) fn metadata(&self) -> &Timeline {
        &self.metadata
    }

    /// The same, knowing when archived writes completed.
    pub(super) fn with_archived(&self, writes: Vec<(String, String)>) -> Self {
        let metadata = self.metadata.clone().with_archived(writes);
        let Self { completed, pending, newest, .. } = self;
        Self { metadata, completed: completed.clone(), pending: pending.clone(), newest: newest.clone() }
    }
}

impl CommitTimes for ValidInstants {
    fn is_committed(&self, requested: &str) -> bool {
        self.is_valid(requested)
    }

    fn completion_time(&self, requested: &str) -> Option<&str> {
        self.metadata.completion_time(requested)
    }

    fn logs_name_their_slice(&self) -> bool {
        false
    }
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

    #[test]
    fn an_instant_counts_when_the_table_has_it_or_never_will() {
        let table = timeline(&["20_21.commit", "30.commit.requested", "30.inflight", "40_41.clean"]);
        let metadata = timeline(&[
            "10_11.deltacommit",
            "20_20.deltacommit",
            "30_30.deltacommit",
            "35.deltacommit.requested",
            "36_37.commit",
        ]);
        let instants = ValidInstants::new(&table, metadata);
        // The table archived 10, and 05 was archived on both; 36 is a compaction of the metadata table.
        for (instant, is_valid) in
            [("05", true), ("10", true), ("20", true), ("30", false), ("35", false), ("36", true), ("40", true)]
        {
            assert_eq!(instants.is_valid(instant), is_valid, "{instant}");
        }
        // 38 began before the timelines were read, 45 may have begun since.
        for (instant, is_unknown) in [("05", false), ("30", false), ("35", false), ("38", true), ("45", false)] {
            assert_eq!(instants.is_unknown(instant), is_unknown, "{instant}");
        }
    }
}
