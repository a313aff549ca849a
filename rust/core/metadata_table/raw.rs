//! Columns of stored records.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{Int32Type, Int64Type};

use crate::error::{Error, Result};

/// A column that stored records must have.
fn required<'a>(column: Option<&'a ArrayRef>, name: &str) -> Result<&'a ArrayRef> {
    column.ok_or_else(|| Error::corrupt("records of the metadata table lack a column").with("column", name))
}

fn mistyped(name: &str) -> Error {
    Error::corrupt("a column of the metadata table has another type than Hudi gives it").with("column", name)
}

/// The record keys.
pub(super) fn keys(stored: &RecordBatch) -> Result<&StringArray> {
    let column = required(stored.column_by_name("key"), "key")?;
    column.as_string_opt::<i32>().ok_or_else(|| mistyped("key"))
}

/// The column of records of one kind.
pub(super) fn records<'a>(stored: &'a RecordBatch, name: &str) -> Result<&'a StructArray> {
    let records = required(stored.column_by_name(name), name)?.as_struct_opt().ok_or_else(|| mistyped(name))?;
    if records.null_count() > 0 {
        return Err(Error::corrupt("a record of the metadata table is empty").with("column", name));
    }
    Ok(records)
}

/// A nested record of records; `None` if an older schema has no such field.
pub(super) fn nested<'a>(records: &'a StructArray, name: &str) -> Result<Option<&'a StructArray>> {
    let column = records.column_by_name(name);
    column.map(|column| column.as_struct_opt().ok_or_else(|| mistyped(name))).transpose()
}

/// Strings of records.
pub(super) fn strings<'a>(records: &'a StructArray, name: &str) -> Result<&'a StringArray> {
    let column = required(records.column_by_name(name), name)?;
    column.as_string_opt::<i32>().ok_or_else(|| mistyped(name))
}

/// Flags of records; false where an older schema has no such field.
pub(super) fn flags(records: &StructArray, name: &str) -> Result<BooleanArray> {
    match records.column_by_name(name) {
        Some(column) => column.as_boolean_opt().cloned().ok_or_else(|| mistyped(name)),
        None => Ok(std::iter::repeat_n(Some(false), records.len()).collect()),
    }
}

/// Integers of records, of 32 or 64 bits.
pub(super) fn longs<'a>(records: &'a StructArray, name: &str) -> Result<Box<dyn Fn(usize) -> Option<i64> + 'a>> {
    let column = required(records.column_by_name(name), name)?;
    if let Some(values) = column.as_primitive_opt::<Int64Type>() {
        return Ok(Box::new(|row| values.is_valid(row).then(|| values.value(row))));
    }
    let values = column.as_primitive_opt::<Int32Type>().ok_or_else(|| mistyped(name))?;
    Ok(Box::new(|row| values.is_valid(row).then(|| i64::from(values.value(row)))))
}

/// A column of flat rows.
pub(super) fn flat<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    rows.column_by_name(name)
        .ok_or_else(|| Error::internal(format!("rows of the metadata table have no column {name}")))
}
