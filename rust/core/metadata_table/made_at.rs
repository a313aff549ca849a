//! When a partition of the metadata table was made: one that was dropped and made anew has nothing of the commits before.

use super::FOLDER;
use super::listing::MetadataListing;
use crate::error::Result;
use crate::format::properties::Properties;
use crate::storage::{Storage, optional};
use crate::timeline::history::{HistoryReader, LoadMode};
use crate::timeline::{Timeline, TimelineConfig};

/// The file in the folder of a partition that names the instant that made it.
const MARKER: &str = ".hoodie_partition_metadata";
const MADE_BY: &str = "commitTime";

/// The completion time of the instant that made a partition; `None` if nothing says so any more.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(super) fn made_at(storage: &Storage, metadata: &Timeline, partition: &str) -> Result<Option<String>> {
    let Some(marker) = storage.read_if_exists(&format!("{FOLDER}/{partition}/{MARKER}"))? else { return Ok(None) };
    let marker = Properties::parse(&marker)?;
    let Some(instant) = marker.get_non_empty(MADE_BY).map(str::trim) else { return Ok(None) };
    if let Some(completed) = metadata.completion_time(instant) {
        return Ok(Some(completed.to_owned()));
    }
    let history = HistoryReader::new(storage, metadata.config());
    let entries = history.read(Some(instant), None, LoadMode::Action)?;
    let made = entries.into_iter().filter(|entry| entry.requested == instant && !entry.completed.is_empty());
    Ok(made.map(|entry| entry.completed).max())
}

/// Whether one of these partitions was made after a time, as the metadata table is now. `table` tells how the timeline of the
/// table is stored.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(crate) fn made_since(
    storage: &Storage,
    table: &TimelineConfig,
    partitions: &[String],
    since: &str,
) -> Result<bool> {
    let Some(listing) = optional(MetadataListing::read(storage, table))? else { return Ok(false) };
    for partition in partitions {
        if made_at(storage, listing.timeline(), partition)?.is_some_and(|made| made.as_str() > since) {
            return Ok(true);
        }
    }
    Ok(false)
}
