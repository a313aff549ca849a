//! The record keys of file slices: of a base file its key column alone, of a slice with log files those of the merged rows.

use std::sync::Arc;

use arrow::array::StringArray;
use arrow::datatypes::{Schema, SchemaRef};

use super::file_group_reader::FileGroupReader;
use super::keygen::KeyGenConfig;
use super::lookup::key_arrays;
use super::{HudiTable, TableSchema, TableType, TableView};
use crate::error::{Error, Result};
use crate::file_group::{BaseFile, FileSlice};
use crate::format::internal_schema::SchemaHistory;
use crate::storage::Storage;
use crate::timeline::Timeline;

/// Keys, batch after batch.
pub(crate) type Keys = Box<dyn Iterator<Item = Result<StringArray>>>;

/// Reads the record keys of the slices of a table.
pub(crate) struct SliceKeys {
    storage: Storage,
    /// Computes keys where the table keeps none.
    virtual_keys: Option<KeyGenConfig>,
    /// Of a table that has log files.
    reader: Option<FileGroupReader>,
    /// The names that columns had, where fields have ids.
    history: Option<SchemaHistory>,
}

impl SliceKeys {
    /// Those of the slices of a view.
    ///
    /// # Errors
    /// Those of [`HudiTable::file_group_reader`].
    pub(crate) fn new(table: &HudiTable, view: &TableView) -> Result<Self> {
        let schema = TableSchema::resolve(table.config(), view)?;
        let (columns, history) = schema.map_or_else(|| (Arc::new(Schema::empty()), None), |s| (s.data, s.history));
        Self::at(table, view.timeline().clone(), &columns, history.as_ref())
    }

    /// Those of slices as a timeline shows them; `columns` are those of the table, without meta columns.
    ///
    /// # Errors
    /// Those of [`HudiTable::file_group_reader`].
    pub(crate) fn at(
        table: &HudiTable,
        timeline: Timeline,
        columns: &SchemaRef,
        history: Option<&SchemaHistory>,
    ) -> Result<Self> {
        let reader = match table.config().table_type() {
            TableType::CopyOnWrite => None,
            TableType::MergeOnRead => {
                let (columns, _) = table.file_settings(columns)?;
                Some(table.file_group_reader(Arc::new(timeline), columns, history)?)
            }
        };
        let virtual_keys = if table.config().populates_meta_fields() { None } else { Some(table.key_config()?) };
        Ok(Self { storage: table.storage().clone(), virtual_keys, reader, history: history.cloned() })
    }

    /// Passes the keys of the rows of a slice to `each`, batch after batch.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Unsupported` where the table's merger is missing; `Storage`; those of `each`.
    pub(crate) fn each(&self, slice: &FileSlice, each: &mut dyn FnMut(&StringArray) -> Result<()>) -> Result<()> {
        self.of_slice(slice)?.try_for_each(|keys| each(&keys?))
    }

    /// The keys of the rows of a slice, batch after batch.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Unsupported` where the table's merger is missing; `Storage`; while streaming too.
    pub(crate) fn of_slice(&self, slice: &FileSlice) -> Result<Keys> {
        match &slice.base {
            Some(base) if slice.logs.is_empty() => Ok(Box::new(self.of_base(base)?)),
            _ => {
                let rows = self.reader()?.keyed_rows(slice, &Arc::new(Schema::empty()))?;
                Ok(Box::new(rows.map(|rows| rows.map(|(keys, _)| keys))))
            }
        }
    }

    /// The keys of a base file, batch after batch.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(crate) fn of_base(&self, base: &BaseFile) -> Result<impl Iterator<Item = Result<StringArray>> + use<>> {
        key_arrays(&self.storage, base, self.virtual_keys.as_ref())
    }

    /// The names that columns had, where fields have ids.
    pub(super) fn history(&self) -> Option<&SchemaHistory> {
        self.history.as_ref()
    }

    /// Reads slices with log files.
    ///
    /// # Errors
    /// `Internal` in a table that has none.
    pub(crate) fn reader(&self) -> Result<&FileGroupReader> {
        self.reader.as_ref().ok_or_else(|| Error::internal("log files in a table that has none"))
    }
}
