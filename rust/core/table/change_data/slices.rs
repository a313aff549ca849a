//! File groups as they were before and after a commit.
//!
//! A listing shows the files that are there now; which of them a reader saw then follows from when their writes completed.
//! A file that was cleaned is simply absent from a listing, so that an older file would be taken for the newest one. What
//! the write stats of the commit name has to be there, or the changes cannot be told.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::file_group::{BaseFile, FileSlice, LogFile, group_files, join};
use crate::format::avro::metadata::WriteStat;
use crate::format::instant::CommitTimes;
use crate::storage::FileMeta;
use crate::table::TableView;
use crate::table::changes::WriteTime;
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode};

/// The files of the file groups that commits of a range wrote to.
pub(super) struct GroupFiles<'a> {
    view: &'a TableView,
    timeline: Timeline,
    /// The data files of each file group (partition, id).
    groups: HashMap<(String, String), Vec<FileMeta>>,
    /// All listed files by their paths.
    files: HashMap<String, FileMeta>,
}

impl<'a> GroupFiles<'a> {
    /// Lists partitions, and looks up when archived writes to them completed.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(super) fn list(view: &'a TableView, partitions: &[String]) -> Result<Self> {
        view.list_ahead(partitions)?;
        let mut groups: HashMap<(String, String), Vec<FileMeta>> = HashMap::new();
        let mut files = HashMap::new();
        let first = view.timeline().first_active();
        let mut archived: Option<String> = None;
        for partition in partitions {
            for file in view.files_of(partition)?.iter() {
                let log = LogFile::parse(file).map(|log| (log.file_id, log.instant));
                files.insert(file.path.clone(), file.clone());
                let base = || BaseFile::parse(file).map(|base| (base.file_id, base.instant));
                let Some((id, instant)) = log.or_else(base) else { continue };
                if first.is_some_and(|first| instant.as_str() < first) && archived.as_ref().is_none_or(|a| instant < *a)
                {
                    archived = Some(instant);
                }
                groups.entry((partition.clone(), id)).or_default().push(file.clone());
            }
        }
        let mut timeline = view.timeline().clone();
        if let Some(from) = archived {
            let history = HistoryReader::new(view.storage(), timeline.config());
            let entries = history.read(Some(&from), first, LoadMode::Action)?;
            let writes = entries.into_iter().filter(|entry| entry.action.is_write() && !entry.completed.is_empty());
            timeline = timeline.with_archived(writes.map(|entry| (entry.requested, entry.completed)));
        }
        Ok(Self { view, timeline, groups, files })
    }

    /// A listed file.
    pub(super) fn file(&self, path: &str) -> Option<&FileMeta> {
        self.files.get(path)
    }

    /// The newest slice of a file group that a reader saw just before a commit completed.
    pub(super) fn before(&self, write: &WriteTime, partition: &str, file_id: &str) -> Option<FileSlice> {
        self.slice(partition, file_id, &Moment { timeline: &self.timeline, write, sees_it: false })
    }

    /// The newest slice of a file group that a reader saw just after.
    pub(super) fn after(&self, write: &WriteTime, partition: &str, file_id: &str) -> Option<FileSlice> {
        self.slice(partition, file_id, &Moment { timeline: &self.timeline, write, sees_it: true })
    }

    fn slice(&self, partition: &str, file_id: &str, moment: &Moment<'_>) -> Option<FileSlice> {
        let files = self.groups.get(&(partition.to_owned(), file_id.to_owned()))?;
        group_files(partition, files, moment).into_iter().next()?.slices.into_iter().next()
    }

    /// Checks that the slice before a commit has what the write stats of the commit say it had.
    ///
    /// # Errors
    /// `InvalidOption` when a file of it is gone.
    pub(super) fn check_before(&self, write: &WriteTime, before: Option<&FileSlice>, stat: &WriteStat) -> Result<()> {
        let partition = stat.partition_path.as_deref().unwrap_or_default();
        let begun = before.and_then(|slice| slice.base.as_ref());
        let name = stat.prev_base_file.as_ref().or(stat.base_file.as_ref()).filter(|name| !name.is_empty());
        let file = |name: &String| FileMeta { path: join(partition, name), size: 0, modified_ms: 0 };
        if let Some(named) = name.map(file) {
            // A compaction may have completed while the commit was written.
            let instant = BaseFile::parse(&named).map(|base| base.instant).unwrap_or_default();
            if begun.is_none_or(|base| base.path != named.path && base.instant <= instant) {
                return Err(self.gone(write, &named.path));
            }
        } else if stat.prev_base_file.is_none() && stat.log_files.is_none() {
            let prev = stat.prev_commit.as_deref().unwrap_or_default();
            if before.is_none_or(|slice| slice.base_instant.as_str() < prev) {
                return Err(self.gone(write, stat.path.as_deref().unwrap_or_default()));
            }
        }
        for log in stat.log_files.iter().flatten().map(file).filter(|log| Some(&log.path) != stat.path.as_ref()) {
            let Some(parsed) = LogFile::parse(&log) else { continue };
            let completed = CommitTimes::completion_time(&self.timeline, &parsed.instant).unwrap_or(&parsed.instant);
            let is_compacted = before.is_some_and(|slice| slice.base_instant.as_str() > completed);
            if !is_compacted && parsed.instant != write.requested && self.file(&log.path).is_none() {
                return Err(self.gone(write, &log.path));
            }
        }
        Ok(())
    }

    /// A listed file, which has to be there.
    ///
    /// # Errors
    /// `InvalidOption` when it is gone.
    pub(super) fn there(&self, write: &WriteTime, path: &str) -> Result<&FileMeta> {
        self.file(path).ok_or_else(|| self.gone(write, path))
    }

    /// The error for a file that the changes of a commit are not to be had without.
    pub(super) fn gone(&self, write: &WriteTime, path: &str) -> Error {
        Error::invalid_option(
            "the changes of a commit cannot be told: a file of it, or of the rows before it, was cleaned",
        )
        .with("table", self.view.storage().uri())
        .with("instant", &write.requested)
        .with("file", path)
        .remedy(
            "Begin with a later commit; to look back further, keep more commits (hoodie.clean.commits.retained) or \
                 savepoint",
        )
    }
}

/// A table just before or after a commit completed.
struct Moment<'a> {
    timeline: &'a Timeline,
    write: &'a WriteTime,
    sees_it: bool,
}

impl CommitTimes for Moment<'_> {
    fn is_committed(&self, requested: &str) -> bool {
        if requested == self.write.requested {
            return self.sees_it;
        }
        let completed = CommitTimes::completion_time(self.timeline, requested);
        self.timeline.is_committed(requested)
            && completed.is_none_or(|completed| completed < self.write.completed.as_str())
    }

    fn completion_time(&self, requested: &str) -> Option<&str> {
        match requested == self.write.requested {
            true => Some(&self.write.completed),
            false => CommitTimes::completion_time(self.timeline, requested),
        }
    }

    fn logs_name_their_slice(&self) -> bool {
        self.timeline.logs_name_their_slice()
    }

    fn is_planned_slice(&self, instant: &str) -> bool {
        self.timeline.is_planned_slice(instant)
    }
}
