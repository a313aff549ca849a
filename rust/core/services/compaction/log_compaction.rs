//! Log compaction: the log files of a slice merged with each other, into one.
//!
//! The new file says of which instants its blocks are (`COMPACTED_BLOCK_TIMES`); readers put them in the place of
//! those. The old files stay until the slice is cleaned.

use std::collections::HashMap;
use std::io::Write;

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::file_group::log::{BlockSettings, LogWriter, ordering_values};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::log::OrderingValue;
use crate::merge::Records;
use crate::metadata_table::column_ranges::BatchRanges;
use crate::table::META_COLUMNS;

/// The records of one log file in the making.
pub(super) struct MergedLog<'a> {
    /// All columns of data files.
    pub(super) schema: SchemaRef,
    /// Name of the table, as its Avro schemas have it.
    pub(super) table: &'a str,
    pub(super) partition: &'a str,
}

impl MergedLog<'_> {
    /// Writes merged records: a block for each set of columns that some of them have, then the deletes. Returns their
    /// numbers. Those that have all columns go into `ranges`.
    pub(super) fn write<W: Write>(
        &self,
        out: W,
        instant: &str,
        settings: &BlockSettings,
        parts: &[Records],
        mut ranges: Option<&mut BatchRanges>,
    ) -> Result<(W, u64, u64)> {
        let mut file = LogWriter::new(out, instant, settings);
        let whole = self.avro(&self.schema)?;
        let mut by_columns: HashMap<Vec<usize>, Vec<(usize, UInt32Array)>> = HashMap::new();
        for (number, part) in parts.iter().enumerate() {
            for (columns, rows) in self.rows_by_columns(part)? {
                by_columns.entry(columns).or_default().push((number, rows));
            }
        }
        let mut sets: Vec<_> = by_columns.into_iter().collect();
        sets.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
        for (columns, rows) in &sets {
            let schema: SchemaRef = self.schema.project(columns)?.into();
            let partial = columns.len() < self.schema.fields().len();
            let avro = if partial { self.avro(&schema)? } else { whole.clone() };
            if let Some(ranges) = ranges.as_mut().filter(|_| partial) {
                ranges.set_partial();
            }
            let mut blocks = file.records(&avro, partial);
            for (part, rows) in rows {
                let part = parts.get(*part).ok_or_else(|| {
                    Error::internal(format!("rows are in part {part} of {} of log records", parts.len()))
                })?;
                let data = take_record_batch(&part.data.project(columns)?, rows)?;
                let records = RecordBatch::try_new(schema.clone(), data.columns().to_vec())?;
                if let Some(ranges) = ranges.as_mut().filter(|_| !partial) {
                    ranges.add(&records)?;
                }
                blocks.add(&records, &[])?;
            }
            blocks.finish()?;
        }
        let mut deletes: Vec<(String, OrderingValue)> = Vec::new();
        for part in parts {
            for row in (0..part.len()).filter(|row| part.deleted.value(*row)) {
                let ordering = match part.ordering.is_default(row) {
                    true => OrderingValue::Default,
                    false => ordering_values(part.ordering.columns(), row)?,
                };
                deletes.push((part.keys.value(row).to_owned(), ordering));
            }
        }
        file.deletes(&whole, self.partition, &deletes, &[])?;
        let written = file.written();
        Ok((file.into_inner(), written, deletes.len() as u64))
    }

    /// Rows that are no deletes, by the columns that they have.
    fn rows_by_columns(&self, part: &Records) -> Result<Vec<(Vec<usize>, UInt32Array)>> {
        let count = self.schema.fields().len();
        let records = |row: &u32| !part.deleted.value(*row as usize);
        let rows = (0..part.len() as u32).filter(records);
        let Some(present) = &part.present else {
            let rows: UInt32Array = rows.map(Some).collect();
            return Ok(if rows.is_empty() { Vec::new() } else { vec![((0..count).collect(), rows)] });
        };
        if present.len() < count {
            let masks = present.len();
            return Err(Error::internal(format!("{masks} presence masks for {count} columns")));
        }
        let has = |column: &usize, row: u32| present.get(*column).is_none_or(|p: &BooleanArray| p.value(row as usize));
        let mut sets: HashMap<Vec<usize>, Vec<u32>> = HashMap::new();
        for row in rows {
            sets.entry((0..count).filter(|column| has(column, row)).collect()).or_default().push(row);
        }
        Ok(sets.into_iter().map(|(columns, rows)| (columns, UInt32Array::from(rows))).collect())
    }

    fn avro(&self, schema: &Schema) -> Result<String> {
        let own = schema.fields().iter().filter(|f| !META_COLUMNS.contains(&f.name().as_str())).cloned();
        table_schema_to_avro(&Schema::new(own.collect::<Vec<_>>()), self.table, true)
    }
}
