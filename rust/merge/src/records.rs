//! Records side by side: their columns, and what merging knows of each.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, new_empty_array,
};
use arrow::compute::interleave;
use arrow::datatypes::{Schema, SchemaRef};

use super::event_time_ordering::Side;
use super::ordering_values::OrderingValues;
use hoodoo_runtime::error::{Error, Result};

/// The address of a row in a list of batches: batch and row.
pub type RowAddress = (usize, usize);

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

    /// What a comparator has to know of them.
    pub fn side(&self) -> Side<'_> {
        Side { ordering: &self.ordering, deleted: Some(&self.deleted), delete_block: self.delete_block.as_ref() }
    }

    /// Whether there is a row of everything for each record, and a mask for each column.
    ///
    /// # Errors
    /// `Internal` when there is not.
    pub(super) fn check(&self) -> Result<()> {
        let rows = self.len();
        if self.data.num_rows() != rows || self.deleted.len() != rows {
            let (data, deleted) = (self.data.num_rows(), self.deleted.len());
            return Err(Error::internal(format!(
                "records have {rows} keys, but {data} rows and {deleted} delete marks"
            )));
        }
        match &self.present {
            Some(present) if present.len() < self.data.num_columns() => Err(Error::internal(format!(
                "records have {} columns, but say only of {} which records bring them",
                self.data.num_columns(),
                present.len()
            ))),
            _ => Ok(()),
        }
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
    /// `Schema` when the parts have different columns; `Internal` when a part lacks one.
    pub fn gather(schema: &SchemaRef, parts: &[&Self], rows: &[RowAddress]) -> Result<Self> {
        parts.iter().try_for_each(|part| part.check())?;
        let data: Vec<&[ArrayRef]> = parts.iter().map(|p| p.data.columns()).collect();
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
            data: interleave_columns(schema, &data, rows)?,
            ordering: OrderingValues::gather(&ordering, rows)?,
            deleted: mask(&|part, row| part.deleted.value(row)),
            delete_block,
            present,
        })
    }
}

/// Rows of several batches, given by their columns, as one batch.
///
/// # Errors
/// `Internal` when a batch lacks a column.
pub(crate) fn interleave_columns(
    schema: &SchemaRef,
    batches: &[&[ArrayRef]],
    rows: &[RowAddress],
) -> Result<RecordBatch> {
    // Without one of the columns the others would be taken from the wrong batches.
    let wanted = schema.fields().len();
    if let Some(columns) = batches.iter().map(|columns| columns.len()).find(|columns| *columns < wanted) {
        return Err(Error::internal(format!("a batch to be merged has {columns} columns instead of {wanted}")));
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(wanted);
    for (at, field) in schema.fields().iter().enumerate() {
        if rows.is_empty() {
            columns.push(new_empty_array(field.data_type()));
            continue;
        }
        let parts: Vec<&dyn Array> = batches.iter().filter_map(|batch| batch.get(at)).map(AsRef::as_ref).collect();
        columns.push(interleave(&parts, rows)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// [`Records::gather`], looking only at the parts that are used.
pub(super) fn gather_used(schema: &SchemaRef, parts: &[&Records], mut rows: Vec<RowAddress>) -> Result<Records> {
    let used = renumber(&mut rows)?;
    Records::gather(schema, &numbered(parts, &used)?, &rows)
}

/// The elements of these numbers. None may be missing: the others would get its number.
pub(super) fn numbered<T: Copy>(list: &[T], numbers: &[usize]) -> Result<Vec<T>> {
    let of_number = |number: &usize| list.get(*number).copied();
    let found: Option<Vec<T>> = numbers.iter().map(of_number).collect();
    found.ok_or_else(|| {
        Error::internal(format!("parts {numbers:?} are wanted of {} parts of newer records", list.len()))
    })
}

/// Numbers the batches of rows anew, without those that no row is in; gives the old numbers.
pub(super) fn renumber(rows: &mut [RowAddress]) -> Result<Vec<usize>> {
    let mut used: Vec<usize> = rows.iter().map(|(part, _)| *part).collect();
    used.sort_unstable();
    used.dedup();
    for (part, _) in rows.iter_mut() {
        let found = used.binary_search(part);
        *part = found.map_err(|_| Error::internal(format!("part {part} of newer records is not among those used")))?;
    }
    Ok(used)
}

/// The same columns, any of which may be null.
pub fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn text(array: &ArrayRef) -> Result<StringArray> {
    array.as_string_opt::<i32>().cloned().ok_or_else(|| Error::schema("record keys are not strings"))
}

/// What came of pairs of records.
#[derive(Debug)]
pub struct Merged {
    /// A record for each pair.
    pub records: Records,
    /// Pairs of which the older record stays as it is.
    pub unchanged: BooleanArray,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{MergeMode, MergeRule, Step};
    use arrow::array::Int32Array;
    use hoodoo_runtime::error::ErrorKind;

    fn batch(columns: usize, rows: i32) -> RecordBatch {
        let column = |number: usize| {
            let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
            (format!("c{number}"), values)
        };
        RecordBatch::try_from_iter((0..columns).map(column)).unwrap()
    }

    fn records(rows: i32) -> Records {
        Records {
            keys: StringArray::from_iter_values((0..rows).map(|row| row.to_string())),
            data: batch(2, rows),
            ordering: OrderingValues::default(),
            deleted: BooleanArray::from(vec![false; rows as usize]),
            delete_block: None,
            present: None,
        }
    }

    fn is_internal<T>(result: Result<T>) -> bool {
        result.is_err_and(|e| e.kind() == ErrorKind::Internal)
    }

    #[test]
    fn a_batch_without_a_column_does_not_take_that_of_the_next() {
        let (whole, narrow) = (batch(2, 1), batch(1, 1));
        let rows = [(0, 0), (1, 0)];
        let (schema, whole, narrow) = (whole.schema(), whole.columns(), narrow.columns());
        assert!(interleave_columns(&schema, &[whole, whole], &rows).is_ok());
        assert!(is_internal(interleave_columns(&schema, &[narrow, whole], &rows)));
    }

    #[test]
    fn records_that_do_not_fit_together_are_not_gathered() {
        let (good, schema, rows) = (records(2), records(2).data.schema(), [(0, 0), (0, 1)]);
        assert_eq!(Records::gather(&schema, &[&good], &rows).unwrap().len(), 2);
        let deleted = BooleanArray::from(vec![false]);
        assert!(is_internal(Records::gather(&schema, &[&Records { deleted, ..good.clone() }], &rows)));
        let present = Some(vec![BooleanArray::from(vec![true; 2])]);
        assert!(is_internal(Records::gather(&schema, &[&Records { present, ..good }], &rows)));
    }

    #[test]
    fn records_that_are_no_pairs_are_not_merged() {
        let rule = MergeRule::Pick(MergeMode::CommitTime);
        assert!(rule.merge(Step::Final, &records(2), &records(2)).is_ok());
        assert!(is_internal(rule.merge(Step::Final, &records(2), &records(3))));
    }

    #[test]
    fn parts_with_different_ordering_columns_are_not_gathered() {
        let ordered = OrderingValues::try_new(vec![Arc::new(Int32Array::from(vec![1]))]).unwrap();
        let none = OrderingValues::default();
        assert!(OrderingValues::gather(&[&none, &ordered], &[(0, 0), (1, 0)]).is_err());
        assert!(OrderingValues::gather(&[&none, &none], &[(0, 0), (1, 0)]).is_ok());
    }
}
