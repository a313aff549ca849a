//! Groups the files of a partition by file group and file slice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BaseFile, LogFile};
use hoodoo_format::instant::CommitTimes;
use hoodoo_storage::FileMeta;

/// A base file with its log files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSlice {
    /// Partition path, `""` for an unpartitioned table.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// The base instant.
    pub base_instant: String,
    /// The base file; `None` if the slice began with a log file.
    pub base: Option<BaseFile>,
    /// Log files in merge order.
    pub logs: Vec<LogFile>,
}

impl FileSlice {
    /// Paths and sizes of its files, in the order in which a reader opens them.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        let logs = self.logs.iter().map(|log| (log.path.as_str(), log.size));
        logs.chain(self.base.iter().map(|base| (base.path.as_str(), base.size)))
    }
}

/// A file group with its committed slices, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileGroup {
    /// Partition path.
    pub partition: String,
    /// File id.
    pub file_id: String,
    /// Slices, newest first. Never empty.
    pub slices: Vec<FileSlice>,
}

/// Groups the files of one partition; leaves out files of uncommitted writes.
pub fn group_files(partition: &str, files: &[FileMeta], timeline: &impl CommitTimes) -> Vec<FileGroup> {
    let mut groups: BTreeMap<String, BTreeMap<String, FileSlice>> = BTreeMap::new();
    let new_slice = |file_id: &str, instant: &str| FileSlice {
        partition: partition.to_owned(),
        file_id: file_id.to_owned(),
        base_instant: instant.to_owned(),
        base: None,
        logs: Vec::new(),
    };
    for base in files.iter().filter_map(BaseFile::parse).filter(|b| timeline.is_committed(&b.instant)) {
        let slices = groups.entry(base.file_id.clone()).or_default();
        let slice = slices.entry(base.instant.clone()).or_insert_with(|| new_slice(&base.file_id, &base.instant));
        // Two files of one write with different write tokens come from a repeated task; the later attempt counts.
        if slice.base.as_ref().is_none_or(|known| known.write_token < base.write_token) {
            slice.base = Some(base);
        }
    }
    for log in files.iter().filter_map(LogFile::parse) {
        let by_name = timeline.logs_name_their_slice() || timeline.is_planned_slice(&log.instant);
        if !by_name && !timeline.is_committed(&log.instant) {
            continue;
        }
        let slices = groups.entry(log.file_id.clone()).or_default();
        // Version 6 names the slice; in later versions the completion time of the delta commit decides.
        let completed =
            if by_name { &log.instant } else { timeline.completion_time(&log.instant).unwrap_or(&log.instant) };
        let begun = slices.range(..=completed.to_owned()).next_back().map(|(instant, _)| instant.clone());
        let instant = begun.unwrap_or_else(|| log.instant.clone());
        slices.entry(instant.clone()).or_insert_with(|| new_slice(&log.file_id, &instant)).logs.push(log);
    }
    groups
        .into_iter()
        .map(|(file_id, slices)| {
            let mut slices: Vec<FileSlice> = slices.into_values().rev().collect();
            for slice in &mut slices {
                LogFile::sort(&mut slice.logs);
            }
            FileGroup { partition: partition.to_owned(), file_id, slices }
        })
        .collect()
}
