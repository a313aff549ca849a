//! All files of a table.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::storage::{FileMeta, Storage};
use crate::timeline::META_FOLDER;

/// Files by folder, Hudi's own folder left out.
pub(super) type Listing = BTreeMap<String, Vec<FileMeta>>;

/// Lists the table once.
pub(super) fn list(storage: &Storage) -> Result<Listing> {
    let top = storage.list("")?;
    let mut listing = Listing::new();
    let mut files = top.files;
    let below: Vec<&String> = top.folders.iter().filter(|f| f.as_str() != META_FOLDER).collect();
    files.extend(storage.list_all_recursive(&below)?);
    for file in files {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        listing.entry(folder.to_owned()).or_default().push(file);
    }
    Ok(listing)
}
