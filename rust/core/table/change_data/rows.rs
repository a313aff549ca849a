//! Changes as columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, StructArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::file_group::base::evolve;
use crate::format::change_data::{AFTER, BEFORE, ChangeKind, OP, TS_MS};
use crate::format::field_lookup::FieldLookup;
use crate::merge::nullable;

/// The columns of changes in rows of these columns.
pub(super) fn change_columns(rows: &Schema) -> SchemaRef {
    let row = || DataType::Struct(nullable(rows).fields().clone());
    Arc::new(Schema::new(vec![
        Field::new(OP, DataType::Utf8, false),
        Field::new(TS_MS, DataType::Utf8, false),
        Field::new(BEFORE, row(), true),
        Field::new(AFTER, row(), true),
    ]))
}

/// Makes changes of rows.
#[derive(Debug, Clone)]
pub(super) struct ChangeRows {
    schema: SchemaRef,
    fields: Fields,
}

impl ChangeRows {
    /// Of changes in these columns, which are those of [`change_columns`].
    pub(super) fn new(rows: &Schema) -> Self {
        Self { schema: change_columns(rows), fields: nullable(rows).fields().clone() }
    }

    /// No rows at all.
    pub(super) fn none(&self, rows: usize) -> ArrayRef {
        new_null_array(&DataType::Struct(self.fields.clone()), rows)
    }

    /// Rows of a batch that has their columns among its own, in an order; a row that is null comes out as none.
    ///
    /// # Errors
    /// `Schema` for a column that cannot be read as that of the table.
    pub(super) fn taken(&self, batch: &RecordBatch, rows: &UInt32Array) -> Result<ArrayRef> {
        let lookup = FieldLookup::new(batch.schema_ref().fields());
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let column = lookup.position(field.name()).and_then(|at| batch.columns().get(at));
            columns.push(match column {
                Some(column) => evolve(&take(column, rows, None)?, field.data_type(), field.name())?,
                None => new_null_array(field.data_type(), rows.len()),
            });
        }
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns, rows.nulls().cloned())?))
    }

    /// All rows of a batch.
    ///
    /// # Errors
    /// Those of [`ChangeRows::taken`].
    pub(super) fn all(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = u32::try_from(batch.num_rows()).map_err(|_| Error::internal("a batch of 4 billion rows"))?;
        self.taken(batch, &UInt32Array::from_iter_values(0..rows))
    }

    /// Rows of a change data log, whose columns are those that the table had then.
    ///
    /// # Errors
    /// `Corrupt` for a column of something else than rows; `Schema` for a column that cannot be read as that of the table.
    pub(super) fn logged(&self, rows: &ArrayRef) -> Result<ArrayRef> {
        let logged =
            rows.as_struct_opt().ok_or_else(|| Error::corrupt("a change data log holds no rows of a table"))?;
        let lookup = FieldLookup::new(logged.fields());
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            columns.push(match lookup.position(field.name()).and_then(|at| logged.columns().get(at)) {
                Some(column) => evolve(column, field.data_type(), field.name())?,
                None => new_null_array(field.data_type(), logged.len()),
            });
        }
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns, logged.nulls().cloned())?))
    }

    /// The changes of a commit.
    ///
    /// # Errors
    /// `Internal` for columns of different lengths.
    pub(super) fn changes(
        &self,
        op: ArrayRef,
        instant: &str,
        before: ArrayRef,
        after: ArrayRef,
    ) -> Result<RecordBatch> {
        let instants = StringArray::from_iter_values(std::iter::repeat_n(instant, op.len()));
        Ok(RecordBatch::try_new(self.schema.clone(), vec![op, Arc::new(instants), before, after])?)
    }

    /// Changes of one kind, of all rows of a batch.
    ///
    /// # Errors
    /// Those of [`ChangeRows::all`].
    pub(super) fn of_one_kind(&self, kind: ChangeKind, instant: &str, rows: &RecordBatch) -> Result<RecordBatch> {
        let (image, none) = (self.all(rows)?, self.none(rows.num_rows()));
        let op = StringArray::from_iter_values(std::iter::repeat_n(kind.letter(), rows.num_rows()));
        let (before, after) = if kind == ChangeKind::Delete { (image, none) } else { (none, image) };
        self.changes(Arc::new(op), instant, before, after)
    }
}
