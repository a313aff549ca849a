//! What is stored of a key now, where a record is to move to another partition.
//!
//! The base file alone tells that only when its slice has no log files: a record of a log may have deleted the row, or
//! may be newer than it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Fields, Schema, SchemaRef};

use super::config::WriteConfig;
use super::context::WriteContext;
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::file_group::{BaseFile, FileSlice};
use crate::table::slice_reader::SliceReader;
use crate::table::{HudiTable, KeyMatch, TableType, TableView};

/// What reads slices with log files, for writes to which it matters what is stored in other partitions.
pub(super) fn stored_records_reader(
    table: &HudiTable,
    view: &TableView,
    config: &WriteConfig,
    context: &WriteContext,
) -> Result<Option<SliceReader>> {
    if !config.index.is_global() || table.config().table_type() != TableType::MergeOnRead {
        return Ok(None);
    }
    let timeline = Arc::new(view.timeline().clone());
    Ok(Some(table.slice_reader(timeline, context.file_schema.clone())?))
}

/// Records of a slice that has log files, as merging leaves them.
#[derive(Debug)]
pub(super) struct StoredRecords {
    /// The row of each wanted key that is still stored.
    rows: HashMap<u32, u32>,
    /// Their ordering columns.
    ordering: RecordBatch,
}

impl StoredRecords {
    /// Reads a slice, base file and logs. `find` says which entry of the caller's a key is, if it is wanted.
    pub fn read(
        context: &WriteContext,
        reader: &SliceReader,
        slice: &FileSlice,
        find: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<Self> {
        let (entries, ordering) = reader.find(slice, &ordering_columns(context), find)?;
        let mut rows = HashMap::with_capacity(entries.len());
        for (row, entry) in entries.into_iter().enumerate() {
            rows.entry(entry).or_insert(row as u32);
        }
        Ok(Self { rows, ordering })
    }

    /// Whether the key of an entry is still stored.
    pub fn holds(&self, entry: u32) -> bool {
        self.rows.contains_key(&entry)
    }

    /// The ordering columns of the records that entries meet.
    pub fn ordering(&self, matches: impl Iterator<Item = KeyMatch>) -> Result<RecordBatch> {
        let row = |m: KeyMatch| self.rows.get(&m.entry).copied();
        let rows = matches.map(row).collect::<Option<Vec<u32>>>();
        let rows = rows.ok_or_else(|| Error::schema("a record that is to move is not stored"))?;
        Ok(take_record_batch(&self.ordering, &UInt32Array::from(rows))?)
    }
}

/// The ordering columns of some records of a base file.
pub(super) fn base_file_ordering(
    context: &WriteContext,
    base: &BaseFile,
    matches: impl Iterator<Item = KeyMatch>,
) -> Result<RecordBatch> {
    let schema = ordering_columns(context);
    let named = |e: Error| e.with("table", context.storage.uri()).with("file", &base.path);
    let reader = BaseFileReader::open(context.storage.reader(&base.path, base.size)?).map_err(named)?;
    let batches =
        reader.scan(&ScanOptions::new(schema.clone())).map_err(named)?.collect::<Result<Vec<_>>>().map_err(named)?;
    let all = concat_batches(&schema, &batches)?;
    Ok(take_record_batch(&all, &matches.map(|m| m.position).collect::<UInt32Array>())?)
}

fn ordering_columns(context: &WriteContext) -> SchemaRef {
    let fields = context.file_schema.fields().iter().filter(|f| context.settings.ordering.contains(f.name())).cloned();
    Arc::new(Schema::new(fields.collect::<Fields>()))
}
