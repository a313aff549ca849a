//! Incoming rows as columns of a base file.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, new_null_array,
};
use arrow::compute::interleave;

use crate::error::{Error, Result};
use crate::format::field_lookup::FieldLookup;
use crate::merge::{RowRef, nullable};
use crate::table::META_COLUMNS;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::WriteContext;

/// Incoming rows side by side.
pub(in crate::write) struct Gathered {
    pub(in crate::write) data: RecordBatch,
    pub(in crate::write) keys: StringArray,
    pub(in crate::write) deleted: Option<BooleanArray>,
}

/// Collects incoming rows from their batches, in the given order.
pub(in crate::write) fn gather(incoming: &Incoming, rows: &[RowRef], context: &WriteContext) -> Result<Gathered> {
    let mut used: Vec<u32> = rows.iter().map(|r| r.batch).collect();
    used.sort_unstable();
    used.dedup();
    let batches = used.iter().map(|b| incoming.batch(*b)).collect::<Result<Vec<_>>>()?;
    let mut at: Vec<(usize, usize)> = Vec::with_capacity(rows.len());
    for row in rows {
        let batch = used.binary_search(&row.batch);
        let batch = batch.map_err(|_| Error::internal(format!("batch {} is not among those used", row.batch)))?;
        at.push((batch, row.row as usize));
    }
    let keys: Vec<&dyn Array> = batches.iter().map(|b| &b.keys as &dyn Array).collect();
    let keys = if rows.is_empty() { StringArray::from(Vec::<&str>::new()) } else { strings(interleave(&keys, &at)?)? };
    let deleted = batches.iter().any(|b| b.deleted.is_some()).then(|| {
        let mark =
            |(b, row): &(usize, usize)| batches.get(*b).and_then(|b| b.deleted.as_ref()).is_some_and(|d| d.value(*row));
        at.iter().map(|a| Some(mark(a))).collect::<BooleanArray>()
    });
    let by_key_only = batches.iter().all(|b| b.data.num_columns() == 0);
    let wanted = context.data_schema.fields().len();
    if let Some(batch) = batches.iter().find(|b| !by_key_only && b.data.num_columns() < wanted) {
        let columns = batch.data.num_columns();
        return Err(Error::internal(format!("incoming rows have {columns} columns instead of {wanted}")));
    }
    let mut columns = Vec::with_capacity(context.data_schema.fields().len());
    for (i, field) in context.data_schema.fields().iter().enumerate() {
        columns.push(if by_key_only {
            new_null_array(field.data_type(), rows.len())
        } else {
            let parts: Vec<&dyn Array> = batches.iter().map(|b| b.data.column(i).as_ref()).collect();
            interleave(&parts, &at)?
        });
    }
    // Deletes by key have no values, not even where the schema asks for one; none of their rows is written. Rows of some
    // columns lack others until they are merged.
    let schema = match by_key_only || context.given_columns.is_some() || deleted.is_some() {
        false => context.data_schema.clone(),
        true => nullable(&context.data_schema),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(Gathered { data: RecordBatch::try_new_with_options(schema, columns, &options)?, keys, deleted })
}

fn strings(array: ArrayRef) -> Result<StringArray> {
    let found = array.as_any().downcast_ref::<StringArray>().cloned();
    found.ok_or_else(|| Error::schema("record keys are not strings"))
}

/// The columns of a base file for rows that this write makes, those of [`MadeColumns`] left empty; `positions` are the
/// row numbers in the new file.
pub(in crate::write) fn file_columns(
    context: &WriteContext,
    new: &Gathered,
    task: usize,
    positions: &[usize],
) -> Result<Vec<ArrayRef>> {
    let rows = new.keys.len();
    if positions.len() != rows {
        return Err(Error::internal(format!("of {rows} new rows the positions of {} are known", positions.len())));
    }
    let instant = &context.instant;
    let mut numbers = StringBuilder::with_capacity(rows, rows * (instant.len() + 10));
    for position in positions {
        // Writing to a builder does not fail.
        let _ = write!(numbers, "{instant}_{task}_{position}");
        numbers.append_value("");
    }
    let none: ArrayRef = Arc::new(StringArray::new_null(0));
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(context.file_schema.fields().len());
    columns.push(Arc::new(repeated(instant, rows)));
    columns.push(Arc::new(numbers.finish()));
    columns.push(Arc::new(new.keys.clone()));
    columns.push(none.clone());
    columns.push(none);
    let lookup = FieldLookup::new(new.data.schema_ref().fields());
    for field in context.file_schema.fields().iter().skip(columns.len()) {
        let column = lookup.position(field.name()).and_then(|at| new.data.columns().get(at));
        columns.push(column.cloned().ok_or_else(|| Error::schema(format!("column '{}' is missing", field.name())))?);
    }
    Ok(columns)
}

/// Positions of the partition path and the file name among the meta columns.
pub(in crate::write) const MADE: [usize; 2] = [3, 4];

/// The meta columns that have one value in all rows of a file; where a table keeps no meta columns, all of them.
pub(in crate::write) struct MadeColumns {
    populate: bool,
    values: [String; 2],
    /// The longest that were needed so far; shorter ones are cut from them.
    made: [StringArray; 2],
}

impl MadeColumns {
    pub(in crate::write) fn new(context: &WriteContext, partition: &str, file_name: &str) -> Self {
        let none = || StringArray::new_null(0);
        Self {
            populate: context.populate_meta,
            values: [partition.to_owned(), file_name.to_owned()],
            made: [none(), none()],
        }
    }

    /// The partition path (0) or the file name (1), as [`MADE`] counts them.
    pub(in crate::write) fn value(&self, made: usize) -> Option<&str> {
        self.values.get(made).map(String::as_str)
    }

    /// Puts them into the columns of a base file.
    pub(in crate::write) fn put_into(&mut self, columns: &mut [ArrayRef], rows: usize) {
        if !self.populate {
            for column in columns.iter_mut().take(META_COLUMNS.len()) {
                *column = Arc::new(StringArray::new_null(rows));
            }
            return;
        }
        for ((position, value), made) in MADE.iter().zip(&self.values).zip(&mut self.made) {
            if made.len() < rows {
                *made = repeated(value, rows);
            }
            if let Some(column) = columns.get_mut(*position) {
                *column = Arc::new(made.slice(0, rows));
            }
        }
    }
}

fn repeated(value: &str, rows: usize) -> StringArray {
    let mut builder = StringBuilder::with_capacity(rows, rows * value.len());
    for _ in 0..rows {
        builder.append_value(value);
    }
    builder.finish()
}
