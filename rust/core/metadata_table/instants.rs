//! Which instants of the metadata table count.

use std::collections::HashSet;

use crate::file_group::CommitTimes;
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
}

impl ValidInstants {
    pub(super) fn new(table: &Timeline, metadata: Timeline) -> Self {
        let (completed, pending): (Vec<_>, Vec<_>) = table.instants().iter().partition(|i| i.is_completed());
        let times = |instants: Vec<&crate::format::instant::Instant>| {
            instants.into_iter().map(|i| i.requested.clone()).collect::<HashSet<_>>()
        };
        Self { metadata, completed: times(completed), pending: times(pending) }
    }

    /// Whether the blocks of an instant are read.
    pub(super) fn is_valid(&self, requested: &str) -> bool {
        self.completed.contains(requested) || !self.pending.contains(requested) && self.metadata.is_committed(requested)
    }

    /// The timeline of the metadata table.
    pub(super) fn metadata(&self) -> &Timeline {
        &self.metadata
    }

    /// The same, knowing when archived writes completed.
    pub(super) fn with_archived(&self, writes: Vec<(String, String)>) -> Self {
        let metadata = self.metadata.clone().with_archived(writes);
        Self { metadata, completed: self.completed.clone(), pending: self.pending.clone() }
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
