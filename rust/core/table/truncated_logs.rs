//! Log files with bytes that are no block.
//!
//! Hudi passes over such bytes, because a writer may have died within the file. In tables of version 6 that is right:
//! writers append to files that others began. From version 8 on each write has files of its own, and a commit names those
//! that are whole: there, bytes that are no block are damage in a file that a commit names, and the rest of a task that
//! failed in any other.

use super::commit_metadata::completed_metadata;
use crate::error::{Error, Result};
use crate::file_group::log::LogScan;
use crate::file_group::{FileSlice, LogFile};
use crate::format::instant::CommitTimes;
use crate::storage::{FileMeta, Storage};
use crate::timeline::Timeline;

/// Option: such bytes are passed over in all files, as Hudi does.
pub(super) const SKIP_TRUNCATED: &str = "hoodoo.log.skip.corrupt.blocks";

/// Refuses a truncated log file that a commit names. Nothing is read for files that are whole.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(super) fn check_truncated(storage: &Storage, timeline: &Timeline, path: &str) -> Result<()> {
    let file = FileMeta { path: path.to_owned(), size: 0, modified_ms: 0 };
    let Some(log) = LogFile::parse(&file).filter(|_| !timeline.commits_are_json()) else { return Ok(()) };
    let names = completed_metadata(storage, timeline, &log.instant)?.is_none_or(|metadata| {
        metadata.partition_to_write_stats.values().flatten().any(|stat| stat.path.as_deref() == Some(path))
    });
    if !names {
        return Ok(());
    }
    Err(Error::corrupt("a log file that a commit wrote is cut off or damaged: it has bytes that are no block")
        .with("table", storage.uri())
        .with("file", path)
        .with("commit", log.instant)
        .remedy(format!("Restore the file from a copy. {SKIP_TRUNCATED}=true reads what is left, as Hudi does")))
}

/// Refuses log files whose blocks say that they belong elsewhere, or to a base file that is gone.
///
/// # Errors
/// `Corrupt`.
pub(super) fn check_headers(slice: &FileSlice, scan: &LogScan, timeline: &Timeline) -> Result<()> {
    if timeline.commits_are_json() {
        return Ok(());
    }
    let may_be_older = timeline.config().was_version_6;
    let instant_of = |path: &str| {
        let log = slice.logs.iter().find(|log| log.path == path)?;
        // Version 6 names log files after the slice that they are of.
        let is_older = may_be_older && (log.instant == slice.base_instant || timeline.is_planned_slice(&log.instant));
        (!is_older).then(|| log.instant.clone())
    };
    if let Some((path, found)) = scan.foreign_block(instant_of) {
        return Err(Error::corrupt(format!(
            "a log file holds a block of the instant {found}, which its name does not say"
        ))
        .with("file", path)
        .remedy("Another file was put in its place: restore it from a copy"));
    }
    match scan.base_instant() {
        Some(instant) if slice.base.is_none() => Err(Error::corrupt(format!(
            "a file group has log files for a base file of the instant {instant}, but no base file"
        ))
        .with("partition", &slice.partition)
        .with("file group", &slice.file_id)
        .remedy("Restore the base file from a copy, or restore the table to a savepoint")
        // Others may have compacted and cleaned since the view was taken.
        .outdated_plan()),
        _ => Ok(()),
    }
}
