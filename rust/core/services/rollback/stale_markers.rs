//! Markers of actions that are over: the writer, or whoever rolled it back, was killed before it removed them, or the
//! writer stood still, was rolled back, and went on.

use super::plan::is_written_by;
use crate::error::Result;
use crate::file_group::markers::{marked_files, marker_folder};
use crate::storage::FileMeta;
use crate::table::HudiTable;
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode};

/// Whether a folder has the markers of an action that is not pending.
pub(super) fn is_stale(folder: &str, timeline: &Timeline) -> bool {
    instant_of(folder).is_some_and(|instant| !timeline.pending().any(|i| i.requested == instant))
}

/// Deletes the stale ones of these marker folders. Of an action that never completed, the files that the markers name go
/// first: its writer put them there behind the rollback, and as soon as the timeline begins later, they would look like those
/// of an archived commit. The timeline was loaded after the folders were listed.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(super) fn delete_stale_markers(table: &HudiTable, timeline: &Timeline, folders: &[String]) -> Result<()> {
    let storage = table.storage();
    for folder in folders.iter().filter(|folder| is_stale(folder, timeline)) {
        let Some(instant) = instant_of(folder) else { continue };
        match was_completed(table, timeline, instant) {
            Ok(true) => {}
            Ok(false) => {
                let mut files = marked_files(storage, instant)?.unwrap_or_default();
                files.retain(|path| is_written_by(&FileMeta { path: path.clone(), size: 0, modified_ms: 0 }, instant));
                storage.delete_many(files, table.threads()?)?;
            }
            // A damaged history must not stop writers. `verify` tells of it, and the markers stay until it is mended.
            Err(e) => {
                tracing::warn!(table = storage.uri(), instant, "markers of a write that is over were left: {e}");
                continue;
            }
        }
        storage.delete_folder(folder)?;
    }
    Ok(())
}

/// The history is read after the timeline: what was archived meanwhile is on one of both.
fn was_completed(table: &HudiTable, timeline: &Timeline, instant: &str) -> Result<bool> {
    if timeline.instants().iter().any(|i| i.requested == instant && i.is_completed()) {
        return Ok(true);
    }
    let history = HistoryReader::new(table.storage(), timeline.config()).with_threads(1);
    let archived = history.read(Some(instant), Some(instant), LoadMode::Action)?;
    Ok(archived.iter().any(|entry| entry.action.is_write()))
}

fn instant_of(folder: &str) -> Option<&str> {
    let instant = folder.rsplit('/').next()?;
    let is_instant = !instant.is_empty() && instant.bytes().all(|b| b.is_ascii_digit());
    (is_instant && *folder == marker_folder(instant)).then_some(instant)
}
