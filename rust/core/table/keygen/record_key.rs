//! Record keys: the string of one column, or `field:value` pairs of several.

use std::fmt::Write;

use arrow::array::StringArray;
use arrow::buffer::NullBuffer;

use super::column_strings::ColumnStrings;
use super::string_builder::KeyStringBuilder;
use crate::error::{Error, Result};

const NULL_PART: &str = "__null__";
const EMPTY_PART: &str = "__empty__";

/// A key column of a batch.
pub(super) struct KeyColumn<'a> {
    pub(super) name: &'a str,
    pub(super) text: ColumnStrings,
    /// Nulls of the structs around it.
    pub(super) parents: Option<NullBuffer>,
}

/// The value of one column; null and empty are refused.
pub(super) fn single(column: &KeyColumn<'_>, rows: usize) -> Result<StringArray> {
    let array = column.text.array();
    let null_row = if array.null_count() > 0 { (0..rows).find(|row| array.is_null(*row)) } else { None };
    let empty_row = (0..null_row.unwrap_or(rows)).find(|row| column.text.is_empty(*row));
    if let Some((row, what)) = empty_row.map(|r| (r, "empty")).or(null_row.map(|r| (r, "null"))) {
        return Err(refused(&format!("the record key {:?} is {what}", column.name), column.name, row));
    }
    if let ColumnStrings::Utf8(text) = &column.text {
        return Ok(text.clone());
    }
    let mut keys = KeyStringBuilder::new(rows, 12);
    for row in 0..rows {
        column.text.write(row, &mut keys).map_err(|_| beyond(column.name, row))?;
        keys.end()?;
    }
    keys.finish()
}

/// `field:value` pairs, joined by commas; fails if all values are null or empty.
pub(super) fn composite(columns: &[KeyColumn<'_>], rows: usize) -> Result<StringArray> {
    let width: usize = columns.iter().map(|c| c.name.len() + 12).sum();
    let mut keys = KeyStringBuilder::new(rows, width);
    for row in 0..rows {
        let mut any = false;
        for (i, column) in columns.iter().enumerate() {
            any |= write_part(column, i == 0, row, &mut keys)?;
        }
        if !any {
            let names: Vec<_> = columns.iter().map(|c| c.name).collect();
            let names = names.join(",");
            return Err(refused(&format!("all parts of the record key {names:?} are null or empty"), &names, row));
        }
        keys.end()?;
    }
    keys.finish()
}

/// Writes one part; whether it has a value.
fn write_part(column: &KeyColumn<'_>, first: bool, row: usize, keys: &mut KeyStringBuilder) -> Result<bool> {
    if column.parents.as_ref().is_some_and(|p| p.is_null(row)) {
        // Hudi calls the field missing then, which it does not forgive in a record key.
        return Err(refused(&format!("the struct around the record key {:?} is null", column.name), column.name, row));
    }
    let head = if first { Ok(()) } else { keys.write_char(',') };
    head.and_then(|()| keys.write_str(column.name))
        .and_then(|()| keys.write_char(':'))
        .map_err(|_| beyond(column.name, row))?;
    let placeholder = match () {
        () if column.text.is_null(row) => Some(NULL_PART),
        () if column.text.is_empty(row) => Some(EMPTY_PART),
        () => None,
    };
    let written = match placeholder {
        Some(text) => keys.write_str(text),
        None => column.text.write(row, keys),
    };
    written.map_err(|_| beyond(column.name, row))?;
    Ok(placeholder.is_none())
}

fn refused(message: &str, column: &str, row: usize) -> Error {
    Error::schema(message)
        .with("column", column)
        .with("row", row)
        .remedy("Fill the column, or drop such rows before writing")
}

pub(super) fn beyond(column: &str, row: usize) -> Error {
    Error::schema("a date or time is beyond the calendar").with("column", column).with("row", row)
}
