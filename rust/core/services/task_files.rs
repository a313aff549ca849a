//! Data files that a table service writes, perhaps in tasks of several processes.

use std::collections::HashSet;
use std::io::Write;

use crate::error::{Error, Result};
use crate::file_group::base::BaseFileWriter;
use crate::file_group::markers::{MarkerType, create_marker, delete_markers, has_marker, marked_files};
use crate::file_group::{BaseFile, LogFile};
use crate::storage::{FileWriter, Storage};
use crate::table::{HudiTable, META_COLUMNS};

/// Place of the file name among the meta columns.
pub(super) const FILE_NAME: usize = META_COLUMNS.len() - 1;

/// Marks, writes and publishes the files of one instant.
pub(super) struct TaskFiles<'a> {
    table: &'a HudiTable,
    instant: &'a str,
    /// Whether another process may end the service meanwhile.
    watched: bool,
}

impl<'a> TaskFiles<'a> {
    /// # Errors
    /// `Conflict` when the service is over.
    pub(super) fn new(table: &'a HudiTable, instant: &'a str, watched: bool) -> Result<Self> {
        let files = Self { table, instant, watched };
        if watched && !table.timeline()?.pending().any(|i| i.requested == instant) {
            return Err(files.over(""));
        }
        Ok(files)
    }

    /// Marks a file and begins it.
    pub(super) fn create(&self, path: &str, kind: MarkerType) -> Result<FileWriter> {
        create_marker(self.table.storage(), self.instant, path, kind)?;
        self.table.storage().writer(path)
    }

    /// Publishes a file. A task that outlived the service, or the try that it was a part of, must not leave one behind:
    /// the markers go when either is over.
    pub(super) fn publish(&self, path: &str, kind: MarkerType, sink: FileWriter) -> Result<u64> {
        let storage = self.table.storage();
        let is_wanted = || Ok::<_, Error>(!self.watched || has_marker(storage, self.instant, path, kind)?);
        if !is_wanted()? {
            return Err(self.over(path));
        }
        let bytes = sink.finish()?;
        if !is_wanted()? {
            storage.delete(path)?;
            return Err(self.over(path));
        }
        Ok(bytes)
    }

    /// Records keep their meta columns, but for the name of the file they are in: it is said once for all rows.
    pub(super) fn set_file_name<W: Write + Send>(&self, writer: &mut BaseFileWriter<W>, name: &str) {
        if self.table.config().populates_meta_fields() {
            writer.set_constant(FILE_NAME, name.to_owned());
        }
    }

    fn over(&self, path: &str) -> Error {
        Error::conflict("the table service is over, and a task of it was still at work")
            .with("table", self.table.storage().uri())
            .with("instant", self.instant)
            .with("file", path)
    }
}

/// Removes all that a try of a service wrote which died: its files in these partitions, and whatever it marked, finished
/// or not.
pub(super) fn remove_files_of<'p>(
    storage: &Storage,
    instant: &str,
    partitions: impl Iterator<Item = &'p str>,
) -> Result<()> {
    let marked = marked_files(storage, instant)?.unwrap_or_default();
    // Markers first: a task of that try which publishes a file from now on sees that its marker is gone.
    delete_markers(storage, instant)?;
    marked.iter().try_for_each(|path| storage.delete(path).map(|_| ()))?;
    let mut folders: HashSet<&str> = partitions.collect();
    folders.extend(marked.iter().map(|path| path.rsplit_once('/').map_or("", |(folder, _)| folder)));
    for folder in folders {
        for file in storage.list(folder)?.files {
            let is_log = || LogFile::parse(&file).is_some_and(|log| log.instant == instant);
            if BaseFile::parse(&file).is_some_and(|base| base.instant == instant) || is_log() {
                storage.delete(&file.path)?;
            }
        }
    }
    Ok(())
}
