//! Checks base files of the newest slices: readable, with the expected number of rows, keys and meta columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};

use super::files::Written;
use super::keys::{KeySource, duplicates};
use super::listing::Listing;
use super::{Report, file_groups, is_about_content};
use crate::error::Result;
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::file_group::{BaseFile, FileSlice, is_partition_metadata};
use crate::parallel::run_parallel;
use crate::storage::FileReader;
use crate::table::file_group_reader::FileGroupReader;
use crate::table::keygen::KeyGenConfig;
use crate::table::{HudiTable, TableSchema, TableView, open_base, with_meta_columns};

const COMMIT_TIME: &str = "_hoodie_commit_time";
const RECORD_KEY: &str = "_hoodie_record_key";
const PARTITION_PATH: &str = "_hoodie_partition_path";
const FILE_NAME: &str = "_hoodie_file_name";
/// Rows at the beginning of a file that are checked.
const SAMPLE_ROWS: usize = 8192;
/// Keys of the sample that are looked up in the bloom filter.
const BLOOM_SAMPLE: usize = 512;
const RESTORE: &str = "Restore the file from a backup, or restore the table to a savepoint before its commit";
const REWRITE: &str = "Updates of such keys may become new rows. Rewrite the file: update its rows with \
                       hoodie.index.type=SIMPLE, or cluster it";
/// Checks every newest base file, then the keys of each partition.
pub(super) fn check(
    table: &HudiTable,
    view: &TableView,
    listing: &Listing,
    written: &Written,
    schema: Option<&TableSchema>,
    report: &mut Report,
) -> Result<()> {
    let with_meta = table.config().populates_meta_fields();
    let mut partitions: BTreeMap<&str, Vec<FileSlice>> = BTreeMap::new();
    for (partition, files) in listing {
        if files.iter().any(|f| is_partition_metadata(f.name())) {
            let slices = view.latest_of(file_groups(view, partition, files)?);
            let readable = |s: &FileSlice| s.base.as_ref().is_none_or(|b| b.path.ends_with(".parquet"));
            partitions.insert(partition, slices.into_iter().filter(readable).collect());
        }
    }
    let work: Vec<(&str, &BaseFile)> =
        partitions.iter().flat_map(|(p, slices)| slices.iter().filter_map(|s| Some((*p, s.base.as_ref()?)))).collect();
    let found = run_parallel(work, table.threads()?, |(partition, file)| {
        let rows = written.get(&file.path).and_then(|w| w.rows);
        check_file(table, partition, file, rows, with_meta, schema)
    })?;
    let mut readable = true;
    for one in found {
        report.count("base files", 1);
        report.count("rows", one.rows);
        readable &= one.problems.is_empty();
        for (message, remedy) in one.problems {
            report.error(&one.path, message, remedy);
        }
    }
    if !readable {
        return Ok(());
    }
    if with_meta {
        return check_keys(table, view, &partitions, None, schema, report);
    }
    match table.key_config() {
        // Generated keys are in the meta column only; without it rows have no keys.
        Ok(keys) if keys.record_key_fields.is_empty() => Ok(()),
        Ok(keys) => check_keys(table, view, &partitions, Some(&keys), schema, report),
        Err(e) => {
            report.warning("keys", format!("record keys were not checked: {e}"), "Open the table with these options");
            Ok(())
        }
    }
}

