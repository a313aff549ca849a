//! Data files in plans, which name them by full path even after the table was moved.
//!
//! Real plans have `file:/x/p/f`, `file:///x/p/f`, `/x/p/f`, `s3a://bucket/x/p/f`. The part before the partition path
//! is ignored and taken as this table's location, so a plan can never delete anything outside of the table.

use crate::error::{Error, Result};
use crate::file_group::{is_data_path, is_partition_path, parse_change_log};
use crate::storage::{FileMeta, Storage};

/// The path, relative to the table's base, of a data file that a plan names.
pub(super) fn data_file(partition: &str, full_path: &str) -> Result<String> {
    let refuse = |why: &str| {
        Error::corrupt(format!("a plan names '{full_path}' in partition '{partition}' for deletion: {why}"))
            .remedy("Nothing was deleted; find out which writer made this plan before you remove its instant")
    };
    if !is_partition_path(partition) {
        return Err(refuse("it is not a partition path of this table"));
    }
    let (folder, name) = full_path.rsplit_once('/').unwrap_or((partition, full_path));
    if !is_data_path(name) {
        return Err(refuse("it is not a data file"));
    }
    if partition.is_empty() {
        return Ok(name.to_owned());
    }
    let inside = folder.strip_suffix(partition).is_some_and(|before| before.is_empty() || before.ends_with('/'));
    if !inside {
        return Err(refuse("the path is not in that partition"));
    }
    Ok(format!("{partition}/{name}"))
}

/// Whether a log file that a plan names has rows of its slice. Hudi's plans name logs of change data too, which have none.
pub(super) fn has_rows(name: &str) -> bool {
    parse_change_log(&FileMeta { path: name.to_owned(), size: 0, modified_ms: 0 }).is_none()
}

/// The folder of a partition that a plan deletes as a whole. Never the table itself.
pub(super) fn partition_folder(partition: &str) -> Result<&str> {
    let refuse = |why: &str| Error::corrupt(format!("a plan deletes the partition '{partition}': {why}"));
    if !is_partition_path(partition) {
        return Err(refuse("it is not a partition path of this table"));
    }
    if partition.is_empty() { Err(refuse("it is the whole table")) } else { Ok(partition) }
}

/// A path in rollback plans: a plain path on a local disk, a URI elsewhere.
pub(super) fn plain_path(storage: &Storage, path: &str) -> String {
    storage.local_path(path).map_or_else(|| storage.absolute(path), |local| local.display().to_string())
}

/// The partition path of a file.
pub(super) fn partition_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(partition, _)| partition)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_spelling_is_understood() {
        for full in ["file:/t/a/b/f", "file:///t/a/b/f", "/t/a/b/f", "s3a://x/t/a/b/f", "a/b/f", "/elsewhere/a/b/f"] {
            assert_eq!(data_file("a/b", full).unwrap(), "a/b/f");
        }
        assert_eq!(data_file("", "file:/t/.f_1.log.1_0-0-0").unwrap(), ".f_1.log.1_0-0-0");
    }

    #[test]
    fn logs_of_change_data_have_no_rows() {
        assert!(has_rows("/t/a/.f_20260101000000000.log.1_0-1-2"));
        assert!(!has_rows("/t/a/.f_20260101000000000.log.1_0-1-2.cdc"));
    }

    #[test]
    fn nothing_outside_is_deleted() {
        for (partition, full) in [
            ("a", "/t/b/f"),
            ("a", "/t/xa/f"),
            ("..", "/t/../f"),
            ("a/../..", "/t/a/../../f"),
            (".hoodie", "/t/.hoodie/hoodie.properties"),
            (".hoodie/timeline", "/t/.hoodie/timeline/1.commit.requested"),
            ("a", "/t/a/.hoodie_partition_metadata"),
            ("", "/t/.."),
            ("", "/t/.hoodie"),
            ("", "/t/"),
            ("/a", "//a/f"),
        ] {
            assert!(data_file(partition, full).is_err(), "{partition} {full}");
        }
        for partition in ["", "..", "a/..", ".hoodie", ".hoodie/timeline", "a//b", "/etc"] {
            assert!(partition_folder(partition).is_err(), "{partition}");
        }
        assert_eq!(partition_folder("a=1/b=2").unwrap(), "a=1/b=2");
    }
}
