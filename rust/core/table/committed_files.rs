//! Files as the metadata of commits states them, against those that are there. Pure: no storage.
//!
//! A commit names each file that it wrote, with its size. The file must be there as long as its file slice is the newest
//! one of a file group that was not replaced: later a cleaner may have deleted it.

use crate::error::Error;
use crate::file_group::{BaseFile, FileGroup, LogFile};
use crate::format::avro::metadata::ReplaceCommitMetadata;
use crate::format::instant::CommitTimes;
use crate::storage::FileMeta;

/// What to do about a file that is lost or cut short.
pub(super) const RESTORE_FILE: &str = "Restore the file from a copy, or restore the table to a savepoint before the commit. Table.verify() looks for \
                                       more of the kind; hoodoo.log.skip.corrupt.blocks=true reads what is left of a log file";

/// The error of a look back to a state of which a file is gone.
pub(super) fn gone_since(table: &str, as_of: &str, files: usize, example: &str) -> Error {
    Error::invalid_option(format!(
        "the table cannot be read as of {as_of}: {files} of its files were cleaned or deleted"
    ))
    .with("table", table)
    .with("file", example)
}

/// What to do about it.
pub(super) const READ_A_LATER_INSTANT: &str =
    "Read a later instant; to look back further, keep more commits (hoodie.clean.commits.retained) or savepoint";

/// A data file that a commit wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommittedFile {
    /// Path relative to the table's base.
    pub path: String,
    /// Partition path.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// Requested time of the commit that wrote it.
    pub commit: String,
    /// Requested time of the commit for a base file; for a log file the time by which it belongs to a file slice.
    pub time: String,
    /// Bytes that the file has; of a log file of version 6, to which others append, at least.
    pub size: Option<u64>,
    /// Whether it is a log file.
    pub is_log: bool,
    /// Whether others may append to it, as in version 6.
    pub is_shared: bool,
}

/// The data files that a commit of the requested time wrote, of which base and log files have a known form.
pub(crate) fn committed_files(
    metadata: &ReplaceCommitMetadata,
    requested: &str,
    times: &impl CommitTimes,
) -> Vec<CommittedFile> {
    let stats = metadata.partition_to_write_stats.values().flatten();
    let named = stats.filter_map(|stat| {
        let path = stat.path.as_ref().filter(|path| !path.is_empty())?;
        let size = stat.file_size_in_bytes.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0);
        let offset = stat.log_offset.and_then(|offset| u64::try_from(offset).ok()).unwrap_or(0);
        let partition = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let file = FileMeta { path: path.clone(), size: 0, modified_ms: 0 };
        let committed = |file_id: String, time: String, size: Option<u64>, is_log: bool| {
            let (path, commit) = (path.clone(), requested.to_owned());
            CommittedFile { path, partition, file_id, commit, time, size, is_log, is_shared: false }
        };
        if let Some(base) = BaseFile::parse(&file) {
            // Without a row and a size there need be no file.
            let is_made = size.is_some() || stat.num_writes != Some(0);
            return is_made.then(|| committed(base.file_id, base.instant, size, false));
        }
        let log = LogFile::parse(&file)?;
        if times.logs_name_their_slice() || log.instant != requested {
            let shared = committed(log.file_id, log.instant, size.map(|size| offset + size), true);
            return Some(CommittedFile { is_shared: true, ..shared });
        }
        let completed = times.completion_time(&log.instant).unwrap_or(&log.instant).to_owned();
        Some(committed(log.file_id, completed, size, true))
    });
    named.collect()
}

/// Whether a write put blocks into log files that are not its own, as version 6 does: nobody can take them out again, or tell
/// them by their file.
pub(crate) fn shares_log_files(metadata: &ReplaceCommitMetadata, requested: &str) -> bool {
    let paths = metadata.partition_to_write_stats.values().flatten().filter_map(|stat| stat.path.clone());
    let logs = paths.filter_map(|path| LogFile::parse(&FileMeta { path, size: 0, modified_ms: 0 }));
    logs.into_iter().any(|log| log.instant != requested)
}

/// What is wrong with a committed file, given the files of its file group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not there.
    Missing,
    /// It has so many bytes.
    Size(u64),
}

impl CommittedFile {
    /// Compares with the file group as a listing shows it. `None` for a file that is as it should be, and for one of an
    /// older file slice.
    pub(crate) fn fault(&self, group: Option<&FileGroup>) -> Option<Fault> {
        let slices = group.map_or(&[][..], |group| group.slices.as_slice());
        // A slice without a base file was begun by a log file: because the base file is gone, it may be.
        let newest = slices.iter().find_map(|slice| slice.base.as_ref());
        if newest.is_some_and(|base| base.instant > self.time) {
            return None;
        }
        if self.is_log {
            let log = slices.iter().flat_map(|slice| &slice.logs).find(|log| log.path == self.path);
            return log.map_or(Some(Fault::Missing), |log| self.wrong_size(log.size, self.is_shared));
        }
        match newest {
            Some(base) if base.path == self.path => self.wrong_size(base.size, false),
            // Another attempt of the same task.
            Some(base) if base.instant == self.time => None,
            _ => Some(Fault::Missing),
        }
    }

