//! Keys of rows without a key generator.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray, StringBuilder};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::DataType;

use crate::error::{Error, Result};

/// Bytes of a packed integer: seven bits in each.
const PACKED: usize = 10;

/// The columns of a key.
pub(super) struct KeyColumns {
    names: Vec<String>,
    /// Whether keys of integers are packed, and not digits: nobody but us looks at them.
    packs: bool,
}

impl KeyColumns {
    pub(super) fn new(names: Vec<String>, packs: bool) -> Self {
        Self { names, packs }
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
                kind if self.packs && kind.is_integer() && *kind != DataType::UInt64 => {
                    packed(arrow_cast::cast(column, &DataType::Int64)?.as_primitive())?
                }
                // The same instant is the same key in any zone; names of zones are not known here.
                DataType::Timestamp(unit, Some(_)) => {
                    let utc = arrow_cast::cast(column, &DataType::Timestamp(*unit, Some("+00:00".into())))?;
                    arrow_cast::cast(&utc, &DataType::Utf8)?.as_string::<i32>().clone()
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

/// A string of ASCII characters for each integer, at the cost of a copy: writing digits takes longer than the merge.
fn packed(column: &Int64Array) -> Result<StringArray> {
    let mut bytes = Vec::with_capacity(column.len() * PACKED);
    for value in column.values() {
        let value = value.cast_unsigned();
        bytes.extend((0..PACKED).map(|group| (value >> (7 * group)) as u8 & 0x7f));
    }
    let offsets = OffsetBuffer::from_repeated_length(PACKED, column.len());
    Ok(StringArray::try_new(offsets, Buffer::from_vec(bytes), None)?)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn packed_integers_are_equal_where_the_integers_are() {
        let values = [0, 1, -1, 127, 128, i64::MIN, i64::MAX, 1 << 40, -(1 << 40)];
        let keys = packed(&Int64Array::from(values.to_vec())).unwrap();
        assert_eq!(keys.len(), values.len());
        for (a, one) in values.iter().enumerate() {
            for (b, other) in values.iter().enumerate() {
                assert_eq!(keys.value(a) == keys.value(b), one == other);
            }
        }
        assert_eq!(packed(&Int64Array::from(Vec::<i64>::new())).unwrap().len(), 0);
    }
}
