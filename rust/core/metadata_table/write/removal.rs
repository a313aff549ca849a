//! Takes a delta commit back, before the action of the table that it belongs to leaves the table's timeline.

use crate::error::Result;
use crate::file_group::data_file_instant;
use crate::format::instant::{Instant, State};
use crate::metadata_table::FOLDER;
use crate::metadata_table::MetadataListing;
use crate::storage::{Storage, optional};
use crate::timeline::{Timeline, TimelineConfig};

/// Removes what actions of the table wrote to the metadata table, if there is one. The actions are pending on the table, so
/// that no reader takes what they wrote for valid. Does nothing for those that wrote nothing; after a crash in between it can
/// be called again. The caller holds the table lock, or nobody else removes the actions.
///
/// # Errors
/// `Corrupt` for properties of the metadata table that are damaged; `Storage`.
pub(crate) fn remove_instants(storage: &Storage, table: &TimelineConfig, requested: &[&str]) -> Result<()> {
    if !storage.exists(&format!("{FOLDER}/.hoodie/hoodie.properties"))? {
        return Ok(());
    }
    let Some(metadata) = optional(MetadataListing::read(storage, table))? else { return Ok(()) };
    requested.iter().try_for_each(|requested| remove_from(storage, metadata.timeline(), requested))
}

/// The same beside a timeline of the metadata table.
///
/// # Errors
/// `Storage`.
pub(in crate::metadata_table) fn remove_from(storage: &Storage, metadata: &Timeline, requested: &str) -> Result<()> {
    let files = metadata.files_of(requested);
    if files.is_empty() {
        return Ok(());
    }
    let of_state = |state: State| files.iter().filter(move |(i, _): &&(Instant, _)| i.state == state);
    for (_, file) in of_state(State::Completed) {
        storage.delete(&file.path)?;
    }
    let mut written: Vec<String> = Vec::new();
    for folder in storage.list(FOLDER)?.folders.iter().filter(|folder| !folder.ends_with("/.hoodie")) {
        let stored = storage.list(folder)?.files;
        written
            .extend(stored.into_iter().filter(|f| data_file_instant(f).as_deref() == Some(requested)).map(|f| f.path));
    }
    storage.delete_all(&written)?;
    // While the instant is there, it says whose files these are.
    storage.sync()?;
    for state in [State::Inflight, State::Requested] {
        for (_, file) in of_state(state) {
            storage.delete(&file.path)?;
        }
    }
    Ok(())
}
