//! Log files whose file slice follows from when an archived write completed.
//!
//! A log file belongs to the newest base file that was requested before the log's write completed. Of a write that is on
//! the active timeline no more, only the history knows when that was. It matters where a later base file is there: a
//! write that was under way while a compaction was planned belongs behind that compaction, however much earlier it was
//! requested. Hudi looks there too (`CompletionTimeQueryView`).

use std::collections::HashMap;

use crate::error::Result;
use crate::file_group::{BaseFile, LogFile};
use crate::format::instant::CommitTimes;
use crate::storage::{FileMeta, Storage};
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode};

/// When archived writes completed.
#[derive(Default)]
pub(super) struct CompletionTimes {
    /// Requested time from which on they are known.
    from: Option<String>,
    completed: HashMap<String, String>,
}

/// The smallest requested time of a log file of which it is not clear to which slice it belongs.
pub(super) fn unclear(files: &[FileMeta], timeline: &Timeline) -> Option<String> {
    let first = timeline.first_active().filter(|_| !timeline.logs_name_their_slice())?;
    let is_log = |file: &&FileMeta| file.name().starts_with('.');
    let archived = files.iter().filter(is_log).filter_map(LogFile::parse).filter(|log| {
        log.instant.as_str() < first
            && CommitTimes::completion_time(timeline, &log.instant).is_none()
            && CommitTimes::is_committed(timeline, &log.instant)
    });
    let mut archived: Vec<LogFile> = archived.collect();
    if archived.is_empty() {
        return None;
    }
    let mut newest: HashMap<String, String> = HashMap::new();
    for base in files.iter().filter(|f| !is_log(f)).filter_map(BaseFile::parse) {
        if CommitTimes::is_committed(timeline, &base.instant) {
            let known = newest.entry(base.file_id).or_default();
            if *known < base.instant {
                *known = base.instant;
            }
        }
    }
    archived.retain(|log| newest.get(&log.file_id).is_some_and(|base| *base > log.instant));
    archived.into_iter().map(|log| log.instant).min()
}

impl CompletionTimes {
    /// Reads the history from a requested time on, unless that was done.
    ///
    /// # Errors
    /// `Corrupt` and `Storage` when the history cannot be read.
    pub(super) fn look_up(&mut self, storage: &Storage, timeline: &Timeline, from: String) -> Result<()> {
        if self.from.as_ref().is_some_and(|known| *known <= from) {
            return Ok(());
        }
        let until = self.from.as_deref().or(timeline.first_active());
        let history = HistoryReader::new(storage, timeline.config());
        let entries = history.read(Some(&from), until, LoadMode::Action)?;
        let writes = entries.into_iter().filter(|entry| entry.action.is_write() && !entry.completed.is_empty());
        self.completed.extend(writes.map(|entry| (entry.requested, entry.completed)));
        self.from = Some(from);
        Ok(())
    }

    /// The timeline with what was looked up.
    pub(super) fn with<'a>(&'a self, timeline: &'a Timeline) -> impl CommitTimes + 'a {
        Times { archived: self, timeline }
    }
}

struct Times<'a> {
    archived: &'a CompletionTimes,
    timeline: &'a Timeline,
}

impl CommitTimes for Times<'_> {
    fn is_committed(&self, requested: &str) -> bool {
        CommitTimes::is_committed(self.timeline, requested)
    }

    fn completion_time(&self, requested: &str) -> Option<&str> {
        let archived = || self.archived.completed.get(requested).map(String::as_str);
        CommitTimes::completion_time(self.timeline, requested).or_else(archived)
    }

    fn logs_name_their_slice(&self) -> bool {
        self.timeline.logs_name_their_slice()
    }

    fn is_planned_slice(&self, instant: &str) -> bool {
        self.timeline.is_planned_slice(instant)
    }
}
