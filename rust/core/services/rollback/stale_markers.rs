//! Markers of actions that are over: the writer, or whoever rolled it back, was killed before it removed them, or the
//! writer stood still, was rolled back, and went on.

use std::collections::HashSet;

use super::plan::is_written_by;
use crate::error::{ErrorKind, Result};
use crate::file_group::BaseFile;
use crate::file_group::markers::{marked_files, marker_folder};
use crate::storage::FileMeta;
use crate::table::HudiTable;
use crate::table::commit_metadata::completed_metadata;
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode};

/// Whether a folder has the markers of an action that is not pending.
pub(super) fn is_stale(folder: &str, timeline: &Timeline) -> bool {
    instant_of(folder).is_some_and(|instant| !timeline.is_pending(instant))
}

/// Deletes the stale ones of these marker folders, and before them what they name and no commit does: files that a writer put
/// there behind its rollback, which would look like those of an archived commit as soon as the timeline begins later, and base
/// files of a try of a table service that was slower than another. The timeline was loaded after the folders were listed.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(super) fn delete_stale_markers(table: &HudiTable, timeline: &Timeline, folders: &[String]) -> Result<()> {
    let storage = table.storage();
    for folder in folders.iter().filter(|folder| is_stale(folder, timeline)) {
        let Some(instant) = instant_of(folder) else { continue };
        match unnamed(table, timeline, instant) {
            Ok(files) => drop(storage.delete_many(files, table.threads()?)?),
            // A damaged history must not stop writers. `verify` tells of it, and the markers stay until it is mended.
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                tracing::warn!(table = storage.uri(), instant, "markers of a write that is over were left: {e}");
                continue;
            }
            Err(e) => return Err(e),
        }
        storage.delete_folder(folder)?;
    }
    Ok(())
}

/// Files with markers of an action that is over, which its commit does not name.
fn unnamed(table: &HudiTable, timeline: &Timeline, instant: &str) -> Result<Vec<String>> {
    let storage = table.storage();
    let Some(mut files) = marked_files(storage, instant)? else { return Ok(Vec::new()) };
    let file = |path: &str| FileMeta { path: path.to_owned(), size: 0, modified_ms: 0 };
    files.retain(|path| is_written_by(&file(path), instant));
    if files.is_empty() || !was_completed(table, timeline, instant)? {
        return Ok(files);
    }
    // A log file that is there twice says the same twice, and versions differ in how a commit names log files.
    files.retain(|path| BaseFile::parse(&file(path)).is_some());
    let Some(done) = completed_metadata(storage, timeline, instant)? else { return Ok(Vec::new()) };
    let paths = done.partition_to_write_stats.values().flatten().filter_map(|stat| stat.path.as_deref());
    let named: HashSet<&str> = paths.map(name_of).collect();
    files.retain(|path| !named.is_empty() && !named.contains(name_of(path)));
    Ok(files)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::super::execute::{roll_back, rollback_failed_writes};
    use super::*;
    use crate::file_group::markers::{MarkerType, create_marker};
    use crate::format::instant::Action;
    use crate::services::archive::archive;
    use crate::services::clean::clean;
    use crate::services::test_table::TestTable;

    /// A table whose first commit is archived, with the path of that commit's file; and the timeline when that commit was
    /// pending.
    fn with_archived_commit() -> (TestTable, String, Timeline) {
        let made = TestTable::new(&[
            ("hoodie.keep.min.commits", "2"),
            ("hoodie.keep.max.commits", "4"),
            ("hoodie.clean.commits.retained", "1"),
        ]);
        let mut slow = made.begin(Action::Commit);
        let path = slow.file("p", "slow", &["1"]);
        let pending = made.table.timeline().unwrap();
        let first = slow.complete();
        (0..5).for_each(|i| drop(made.commit("p", &format!("f{i}"), &["2"])));
        clean(&made.table).unwrap();
        archive(&made.table).unwrap();
        assert!(made.instants().iter().all(|name| !name.starts_with(&first.requested)), "{:?}", made.instants());
        (made, path, pending)
    }

    fn marked(made: &TestTable, instant: &str, path: &str) {
        create_marker(made.storage(), instant, path, MarkerType::Create).unwrap();
    }

    #[test]
    fn a_write_that_was_archived_meanwhile_is_not_rolled_back() {
        let (made, path, pending) = with_archived_commit();
        let failed = pending.pending().next().unwrap().clone();
        let writer = made.table.timeline_writer().unwrap();
        let refused = roll_back(&made.table, &writer, &pending, &failed).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(made.storage().exists(&path).unwrap());
        assert!(made.instants().iter().all(|name| !name.contains("rollback")), "{:?}", made.instants());
    }

    #[test]
    fn what_a_commit_names_stays() {
        let (made, path, pending) = with_archived_commit();
        let archived = pending.pending().next().unwrap().requested.clone();
        let active = made.commit("p", "new", &["3"]);
        let of_active = made.data_files().into_iter().find(|file| file.contains(&active.requested)).unwrap();
        for (instant, path) in [(&archived, &path), (&active.requested, &of_active)] {
            // Another try of the same action, which was slower.
            let late = path.replace("_0-1-1_", "_0-7-7_");
            made.storage().create(&late, made.storage().read(path).unwrap()).unwrap();
            marked(&made, instant, path);
            marked(&made, instant, &late);
            rollback_failed_writes(&made.table).unwrap();
            assert!(made.storage().exists(path).unwrap(), "{path}");
            assert!(!made.storage().exists(&late).unwrap(), "{late}");
            assert_eq!(marked_files(made.storage(), instant).unwrap(), None);
        }
    }

    #[test]
    fn what_came_behind_a_rollback_goes() {
        let (made, ..) = with_archived_commit();
        let mut slow = made.begin(Action::Commit);
        let path = slow.file("p", "late", &["4"]);
        let (instant, bytes) = (slow.instant.requested.clone(), made.storage().read(&path).unwrap());
        let before = made.data_files();
        rollback_failed_writes(&made.table).unwrap();
        made.storage().create(&path, bytes).unwrap();
        marked(&made, &instant, &path);
        let other = before.iter().find(|file| **file != path).unwrap();
        marked(&made, &instant, other);
        assert!(rollback_failed_writes(&made.table).unwrap().is_empty());
        assert!(!made.storage().exists(&path).unwrap());
        // A marker does not make a file of another commit one of this write.
        assert!(made.storage().exists(other).unwrap());
        assert_eq!(marked_files(made.storage(), &instant).unwrap(), None);
    }

    #[test]
    fn a_damaged_history_stops_no_writer() {
        let (made, path, pending) = with_archived_commit();
        let archived = pending.pending().next().unwrap().requested.clone();
        let history = made.storage().list(".hoodie/timeline/history").unwrap().files;
        let manifest = history.iter().find(|file| file.name().starts_with("manifest")).unwrap();
        made.storage().replace(&manifest.path, "{").unwrap();
        marked(&made, &archived, &path);
        rollback_failed_writes(&made.table).unwrap();
        assert!(made.storage().exists(&path).unwrap());
        assert!(marked_files(made.storage(), &archived).unwrap().is_some());
    }
}
