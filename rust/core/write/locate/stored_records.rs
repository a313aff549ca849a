//! What is stored of a key now, where the base file alone does not tell: a record of a log file may have deleted the row,
//! may be newer than it, or may be the only one of its key.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Fields, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::file_group::{BaseFile, FileSlice};
use crate::table::file_group_reader::FileGroupReader;
use crate::write::rewrite::context::WriteContext;

/// Records of a slice that has log files, as merging leaves them.
#[derive(Debug)]
pub(in crate::write) struct StoredRecords {
    /// The row of each wanted key that is still stored.
    rows: HashMap<u32, u32>,
    /// Their ordering columns.
    ordering: RecordBatch,
}

impl StoredRecords {
    /// Reads a slice, base file and logs. `find` says which entry of the caller's a key is, if it is wanted.
    pub(crate) fn read(
        context: &WriteContext,
        reader: &FileGroupReader,
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
    pub(crate) fn holds(&self, entry: u32) -> bool {
        self.rows.contains_key(&entry)
    }

    /// The entries whose keys are stored.
    pub(crate) fn entries(&self) -> impl Iterator<Item = u32> {
        self.rows.keys().copied()
    }

    /// The ordering columns of the records that entries meet.
    pub(crate) fn ordering(&self, entries: impl Iterator<Item = u32>) -> Result<RecordBatch> {
        let rows = entries.map(|entry| self.rows.get(&entry).copied()).collect::<Option<Vec<u32>>>();
        let rows =
            rows.ok_or_else(|| Error::internal("a record that is to move to another partition is not stored"))?;
        Ok(take_record_batch(&self.ordering, &UInt32Array::from(rows))?)
    }
}

/// The ordering columns of some records of a base file.
pub(in crate::write) fn base_file_ordering(
    context: &WriteContext,
    base: &BaseFile,
    positions: impl Iterator<Item = u32>,
) -> Result<RecordBatch> {
    let schema = ordering_columns(context);
    let named = |e: Error| e.with("table", context.storage.uri()).with("file", &base.path);
    let reader = BaseFileReader::open(context.storage.reader(&base.path, base.size)?).map_err(named)?;
    let batches =
        reader.scan(&ScanOptions::new(schema.clone())).map_err(named)?.collect::<Result<Vec<_>>>().map_err(named)?;
    let all = concat_batches(&schema, &batches)?;
    Ok(take_record_batch(&all, &positions.collect::<UInt32Array>())?)
}

fn ordering_columns(context: &WriteContext) -> SchemaRef {
    let fields = context.file_schema.fields().iter().filter(|f| context.settings.orders_by(f.name())).cloned();
    Arc::new(Schema::new(fields.collect::<Fields>()))
}
