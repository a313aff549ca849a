//! Keys of rows without a key generator.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::DataType;

use crate::error::{Error, Result};

/// The columns of a key.
pub(super) struct KeyColumns {
    names: Vec<String>,
}

impl KeyColumns {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self { names }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// A string for each row; two are equal exactly if their keys are.
    pub(super) fn of(&self, batch: &RecordBatch) -> Result<StringArray> {
        let mut strings = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let column = batch.column_by_name(name);
            let column = column.ok_or_else(|| Error::schema(format!("the key column '{name}' is missing")))?;
            if column.null_count() > 0 {
                return Err(Error::schema(format!("the key column '{name}' holds a null")).with("column", name));
            }
            if column.data_type().is_nested() {
                return Err(Error::schema(format!(
                    "the column '{name}' of type {} cannot be a key",
                    column.data_type()
                ))
                .with("column", name));
            }
            let text = match column.data_type() {
                DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) | DataType::BinaryView => {
                    hex(&arrow_cast::cast(column, &DataType::LargeBinary)?)
                }
                _ => arrow_cast::cast(column, &DataType::Utf8)?.as_string::<i32>().clone(),
            };
            strings.push(text);
        }
        if let [only] = strings.as_slice() {
            return Ok(only.clone());
        }
        let mut joined = StringBuilder::with_capacity(batch.num_rows(), batch.num_rows() * 16 * strings.len());
        for row in 0..batch.num_rows() {
            for text in &strings {
                let value = text.value(row);
                // The length keeps ("a", "bc") and ("ab", "c") apart. Writing to a builder does not fail.
                let _ = write!(joined, "{}:{value}", value.len());
            }
            joined.append_value("");
        }
        Ok(joined.finish())
    }
}

fn hex(column: &dyn Array) -> StringArray {
    let mut out = StringBuilder::new();
    for value in column.as_binary::<i64>().iter().flatten() {
        for byte in value {
            let _ = write!(out, "{byte:02x}");
        }
        out.append_value("");
    }
    out.finish()
}