struct Checked {
    path: String,
    rows: u64,
    problems: Vec<(String, &'static str)>,
}

fn check_file(
    table: &HudiTable,
    partition: &str,
    file: &BaseFile,
    committed_rows: Option<i64>,
    with_meta: bool,
    schema: Option<&TableSchema>,
) -> Result<Checked> {
    let mut checked = Checked { path: file.path.clone(), rows: 0, problems: Vec::new() };
    let opened = open_base(table.storage(), file, schema.and_then(|schema| schema.history.as_ref()));
    let reader = match opened {
        Ok(reader) => reader,
        Err(e) if is_about_content(&e) => {
            checked.problems.push((format!("the base file cannot be read: {e}"), RESTORE));
            return Ok(checked);
        }
        Err(e) => return Err(e),
    };
    checked.rows = reader.rows();
    if committed_rows.is_some_and(|stated| i64::try_from(checked.rows).ok() != Some(stated)) {
        let stated = committed_rows.unwrap_or_default();
        checked.problems.push((format!("the file has {} rows, but its commit wrote {stated}", checked.rows), RESTORE));
    }
    let sampled = check_sample(&reader, partition, file, with_meta, schema);
    match sampled {
        Ok(problems) => checked.problems.extend(problems),
        Err(e) if is_about_content(&e) => {
            checked.problems.push((format!("the rows of the file cannot be read: {e}"), RESTORE));
        }
        Err(e) => return Err(e),
    }
    Ok(checked)
}

fn check_sample(
    reader: &BaseFileReader<FileReader>,
    partition: &str,
    file: &BaseFile,
    with_meta: bool,
    schema: Option<&TableSchema>,
) -> Result<Vec<(String, &'static str)>> {
    let mut problems = Vec::new();
    let mut wanted = Vec::new();
    if with_meta {
        let missing: Vec<&str> = [COMMIT_TIME, RECORD_KEY, PARTITION_PATH, FILE_NAME]
            .into_iter()
            .filter(|name| reader.schema().field_with_name(name).is_err())
            .collect();
        if !missing.is_empty() {
            problems.push((format!("the file has no column {}", missing.join(", ")), RESTORE));
            return Ok(problems);
        }
    }
    match schema {
        Some(schema) if with_meta => wanted.extend(with_meta_columns(&schema.data).fields().iter().cloned()),
        Some(schema) => wanted.extend(schema.data.fields().iter().cloned()),
        None if with_meta => wanted.extend(
            [COMMIT_TIME, RECORD_KEY, PARTITION_PATH, FILE_NAME].map(|n| Arc::new(Field::new(n, DataType::Utf8, true))),
        ),
        None => return Ok(problems),
    }
    let options = ScanOptions::new(Arc::new(Schema::new(wanted))).with_batch_size(SAMPLE_ROWS);
    let Some(batch) = reader.scan(&options)?.next().transpose()? else { return Ok(problems) };
    if with_meta {
        check_meta_columns(&batch, partition, file, &mut problems);
        check_bloom(reader, &batch, &mut problems)?;
    }
    Ok(problems)
}

fn check_meta_columns(
    batch: &RecordBatch,
    partition: &str,
    file: &BaseFile,
    problems: &mut Vec<(String, &'static str)>,
) {
    let mut each = |column: &str, is_wrong: &dyn Fn(Option<&str>) -> bool, wanted: String| {
        let Some(values) = batch.column_by_name(column).and_then(|c| c.as_string_opt::<i32>()) else { return };
        if let Some(row) = (0..values.len()).find(|row| is_wrong(values.is_valid(*row).then(|| values.value(*row)))) {
            let value = if values.is_valid(row) { values.value(row) } else { "null" };
            problems.push((format!("{column} of row {row} is '{value}', expected {wanted}"), RESTORE));
        }
    };
    each(PARTITION_PATH, &|v| v != Some(partition), format!("'{partition}'"));
    each(FILE_NAME, &|v| v != Some(file.name()), format!("'{}'", file.name()));
    let instant = file.instant.as_str();
    each(COMMIT_TIME, &|v| v.is_none_or(|v| v > instant), format!("an instant up to '{instant}'"));
    each(RECORD_KEY, &|v| v.is_none_or(str::is_empty), "a key".to_owned());
}

fn check_bloom(
    reader: &BaseFileReader<FileReader>,
    batch: &RecordBatch,
    problems: &mut Vec<(String, &'static str)>,
) -> Result<()> {
    let Some(keys) = batch.column_by_name(RECORD_KEY).and_then(|c| c.as_string_opt::<i32>()) else { return Ok(()) };
    let Some(filter) = reader.bloom_filter()? else { return Ok(()) };
    if let Some(key) = keys.iter().flatten().take(BLOOM_SAMPLE).find(|key| !filter.might_contain(key)) {
        problems.push((format!("the bloom filter does not contain the key '{key}'"), REWRITE));
    }
    Ok(())
}

/// Makes a reader of slices with log files, unless their merger is missing.
fn file_group_reader(
    table: &HudiTable,
    view: &TableView,
    schema: Option<&TableSchema>,
    report: &mut Report,
) -> Result<Option<FileGroupReader>> {
    if let Some(id) = table.missing_merger()? {
        let message = format!("keys of file groups with log files were not compared: there is no merger {id}");
        report.warning("keys", message, "Open the table with its record merger");
        return Ok(None);
    }
    // Missing metadata was reported already.
    let Some(schema) = schema else { return Ok(None) };
    let (columns, _) = table.file_settings(&schema.data)?;
    table.file_group_reader(Arc::new(view.timeline().clone()), columns, schema.history.as_ref()).map(Some)
}

fn check_keys(
    table: &HudiTable,
    view: &TableView,
    partitions: &BTreeMap<&str, Vec<FileSlice>>,
    virtual_keys: Option<&KeyGenConfig>,
    schema: Option<&TableSchema>,
    report: &mut Report,
) -> Result<()> {
    let slices = match partitions.values().flatten().any(|s| !s.logs.is_empty()) {
        false => None,
        true => file_group_reader(table, view, schema, report)?,
    };
    let source = KeySource { storage: table.storage(), virtual_keys, slices };
    let work: Vec<(&str, &[FileSlice])> = partitions.iter().map(|(p, slices)| (*p, slices.as_slice())).collect();
    let found =
        run_parallel(work, table.threads()?, |(partition, slices)| Ok((partition, duplicates(&source, slices))))?;
    for (partition, found) in found {
        let found = match found {
            Ok(found) => found,
            Err(e) if is_about_content(&e) => {
                report.error(format!("partition '{partition}'"), format!("its keys cannot be read: {e}"), RESTORE);
                continue;
            }
            Err(e) => return Err(e),
        };
        report.count("keys", found.keys);
        for (file, message) in found.foreign_rows {
            report.error(file, message, RESTORE);
        }
        for (file, message) in found.out_of_range {
            report.error(file, message, REWRITE);
        }
        let Some(example) = found.example else { continue };
        let message = format!("{} record keys are in more than one row, for example {example}", found.repeated);
        report.error(
            format!("partition '{partition}'"),
            message,
            "An upsert updates all rows of a key. To keep one, delete the key and write its row again. insert and \
             bulk_insert store what they are given, copies of a key too",
        );
    }
    Ok(())
}
