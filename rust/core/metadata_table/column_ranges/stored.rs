//! Ranges as the metadata table has them, from flat rows of `column_stats` and `partition_stats`.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};

use super::indexed::V1_DECIMAL_SCALE;
use crate::error::{Error, Result};
use crate::format::column_range::{ColumnRange, RangeValue, ValueType};
use crate::metadata_table::raw;

/// Digits of decimals in statistics of the first version, which have no types.
const V1_DECIMAL_DIGITS: u8 = 30;

/// Passes the key and the range of each row to `each`. The range is `None` where it is not known what the row says.
///
/// # Errors
/// `Internal` for rows that are no such statistics.
pub(crate) fn each_stored_range(rows: &RecordBatch, each: &mut dyn FnMut(&str, Option<ColumnRange>)) -> Result<()> {
    let mistyped = || Error::internal("rows of statistics have other types");
    let strings = |name: &str| raw::flat(rows, name)?.as_string_opt::<i32>().ok_or_else(mistyped);
    let longs = |name: &str| raw::flat(rows, name)?.as_primitive_opt::<Int64Type>().ok_or_else(mistyped);
    let doubles = |name: &str| raw::flat(rows, name)?.as_primitive_opt::<Float64Type>().ok_or_else(mistyped);
    let (keys, columns, types, infos) =
        (strings("key")?, strings("column_name")?, strings("value_type")?, strings("type_info")?);
    let counts = [longs("value_count")?, longs("null_count")?, longs("total_size")?, longs("total_uncompressed_size")?];
    let bounds = |name: &str| {
        let (long, double) = (longs(&format!("{name}_long"))?, doubles(&format!("{name}_double"))?);
        let string = strings(name)?;
        Ok::<_, Error>(move |row: usize| Bound {
            long: long.is_valid(row).then(|| long.value(row)),
            double: double.is_valid(row).then(|| double.value(row)),
            string: string.is_valid(row).then(|| string.value(row)),
        })
    };
    let (min, max) = (bounds("min")?, bounds("max")?);
    for row in 0..rows.num_rows() {
        let [value_count, null_count, total_size, total_uncompressed_size] =
            counts.map(|counts| if counts.is_valid(row) { counts.value(row) } else { 0 });
        let name = types.is_valid(row).then(|| types.value(row));
        let info = infos.is_valid(row).then(|| infos.value(row));
        let range = || {
            let value_type = match (name, info) {
                (None, _) => ValueType::Null,
                (Some("DECIMAL"), None) => {
                    ValueType::Decimal(V1_DECIMAL_DIGITS, i8::try_from(V1_DECIMAL_SCALE).unwrap_or(0))
                }
                (Some(name), info) => ValueType::named(name, info)?,
            };
            let value = |bound: Bound<'_>| match bound.string {
                None => Some(None),
                Some(_) => bound.value(value_type).map(Some),
            };
            let column = columns.is_valid(row).then(|| columns.value(row).to_owned())?;
            let (min, max) = (value(min(row))?, value(max(row))?);
            Some(ColumnRange {
                column,
                min,
                max,
                value_count,
                null_count,
                total_size,
                total_uncompressed_size,
                value_type,
            })
        };
        each(keys.value(row), range());
    }
    Ok(())
}

/// A bound of a row, in the columns that may have it.
struct Bound<'a> {
    long: Option<i64>,
    double: Option<f64>,
    string: Option<&'a str>,
}

impl Bound<'_> {
    /// The value; `None` if it is none of the type.
    fn value(&self, value_type: ValueType) -> Option<RangeValue> {
        use ValueType as T;
        Some(match value_type {
            T::Null | T::Uuid => return None,
            T::Boolean => RangeValue::Boolean(self.long? != 0),
            T::Int | T::Date | T::TimeMillis => RangeValue::Int(i32::try_from(self.long?).ok()?),
            T::Long
            | T::TimeMicros
            | T::TimestampMillis
            | T::TimestampMicros
            | T::TimestampNanos
            | T::LocalTimestampMillis
            | T::LocalTimestampMicros
            | T::LocalTimestampNanos => RangeValue::Long(self.long?),
            // Stored with 64 bits in a flat row, of a value that had 32.
            #[allow(clippy::cast_possible_truncation)]
            T::Float => RangeValue::Float(self.double? as f32),
            T::Double => RangeValue::Double(self.double?),
            T::String => RangeValue::String(self.string?.to_owned()),
            T::Bytes | T::Fixed => RangeValue::Bytes(unhex(self.string?)?),
            T::Decimal(_, scale) => RangeValue::Decimal(unscaled(self.string?, scale)?),
        })
    }
}

/// The bytes of hexadecimal digits behind `0x`.
fn unhex(string: &str) -> Option<Vec<u8>> {
    let digits = string.strip_prefix("0x")?.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The digits of a decimal that has so many behind the point.
fn unscaled(string: &str, scale: i8) -> Option<i128> {
    let behind = string.split_once('.').map_or(0, |(_, behind)| behind.len());
    (i8::try_from(behind) == Ok(scale.max(0))).then(|| string.replacen('.', "", 1).parse().ok()).flatten()
}
