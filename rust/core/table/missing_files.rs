//! Data files that are not where the table says: cleaned since it was looked at, or lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::HudiTable;
use super::committed_files::RESTORE_FILE;
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant};
use crate::timeline::{META_FOLDER, Timeline};

/// Explains why a data file is missing to work that began with a look at the timeline.
#[derive(Clone)]
pub(crate) struct MissingFiles {
    table: HudiTable,
    /// Requested times of the actions before that look that removed files.
    before: Arc<BTreeSet<String>>,
}

impl MissingFiles {
    /// For work that begins with this state of the table.
    pub(crate) fn since(table: &HudiTable, timeline: &Timeline) -> Self {
        let before = removals(timeline).map(|i| i.requested.clone()).collect();
        Self { table: table.clone(), before: Arc::new(before) }
    }

    /// A missing data file is `Corrupt`, unless files were removed meanwhile: then it is still `NotFound`, for the work may
    /// be done again. Other errors stay what they are.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let file = error.context().iter().find(|(name, _)| *name == "file").map(|(_, file)| file.clone());
        let Some(file) = file.filter(|file| error.kind() == ErrorKind::NotFound && is_data(file)) else { return error };
        let Ok(now) = self.table.timeline() else { return error };
        if removals(&now).any(|i| !self.before.contains(&i.requested)) {
            return error.remedy(
                "The table was cleaned, or an action was rolled back, after the work had begun: do it again. If that happens \
                 often, let cleaning keep more (hoodie.clean.commits.retained)",
            );
        }
        Error::corrupt("a file of the table is missing")
            .with("file", file)
            .with("table", self.table.storage().uri())
            .remedy(RESTORE_FILE)
    }

    /// Does work whose errors are explained.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn explained<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work().map_err(|e| self.explain(e))
    }
}

/// Completed actions that removed files.
fn removals(timeline: &Timeline) -> impl Iterator<Item = &Instant> {
    let removes = |i: &&Instant| matches!(i.action, Action::Clean | Action::Rollback | Action::Restore);
    timeline.instants().iter().filter(|i| i.is_completed()).filter(removes)
}

fn is_data(file: &str) -> bool {
    file.split('/').next() != Some(META_FOLDER)
}
