//! Records of which simple fields are wanted, or records of such, decoded straight into columns.
//!
//! * `bytes.rs`: values out of bytes, with what may be wrong with them.
//! * `field.rs`: what the fields are.
//! * `column.rs`: the values of one field as they become a column.
//!
//! Which columns there are, and their types, is the general decoder's choice: it is asked for the columns of the schema, and
//! what it would make differently is left to it. Each record is gone through once, field by field; the fields have to take
//! its bytes exactly.

mod bytes;
mod column;
mod field;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use serde_json::Value;

use crate::avro::datum::{DatumSchema, MAX_DEPTH, Node};
use bytes::Damage;
use column::Column;
use field::{Field, Fields, Skipper};
use hoodoo_runtime::error::{Error, Result};

/// Decodes records of one schema. The fields that are wanted are simple, or records of such fields: there are no lists and
/// maps among them, and no unions but with null. What is not wanted may be anything.
#[derive(Debug)]
pub(super) struct FlatRecords {
    fields: Vec<Field>,
    columns: SchemaRef,
}

impl FlatRecords {
    /// A decoder of the fields at some positions, given in their order, into the columns that they become; none if another
    /// decoder would have to make one of them.
    pub(super) fn new(schema: &DatumSchema, json: &Value, positions: &[usize], columns: SchemaRef) -> Option<Self> {
        let Node::Record(nodes) = schema.node(schema.root()) else { return None };
        if positions.is_empty() || positions.len() != columns.fields().len() || has_other_names(json, 0) {
            return None;
        }
        let names: HashSet<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() != nodes.len() {
            return None;
        }
        let mut wanted = positions.iter().zip(columns.fields()).peekable();
        let mut all = Fields::new(schema);
        let mut fields = Vec::with_capacity(nodes.len());
        for (position, (name, node)) in nodes.iter().enumerate() {
            let column = wanted.next_if(|(wanted, _)| **wanted == position).map(|(_, column)| column);
            fields.push(all.field(name, *node, column, 0)?);
        }
        wanted.next().is_none().then_some(Self { fields, columns })
    }

    /// Decodes so many records of the schema, each of which is the bytes of one datum and nothing else.
    ///
    /// # Errors
    /// `Corrupt` for records that are not of the schema; `Unsupported` for one of values without end.
    pub(super) fn batches<'a>(
        &self,
        schema: &DatumSchema,
        records: impl Iterator<Item = Result<&'a [u8]>> + Clone,
        count: usize,
        batch_rows: usize,
    ) -> Result<Vec<RecordBatch>> {
        // A record has a byte for nearly each field at least. However many are announced, no more memory is taken.
        let bytes = records.clone().map(|record| record.map(<[u8]>::len)).sum::<Result<usize>>()?;
        let most = bytes / self.fields.len().max(1);
        let mut skipper = Skipper::new(schema, &self.fields, bytes)?;
        let mut records = records.enumerate();
        let mut lengths: Vec<usize> = Vec::new();
        let mut batches = Vec::new();
        let mut left = count;
        while left > 0 {
            let rows = left.min(batch_rows.max(1));
            // The strings of the next batch are likely to be as long as those of the one before.
            let text = |position: usize| lengths.get(position).map_or(0, |bytes| bytes / batch_rows.max(1) * rows);
            let column =
                |(position, f): (usize, &Field)| Column::new(f.null, &f.form, f.wanted, rows.min(most), text(position));
            let mut columns: Vec<Column> = self.fields.iter().enumerate().map(column).collect();
            for _ in 0..rows {
                let Some((number, record)) = records.next() else {
                    return Err(Error::corrupt("a log block has fewer records than it says").with("records", count));
                };
                self.take(record?, &mut columns, &mut skipper).map_err(|e| e.with("record", number))?;
            }
            lengths = columns.iter().map(Column::text_bytes).collect();
            batches.push(self.batch(columns, rows)?);
            left -= rows;
        }
        Ok(batches)
    }

    /// The values of one record.
    fn take(&self, record: &[u8], columns: &mut [Column], skipper: &mut Skipper<'_>) -> Result<()> {
        let mut rest = record;
        for (position, column) in columns.iter_mut().enumerate() {
            column.take(&mut rest, skipper).map_err(|damage| self.damaged(damage, position))?;
        }
        if rest.is_empty() { Ok(()) } else { Err(self.damaged(Damage::TooLong, self.fields.len().saturating_sub(1))) }
    }

    #[cold]
    fn damaged(&self, damage: Damage, position: usize) -> Error {
        let name = self.fields.get(position).map_or("", |field| field.name.as_str());
        Error::corrupt("a record of a log block is not of the block's schema").with("column", name).caused_by(damage)
    }

    fn batch(&self, columns: Vec<Column>, rows: usize) -> Result<RecordBatch> {
        let mut types = self.columns.fields().iter();
        let mut arrays = Vec::with_capacity(self.columns.fields().len());
        for (column, field) in columns.into_iter().zip(&self.fields).filter(|(_, field)| field.wanted) {
            let Some(wanted) = types.next() else { continue };
            let failed = |e| {
                Error::corrupt("the records of a log block could not be decoded")
                    .with("column", &field.name)
                    .caused_by(e)
            };
            arrays.extend(column.finish(wanted.data_type()).map_err(failed)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.columns.clone(), arrays, &options)
            .map_err(|e| Error::corrupt("the records of a log block could not be decoded").caused_by(e))
    }
}

/// Whether fields have further names, by which they could be taken for one another.
fn has_other_names(json: &Value, depth: usize) -> bool {
    match json {
        // Deeper ones are refused when the schema is read.
        _ if depth > MAX_DEPTH => false,
        Value::Object(object) => {
            let fields = object.get("fields").and_then(Value::as_array).into_iter().flatten();
            fields.into_iter().any(|field| field.get("aliases").is_some())
                || object.values().any(|value| has_other_names(value, depth + 1))
        }
        Value::Array(values) => values.iter().any(|value| has_other_names(value, depth + 1)),
        _ => false,
    }
}
