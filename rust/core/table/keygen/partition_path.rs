//! Partition paths: made from values, each distinct combination once, and read back to values.

use std::fmt::Write;
use std::sync::Arc;

use ahash::RandomState;
use arrow::array::{ArrayRef, make_array};
use arrow_row::{RowConverter, SortField};
use hashbrown::HashTable;

use super::column_strings::ColumnStrings;
use super::config::{KeyGenConfig, PartitionField, PartitionFieldKind};
use super::record_key::beyond;
use super::timestamp::{Times, TimestampFormat};
use crate::error::{Error, Result};
use crate::timeline::META_FOLDER;

/// The folder of null and empty values.
pub(crate) const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partition of every row of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    /// For each row its index in `paths`.
    pub ids: Vec<u32>,
    /// Distinct paths in order of first appearance; empty text for an unpartitioned table.
    pub paths: Vec<String>,
}

/// A partition column of a batch.
pub(super) struct PartitionColumn<'a> {
    pub(super) field: &'a PartitionField,
    pub(super) text: ColumnStrings,
    /// With the timestamp rule.
    pub(super) times: Option<(&'a TimestampFormat, Times)>,
}

/// Makes the path of every row.
pub(super) fn partitions(config: &KeyGenConfig, columns: &[PartitionColumn<'_>], rows: usize) -> Result<Partitions> {
    if columns.is_empty() {
        let paths = if rows == 0 { Vec::new() } else { vec![String::new()] };
        return Ok(Partitions { ids: vec![0; rows], paths });
    }
    let array = |column: &PartitionColumn<'_>| -> ArrayRef {
        let spans = column.times.as_ref().and_then(|(format, times)| format.spans(times, rows));
        spans.map_or_else(|| make_array(column.text.array().to_data()), |spans| Arc::new(spans))
    };
    let arrays: Vec<ArrayRef> = columns.iter().map(array).collect();
    let sort_fields = arrays.iter().map(|a| SortField::new(a.data_type().clone())).collect();
    let values = RowConverter::new(sort_fields)?.convert_columns(&arrays)?;
    // Fixed seeds: the result does not depend on them.
    let hasher = RandomState::with_seeds(1, 2, 3, 4);
    // Rows that were the first of their combination, with the id of their path.
    let mut seen: HashTable<(usize, u32)> = HashTable::new();
    let mut paths = Paths { hasher: hasher.clone(), ids: HashTable::new(), found: Vec::new() };
    let mut ids: Vec<u32> = Vec::with_capacity(rows);
    let mut scratch = Scratch::default();
    for row in 0..rows {
        let value = values.row(row);
        if let Some(last) = ids.last().copied().filter(|_| values.row(row - 1) == value) {
            ids.push(last);
            continue;
        }
        let hash = hasher.hash_one(value.data());
        let id = match seen.find(hash, |(other, _)| values.row(*other) == value) {
            Some((_, id)) => *id,
            None => {
                scratch.path.clear();
                write_path(config, columns, row, &mut scratch)?;
                check_path(&scratch.path).map_err(|e| e.with("row", row))?;
                let id = paths.id_of(&scratch.path);
                seen.insert_unique(hash, (row, id), |(other, _)| hasher.hash_one(values.row(*other).data()));
                id
            }
        };
        ids.push(id);
    }
    Ok(Partitions { ids, paths: paths.found })
}

/// Distinct paths: many times may format to one path.
struct Paths {
    hasher: RandomState,
    ids: HashTable<u32>,
    found: Vec<String>,
}

impl Paths {
    fn id_of(&mut self, path: &str) -> u32 {
        let (hasher, found) = (&self.hasher, &self.found);
        let text = |id: &u32| found.get(*id as usize).map_or("", String::as_str);
        let hash = hasher.hash_one(path);
        if let Some(id) = self.ids.find(hash, |id| text(id) == path) {
            return *id;
        }
        let id = found.len() as u32;
        self.ids.insert_unique(hash, id, |other| if *other == id { hash } else { hasher.hash_one(text(other)) });
        self.found.push(path.to_owned());
        id
    }
}

#[derive(Default)]
struct Scratch {
    path: String,
    value: String,
}

