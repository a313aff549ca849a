//! Batches brought to the columns that a write reads, which become wider when a value needs it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::table::keygen::KeyGenConfig;
use crate::table::{Cast, Evolution, cast_column, lossy_cast};

const SPELLED_OTHERWISE: &str = "Cast the values: keys and partitions of stored rows would be spelled otherwise";

/// Brings batches to columns.
pub(in crate::write) struct Conformer {
    read: SchemaRef,
    /// The same columns as wide as they may become; none: they stay.
    wide: Option<SchemaRef>,
    widened: Vec<String>,
    keys: KeyGenConfig,
    rows_given: usize,
}

impl Conformer {
    /// One for these columns.
    pub(in crate::write) fn new(read: SchemaRef, keys: KeyGenConfig) -> Self {
        Self { read, wide: None, widened: Vec::new(), keys, rows_given: 0 }
    }

    /// Lets columns take these types when a value needs it.
    pub(in crate::write) fn widen_to(&mut self, wide: SchemaRef) {
        self.wide = Some(wide);
    }

    /// Columns whose values needed a wider type.
    pub(in crate::write) fn widened(&self) -> &[String] {
        &self.widened
    }

    /// The columns as they are now.
    pub(in crate::write) fn schema(&self) -> &SchemaRef {
        &self.read
    }

    /// Brings a batch to the columns; and whether some of them became wider for it.
    pub(in crate::write) fn conform(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, bool)> {
        let before = self.widened.len();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.read.fields().len());
        while let Some(field) = self.read.fields().get(columns.len()).cloned() {
            let column = batch.column_by_name(field.name()).cloned();
            let column = column.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()));
            match cast_column(&column, &field)? {
                Cast::Lossless(column) => columns.push(column),
                // Looked at again by its wider type.
                Cast::Lossy(row) => {
                    self.widen(columns.len(), lossy_cast(&column, &field, row, self.rows_given))?;
                }
            }
        }
        self.rows_given += batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.read.clone(), columns, &options)?;
        Ok((batch, self.widened.len() > before))
    }

    /// Takes the wider type of a column.
    fn widen(&mut self, number: usize, lossy: Error) -> Result<()> {
        let narrow = self.read.fields().get(number);
        let wide = self.wide.as_ref().and_then(|wide| wide.fields().get(number));
        let (Some(narrow), Some(wide)) = (narrow, wide) else { return Err(lossy) };
        if narrow == wide {
            return Err(lossy);
        }
        let name = wide.name().clone();
        if is_identity(&self.keys, &name) && !keeps_text(narrow.data_type(), wide.data_type()) {
            return Err(lossy.remedy(SPELLED_OTHERWISE));
        }
        let fields = self.read.fields().iter().enumerate();
        let fields = fields.map(|(n, field)| if n == number { wide.clone() } else { field.clone() });
        self.read = Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()));
        self.widened.push(name);
        Ok(())
    }
}

/// Refuses columns of keys and partitions that would become wider by another spelling of their values.
pub(in crate::write) fn check_identity(keys: &KeyGenConfig, evolution: &Evolution, widened: &[String]) -> Result<()> {
    for (narrow, wide) in evolution.narrow.fields().iter().zip(evolution.wide.fields()) {
        let name = narrow.name();
        let is_widened = widened.contains(name) && is_identity(keys, name);
        if is_widened && !keeps_text(narrow.data_type(), wide.data_type()) {
            let (from, to) = (narrow.data_type(), wide.data_type());
            return Err(Error::schema(format!("column '{name}': values of type {to} do not fit {from}"))
                .with("column", name)
                .remedy(SPELLED_OTHERWISE));
        }
    }
    Ok(())
}

fn is_identity(keys: &KeyGenConfig, column: &str) -> bool {
    let partition = keys.partition_fields.iter().map(|f| &f.name);
    keys.record_key_fields.iter().chain(partition).any(|name| top_level(name) == column)
}

/// The column that a field is in.
pub(in crate::write) fn top_level(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Whether values of a type have the same text in a wider one.
fn keeps_text(narrow: &DataType, wide: &DataType) -> bool {
    narrow == wide
        || (matches!(narrow, DataType::Int32 | DataType::Int64) && matches!(wide, DataType::Int64 | DataType::Utf8))
}
