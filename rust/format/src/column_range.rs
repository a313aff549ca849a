//! The range of a column in a data file: what the metadata table says of it.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The type of a column, as the statistics of the metadata table name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueType {
    /// No value is known, as of a file that has only deletes.
    Null,
    /// Boolean.
    Boolean,
    /// Integer of 32 bits or less.
    Int,
    /// Integer of 64 bits.
    Long,
    /// Number of 32 bits.
    Float,
    /// Number of 64 bits.
    Double,
    /// UTF-8 string.
    String,
    /// Bytes.
    Bytes,
    /// Bytes of one length.
    Fixed,
    /// Decimal: its digits, and those behind the point.
    Decimal(u8, i8),
    /// UUID.
    Uuid,
    /// Days since 1970.
    Date,
    /// Time of day in milliseconds.
    TimeMillis,
    /// Time of day in microseconds.
    TimeMicros,
    /// Milliseconds since 1970 in UTC.
    TimestampMillis,
    /// Microseconds since 1970 in UTC.
    TimestampMicros,
    /// Nanoseconds since 1970 in UTC.
    TimestampNanos,
    /// Milliseconds since 1970 in no zone.
    LocalTimestampMillis,
    /// Microseconds since 1970 in no zone.
    LocalTimestampMicros,
    /// Nanoseconds since 1970 in no zone.
    LocalTimestampNanos,
}

impl ValueType {
    /// `typeOrdinal`; 0 stands for statistics of the first version.
    pub fn ordinal(self) -> i32 {
        match self {
            Self::Null => 1,
            Self::Boolean => 2,
            Self::Int => 3,
            Self::Long => 4,
            Self::Float => 5,
            Self::Double => 6,
            Self::String => 7,
            Self::Bytes => 8,
            Self::Fixed => 9,
            Self::Decimal(..) => 10,
            Self::Uuid => 11,
            Self::Date => 12,
            Self::TimeMillis => 13,
            Self::TimeMicros => 14,
            Self::TimestampMillis => 15,
            Self::TimestampMicros => 16,
            Self::TimestampNanos => 17,
            Self::LocalTimestampMillis => 18,
            Self::LocalTimestampMicros => 19,
            Self::LocalTimestampNanos => 20,
        }
    }

    /// The type that statistics name like that; `None` for a name that they do not have, and for a decimal without digits.
    /// `info` is `additionalInfo`.
    pub fn named(name: &str, info: Option<&str>) -> Option<Self> {
        Some(match name {
            "NULL" => Self::Null,
            "BOOLEAN" => Self::Boolean,
            "INT" => Self::Int,
            "LONG" => Self::Long,
            "FLOAT" => Self::Float,
            "DOUBLE" => Self::Double,
            "STRING" => Self::String,
            "BYTES" => Self::Bytes,
            "FIXED" => Self::Fixed,
            "DECIMAL" => {
                let (precision, scale) = info?.split_once(',')?;
                Self::Decimal(precision.trim().parse().ok()?, scale.trim().parse().ok()?)
            }
            "UUID" => Self::Uuid,
            "DATE" => Self::Date,
            "TIME_MILLIS" => Self::TimeMillis,
            "TIME_MICROS" => Self::TimeMicros,
            "TIMESTAMP_MILLIS" => Self::TimestampMillis,
            "TIMESTAMP_MICROS" => Self::TimestampMicros,
            "TIMESTAMP_NANOS" => Self::TimestampNanos,
            "LOCAL_TIMESTAMP_MILLIS" => Self::LocalTimestampMillis,
            "LOCAL_TIMESTAMP_MICROS" => Self::LocalTimestampMicros,
            "LOCAL_TIMESTAMP_NANOS" => Self::LocalTimestampNanos,
            _ => return None,
        })
    }

    /// `additionalInfo`.
    pub fn additional_info(self) -> Option<String> {
        match self {
            Self::Decimal(precision, scale) => Some(format!("{precision},{scale}")),
            _ => None,
        }
    }
}

/// A value of a column, as statistics store it: dates and times are the integers that their type counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RangeValue {
    /// Boolean.
    Boolean(bool),
    /// Integer of 32 bits or less, date, or time in milliseconds.
    Int(i32),
    /// Integer of 64 bits, time or timestamp.
    Long(i64),
    /// Number of 32 bits.
    #[serde(with = "float_bits")]
    Float(f32),
    /// Number of 64 bits.
    #[serde(with = "double_bits")]
    Double(f64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// String.
    String(String),
    /// Unscaled value of a decimal.
    #[serde(with = "decimal_digits")]
    Decimal(i128),
}

