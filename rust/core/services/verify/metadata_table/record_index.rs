//! `record_index` against the file groups. Hudi's writers look keys up in it: a key that is missing is inserted twice.
//!
//! Each entry must name a file group that is there. Entries are counted by file group, and compared with the rows of its
//! base file where there are no log files. Some keys of each base file are looked for.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;

use super::{Compared, FOLDER, REBUILD_PARTITION, Report, is_about_content};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::file_group::{BaseFile, FileSlice};
use crate::metadata_table::MetadataTable;

const RECORD_KEY: &str = "_hoodie_record_key";
/// Base files of which keys are looked for, and keys of each.
const SAMPLE_FILES: usize = 64;
const SAMPLE_KEYS: usize = 256;

/// A partition and a file id.
type Group = (String, String);

/// What the entries of the index are compared with, and what was found.
struct Index {
    /// Entries by file group.
    entries: BTreeMap<Group, u64>,
    /// Keys that are looked for, with the file groups that have them.
    wanted: HashMap<String, Vec<Group>>,
    rows: u64,
}

pub(super) fn check(compared: &Compared<'_>, metadata: &MetadataTable, report: &mut Report) -> Result<()> {
    let mut index = Index { entries: BTreeMap::new(), wanted: HashMap::new(), rows: 0 };
    let slices = || compared.latest.iter().flat_map(|(p, slices)| slices.iter().map(move |slice| (p, slice)));
    let mut rows: HashMap<Group, u64> = HashMap::new();
    let mut sampled = 0;
    for (partition, slice) in slices().filter(|(_, slice)| slice.logs.is_empty()) {
        let Some(base) = slice.base.as_ref().filter(|base| base.path.ends_with(".parquet")) else { continue };
        let group = (partition.clone(), slice.file_id.clone());
        let looked = compared.table.storage().reader(&base.path, base.size).and_then(BaseFileReader::open);
        let reader = match looked {
            Ok(reader) => reader,
            // Reported with the base files.
            Err(e) if is_about_content(&e) => continue,
            Err(e) => return Err(e),
        };
        rows.insert(group.clone(), reader.rows());
        if sampled < SAMPLE_FILES && compared.table.config().populates_meta_fields() {
            sampled += 1;
            for key in sample(&reader, base)? {
                index.wanted.entry(key).or_default().push(group.clone());
            }
        }
    }
    let looked_for = index.wanted.len();
    metadata.each_row("record_index", &mut |batch| add(&batch, &mut index))?;
    report.count("metadata table record index entries", index.rows);
    let known: HashMap<Group, &FileSlice> =
        slices().map(|(partition, slice)| ((partition.clone(), slice.file_id.clone()), slice)).collect();
    for (group, entries) in &index.entries {
        compare(group, *entries, &known, &rows, report);
    }
    for (group, rows) in rows.iter().filter(|(group, rows)| **rows > 0 && !index.entries.contains_key(*group)) {
        report.warning(subject(group), format!("the record index has none of the {rows} keys"), REBUILD_PARTITION);
    }
    lost_keys(&index, looked_for, report);
    Ok(())
}

fn subject((partition, file_id): &Group) -> String {
    format!("{FOLDER}/record_index: {}", crate::file_group::join(partition, file_id))
}

/// Compares the entries of a file group with it.
fn compare(
    group: &Group,
    entries: u64,
    known: &HashMap<Group, &FileSlice>,
    rows: &HashMap<Group, u64>,
    report: &mut Report,
) {
    if !known.contains_key(group) {
        report.error(
            subject(group),
            format!(
                "{entries} entries of the record index name a file group that is not there: Hudi's upserts of them fail"
            ),
            REBUILD_PARTITION,
        );
        return;
    }
    let Some(rows) = rows.get(group).filter(|rows| **rows != entries) else { return };
    let message = format!("the record index has {entries} entries for the {rows} rows of the base file");
    if entries < *rows {
        report.warning(
            subject(group),
            format!("{message}: Hudi's upserts insert keys again that it lacks, unless rows share their keys"),
            REBUILD_PARTITION,
        );
    } else {
        report.error(subject(group), format!("{message}: upserts of keys that are gone are lost"), REBUILD_PARTITION);
    }
}

fn lost_keys(index: &Index, looked_for: usize, report: &mut Report) {
    let mut lost: Vec<(&String, &Group)> =
        index.wanted.iter().flat_map(|(key, groups)| groups.iter().map(move |group| (key, group))).collect();
    lost.sort();
    if let Some((key, group)) = lost.first() {
        let message = format!(
            "the record index does not have {} of {looked_for} keys that were looked for (a sample), \
             for example '{key}'",
            lost.len()
        );
        report.error(subject(group), message, REBUILD_PARTITION);
    }
}

fn add(batch: &arrow::array::RecordBatch, index: &mut Index) -> Result<()> {
    let missing = || Error::internal("rows of the record index lack a column");
    let strings =
        |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>()).ok_or_else(missing);
    let (keys, partitions, file_ids) = (strings("key")?, strings("partition")?, strings("file_id")?);
    index.rows += batch.num_rows() as u64;
    for row in 0..batch.num_rows() {
        let partition = if partitions.is_valid(row) { partitions.value(row) } else { "" };
        let partition = if partition == "." { "" } else { partition };
        let group = (partition.to_owned(), file_ids.value(row).to_owned());
        // Rows of several file groups may share a key, which the index has once.
        index.wanted.remove(keys.value(row));
        *index.entries.entry(group).or_default() += 1;
    }
    Ok(())
}

/// The first keys of a base file.
fn sample(reader: &BaseFileReader<crate::storage::FileReader>, base: &BaseFile) -> Result<Vec<String>> {
    let schema = Arc::new(Schema::new(vec![Field::new(RECORD_KEY, DataType::Utf8, true)]));
    let options = ScanOptions::new(schema).with_batch_size(SAMPLE_KEYS);
    let batch = match reader.scan(&options).and_then(|mut rows| rows.next().transpose()) {
        Ok(batch) => batch,
        // Reported with the base files.
        Err(e) if is_about_content(&e) => None,
        Err(e) => return Err(e.with("file", &base.path)),
    };
    let keys = batch.as_ref().and_then(|batch| batch.column_by_name(RECORD_KEY)?.as_string_opt::<i32>());
    Ok(keys.into_iter().flat_map(|keys| keys.iter().flatten().map(str::to_owned)).collect())
}
