//! `files`: the partitions of the table and the files in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Builder, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use super::keys::{ALL_PARTITIONS, NON_PARTITIONED};
use super::raw;
use crate::error::{Error, Result};
use crate::file_group::is_partition_path;

/// What the metadata table says about files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListedFiles {
    /// Paths of the partitions; `""` for a table without partitions.
    pub partitions: BTreeSet<String>,
    /// Sizes of files by partition and name.
    pub files: BTreeMap<String, BTreeMap<String, u64>>,
}

pub(super) fn flat_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("partition", DataType::Utf8, false),
        Field::new("file_name", DataType::Utf8, false),
        Field::new("size", DataType::Int64, false),
    ]))
}

/// Size of a file, and whether it is deleted.
pub(super) type FileInfo = (i64, bool);
/// The files of a record by name.
pub(super) type Files = BTreeMap<String, FileInfo>;

/// Records of files that were read so far. Logs come first, in their order, and the base file last.
#[derive(Default)]
pub(super) struct FileRecords {
    logs: BTreeMap<String, Logged>,
    base: BTreeMap<String, Files>,
}

/// What the logs say of a key.
#[derive(Default)]
struct Logged {
    /// Its files; `None` if it was deleted last.
    files: Option<Files>,
    /// Whether it was deleted once, so that the base file has nothing to say of it.
    replaces_base: bool,
}

impl FileRecords {
    /// Adds records of a log block to those of the blocks before it.
    pub(super) fn add_logged(&mut self, stored: &RecordBatch) -> Result<()> {
        each_record(stored, &mut |key, files| {
            let logged = self.logs.entry(key).or_default();
            logged.files = Some(combine(logged.files.take().unwrap_or_default(), files));
        })
    }

    /// Deletes keys.
    pub(super) fn delete(&mut self, keys: &StringArray) {
        for key in keys.iter().flatten() {
            self.logs.insert(key.to_owned(), Logged { files: None, replaces_base: true });
        }
    }

    /// Adds records of the base file.
    pub(super) fn add_base(&mut self, stored: &RecordBatch) -> Result<()> {
        each_record(stored, &mut |key, files| {
            self.base.insert(key, files);
        })
    }

    /// What the records of base file and log files say together.
    pub(super) fn finish(self, into: &mut ListedFiles) {
        let Self { mut logs, mut base } = self;
        while let Some((key, logged)) = logs.pop_first() {
            let before = base.remove(&key).filter(|_| !logged.replaces_base);
            if let Some(files) = logged.files {
                base.insert(key, combine(before.unwrap_or_default(), files));
            }
        }
        let named = |partition: String| if partition == NON_PARTITIONED { String::new() } else { partition };
        for (key, files) in base {
            let present = files.into_iter().filter(|(_, (_, is_deleted))| !is_deleted);
            if key == ALL_PARTITIONS {
                into.partitions.extend(present.map(|(partition, _)| named(partition)));
            } else {
                let sized = present.map(|(name, (size, _))| (name, u64::try_from(size).unwrap_or(0)));
                into.files.entry(named(key)).or_default().extend(sized);
            }
        }
    }
}

/// The files of two records. A file that the newer one deletes is gone, unless both do: then it stays a deleted file, and
/// deletes it in older records too.
pub(super) fn combine(mut old: Files, new: Files) -> Files {
    for (name, (size, is_deleted)) in new {
        match old.get(&name).copied() {
            None => {
                old.insert(name, (size, is_deleted));
            }
            Some((_, false)) if is_deleted => {
                old.remove(&name);
            }
            Some(_) if is_deleted => {
                old.insert(name, (size, true));
            }
            Some((before, _)) => {
                old.insert(name, (size.max(before), false));
            }
        }
    }
    old
}

fn each_record(stored: &RecordBatch, each: &mut dyn FnMut(String, Files)) -> Result<()> {
    let mistyped = || Error::corrupt("records of files are not maps of sizes");
    let keys = raw::keys(stored)?;
    let maps = stored.column_by_name("filesystemMetadata").and_then(|column| column.as_map_opt());
    let maps = maps.ok_or_else(mistyped)?;
    let names = maps.keys().as_string_opt::<i32>().ok_or_else(mistyped)?;
    let infos = maps.values().as_struct_opt().ok_or_else(mistyped)?;
    let sizes = infos.column_by_name("size").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let (sizes, deleted) = (sizes.ok_or_else(mistyped)?, raw::flags(infos, "isDeleted")?);
    let offsets = maps.value_offsets();
    for (row, key) in keys.iter().enumerate() {
        let mut files = Files::new();
        let bounds = offsets.get(row).zip(offsets.get(row + 1));
        if let (Some((start, end)), true) = (bounds, maps.is_valid(row)) {
            let bounds = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
            let (start, end) = bounds.filter(|(_, end)| *end <= names.len()).ok_or_else(mistyped)?;
            for at in start..end {
                files.insert(names.value(at).to_owned(), (sizes.value(at), deleted.value(at)));
            }
        }
        each(key.unwrap_or_default().to_owned(), files);
    }
    Ok(())
}

