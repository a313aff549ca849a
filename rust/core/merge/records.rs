//! Records side by side: their columns, and what merging knows of each.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, new_empty_array,
};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;

use super::judge::Side;
use super::ordering::OrderingValues;
use crate::error::{Error, Result};

/// A row of a list of batches: batch and row.
pub type Place = (usize, usize);

/// Records of one schema.
#[derive(Debug, Clone)]
pub struct Records {
    /// Record keys.
    pub keys: StringArray,
    /// Columns. Those of a record that only deletes may be null, whatever the schema says.
    pub data: RecordBatch,
    /// Ordering values.
    pub ordering: OrderingValues,
    /// Which records are deletes; none is null.
    pub deleted: BooleanArray,
    /// Which of them come from a delete block. `None`: none of them.
    pub delete_block: Option<BooleanArray>,
    /// For each column, which records bring it, when some bring only some columns. `None`: all bring all.
    pub present: Option<Vec<BooleanArray>>,
}

impl Records {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// What a judge has to know of them.
    pub fn side(&self) -> Side<'_> {
        Side { ordering: &self.ordering, deleted: Some(&self.deleted), delete_block: self.delete_block.as_ref() }
    }

    /// Some of the records.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        let cut = |mask: &BooleanArray| mask.slice(offset, length);
        Self {
            keys: self.keys.slice(offset, length),
            data: self.data.slice(offset, length),
            ordering: self.ordering.slice(offset, length),
            deleted: cut(&self.deleted),
            delete_block: self.delete_block.as_ref().map(cut),
            present: self.present.as_ref().map(|columns| columns.iter().map(cut).collect()),
        }
    }

    /// Records of several parts of one schema, as one.
    ///
    /// # Errors
    /// `Schema` when the parts have different columns.
    pub fn gather(schema: &SchemaRef, parts: &[&Self], rows: &[Place]) -> Result<Self> {
        let data: Vec<&RecordBatch> = parts.iter().map(|p| &p.data).collect();
        let ordering: Vec<&OrderingValues> = parts.iter().map(|p| &p.ordering).collect();
        let keys: Vec<&dyn Array> = parts.iter().map(|p| &p.keys as &dyn Array).collect();
        let keys = if rows.is_empty() { StringArray::new_null(0) } else { text(&interleave(&keys, rows)?)? };
        let mask = |of: &dyn Fn(&Self, usize) -> bool| -> BooleanArray {
            rows.iter().map(|(part, row)| Some(parts.get(*part).is_some_and(|p| of(p, *row)))).collect()
        };
        let delete_block = parts
            .iter()
            .any(|p| p.delete_block.is_some())
            .then(|| mask(&|part, row| part.delete_block.as_ref().is_some_and(|d| d.value(row))));
        let present = parts.iter().any(|p| p.present.is_some()).then(|| {
            let column = |c: usize| {
                mask(&|part, row| part.present.as_ref().and_then(|p| p.get(c)).is_none_or(|has| has.value(row)))
            };
            (0..schema.fields().len()).map(column).collect()
        });
        Ok(Self {
            keys,
            data: interleave_batches(schema, &data, rows)?,
            ordering: OrderingValues::gather(&ordering, rows)?,
            deleted: mask(&|part, row| part.deleted.value(row)),
            delete_block,
            present,
        })
    }
}

/// Rows of several batches as one.
pub fn interleave_batches(schema: &SchemaRef, batches: &[&RecordBatch], rows: &[Place]) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        if rows.is_empty() {
            columns.push(new_empty_array(field.data_type()));
            continue;
        }
        let parts: Vec<&dyn Array> = batches.iter().filter_map(|b| b.columns().get(at)).map(AsRef::as_ref).collect();
        columns.push(interleave(&parts, rows)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

fn text(array: &ArrayRef) -> Result<StringArray> {
    array.as_string_opt::<i32>().cloned().ok_or_else(|| Error::schema("record keys are not strings"))
}
