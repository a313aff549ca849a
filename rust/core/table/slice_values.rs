//! The entries of a secondary index for the rows of file slices: of a base file from its keys and one more column alone, of a
//! slice with log files from the merged rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, StringBuilder, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::file_group_reader::FileGroupReader;
use super::keygen::{KeyGenConfig, KeyGenerator};
use super::open_files::open_base;
use super::slice_keys::Keys;
use super::{HudiTable, META_COLUMNS, SliceKeys};
use crate::error::{Error, Result};
use crate::file_group::base::ScanOptions;
use crate::file_group::{BaseFile, FileSlice};
use crate::metadata_table::secondary_entries::entries_of;
use crate::storage::Storage;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 65_536;

/// Reads the values of one column.
pub(crate) struct SliceValues<'a> {
    storage: Storage,
    keys: &'a SliceKeys,
    virtual_keys: Option<KeyGenConfig>,
    column: FieldRef,
}

impl<'a> SliceValues<'a> {
    /// Those of a column of the table, which has this type, of the slices that `keys` reads.
    ///
    /// # Errors
    /// `InvalidOption` for key options that contradict each other.
    pub(crate) fn new(table: &HudiTable, keys: &'a SliceKeys, column: &Field) -> Result<Self> {
        let virtual_keys = if table.config().populates_meta_fields() { None } else { Some(table.key_config()?) };
        // Files that are older than the column have no values of it.
        let column = Arc::new(column.clone().with_nullable(true));
        Ok(Self { storage: table.storage().clone(), keys, virtual_keys, column })
    }

    /// The entries of a slice.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Unsupported` where the table's merger is missing; `Storage`; while streaming too.
    pub(crate) fn of_slice(&self, slice: &FileSlice) -> Result<Keys> {
        match &slice.base {
            Some(base) if slice.logs.is_empty() => self.of_base(base),
            None if slice.logs.is_empty() => Ok(Box::new(std::iter::empty())),
            _ => {
                let rows = self.keys.reader()?.keyed_rows(slice, &self.wanted())?;
                Ok(Box::new(rows.map(|rows| {
                    let (keys, rows) = rows?;
                    entries_of(rows.columns().first().ok_or_else(lost)?, &keys)
                })))
            }
        }
    }

    /// The entries of a base file.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`; while streaming too.
    pub(crate) fn of_base(&self, base: &BaseFile) -> Result<Keys> {
        let (uri, path) = (self.storage.uri().to_owned(), base.path.clone());
        let named = move |e: Error| e.with("table", &uri).with("file", &path);
        let reader = open_base(&self.storage, base, self.keys.history()).map_err(&named)?;
        let mut fields = vec![self.column.clone()];
        let generator = match &self.virtual_keys {
            None => {
                fields.push(Arc::new(Field::new(META_COLUMNS[2], DataType::Utf8, true)));
                None
            }
            Some(config) => {
                let top = |name: &String| name.split('.').next().unwrap_or_default().to_owned();
                let wanted: Vec<String> = config.record_key_fields.iter().map(top).collect();
                let is_key = |field: &&FieldRef| wanted.contains(field.name()) && field.name() != self.column.name();
                fields.extend(reader.schema().fields().iter().filter(is_key).cloned());
                let only_keys = KeyGenConfig { partition_fields: Vec::new(), ..config.clone() };
                Some(KeyGenerator::new(only_keys, &Schema::new(fields.clone()))?)
            }
        };
        let options = ScanOptions::new(Arc::new(Schema::new(fields))).with_batch_size(BATCH_ROWS);
        let rows = reader.scan(&options).map_err(&named)?;
        let entries = move |batch: &RecordBatch| {
            let values = batch.columns().first().ok_or_else(lost)?;
            match &generator {
                Some(generator) => entries_of(values, &generator.record_keys(batch)?),
                None => {
                    let keys = batch.columns().get(1).and_then(|keys| keys.as_string_opt::<i32>()).ok_or_else(lost)?;
                    entries_of(values, keys)
                }
            }
        };
        Ok(Box::new(rows.map(move |batch| batch.and_then(|batch| entries(&batch)).map_err(&named))))
    }

    /// The entries of those rows of a slice with log files whose keys are wanted.
    ///
    /// # Errors
    /// Those of [`SliceValues::of_slice`].
    pub(crate) fn of_keys(&self, slice: &FileSlice, keys: &WantedKeys) -> Result<StringArray> {
        if slice.base.is_none() && slice.logs.is_empty() {
            return Ok(StringArray::new_null(0));
        }
        let find = |key: &str| keys.numbers.get(key).copied();
        let (found, rows) = self.keys.reader()?.find(slice, &self.wanted(), &find)?;
        let found: ArrayRef = take(&keys.keys, &UInt32Array::from(found), None)?;
        let found = StringArray::from(found.to_data());
        entries_of(rows.columns().first().ok_or_else(lost)?, &found)
    }

    fn wanted(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![self.column.clone()]))
    }
}

/// Keys that are looked for, each once.
pub(crate) struct WantedKeys {
    keys: StringArray,
    numbers: HashMap<String, u32>,
}

impl WantedKeys {
    /// The keys that the log files of a slice name.
    ///
    /// # Errors
    /// Those of reading them.
    pub(crate) fn of_logs(reader: &FileGroupReader, slice: &FileSlice) -> Result<Self> {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut keys = StringBuilder::new();
        reader.each_key_in_logs(slice, &mut |key, _| {
            if !numbers.contains_key(key) {
                numbers.insert(key.to_owned(), u32::try_from(numbers.len()).unwrap_or(u32::MAX));
                keys.append_value(key);
            }
        })?;
        Ok(Self { keys: keys.finish(), numbers })
    }
}

fn lost() -> Error {
    Error::internal("rows of a file slice lack a column that was asked for")
}
