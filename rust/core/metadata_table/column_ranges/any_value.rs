//! Ranges of columns that may hold any value.
//!
//! Hudi's readers skip a partition whose record of a column is missing, deleted or without bounds, if other partitions
//! have one; and a file with records of some columns, if a filter is about another one too. A range of all values is the
//! only form that is never skipped. It also stays one when it is merged with others.

use crate::format::column_range::{ColumnRange, RangeValue, UnknownRange, ValueType};

/// Days and microseconds since 1970 of the years 1 to 9999: Spark has no others, and cannot compute with some of them.
const DAYS: (i32, i32) = (-719_162, 2_932_896);
const MICROS: (i64, i64) = (-62_135_596_800_000_000, 253_402_300_799_999_999);
/// Letters of the largest string, of which no real one has so many at its beginning.
const LARGEST_LETTERS: usize = 16;

/// A column that may hold anything: nulls, and values.
pub(crate) fn any_value(unknown: &UnknownRange) -> ColumnRange {
    let value_type = unknown.value_type.unwrap_or(ValueType::Null);
    let (min, max) = all_values(value_type).unzip();
    let value_count = unknown.value_count.max(2);
    ColumnRange { min, max, value_count, null_count: 1, ..super::empty_range(&unknown.column, value_type) }
}

/// The smallest and the largest value of a type.
pub(super) fn all_values(value_type: ValueType) -> Option<(RangeValue, RangeValue)> {
    use RangeValue as V;
    Some(match value_type {
        ValueType::Null | ValueType::Uuid => return None,
        ValueType::Boolean => (V::Boolean(false), V::Boolean(true)),
        ValueType::Date => (V::Int(DAYS.0), V::Int(DAYS.1)),
        ValueType::TimeMillis => (V::Int(0), V::Int(86_399_999)),
        ValueType::TimeMicros => (V::Long(0), V::Long(86_399_999_999)),
        ValueType::Int => (V::Int(i32::MIN), V::Int(i32::MAX)),
        ValueType::TimestampMillis | ValueType::LocalTimestampMillis => {
            (V::Long(MICROS.0 / 1000), V::Long(MICROS.1 / 1000))
        }
        ValueType::TimestampMicros | ValueType::LocalTimestampMicros => (V::Long(MICROS.0), V::Long(MICROS.1)),
        ValueType::Long | ValueType::TimestampNanos | ValueType::LocalTimestampNanos => {
            (V::Long(i64::MIN), V::Long(i64::MAX))
        }
        ValueType::Float => (V::Float(f32::NEG_INFINITY), V::Float(f32::INFINITY)),
        ValueType::Double => (V::Double(f64::NEG_INFINITY), V::Double(f64::INFINITY)),
        ValueType::String => (V::String(String::new()), V::String("\u{10FFFF}".repeat(LARGEST_LETTERS))),
        ValueType::Bytes | ValueType::Fixed => (V::Bytes(Vec::new()), V::Bytes(vec![0xff; 4 * LARGEST_LETTERS])),
        ValueType::Decimal(precision, _) => {
            let largest = 10i128.checked_pow(precision.into()).map_or(i128::MAX, |power| power - 1);
            (V::Decimal(-largest), V::Decimal(largest))
        }
    })
}
