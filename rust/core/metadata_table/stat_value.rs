//! Min and max of column statistics: Avro unions of one record a type, each with the value in it.

use arrow::array::{Array, ArrayRef, AsArray, UnionArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta};

use crate::error::{Error, Result};

/// Names of `valueType.typeOrdinal`, in its order.
const TYPES: [&str; 21] = [
    "V1",
    "NULL",
    "BOOLEAN",
    "INT",
    "LONG",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "BYTES",
    "FIXED",
    "DECIMAL",
    "UUID",
    "DATE",
    "TIME_MILLIS",
    "TIME_MICROS",
    "TIMESTAMP_MILLIS",
    "TIMESTAMP_MICROS",
    "TIMESTAMP_NANOS",
    "LOCAL_TIMESTAMP_MILLIS",
    "LOCAL_TIMESTAMP_MICROS",
    "LOCAL_TIMESTAMP_NANOS",
];

/// The name of a type; `None` for the ordinal that marks statistics of the first version, which have no type.
pub(super) fn type_name(ordinal: i64) -> Option<&'static str> {
    usize::try_from(ordinal).ok().filter(|ordinal| *ordinal > 0).and_then(|ordinal| TYPES.get(ordinal).copied())
}

/// A value as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatValue<'a> {
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bytes(&'a [u8]),
    String(&'a str),
    Date(i32),
    Decimal(i128, i8),
    Time(i64),
    Timestamp(i64),
    /// Values of several columns, which no column of a table has.
    Several,
}

impl StatValue<'_> {
    /// The type that the record around the value tells.
    pub(super) fn wrapper_type(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "BOOLEAN",
            Self::Int(_) => "INT",
            Self::Long(_) => "LONG",
            Self::Float(_) => "FLOAT",
            Self::Double(_) => "DOUBLE",
            Self::Bytes(_) => "BYTES",
            Self::String(_) => "STRING",
            Self::Date(_) => "DATE",
            Self::Decimal(..) => "DECIMAL",
            Self::Time(_) => "TIME_MICROS",
            Self::Timestamp(_) => "TIMESTAMP_MICROS",
            Self::Several => "ARRAY",
        }
    }

    /// The value where it is an integer: booleans are 0 and 1, dates days, and times what their type counts.
    pub(super) fn long(&self) -> Option<i64> {
        match self {
            Self::Boolean(value) => Some(i64::from(*value)),
            Self::Int(value) | Self::Date(value) => Some(i64::from(*value)),
            Self::Long(value) | Self::Time(value) | Self::Timestamp(value) => Some(*value),
            _ => None,
        }
    }

    /// The value where it is a floating-point number.
    pub(super) fn double(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(f64::from(*value)),
            Self::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a string, in the form of its column's type.
    pub(super) fn render(&self, value_type: &str, scale: Option<i8>) -> String {
        let number = self.long();
        match (value_type, self, number) {
            ("DATE", _, Some(days)) => date(days),
            ("TIME_MILLIS", _, Some(ms)) => time(ms.saturating_mul(1000)),
            ("TIME_MICROS", _, Some(us)) => time(us),
            ("TIMESTAMP_MILLIS", _, Some(ms)) => timestamp(ms.saturating_mul(1000), "Z"),
            ("TIMESTAMP_MICROS", _, Some(us)) => timestamp(us, "Z"),
            ("LOCAL_TIMESTAMP_MILLIS", _, Some(ms)) => timestamp(ms.saturating_mul(1000), ""),
            ("LOCAL_TIMESTAMP_MICROS", _, Some(us)) => timestamp(us, ""),
            ("DECIMAL", Self::Bytes(bytes), _) => match (unscaled(bytes), scale) {
                (Some(value), Some(scale)) => decimal(value, scale),
                _ => hex(bytes),
            },
            (_, Self::Boolean(value), _) => value.to_string(),
            (_, Self::Float(value), _) => value.to_string(),
            (_, Self::Double(value), _) => value.to_string(),
            (_, Self::String(value), _) => (*value).to_owned(),
            (_, Self::Bytes(bytes), _) => hex(bytes),
            (_, Self::Decimal(value, scale), _) => decimal(*value, *scale),
            (_, Self::Several, _) => String::new(),
            (_, _, Some(number)) => number.to_string(),
            _ => String::new(),
        }
    }
}

/// The integer of big-endian bytes, as decimals have it.
fn unscaled(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first()? & 0x80 != 0;
    let mut whole = [if negative { 0xff } else { 0 }; 16];
    let start = whole.len().checked_sub(bytes.len())?;
    whole.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

fn decimal(unscaled: i128, scale: i8) -> String {
    let Some(scale) = usize::try_from(scale).ok().filter(|scale| *scale > 0) else { return unscaled.to_string() };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if unscaled < 0 { "-" } else { "" })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold("0x".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn date(days: i64) -> String {
    let since = TimeDelta::try_days(days).and_then(|days| NaiveDate::default().checked_add_signed(days));
    since.map_or_else(|| days.to_string(), |date| date.to_string())
}

fn time(micros: i64) -> String {
    let seconds = u32::try_from(micros.div_euclid(1_000_000)).ok();
    let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1000).ok();
    let time = seconds.zip(nanos).and_then(|(s, n)| NaiveTime::from_num_seconds_from_midnight_opt(s, n));
    time.map_or_else(|| micros.to_string(), |time| time.to_string())
}

fn timestamp(micros: i64, zone: &str) -> String {
    DateTime::from_timestamp_micros(micros)
        .map_or_else(|| micros.to_string(), |at| format!("{}{zone}", at.naive_utc().format("%Y-%m-%dT%H:%M:%S%.f")))
}

/// A column of such values.
pub(super) struct StatValues<'a> {
    union: &'a UnionArray,
    /// The values in the records of each branch, by type id.
    branches: Vec<Option<Branch<'a>>>,
}