    fn wrong_size(&self, stored: u64, may_grow: bool) -> Option<Fault> {
        let committed = self.size?;
        let is_right = if may_grow { stored >= committed } else { stored == committed };
        (!is_right).then_some(Fault::Size(stored))
    }

    /// The fault in words.
    pub(crate) fn message(&self, fault: Fault) -> String {
        let committed = self.size.unwrap_or_default();
        match fault {
            Fault::Missing if self.is_log => {
                format!("the commit {} wrote this log file, but it is missing", self.commit)
            }
            Fault::Missing => format!("the commit {} wrote this base file, but it is missing", self.commit),
            Fault::Size(stored) => format!("the file has {stored} bytes, its commit {} says {committed}", self.commit),
        }
    }

    /// The fault as an error of a reader.
    pub(crate) fn error(&self, fault: Fault) -> Error {
        Error::corrupt(self.message(fault)).with("file", &self.path).remedy(RESTORE_FILE)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::file_group::group_files;
    use crate::format::avro::metadata::WriteStat;

    /// Every write completes one second after it is requested, but `30`, which takes until 55.
    struct Times {
        names_slice: bool,
    }

    impl CommitTimes for Times {
        fn is_committed(&self, _: &str) -> bool {
            true
        }

        fn completion_time(&self, requested: &str) -> Option<&str> {
            ["10", "20", "30", "50"]
                .iter()
                .zip(["11", "21", "55", "51"])
                .find(|(r, _)| **r == requested)
                .map(|(_, c)| c)
        }

        fn logs_name_their_slice(&self) -> bool {
            self.names_slice
        }
    }

    fn fault_in(names_slice: bool, committed: (&str, i64, i64), stored: &[(&str, u64)]) -> Option<Fault> {
        let (path, offset, size) = committed;
        let times = Times { names_slice };
        let stat = WriteStat {
            path: Some(path.into()),
            file_size_in_bytes: Some(size),
            log_offset: Some(offset),
            ..Default::default()
        };
        let mut metadata = ReplaceCommitMetadata::default();
        metadata.partition_to_write_stats.insert(String::new(), vec![stat]);
        // The instant is the second part of the name of a log file, and the third one of a base file.
        let part = if path.starts_with('.') { 1 } else { 2 };
        let requested = path.split('_').nth(part).and_then(|part| part.split('.').next());
        let files: Vec<FileMeta> =
            stored.iter().map(|(p, size)| FileMeta { path: (*p).into(), size: *size, modified_ms: 0 }).collect();
        let groups = group_files("", &files, &times);
        committed_files(&metadata, requested.unwrap(), &times)[0].fault(groups.first())
    }

    #[test]
    fn base_files_are_there_until_a_later_one_is() {
        let fault = |stored: &[(&str, u64)]| fault_in(false, ("f_1_20.parquet", 0, 7), stored);
        assert_eq!(fault(&[("f_1_20.parquet", 7)]), None);
        assert_eq!(fault(&[("f_1_20.parquet", 6)]), Some(Fault::Size(6)));
        assert_eq!(fault(&[]), Some(Fault::Missing));
        assert_eq!(fault(&[("f_1_10.parquet", 7)]), Some(Fault::Missing));
        assert_eq!(fault(&[("f_1_50.parquet", 7)]), None);
        // The log file began a slice of its own because the base file is gone.
        assert_eq!(fault(&[(".f_50.log.1_0", 3)]), Some(Fault::Missing));
    }

    #[test]
    fn log_files_are_there_until_they_were_compacted() {
        let fault = |stored: &[(&str, u64)]| fault_in(false, (".f_30.log.1_0", 0, 7), stored);
        assert_eq!(fault(&[("f_1_20.parquet", 1), (".f_30.log.1_0", 7)]), None);
        assert_eq!(fault(&[("f_1_20.parquet", 1), (".f_30.log.1_0", 0)]), Some(Fault::Size(0)));
        assert_eq!(fault(&[("f_1_20.parquet", 1)]), Some(Fault::Missing));
        // It completed after the compaction of 50 was planned, which therefore does not have it.
        assert_eq!(fault(&[("f_1_50.parquet", 1)]), Some(Fault::Missing));
        assert_eq!(fault(&[("f_1_60.parquet", 1)]), None);
    }

    #[test]
    fn log_files_of_version_6_grow() {
        let fault = |stored: &[(&str, u64)]| fault_in(true, (".f_20.log.1_0", 100, 50), stored);
        assert_eq!(fault(&[("f_1_20.parquet", 1), (".f_20.log.1_0", 150)]), None);
        assert_eq!(fault(&[("f_1_20.parquet", 1), (".f_20.log.1_0", 400)]), None);
        assert_eq!(fault(&[("f_1_20.parquet", 1), (".f_20.log.1_0", 149)]), Some(Fault::Size(149)));
        assert_eq!(fault(&[("f_1_50.parquet", 1)]), None);
    }
}
