//! Taking commits back, and what it depends on: cleaning, savepoints, rolling back, restoring.

use super::checks::check_options;
use super::{acquire_writer_lease, from_timeline, reopen};
use crate::error::Result;
use crate::format::avro::metadata::{CleanMetadata, RollbackMetadata};
use crate::format::instant::Action;
use crate::services::clean::{clean_now, finish_cleans};
use crate::services::restore::{self, Restored};
use crate::services::rollback::{self, roll_back_leftovers};
use crate::services::savepoint::{self, Savepoint};
use crate::table::HudiTable;
use crate::transaction::{Concurrency, FailedWrites};

/// Deletes the file slices that the cleaning policy does not keep, after finishing cleans that were begun. `None` if there are
/// none, and while another process cleans the table.
///
/// # Errors
/// `InvalidOption`; `Conflict` if a savepoint or the plan of another service was created meanwhile; `Corrupt`; `Storage`.
pub fn clean(table: &HudiTable) -> Result<Option<CleanMetadata>> {
    let (table, left) = reopen(table, super::check_writable)?;
    let timeline = match Concurrency::from_options(table.options())?.failed_writes {
        FailedWrites::Lazy => roll_back_leftovers(&table, left)?.1,
        FailedWrites::Eager | FailedWrites::Never => left.into_timeline(),
    };
    from_timeline(&table, timeline, |timeline| clean_now(&table, timeline))
}

/// Makes a savepoint of the commit with this requested time, or of the newest one.
///
/// # Errors
/// `InvalidOption` if there is no such commit on the active timeline, or it has a savepoint, or files of it were cleaned;
/// `Conflict` while others clean the table; `Lock`; `Corrupt`; `Storage`.
pub fn create_savepoint(table: &HudiTable, instant: Option<&str>, user: &str, comment: &str) -> Result<Savepoint> {
    let (table, left) = reopen(table, super::check_writable)?;
    // A clean that was planned before the savepoint would delete files of it.
    finish_cleans(&table, left.into_timeline())?;
    savepoint::create_savepoint(&table, instant, user, comment)
}

/// Deletes the savepoint of a commit: the next clean may delete its files.
///
/// # Errors
/// `InvalidOption` if there is none; `Lock`; `Storage`.
pub fn delete_savepoint(table: &HudiTable, instant: &str) -> Result<()> {
    let (table, _) = reopen(table, super::check_writable)?;
    savepoint::delete_savepoint(&table, instant)
}

/// Rolls back one write: one that failed, or the newest completed one.
///
/// # Errors
/// Those of [`rollback::rollback`].
pub fn rollback(table: &HudiTable, instant: &str) -> Result<RollbackMetadata> {
    let _lease = acquire_writer_lease(table)?;
    let (table, left) = reopen(table, super::check_writable)?;
    let timeline = left.timeline();
    if timeline.completed_writes().any(|i| i.requested == instant) {
        finish_cleans(&table, timeline.clone())?;
        roll_back_leftovers(&table, left)?;
    }
    rollback::rollback(&table, instant)
}

/// Restores the table to a savepoint; finishes a restore to it whose process was killed.
///
/// # Errors
/// Those of [`restore::restore`].
pub fn restore(table: &HudiTable, savepoint: &str) -> Result<Restored> {
    let _lease = acquire_writer_lease(table)?;
    let (table, left) = reopen(table, |table, _| check_options(table))?;
    if !left.timeline().pending().any(|i| i.action == Action::Restore) {
        let (_, timeline) = roll_back_leftovers(&table, left)?;
        finish_cleans(&table, timeline)?;
    }
    restore::restore(&table, savepoint)
}
