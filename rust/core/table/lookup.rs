//! The index lookup: where in a file group the records of given keys are.
//!
//! Exact: the key column of every file that may hold a key is read. Files are left out by key range and, when there
//! are few keys for the size of the file, by bloom filter.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};

use super::keygen::{KeyGenConfig, KeyGenerator};
use crate::error::{Error, Result};
use crate::file_group::BaseFile;
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::storage::{FileReader, Storage};

/// The key column of the meta columns.
const RECORD_KEY: &str = "_hoodie_record_key";
/// Rows of the key column read at once.
const BATCH_ROWS: usize = 65_536;
/// A bloom filter is asked when it spares reading this many keys for each key that is looked up: one question takes
/// some thirty scattered reads of memory, one key of the column a hash and a look into a table.
const BLOOM_PAYS: u64 = 8;

/// A record of a base file whose key is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMatch {
    /// Row number in the base file.
    pub position: u32,
    /// What the caller's table says about the key.
    pub entry: u32,
}

/// Tells of each key of a column that is wanted: its row, and its entry. Nulls are no keys.
pub type FindKeys<'a> = dyn Fn(&StringArray, &mut dyn FnMut(usize, u32)) + Sync + 'a;

/// What is looked up.
pub struct KeyQuery<'a> {
    /// Smallest and largest key that is wanted, if it was worth finding out.
    pub range: Option<(&'a str, &'a str)>,
    /// The keys, when there are few enough to ask a bloom filter for each.
    pub keys: &'a [&'a str],
    /// Finds the stored keys that are wanted.
    pub find: &'a FindKeys<'a>,
}

/// Finds the wanted keys in one base file, which `reader` has open, by row number.
pub fn lookup_keys(
    storage: &Storage,
    file: &BaseFile,
    reader: &BaseFileReader<FileReader>,
    virtual_keys: Option<&KeyGenConfig>,
    query: &KeyQuery<'_>,
) -> Result<Vec<KeyMatch>> {
    let named = |e: Error| e.with("table", storage.uri()).with("file", &file.path);
    if virtual_keys.is_none() && !may_hold(reader, query).map_err(named)? {
        return Ok(Vec::new());
    }
    if u32::try_from(reader.rows()).is_err() {
        return Err(named(Error::unsupported("a base file has more than 4 billion records")));
    }
    let mut found = Vec::new();
    let mut first = 0u32;
    for keys in key_batches(reader, virtual_keys, BATCH_ROWS).map_err(named)? {
        let keys = keys.map_err(named)?;
        (query.find)(&keys, &mut |row, entry| found.push(KeyMatch { position: first + row as u32, entry }));
        first += keys.len() as u32;
    }
    Ok(found)
}

fn may_hold<R: parquet::file::reader::ChunkReader + 'static>(
    reader: &BaseFileReader<R>,
    query: &KeyQuery<'_>,
) -> Result<bool> {
    if reader.rows() == 0 {
        return Ok(false);
    }
    let Some(range) = reader.key_range() else { return Ok(true) };
    if query.range.is_some_and(|(min, max)| !range.overlaps(min, max)) {
        return Ok(false);
    }
    if query.keys.is_empty() || query.keys.len() as u64 * BLOOM_PAYS > reader.rows() {
        return Ok(true);
    }
    match reader.bloom_filter()? {
        Some(filter) => Ok(query.keys.iter().any(|k| range.contains(k) && filter.might_contain(k))),
        None => Ok(query.keys.iter().any(|k| range.contains(k))),
    }
}

/// The record keys of a file, batch after batch: from the meta column, or computed where the table keeps none.
pub(crate) fn key_arrays(
    storage: &Storage,
    file: &BaseFile,
    virtual_keys: Option<&KeyGenConfig>,
) -> Result<impl Iterator<Item = Result<StringArray>> + use<>> {
    let reader = BaseFileReader::open(storage.reader(&file.path, file.size)?)
        .map_err(|e| e.with("table", storage.uri()).with("file", &file.path))?;
    key_batches(&reader, virtual_keys, BATCH_ROWS)
}

/// The first record keys of an open file, up to so many; none where it has no rows.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(crate) fn first_keys(
    reader: &BaseFileReader<FileReader>,
    virtual_keys: Option<&KeyGenConfig>,
    most: usize,
) -> Result<Option<StringArray>> {
    key_batches(reader, virtual_keys, most)?.next().transpose()
}

type KeyBatches = Box<dyn Iterator<Item = Result<StringArray>>>;

fn key_batches<R: parquet::file::reader::ChunkReader + 'static>(
    reader: &BaseFileReader<R>,
    virtual_keys: Option<&KeyGenConfig>,
    batch_rows: usize,
) -> Result<KeyBatches> {
    let Some(config) = virtual_keys else {
        let columns = reader.columns(&[RECORD_KEY], batch_rows)?;
        return Ok(Box::new(columns.map(|batch| stored_keys(&batch?.1))));
    };
    let top = |name: &String| name.split('.').next().unwrap_or_default().to_owned();
    let wanted: Vec<String> = config.record_key_fields.iter().map(top).collect();
    let fields: Vec<_> = reader.schema().fields().iter().filter(|f| wanted.contains(f.name())).cloned().collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let mut only_keys = config.clone();
    only_keys.partition_fields.clear();
    let generator = KeyGenerator::new(only_keys, &schema)?;
    let rows = reader.scan(&ScanOptions::new(schema).with_batch_size(batch_rows))?;
    Ok(Box::new(rows.map(move |batch| generator.record_keys(&batch?))))
}

fn stored_keys(batch: &RecordBatch) -> Result<StringArray> {
    batch
        .column_by_name(RECORD_KEY)
        .and_then(|c| c.as_string_opt::<i32>())
        .cloned()
        .ok_or_else(|| Error::corrupt("a base file has no readable _hoodie_record_key column"))
}
