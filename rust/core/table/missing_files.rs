//! Data files that are not where the table says: cleaned since it was looked at, or lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::committed_files::RESTORE_FILE;
use super::{HudiTable, TableConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::written_at;
use crate::format::instant::{Action, Instant};
use crate::metadata_table::made_since;
use crate::storage::FileMeta;
use crate::timeline::Timeline;

const AGAIN: &str = "The table was cleaned, or an action was rolled back, since the work began, or that goes on now: do it \
                     again. If that happens often, let cleaning keep more (hoodie.clean.commits.retained)";

/// Explains why a data file is missing to work that began with a look at the timeline.
#[derive(Clone)]
pub(crate) struct MissingFiles {
    table: HudiTable,
    /// Requested times of the actions that had removed files by then.
    before: Arc<BTreeSet<String>>,
    /// Where the timeline began then.
    first: Option<String>,
    /// Its newest time then.
    newest: Option<String>,
}

impl MissingFiles {
    /// For work that begins with this state of the table.
    pub(crate) fn since(table: &HudiTable, timeline: &Timeline) -> Self {
        let completed = removals(timeline).filter(|i| i.is_completed());
        let before = completed.map(|i| i.requested.clone()).collect();
        let newest = timeline.newest_time().map(str::to_owned);
        Self { table: table.clone(), before: Arc::new(before), first: first(timeline), newest }
    }

    /// A missing data file is `Corrupt`, unless files were removed meanwhile, or are being removed: then it is still
    /// `NotFound`, for the work may be done again. Other errors stay what they are.
    /// So is what looks damaged because another process dropped a partition of the metadata table meanwhile: a `Conflict`.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Corrupt && self.lost_partitions() {
            return Error::conflict("another process dropped a partition of the metadata table while this one read it")
                .caused_by(error)
                .with("table", self.table.storage().uri())
                .remedy("Nothing was written; do it again");
        }
        if error.kind() == ErrorKind::Corrupt && error.is_outdated_plan() {
            // Log files without their base file.
            let removed = self.table.timeline().is_ok_and(|now| self.removed_since(&now));
            return if removed {
                Error::new(ErrorKind::NotFound, "a base file is gone").caused_by(error).remedy(AGAIN)
            } else {
                error
            };
        }
        let file = error.context().iter().find(|(name, _)| *name == "file").map(|(_, file)| file.clone());
        let Some(file) = file.filter(|_| error.kind() == ErrorKind::NotFound) else { return error };
        // Of other files, as of those that are being made, there may be many reasons.
        let meta = FileMeta { path: file.clone(), size: 0, modified_ms: 0 };
        let Some(instant) = written_at(&meta) else { return error };
        let Ok(now) = self.table.timeline() else { return error };
        if !now.is_committed(&instant) {
            return error;
        }
        if self.removed_since(&now) {
            return error.remedy(AGAIN);
        }
        Error::corrupt("a file of the table is missing")
            .with("file", file)
            .with("table", self.table.storage().uri())
            .remedy(RESTORE_FILE)
    }

    /// Whether files were removed since the work began, or are being removed. The action that did so may be archived.
    fn removed_since(&self, now: &Timeline) -> bool {
        first(now) != self.first || removals(now).any(|i| !self.before.contains(&i.requested))
    }

    /// Whether the metadata table has lost partitions since the table was opened. Some may be back, made anew.
    fn lost_partitions(&self) -> bool {
        let Ok(now) = TableConfig::load(self.table.storage()) else { return false };
        let (now, then) = (now.complete_metadata_partitions(), self.table.config().complete_metadata_partitions());
        let (storage, since) = (self.table.storage(), self.newest.as_deref().unwrap_or_default());
        then.iter().any(|name| !now.contains(name))
            || made_since(storage, self.table.config().timeline(), &then, since).unwrap_or(false)
    }

    /// Does work whose errors are explained.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn explained<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work().map_err(|e| self.explain(e))
    }
}

fn first(timeline: &Timeline) -> Option<String> {
    timeline.instants().first().map(|i| i.requested.clone())
}

/// Actions that remove files. They do so before they are completed.
fn removals(timeline: &Timeline) -> impl Iterator<Item = &Instant> {
    timeline.instants().iter().filter(|i| matches!(i.action, Action::Clean | Action::Rollback | Action::Restore))
}
