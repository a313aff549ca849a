//! The newest commits of a table: what they tell of the size of a record, and of log files.

use std::sync::OnceLock;

use crate::error::Result;
use crate::format::instant::{Action, Instant};
use crate::table::TableView;
use crate::table::commit_metadata::read_write_metadata;
use crate::write::config::WriteConfig;
use crate::write::locate::log_keys::LogWrites;
use crate::write::route::assignment::record_size_of;

/// How many of the newest commits are read.
const COMMITS: usize = 32;

/// The newest commits of a view, read when they are first asked for, and once.
pub(in crate::write) struct RecentCommits<'a> {
    view: &'a TableView,
    found: OnceLock<(Option<u64>, LogWrites)>,
}

impl<'a> RecentCommits<'a> {
    pub(in crate::write) fn new(view: &'a TableView) -> Self {
        Self { view, found: OnceLock::new() }
    }

    /// Bytes of a record on average.
    pub(in crate::write) fn record_size(&self, config: &WriteConfig) -> Result<u64> {
        let mut commits = self.commits();
        if self.found.get().is_some() || commits.any(|i| i.action == Action::DeltaCommit) {
            return Ok(self.load(config)?.0.unwrap_or(config.record_size_estimate));
        }
        // Without log files nothing else is asked of them: no more are read than are needed.
        for instant in self.commits() {
            let metadata = read_write_metadata(self.view.storage(), self.view.timeline(), instant)?;
            if let Some(size) = record_size_of(config, metadata.partition_to_write_stats.values().flatten()) {
                return Ok(size);
            }
        }
        Ok(config.record_size_estimate)
    }

    fn commits(&self) -> impl Iterator<Item = &'a Instant> {
        let wanted = |i: &&Instant| matches!(i.action, Action::Commit | Action::DeltaCommit);
        self.view.timeline().completed_writes().rev().filter(wanted).take(COMMITS)
    }

    /// What their write stats tell of log files.
    pub(in crate::write) fn log_writes(&self, config: &WriteConfig) -> Result<&LogWrites> {
        Ok(&self.load(config)?.1)
    }

    fn load(&self, config: &WriteConfig) -> Result<&(Option<u64>, LogWrites)> {
        if let Some(known) = self.found.get() {
            return Ok(known);
        }
        let (storage, timeline) = (self.view.storage(), self.view.timeline());
        let (mut size, mut logs) = (None, LogWrites::default());
        timeline.fetch(storage, self.commits());
        for instant in self.commits() {
            let metadata = read_write_metadata(storage, timeline, instant)?;
            size = size.or_else(|| record_size_of(config, metadata.partition_to_write_stats.values().flatten()));
            logs.add(&instant.requested, &metadata);
        }
        Ok(self.found.get_or_init(|| (size, logs)))
    }
}
