//! The metadata table of a table whose writers do not keep it up to date.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::parallel::both;
use crate::table::{HudiTable, TableConfig};
use crate::timeline::{TimeZone, format_instant};

const FOLDER: &str = ".hoodie/metadata";

/// The state of the metadata table.
pub(super) struct Found {
    partitions: bool,
    files: bool,
}

/// Looks for a metadata table that another writer may have created since this table was opened. The caller holds the
/// table lock.
pub(super) fn look(table: &HudiTable) -> Result<Found> {
    let storage = table.storage();
    let checked = table.metadata_folder_checked();
    let folder = || if checked.load(Ordering::Relaxed) { Ok(false) } else { storage.has_files(FOLDER) };
    let partitions = || Ok(!TableConfig::load(storage)?.metadata_partitions().is_empty());
    let (partitions, files) = both(storage.is_remote(), partitions, folder)?;
    checked.store(true, Ordering::Relaxed);
    Ok(Found { partitions, files })
}

impl Found {
    /// Drops the metadata table as Hudi does: first the table property, by which readers decide, then the folder. The
    /// caller holds the table lock.
    pub(super) fn drop(self, table: &HudiTable) -> Result<()> {
        let storage = table.storage();
        if self.partitions {
            let empty = [("hoodie.table.metadata.partitions", ""), ("hoodie.table.metadata.partitions.inflight", "")];
            TableConfig::update(storage, &empty, &format_instant(table.clock().now_ms(), TimeZone::Utc))?;
        }
        if self.partitions || self.files { storage.delete_folder(FOLDER) } else { Ok(()) }
    }
}
