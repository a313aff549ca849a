//! Merging batch by batch: every column of every row is decoded and encoded, row groups are cut anew.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::format::field_lookup::FieldLookup;
use crate::merge::{MergeCounts, RowRef};
use crate::storage::FileReader;
use crate::table::META_COLUMNS;
use crate::table::file_group_merger::merge_column;
use crate::write::locate::lookup::MatchedRow;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::{Gathered, MADE, file_columns, gather};
use crate::write::rewrite::merge_rows::{MergeOutput, MergeRows};
use crate::write::rewrite::met_rows::{MetRows, number};

/// Rows of the old file that are merged at once.
const BATCH_ROWS: usize = 32_768;
/// Rows that are written behind it at once.
const INSERT_ROWS: usize = 32_768;

/// Writes the rows of an old file, merged with those that meet them, and new rows behind.
pub(in crate::write) fn stream_merge(
    context: &WriteContext,
    reader: &BaseFileReader<FileReader>,
    output: MergeOutput<'_, '_>,
    rows: &MergeRows<'_>,
) -> Result<MergeCounts> {
    let scan = ScanOptions::new(read_schema(context)).with_batch_size(BATCH_ROWS);
    let mut output = Output { context, to: output, written: 0, counts: MergeCounts::default() };
    let mut offset = 0usize;
    let mut updates = rows.updates;
    for batch in reader.scan(&scan)? {
        let batch = batch?;
        let end = offset + batch.num_rows();
        let here = updates.partition_point(|u| (u.position as usize) < end);
        let (met, rest) = updates.split_at(here);
        updates = rest;
        output.merge(&batch, offset, met, rows)?;
        offset = end;
    }
    if !updates.is_empty() {
        return Err(Error::corrupt("a base file has fewer rows than its key column"));
    }
    for chunk in rows.inserts.chunks(INSERT_ROWS) {
        output.append(chunk, rows.incoming)?;
    }
    Ok(output.counts)
}

struct Output<'a, 'c> {
    context: &'a WriteContext,
    to: MergeOutput<'a, 'c>,
    /// Rows in the new file so far.
    written: usize,
    counts: MergeCounts,
}

impl Output<'_, '_> {
    /// Writes a batch of the old file with the rows that meet it.
    fn merge(&mut self, old: &RecordBatch, offset: usize, met: &[MatchedRow], rows: &MergeRows<'_>) -> Result<()> {
        if met.is_empty() {
            let none: ArrayRef = Arc::new(StringArray::new_null(0));
            let lookup = FieldLookup::new(old.schema_ref().fields());
            let mut columns = Vec::with_capacity(self.context.file_schema.fields().len());
            for (i, field) in self.context.file_schema.fields().iter().enumerate() {
                let made = is_made(self.context, i);
                columns.push(if made { none.clone() } else { stored_column(old, &lookup, field)?.clone() });
            }
            return self.write(columns, old.num_rows());
        }
        let refs: Vec<RowRef> = met.iter().map(|m| m.row).collect();
        let mut new = gather(rows.incoming, &refs, self.context)?;
        let stored = offset..offset + old.num_rows();
        let mut chosen = MetRows::new(self.context, &new, rows.delete_by_key)?.choose(Some(old), stored, met, 0)?;
        self.counts.add(&chosen);
        if let Some(made) = chosen.made.take() {
            new.data = made;
        }
        let mut positions = vec![0; met.len()];
        number(&chosen, self.written, &mut positions);
        let columns = self.columns(&new, &positions)?;
        if let Some(changes) = &mut self.to.changes {
            changes.merged(old, &chosen, &[&columns])?;
        }
        let mut out = Vec::with_capacity(columns.len());
        let stored = (!self.context.kept_partition_columns.is_empty()).then(|| chosen.as_stored());
        let lookup = FieldLookup::new(old.schema_ref().fields());
        for (i, (field, new)) in self.context.file_schema.fields().iter().zip(&columns).enumerate() {
            if is_made(self.context, i) {
                // Made anew for all rows.
                out.push(new.clone());
                continue;
            }
            let kept = self.context.kept_partition_columns.contains(field.name());
            // A row that stays in its partition has to say so.
            let rows = stored.as_ref().filter(|_| kept).unwrap_or(&chosen.rows);
            out.push(merge_column(stored_column(old, &lookup, field)?, &[new], rows)?);
        }
        self.write(out, chosen.rows.len())
    }

    /// Writes new rows behind the old ones.
    fn append(&mut self, rows: &[RowRef], incoming: &Incoming) -> Result<()> {
        let new = gather(incoming, rows, self.context)?;
        let positions: Vec<usize> = (self.written..self.written + rows.len()).collect();
        let columns = self.columns(&new, &positions)?;
        self.counts.inserted += rows.len() as u64;
        if let Some(changes) = &mut self.to.changes {
            changes.inserted(&columns)?;
        }
        self.write(columns, rows.len())
    }

    fn columns(&self, new: &Gathered, positions: &[usize]) -> Result<Vec<ArrayRef>> {
        file_columns(self.context, new, self.to.task, positions)
    }

    /// Writes columns of the file, those that are made anew put in.
    fn write(&mut self, mut columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        self.to.made.put_into(&mut columns, rows);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.context.file_schema.clone(), columns, &options)?;
        self.to.writer.write(&batch)?;
        self.written += rows;
        Ok(())
    }
}

/// The columns of an old base file that are read: all but those that are made anew.
fn read_schema(context: &WriteContext) -> SchemaRef {
    let fields = context.file_schema.fields().iter().enumerate();
    let read = fields.filter(|(i, _)| !is_made(context, *i)).map(|(_, f)| f.clone());
    Arc::new(Schema::new(read.collect::<Fields>()))
}

/// Whether a column of the file is made anew for all rows.
fn is_made(context: &WriteContext, column: usize) -> bool {
    if context.populate_meta { MADE.contains(&column) } else { column < META_COLUMNS.len() }
}

fn stored_column<'b>(old: &'b RecordBatch, lookup: &FieldLookup<'_>, field: &FieldRef) -> Result<&'b ArrayRef> {
    let column = lookup.position(field.name()).and_then(|at| old.columns().get(at));
    column.ok_or_else(|| Error::internal(format!("the column '{}' of a base file was not read", field.name())))
}