fn write_path(config: &KeyGenConfig, columns: &[PartitionColumn<'_>], row: usize, scratch: &mut Scratch) -> Result<()> {
    for (i, column) in columns.iter().enumerate() {
        if i > 0 {
            scratch.path.push('/');
        }
        let name = &column.field.name;
        scratch.value.clear();
        if let Some((format, times)) = &column.times {
            format.write(times, row, &mut scratch.value).map_err(|e| e.with("column", name).with("row", row))?;
        } else if !column.text.is_null(row) {
            column.text.write(row, &mut scratch.value).map_err(|_| beyond(name, row))?;
        }
        write_value(config, column, scratch).map_err(|_| beyond(name, row))?;
    }
    Ok(())
}

/// Refuses a path that cannot be a folder of a table, or in which nobody would find the rows again: Hudi does not look into
/// a folder `.hoodie`, and Hadoop's local file system takes `.x.crc` for a checksum.
fn check_path(path: &str) -> Result<()> {
    let refuse = |why: String| {
        Err(Error::schema(format!("the rows would go to the partition {path:?}: {why}"))
            .with("partition", path)
            .remedy(
                "Give the rows another partition value, or create the table with \
                 hoodie.datasource.write.hive_style_partitioning=true or \
                 hoodie.datasource.write.partitionpath.urlencode=true",
            ))
    };
    let levels = || path.split('/');
    let last = levels().count() - 1;
    for (at, level) in levels().enumerate() {
        let is_hidden = level == META_FOLDER && (at == 0 || at < last);
        if is_hidden || level.starts_with('.') && level.ends_with(".crc") {
            return refuse(format!("readers do not look into a folder '{level}'"));
        }
        if matches!(level, "" | "." | "..") || level.contains(|c: char| c.is_ascii_control()) {
            return refuse(format!("{level:?} cannot be the name of a folder"));
        }
    }
    if levels().next().is_some_and(|first| first.contains(':')) {
        return Err(Error::schema(format!(
            "the rows would go to the partition {path:?}: what is before a colon in the first folder is a scheme to Hudi, \
             which could not read the table any more"
        ))
        .with("partition", path)
        .remedy(
            "Give the rows another partition value, or create the table with \
             hoodie.datasource.write.partitionpath.urlencode=true",
        ));
    }
    Ok(())
}

fn write_value(config: &KeyGenConfig, column: &PartitionColumn<'_>, scratch: &mut Scratch) -> std::fmt::Result {
    let Scratch { path, value } = scratch;
    let null = value.is_empty() && column.times.is_none();
    if config.hive_style {
        write!(path, "{}=", column.field.name)?;
    }
    if null {
        path.push_str(NULL_PARTITION);
        return Ok(());
    }
    let start = path.len();
    if config.url_encode {
        escape(value, path);
    } else {
        path.push_str(value);
    }
    if config.slashes(column.field) {
        let tail = path.split_off(start);
        path.extend(tail.chars().map(|c| if c == '-' { '/' } else { c }));
    }
    Ok(())
}

fn must_escape(c: char) -> bool {
    c < ' ' || "\"#%'*/:=?\\{[]^\u{7f}".contains(c)
}

/// Appends `value` with special characters as `%XX`.
pub(super) fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        if must_escape(c) {
            let (high, low) = (u32::from(c) >> 4, u32::from(c) & 15);
            out.push('%');
            out.extend([high, low].into_iter().filter_map(|d| char::from_digit(d, 16)).map(|d| d.to_ascii_uppercase()));
        } else {
            out.push(c);
        }
    }
}

/// Undoes [`escape`]; what is no `%XX` is kept.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('%') {
        out.push_str(head);
        let code = tail.get(..2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                out.push('%');
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Reads a partition path back to the text of each partition field, in the order of the fields; nothing for null.
///
/// Null and empty values share a folder and both come back as nothing. A TIMESTAMP field gives back its formatted text,
/// not the value it was made from.
///
/// # Errors
/// A path whose levels can't be told apart by the fields.
pub(crate) fn parse_partition_values(config: &KeyGenConfig, path: &str) -> Result<Vec<Option<String>>> {
    let fields = &config.partition_fields;
    let levels: Vec<&str> = if path.is_empty() { Vec::new() } else { path.split('/').collect() };
    let unfit = || {
        let names: Vec<_> = fields.iter().map(|f| f.name.as_str()).collect();
        Error::corrupt(format!("the partition path {path:?} does not fit the partition fields {}", names.join(",")))
            .with("partition", path)
    };
    let counts = level_counts(config, &levels).ok_or_else(unfit)?;
    let mut rest = levels.as_slice();
    let mut values = Vec::with_capacity(fields.len());
    for (field, count) in fields.iter().zip(counts) {
        let (own, others) = rest.split_at_checked(count).ok_or_else(unfit)?;
        rest = others;
        values.push(parse_value(config, field, &own.join("/")));
    }
    if rest.is_empty() { Ok(values) } else { Err(unfit()) }
}

fn parse_value(config: &KeyGenConfig, field: &PartitionField, text: &str) -> Option<String> {
    let slashed = config.slashes(field);
    let prefix = format!("{}=", field.name);
    let value = if config.hive_style { text.strip_prefix(&prefix).unwrap_or(text) } else { text };
    let value = if slashed { value.replace('/', "-") } else { value.to_owned() };
    let value = if config.url_encode { unescape(&value) } else { value };
    (value != NULL_PARTITION && !value.is_empty()).then_some(value)
}

/// How many levels each field takes: by the `field=` prefixes where there are any, else by what the rules make.
fn level_counts(config: &KeyGenConfig, levels: &[&str]) -> Option<Vec<usize>> {
    let fields = &config.partition_fields;
    if fields.len() == levels.len() {
        return Some(vec![1; fields.len()]);
    }
    if fields.len() == 1 && !levels.is_empty() {
        return Some(vec![levels.len()]);
    }
    if config.hive_style {
        let mut starts = Vec::with_capacity(fields.len() + 1);
        for field in fields {
            let from = starts.last().map_or(0, |s: &usize| s + 1);
            let prefix = format!("{}=", field.name);
            starts.push(from + levels.get(from..)?.iter().position(|l| l.starts_with(&prefix))?);
        }
        starts.push(levels.len());
        let counts = starts.iter().zip(starts.iter().skip(1)).map(|(a, b)| b - a).collect();
        return (starts.first() == Some(&0)).then_some(counts);
    }
    let slashes = match &config.timestamp {
        Some(timestamp) if !config.url_encode => TimestampFormat::new(timestamp, false).ok()?.slashes(),
        _ => 0,
    };
    let expected: Vec<usize> = fields
        .iter()
        .map(|field| match field.kind {
            PartitionFieldKind::Timestamp => 1 + slashes,
            PartitionFieldKind::Simple => 1,
        })
        .collect();
    (expected.iter().sum::<usize>() == levels.len()).then_some(expected)
}