/// One type of the union. Dates and timestamps are plain integers, in records that say what they are.
#[derive(Clone, Copy)]
struct Branch<'a> {
    values: &'a ArrayRef,
    is_date: bool,
    is_timestamp: bool,
}

impl<'a> StatValues<'a> {
    pub(super) fn new(column: Option<&'a ArrayRef>, name: &str) -> Result<Self> {
        let mistyped =
            || Error::corrupt("min and max of column statistics are not stored as Hudi does").with("column", name);
        let union = column.and_then(|column| column.as_union_opt()).ok_or_else(mistyped)?;
        let DataType::Union(fields, _) = union.data_type() else { return Err(mistyped()) };
        let mut branches = vec![None; 128];
        for (id, field) in fields.iter() {
            let values = union.child(id).as_struct_opt().and_then(|record| record.columns().first());
            let (is_date, is_timestamp) =
                (field.name().ends_with("DateWrapper"), field.name().ends_with("TimestampMicrosWrapper"));
            if let Some(branch) = usize::try_from(id).ok().and_then(|id| branches.get_mut(id)) {
                *branch = values.map(|values| Branch { values, is_date, is_timestamp });
            }
        }
        Ok(Self { union, branches })
    }

    /// The value of a row; `None` if it is null.
    pub(super) fn get(&self, row: usize) -> Result<Option<StatValue<'a>>> {
        let branch =
            usize::try_from(self.union.type_id(row)).ok().and_then(|id| self.branches.get(id).copied().flatten());
        let Some(Branch { values, is_date, is_timestamp }) = branch else { return Ok(None) };
        let at = self.union.value_offset(row);
        if at >= values.len() || values.is_null(at) {
            return Ok(None);
        }
        let value = match values.data_type() {
            DataType::Boolean => values.as_boolean_opt().map(|v| StatValue::Boolean(v.value(at))),
            DataType::Int32 => values.as_primitive_opt::<Int32Type>().map(|v| match is_date {
                true => StatValue::Date(v.value(at)),
                false => StatValue::Int(v.value(at)),
            }),
            DataType::Int64 => values.as_primitive_opt::<Int64Type>().map(|v| match is_timestamp {
                true => StatValue::Timestamp(v.value(at)),
                false => StatValue::Long(v.value(at)),
            }),
            DataType::Float32 => values.as_primitive_opt::<Float32Type>().map(|v| StatValue::Float(v.value(at))),
            DataType::Float64 => values.as_primitive_opt::<Float64Type>().map(|v| StatValue::Double(v.value(at))),
            DataType::Binary => values.as_binary_opt::<i32>().map(|v| StatValue::Bytes(v.value(at))),
            DataType::Utf8 => values.as_string_opt::<i32>().map(|v| StatValue::String(v.value(at))),
            DataType::Date32 => values.as_primitive_opt::<Date32Type>().map(|v| StatValue::Date(v.value(at))),
            DataType::Decimal128(_, scale) => {
                values.as_primitive_opt::<Decimal128Type>().map(|v| StatValue::Decimal(v.value(at), *scale))
            }
            DataType::Time64(_) => {
                values.as_primitive_opt::<Time64MicrosecondType>().map(|v| StatValue::Time(v.value(at)))
            }
            DataType::Timestamp(..) => {
                values.as_primitive_opt::<TimestampMicrosecondType>().map(|v| StatValue::Timestamp(v.value(at)))
            }
            DataType::List(_) => Some(StatValue::Several),
            _ => None,
        };
        value.map(Some).ok_or_else(|| {
            Error::corrupt(format!("column statistics with values of the type {} are not Hudi's", values.data_type()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_strings_of_their_columns_type() {
        for (value, value_type, scale, text) in [
            (StatValue::Int(19_000), "DATE", None, "2022-01-08"),
            (StatValue::Date(-1), "DATE", None, "1969-12-31"),
            (StatValue::Long(1_500), "TIMESTAMP_MILLIS", None, "1970-01-01T00:00:01.500Z"),
            (StatValue::Long(-1), "LOCAL_TIMESTAMP_MICROS", None, "1969-12-31T23:59:59.999999"),
            (StatValue::Long(i64::MAX), "TIMESTAMP_MICROS", None, "9223372036854775807"),
            (StatValue::Bytes(&[0xff]), "DECIMAL", Some(2), "-0.01"),
            (StatValue::Bytes(&[0x04, 0xd2]), "DECIMAL", Some(2), "12.34"),
            (StatValue::Bytes(&[0x04, 0xd2]), "DECIMAL", None, "0x04d2"),
            (StatValue::Bytes(&[1, 255]), "BYTES", None, "0x01ff"),
            (StatValue::String("x"), "STRING", None, "x"),
            (StatValue::Decimal(15, 1), "DECIMAL", None, "1.5"),
            (StatValue::Boolean(true), "BOOLEAN", None, "true"),
            (StatValue::Double(1.5), "DOUBLE", None, "1.5"),
            (StatValue::Int(3_600_000), "TIME_MILLIS", None, "01:00:00"),
        ] {
            assert_eq!(value.render(value_type, scale), text, "{value:?} as {value_type}");
        }
    }

    #[test]
    fn ordinals_have_names() {
        assert_eq!(
            (type_name(0), type_name(1), type_name(20), type_name(21)),
            (None, Some("NULL"), Some("LOCAL_TIMESTAMP_NANOS"), None)
        );
        assert_eq!(type_name(-1), None);
    }
}