impl RangeValue {
    /// The order of two values of one type, as Spark compares them: NaN is the largest number. `None` for values of two
    /// types.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Long(a), Self::Long(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())).then_with(|| a.total_cmp(b))
            }
            (Self::Double(a), Self::Double(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())).then_with(|| a.total_cmp(b))
            }
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            _ => return None,
        })
    }
}

/// Numbers cross processes as their bits, since JSON has no NaN.
mod double_bits {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

mod float_bits {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(value: &f32, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        u32::deserialize(from).map(f32::from_bits)
    }
}

/// Decimals cross processes as digits, since numbers of JSON end at 64 bits.
mod decimal_digits {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(value: &i128, to: S) -> Result<S::Ok, S::Error> {
        value.to_string().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i128, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What is known of a column in a file or in a partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnRange {
    /// The column; fields of structs with their path, separated by dots.
    pub column: String,
    /// No value is smaller. `None` if all are null.
    pub min: Option<RangeValue>,
    /// No value is larger. `None` if all are null.
    pub max: Option<RangeValue>,
    /// How many values there are, nulls included.
    pub value_count: i64,
    /// How many of them are null.
    pub null_count: i64,
    /// Compressed bytes of the column in a base file.
    pub total_size: i64,
    /// Bytes of the column in a base file before compression.
    pub total_uncompressed_size: i64,
    /// The type of the values.
    pub value_type: ValueType,
}

/// The ranges of a data file that was written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileRanges {
    /// One for each indexed column of the file that has one.
    pub ranges: Vec<ColumnRange>,
    /// Indexed columns of the file that may hold any value.
    pub unknown: Vec<UnknownRange>,
    /// Rows of the table may have some values of this file and others of another one: of a log file that holds only some
    /// columns, or whose records are merged value by value. A filter of several columns says nothing about one file then.
    pub is_partial: bool,
}

/// A column that may hold any value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownRange {
    /// The column.
    pub column: String,
    /// How many values there are, nulls included.
    pub value_count: i64,
    /// The type of the values, if statistics have one for it.
    pub value_type: Option<ValueType>,
}

/// Those ranges, on their way to the commit: copies of a write stat share them.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedRanges(Arc<FileRanges>);

impl SharedRanges {
    /// The ranges.
    pub fn get(&self) -> &FileRanges {
        &self.0
    }
}

impl From<FileRanges> for SharedRanges {
    fn from(ranges: FileRanges) -> Self {
        Self(Arc::new(ranges))
    }
}

impl Serialize for SharedRanges {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for SharedRanges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        FileRanges::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_cross_processes_as_they_are() {
        let values = [
            RangeValue::Double(f64::NEG_INFINITY),
            RangeValue::Double(-0.0),
            RangeValue::Float(f32::MIN_POSITIVE),
            RangeValue::Decimal(i128::MIN),
            RangeValue::Bytes(vec![0, 255]),
            RangeValue::String("\u{1F600}\"".to_owned()),
            RangeValue::Long(i64::MIN),
        ];
        for value in values {
            let json = serde_json::to_string(&value).unwrap();
            let back: RangeValue = serde_json::from_str(&json).unwrap();
            assert_eq!(format!("{back:?}"), format!("{value:?}"));
        }
        let json = serde_json::to_string(&RangeValue::Double(f64::NAN)).unwrap();
        assert!(matches!(serde_json::from_str(&json).unwrap(), RangeValue::Double(v) if v.is_nan()));
    }

    #[test]
    fn nan_is_the_largest_number() {
        let double = RangeValue::Double;
        assert_eq!(double(f64::NAN).compare(&double(f64::INFINITY)), Some(Ordering::Greater));
        assert_eq!(double(-f64::NAN).compare(&double(f64::NEG_INFINITY)), Some(Ordering::Greater));
        assert_eq!(double(-0.0).compare(&double(0.0)), Some(Ordering::Less));
        assert_eq!(RangeValue::Int(1).compare(&RangeValue::Long(1)), None);
    }
}
