//! Checks the record keys of one partition: they are unique, and within the range in the footer of their file. In a
//! slice with log files, the merged rows count.
//!
//! Memory is bounded: a pass keeps the hashes of a fraction of the keys, and large partitions take several passes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, Schema};

use crate::error::Result;
use crate::file_group::base::{BaseFileReader, KeyRange};
use crate::file_group::{BaseFile, FileSlice, join};
use crate::merge::hash_key;
use crate::storage::Storage;
use crate::table::file_group_reader::FileGroupReader;
use crate::table::key_arrays;
use crate::table::keygen::KeyGenConfig;

/// Hashes that a pass keeps; each takes about 16 bytes.
const KEYS_A_PASS: u64 = 8 << 20;
/// Assumed bytes of a record in a log file.
const LOG_RECORD_BYTES: u64 = 64;
/// Maximum number of repeated hashes whose keys are compared.
const MAX_CANDIDATES: usize = 100_000;

/// Where keys are read from.
pub(super) struct KeySource<'a> {
    pub(super) storage: &'a Storage,
    /// Computes keys if the table has no meta columns.
    pub(super) virtual_keys: Option<&'a KeyGenConfig>,
    /// Reads slices with log files; `None` if their merger is missing: their keys are not compared then.
    pub(super) slices: Option<FileGroupReader>,
}

impl KeySource<'_> {
    /// The keys of the rows of a slice.
    fn each(&self, slice: &FileSlice, mut use_key: impl FnMut(&str)) -> Result<()> {
        match (&slice.base, &self.slices) {
            (Some(base), _) if slice.logs.is_empty() => self.each_of_base(base, use_key),
            (_, Some(reader)) => reader.each_key(slice, &mut use_key),
            (_, None) => Ok(()),
        }
    }

    fn each_of_base(&self, file: &BaseFile, mut use_key: impl FnMut(&str)) -> Result<()> {
        for keys in key_arrays(self.storage, file, self.virtual_keys)? {
            let keys = keys?;
            (0..keys.len()).filter(|row| keys.is_valid(*row)).for_each(|row| use_key(keys.value(row)));
        }
        Ok(())
    }
}

/// The result for one partition.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Rows with a key.
    pub(super) keys: u64,
    /// Number of keys that are in several rows.
    pub(super) repeated: usize,
    /// One of them, with its files.
    pub(super) example: Option<String>,
    /// File groups with rows of another file group in their log files.
    pub(super) foreign_rows: Vec<(String, String)>,
    /// Files with a key outside the range of their footer.
    pub(super) out_of_range: Vec<(String, String)>,
}

pub(super) fn duplicates(source: &KeySource<'_>, slices: &[FileSlice]) -> Result<Found> {
    let mut found = Found::default();
    let mut rows = 0;
    for base in slices.iter().filter_map(|s| s.base.as_ref()) {
        let reader = BaseFileReader::open(source.storage.reader(&base.path, base.size)?)?;
        rows += reader.rows();
        if let Some(range) = reader.key_range().filter(|_| source.virtual_keys.is_none()) {
            found.out_of_range.extend(key_out_of_range(source, base, &range)?);
        }
    }
    // The number of records in log files is not known before they are read.
    let of_logs_alone = slices.iter().filter(|s| s.base.is_none()).flat_map(|s| &s.logs);
    rows += of_logs_alone.map(|log| log.size / LOG_RECORD_BYTES).sum::<u64>();
    if let Some(reader) = source.slices.as_ref().filter(|_| source.virtual_keys.is_none()) {
        for slice in slices.iter().filter(|slice| !slice.logs.is_empty()) {
            found.foreign_rows.extend(foreign_row(reader, slice)?);
        }
    }
    let passes = rows.div_ceil(KEYS_A_PASS).max(1);
    let mut candidates: HashSet<u64> = HashSet::new();
    for pass in 0..passes {
        let mut seen: HashSet<u64> = HashSet::with_capacity(usize::try_from(rows / passes).unwrap_or(0));
        for slice in slices {
            source.each(slice, |key| {
                let hash = hash_key(key);
                if hash % passes != pass {
                    return;
                }
                found.keys += 1;
                if !seen.insert(hash) && candidates.len() < MAX_CANDIDATES {
                    candidates.insert(hash);
                }
            })?;
        }
    }
    confirm(source, slices, &candidates, &mut found)?;
    Ok(found)
}

/// Finds a row of a merged slice with the partition or file group of another slice: its log file was replaced by
/// another one.
fn foreign_row(reader: &FileGroupReader, slice: &FileSlice) -> Result<Option<(String, String)>> {
    let columns = [("_hoodie_partition_path", true), ("_hoodie_file_name", false)];
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    let wanted = Arc::new(Schema::new(fields));
    for batch in reader.read(slice, &wanted)? {
        let batch = batch?;
        for ((name, is_partition), column) in columns.iter().zip(batch.columns()) {
            let Some(values) = column.as_string_opt::<i32>() else { continue };
            let belongs = |value: &str| match is_partition {
                true => value == slice.partition,
                false => value.is_empty() || value.starts_with(&slice.file_id),
            };
            if let Some(value) = values.iter().flatten().find(|value| !belongs(value)) {
                let subject = join(&slice.partition, &slice.file_id);
                return Ok(Some((subject, format!("{name} of a row of the file group is '{value}'"))));
            }
        }
    }
    Ok(None)
}

/// Finds a key outside of the range in the footer.
fn key_out_of_range(source: &KeySource<'_>, base: &BaseFile, range: &KeyRange) -> Result<Option<(String, String)>> {
    let mut problem = None;
    source.each_of_base(base, |key| {
        if problem.is_none() && range.excludes(key) {
            problem = Some(format!("the key '{key}' is outside the key range in the file's footer"));
        }
    })?;
    Ok(problem.map(|message| (base.path.clone(), message)))
}

/// Compares the keys themselves, because two keys may share a hash.
fn confirm(source: &KeySource<'_>, slices: &[FileSlice], candidates: &HashSet<u64>, found: &mut Found) -> Result<()> {
    if candidates.is_empty() {
        return Ok(());
    }
    let mut first_seen: HashMap<String, (usize, bool)> = HashMap::new();
    let mut example: Option<(String, usize, usize)> = None;
    for (index, slice) in slices.iter().enumerate() {
        source.each(slice, |key| {
            if !candidates.contains(&hash_key(key)) {
                return;
            }
            match first_seen.get_mut(key) {
                None => {
                    first_seen.insert(key.to_owned(), (index, false));
                }
                Some((first, repeated)) => {
                    found.repeated += usize::from(!*repeated);
                    *repeated = true;
                    example.get_or_insert_with(|| (key.to_owned(), *first, index));
                }
            }
        })?;
    }
    let path = |index: usize| {
        let slice = slices.get(index);
        slice.map_or("", |s| s.base.as_ref().map_or(s.file_id.as_str(), |base| base.path.as_str()))
    };
    found.example = example.map(|(key, a, b)| match a == b {
        true => format!("'{key}' twice in {}", path(a)),
        false => format!("'{key}' in {} and {}", path(a), path(b)),
    });
    Ok(())
}
