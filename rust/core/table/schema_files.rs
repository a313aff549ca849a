//! The files in `.hoodie/.schema`: all schemas with field ids that a table had.

use super::view::TableView;
use crate::error::Result;
use crate::format::internal_schema::InternalSchema;
use crate::storage::{FileMeta, Storage, optional};
use crate::timeline::Timeline;

/// Their folder.
const FOLDER: &str = ".hoodie/.schema";
/// What their names end with.
const COMPLETED: &str = ".schemacommit";

/// The instant of a file.
fn instant_of(file: &FileMeta) -> Option<&str> {
    file.path.rsplit('/').next()?.strip_suffix(COMPLETED)?.split(['_', '.']).next()
}

/// The schemas up to the state that a view shows, and maybe later ones; `None` if there is no file.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(super) fn stored_schemas(view: &TableView) -> Result<Option<Vec<InternalSchema>>> {
    let storage = view.storage();
    let Some(listing) = optional(storage.list(FOLDER))? else { return Ok(None) };
    let mut files: Vec<(&str, &FileMeta)> = listing.files.iter().filter_map(|f| Some((instant_of(f)?, f))).collect();
    files.sort_unstable_by_key(|(instant, _)| *instant);
    // Each file has all schemas before it. What a write left that failed is none of them.
    let committed = files.iter().rfind(|(instant, _)| view.timeline().is_committed(instant));
    // Those of archived commits are removed: the first one behind them has their schemas too.
    let Some((_, file)) = committed.or(files.first()) else { return Ok(None) };
    let content = storage.read(&file.path)?;
    let schemas = InternalSchema::parse_history(&content);
    schemas.map(Some).map_err(|e| e.with("table", storage.uri()).with("file", &file.path))
}

/// Stores the schemas of a table as a commit leaves them, before it completes. Removes the files of archived commits.
///
/// # Errors
/// `Storage`.
pub(crate) fn store_schemas(storage: &Storage, timeline: &Timeline, instant: &str, text: String) -> Result<()> {
    storage.create_durable(&format!("{FOLDER}/{instant}_{instant}{COMPLETED}"), text)?;
    let Some(first) = timeline.first_active() else { return Ok(()) };
    let listing = optional(storage.list(FOLDER))?;
    let files = listing.into_iter().flat_map(|listing| listing.files);
    let is_old = |file: &FileMeta| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        name.split(['_', '.'])
            .next()
            .is_some_and(|of| of.len() == first.len() && of < first && name.contains("schemacommit"))
    };
    let old: Vec<String> = files.filter(is_old).map(|file| file.path).collect();
    storage.delete_all(&old)
}