impl ListedFiles {
    /// Refuses partitions and files that are not in the table, or in its metadata.
    ///
    /// # Errors
    /// `Corrupt` that names one.
    pub(super) fn check(&self) -> Result<()> {
        let outside = |path: &str| {
            Error::corrupt("the metadata table names a path that is none of a data file in the table")
                .with("path", path)
        };
        let mut partitions = self.partitions.iter().chain(self.files.keys());
        if let Some(partition) = partitions.find(|partition| !is_partition_path(partition)) {
            return Err(outside(partition));
        }
        let mut names = self.files.values().flat_map(BTreeMap::keys);
        let is_name = |name: &str| !name.contains('/') && !matches!(name, "" | "." | "..");
        match names.find(|name| !is_name(name)) {
            Some(name) => Err(outside(name)),
            None => Ok(()),
        }
    }

    /// The files as a table.
    ///
    /// # Errors
    /// None: the columns are as the schema says.
    pub(super) fn to_batch(&self) -> Result<RecordBatch> {
        let (mut partitions, mut names, mut sizes) = (StringBuilder::new(), StringBuilder::new(), Int64Builder::new());
        for (partition, files) in &self.files {
            for (name, size) in files {
                partitions.append_value(partition);
                names.append_value(name);
                sizes.append_value(i64::try_from(*size).unwrap_or(i64::MAX));
            }
        }
        let columns: Vec<ArrayRef> =
            vec![Arc::new(partitions.finish()), Arc::new(names.finish()), Arc::new(sizes.finish())];
        Ok(RecordBatch::try_new(flat_schema(), columns)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn files(list: &[(&str, i64, bool)]) -> Files {
        list.iter().map(|(name, size, deleted)| ((*name).to_owned(), (*size, *deleted))).collect()
    }

    #[test]
    fn paths_out_of_the_table_are_refused() {
        let listed = |partition: &str, name: &str| {
            let files = BTreeMap::from([(partition.to_owned(), BTreeMap::from([(name.to_owned(), 1)]))]);
            ListedFiles { partitions: [partition.to_owned()].into(), files }
        };
        for (partition, name) in [("", "f"), ("a/b=..", "..f"), ("..a", ".f.log.1"), ("a:b", "f")] {
            listed(partition, name).check().unwrap();
        }
        let names = ["..", ".", "", "../f", "a/f", "/f"].map(|name| ("p", name));
        let partitions =
            ["..", "../canary", "p/../..", "/tmp", "p//q", "p/", ".hoodie", ".hoodie/.aux"].map(|p| (p, "f"));
        for (partition, name) in names.into_iter().chain(partitions) {
            assert_eq!(listed(partition, name).check().unwrap_err().kind(), crate::error::ErrorKind::Corrupt);
        }
    }

    #[test]
    fn deletes_take_files_away_and_sizes_grow() {
        let old = files(&[("a", 5, false), ("b", 6, false), ("c", 0, true), ("d", 0, true)]);
        let new = files(&[("a", 4, false), ("b", 0, true), ("c", 0, true), ("d", 7, false), ("e", 8, false)]);
        let both = files(&[("a", 5, false), ("c", 0, true), ("d", 7, false), ("e", 8, false)]);
        assert_eq!(combine(old, new), both);
    }

    #[test]
    fn a_key_that_was_deleted_and_written_anew_has_nothing_of_the_base_file() {
        let mut records = FileRecords::default();
        records.delete(&StringArray::from(vec!["p"]));
        if let Some(logged) = records.logs.get_mut("p") {
            logged.files = Some(files(&[("new", 2, false)]));
        }
        records.base.insert("p".to_owned(), files(&[("old", 1, false)]));
        let mut listed = ListedFiles::default();
        records.finish(&mut listed);
        let found: Vec<_> = listed.files.into_values().flatten().collect();
        assert_eq!(found, [("new".to_owned(), 2)]);
    }

    #[test]
    fn the_base_file_is_older_than_the_logs() {
        let mut records = FileRecords::default();
        let logged = |list| Logged { files: Some(files(list)), replaces_base: false };
        records.logs.insert("p".to_owned(), logged(&[("a", 0, true), ("b", 2, false)]));
        records.delete(&StringArray::from(vec!["gone"]));
        records.logs.insert(ALL_PARTITIONS.to_owned(), logged(&[("p", 0, false), ("gone", 0, true)]));
        records.base.insert("p".to_owned(), files(&[("a", 1, false), ("c", 3, false)]));
        records.base.insert("gone".to_owned(), files(&[("z", 1, false)]));
        records.base.insert(".".to_owned(), files(&[("y", 1, false)]));
        records.base.insert(ALL_PARTITIONS.to_owned(), files(&[("gone", 0, false), (".", 0, false)]));
        let mut listed = ListedFiles::default();
        records.finish(&mut listed);
        assert_eq!(listed.partitions, BTreeSet::from([String::new(), "p".to_owned()]));
        let found = |names: &[(&str, u64)]| names.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect();
        let wanted = [("".to_owned(), found(&[("y", 1)])), ("p".to_owned(), found(&[("b", 2), ("c", 3)]))];
        assert_eq!(listed.files, BTreeMap::from(wanted));
    }
}
