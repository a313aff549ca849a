//! Data files that a table service writes, also in tasks of several processes.

use std::collections::HashSet;

use crate::error::Result;
use crate::file_group::markers::{delete_markers, marked_files};
use crate::file_group::{LogFile, written_at};
use crate::storage::Storage;

/// Removes the files of a failed attempt of a service: those in these partitions, and those with markers. `writes_logs`:
/// whether the service writes log files. Of tables that were of version 6, log files on top of a compaction have its instant
/// in their names, and others wrote them.
pub(super) fn remove_files_of<'p>(
    storage: &Storage,
    instant: &str,
    partitions: impl Iterator<Item = &'p str>,
    writes_logs: bool,
) -> Result<()> {
    let marked = marked_files(storage, instant)?.unwrap_or_default();
    // Markers are removed first: a task of that attempt that publishes a file later finds its marker missing.
    delete_markers(storage, instant)?;
    storage.delete_all(&marked)?;
    let mut folders: HashSet<&str> = partitions.collect();
    folders.extend(marked.iter().map(|path| path.rsplit_once('/').map_or("", |(folder, _)| folder)));
    for folder in folders {
        let mut files = storage.list(folder)?.files;
        files.retain(|file| written_at(file).is_some_and(|written| written == instant));
        files.retain(|file| writes_logs || LogFile::parse(file).is_none());
        storage.delete_all(&files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>())?;
    }
    Ok(())
}
