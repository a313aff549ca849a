//! Markers: files that name the data files of a write before they exist, so that a rollback finds them.
//!
//! | type | below `.hoodie/.temp/<instant>/` |
//! |---|---|
//! | DIRECT | `<partition>/<data file>.marker.<CREATE, MERGE or APPEND>`, empty |
//! | TIMELINE_SERVER_BASED | `MARKERS.type`, and `MARKERS<n>` with one such path a line |
//!
//! hoodoo writes DIRECT markers and reads both.

use std::collections::HashSet;

use super::names::is_data_path;
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_storage::Storage;

/// How a data file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerType {
    /// A file of a new file group, or a log file.
    Create,
    /// A new base file of an existing file group.
    Merge,
}

impl MarkerType {
    fn name(self) -> &'static str {
        match self {
            MarkerType::Create => "CREATE",
            MarkerType::Merge => "MERGE",
        }
    }
}

/// Folder of all markers.
const MARKERS: &str = ".hoodie/.temp";

/// The marker folder of an instant.
pub fn marker_folder(instant: &str) -> String {
    format!("{MARKERS}/{instant}")
}

/// Path of the marker of a data file.
pub fn marker_path(instant: &str, data_file: &str, kind: MarkerType) -> String {
    format!("{}/{data_file}.marker.{}", marker_folder(instant), kind.name())
}

/// Whether the marker of a data file exists.
pub fn has_marker(storage: &Storage, instant: &str, data_file: &str, kind: MarkerType) -> Result<bool> {
    storage.exists(&marker_path(instant, data_file, kind))
}

/// Creates the marker of a data file (path relative to the table's base).
pub fn create_marker(storage: &Storage, instant: &str, data_file: &str, kind: MarkerType) -> Result<()> {
    // Checked before there is a marker, because a rollback would delete the file by its marker.
    storage.refuse_links(data_file.rsplit_once('/').map_or("", |(folder, _)| folder))?;
    match storage.create(&marker_path(instant, data_file, kind), "") {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            Err(Error::conflict("another task attempt writes the same data file").with("file", data_file))
        }
        other => other,
    }
}

/// Paths of the data files with markers of an instant, relative to the table's base, sorted. `None` if it has no marker
/// folder.
pub fn marked_files(storage: &Storage, instant: &str) -> Result<Option<Vec<String>>> {
    let folder = marker_folder(instant);
    let files = storage.list_recursive(&folder)?;
    if files.is_empty() {
        return Ok(None);
    }
    let mut marked = Vec::new();
    for file in &files {
        let inside = file.path.strip_prefix(&folder).unwrap_or(&file.path).trim_start_matches('/');
        // Names of log files begin with a dot, like those of Hadoop's checksum files.
        if inside == "MARKERS.type" || inside.ends_with(".crc") {
            continue;
        }
        let listed =
            inside.strip_prefix("MARKERS").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if listed {
            let text = storage.read(&file.path)?;
            marked.extend(String::from_utf8_lossy(&text).lines().filter_map(|line| data_file(line.trim())));
        } else {
            marked.extend(data_file(inside));
        }
    }
    marked.sort();
    marked.dedup();
    Ok(Some(marked))
}

/// Deletes files of failed or repeated task attempts: files with a marker that are not in `reported`.
pub fn remove_unreported_files(storage: &Storage, instant: &str, reported: &HashSet<&str>) -> Result<()> {
    for file in marked_files(storage, instant)?.unwrap_or_default() {
        if !reported.contains(file.as_str()) {
            storage.delete(&file)?;
        }
    }
    Ok(())
}

/// Instants that have a marker folder.
pub fn marked_instants(storage: &Storage) -> Result<Vec<String>> {
    let folders = storage.list(MARKERS)?.folders;
    Ok(folders.iter().filter_map(|f| f.strip_prefix(MARKERS)?.strip_prefix('/')).map(str::to_owned).collect())
}

/// Removes markers of an instant, which are all that it has, and other files by the same request.
pub fn delete_these(storage: &Storage, instant: &str, paths: &[String]) -> Result<()> {
    storage.delete_all(paths)?;
    let folder = marker_folder(instant);
    let has_any = paths.iter().any(|path| path.starts_with(&folder));
    if has_any { storage.delete_emptied_folder(&folder, paths) } else { Ok(()) }
}

/// Removes the markers of an instant.
pub fn delete_markers(storage: &Storage, instant: &str) -> Result<()> {
    storage.delete_folder(&marker_folder(instant))
}

/// Cleans up after an instant was published: deletes its markers and, if it has tasks, unreported files. Failures
/// become warnings; the next write cleans up again.
pub fn clean_up(storage: &Storage, instant: &str, reported: &HashSet<&str>, has_tasks: bool) -> Vec<String> {
    let unreported = if has_tasks { remove_unreported_files(storage, instant, reported) } else { Ok(()) };
    let cleaned = unreported.and_then(|()| delete_markers(storage, instant));
    cleaned.err().map(|e| markers_left(instant, &e)).into_iter().collect()
}

/// The warning about markers of a published instant that were not deleted.
pub fn markers_left(instant: &str, error: &Error) -> String {
    format!(
        "the commit succeeded, but markers of {instant} were not deleted, which is left for the next write: {error}"
    )
}

fn data_file(marker: &str) -> Option<String> {
    let (file, _) = marker.rsplit_once(".marker.")?;
    // A rollback deletes files by their markers: never accept one outside of the table, or of its metadata.
    is_data_path(file).then(|| file.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hoodoo_storage::StorageOptions;

    #[test]
    fn both_layouts_are_read() {
        let s = Storage::open("memory://markers/t", &StorageOptions::new()).unwrap();
        assert_eq!(marked_files(&s, "1").unwrap(), None);
        create_marker(&s, "1", "p=1/a.parquet", MarkerType::Create).unwrap();
        assert!(create_marker(&s, "1", "p=1/a.parquet", MarkerType::Create).is_err());
        create_marker(&s, "1", "b.parquet", MarkerType::Merge).unwrap();
        create_marker(&s, "1", ".f_1.log.1_0-0-0", MarkerType::Create).unwrap();
        s.create(".hoodie/.temp/1/.b.parquet.marker.MERGE.crc", "sum").unwrap();
        assert_eq!(marked_files(&s, "1").unwrap().unwrap(), [".f_1.log.1_0-0-0", "b.parquet", "p=1/a.parquet"]);
        s.create(".hoodie/.temp/2/MARKERS.type", "TIMELINE_SERVER_BASED").unwrap();
        s.create(".hoodie/.temp/2/MARKERS0", "p/x.parquet.marker.CREATE\n../y.marker.CREATE\n").unwrap();
        s.create(".hoodie/.temp/2/MARKERS3", "z.parquet.marker.MERGE\n").unwrap();
        assert_eq!(marked_files(&s, "2").unwrap().unwrap(), ["p/x.parquet", "z.parquet"]);
        delete_markers(&s, "2").unwrap();
        assert_eq!(marked_files(&s, "2").unwrap(), None);
    }
}
