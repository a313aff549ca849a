//! Table services: rolling back writes, savepoints and restoring, compaction, clustering, cleaning old file slices, archiving, verifying a table.
//!
//! Each service plans without storage (`plan`) and executes the plan without further decisions (`execute`). Plans and
//! results are Hudi's records, so that hoodoo finishes a service that Hudi began, and the other way round.

pub mod archive;
pub mod clean;
pub mod clustering;
pub mod compaction;
pub mod indexing;
pub(crate) mod metadata_table;
pub mod restore;
pub mod rollback;
pub mod savepoint;
pub mod upgrade;
pub mod verify;

mod failed_attempt;
mod planned_files;
mod task_files;
mod under_way;

#[cfg(test)]
mod test_table;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::avro::metadata::{TimelineRecord, decode};
use crate::format::instant::{Action, Instant, State};
use crate::storage::Storage;
use crate::table::{HudiTable, TableSchema, TableView};
use crate::timeline::{Timeline, TimelineWriter};

/// The table's columns now.
fn schema_of(table: &HudiTable, view: &TableView) -> Result<TableSchema> {
    let schema = TableSchema::resolve(table.config(), view)?.ok_or_else(|| {
        Error::corrupt("the table has a planned service, but no commit that tells its columns")
            .with("table", table.storage().uri())
    })?;
    Ok(schema)
}

/// The columns of the files that a planned service writes: those of the table at the time of the plan, where fields have
/// ids, because the names in a file are told by its instant.
fn schema_at(table: &HudiTable, view: &TableView, instant: &str) -> Result<TableSchema> {
    let schema = schema_of(table, view)?;
    let Some(history) = &schema.history else { return Ok(schema) };
    match history.at(instant).filter(|then| then.version != history.table().version) {
        Some(then) => Ok(TableSchema { data: Arc::new(then.columns()?), history: Some(history.read_as(then)) }),
        None => Ok(schema),
    }
}

/// Fails while a clean is pending: it may delete files that going back to an earlier state, or a savepoint, needs.
///
/// # Errors
/// `Conflict`.
fn refuse_pending_clean(table: &HudiTable, timeline: &Timeline) -> Result<()> {
    match timeline.pending().find(|i| i.action == Action::Clean) {
        None => Ok(()),
        Some(clean) => Err(Error::conflict("a clean is under way, which may delete files that are needed")
            .with("table", table.storage().uri())
            .with("pending", clean)
            .remedy("Do it again when the clean is completed")),
    }
}

/// A pending service instant with its plan. An instant whose plan is an empty file was never planned: its writer died
/// in between. It is taken off the timeline, and the answer is `None`.
fn read_plan<T: TimelineRecord>(
    storage: &Storage,
    writer: &TimelineWriter,
    timeline: &Timeline,
    instant: &Instant,
) -> Result<Option<T>> {
    let requested = Instant { state: State::Requested, completed: None, ..instant.clone() };
    let body = timeline.read(storage, &requested)?;
    if body.is_empty() {
        writer.remove_pending(instant)?;
        return Ok(None);
    }
    decode(&body).map(Some).map_err(|e| e.with("table", storage.uri()).with("instant", instant))
}
