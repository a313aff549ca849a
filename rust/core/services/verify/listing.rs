//! All files of a table.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::storage::{FileMeta, Storage};
use crate::table::data_files;

/// Files by folder, Hudi's own folder left out.
pub(super) type Listing = BTreeMap<String, Vec<FileMeta>>;

/// Lists the table once.
pub(super) fn list(storage: &Storage) -> Result<Listing> {
    let mut listing = Listing::new();
    for file in data_files(storage)? {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        listing.entry(folder.to_owned()).or_default().push(file);
    }
    Ok(listing)
}
