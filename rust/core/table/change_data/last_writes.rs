//! The files that were written last to file groups, for those that a commit replaced: its metadata names only the groups.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::file_group::{BaseFile, LogFile};
use crate::storage::FileMeta;
use crate::table::archived_commits::ArchivedCommits;
use crate::table::changes::WriteTime;
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, TableView};

/// A file that a write made.
struct Written {
    completed: String,
    requested: String,
    path: String,
}

/// The files of file groups by the commits of the active timeline; and, where these wrote none, by archived ones.
pub(super) struct LastWrites<'a> {
    table: &'a HudiTable,
    view: &'a TableView,
    /// By partition and file id.
    active: HashMap<(String, String), Vec<Written>>,
    archived: OnceCell<ArchivedCommits>,
}

impl<'a> LastWrites<'a> {
    /// Reads the commits of the active timeline.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(super) fn read(table: &'a HudiTable, view: &'a TableView) -> Result<Self> {
        let mut active: HashMap<(String, String), Vec<Written>> = HashMap::new();
        for instant in view.timeline().completed_writes() {
            let metadata = read_write_metadata(view.storage(), view.timeline(), instant)?;
            for (partition, stats) in metadata.partition_to_write_stats {
                for (file_id, path) in stats.into_iter().filter_map(|stat| Some((stat.file_id?, stat.path?))) {
                    let (completed, requested) = (instant.completed.clone().unwrap_or_default(), &instant.requested);
                    let written = Written { completed, requested: requested.clone(), path };
                    active.entry((partition.clone(), file_id)).or_default().push(written);
                }
            }
        }
        Ok(Self { table, view, active, archived: OnceCell::new() })
    }

    /// The file that was written last to a file group before a commit completed.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(super) fn before(&self, write: &WriteTime, partition: &str, file_id: &str) -> Result<Option<String>> {
        let active = self.active.get(&(partition.to_owned(), file_id.to_owned())).into_iter().flatten();
        let earlier = active.filter(|w| w.completed < write.completed && w.requested != write.requested);
        if let Some(last) = earlier.max_by_key(|written| (&written.completed, &written.path)) {
            return Ok(Some(last.path.clone()));
        }
        let of_group = self.archived()?.written_to(partition).filter_map(|path| {
            let file = FileMeta { path: path.to_owned(), size: 0, modified_ms: 0 };
            let log = || LogFile::parse(&file).map(|log| (log.file_id, log.instant));
            let (id, instant) = BaseFile::parse(&file).map(|base| (base.file_id, base.instant)).or_else(log)?;
            (id == file_id).then(|| (instant, path.to_owned()))
        });
        Ok(of_group.max().map(|(_, path)| path))
    }

    fn archived(&self) -> Result<&ArchivedCommits> {
        if self.archived.get().is_none() {
            let timeline = self.view.timeline();
            let until = timeline.first_active().unwrap_or_default();
            let _ = self.archived.set(ArchivedCommits::read(self.table, timeline, until)?);
        }
        self.archived.get().ok_or_else(|| Error::internal("archived commits were read and are not there"))
    }
}
