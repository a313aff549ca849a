//! Types of columns, as statistics name them.

use arrow::datatypes::{DataType, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetUnit, Type as Physical};
use parquet::schema::types::ColumnDescriptor;

use crate::format::column_range::ValueType;

/// The type of a column of a base file; `None` if statistics have none for it.
pub(super) fn of_leaf(leaf: &ColumnDescriptor) -> Option<ValueType> {
    if let Some(logical) = leaf.logical_type_ref() {
        return of_logical(leaf, logical);
    }
    Some(match (leaf.converted_type(), leaf.physical_type()) {
        (ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON, Physical::BYTE_ARRAY) => ValueType::String,
        (ConvertedType::DECIMAL, _) => return decimal(leaf.type_precision(), leaf.type_scale()),
        (ConvertedType::DATE, _) => ValueType::Date,
        (ConvertedType::TIME_MILLIS, _) => ValueType::TimeMillis,
        (ConvertedType::TIME_MICROS, _) => ValueType::TimeMicros,
        (ConvertedType::TIMESTAMP_MILLIS, _) => ValueType::TimestampMillis,
        (ConvertedType::TIMESTAMP_MICROS, _) => ValueType::TimestampMicros,
        (ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32, Physical::INT32) => ValueType::Int,
        (ConvertedType::INT_64, Physical::INT64) => ValueType::Long,
        (ConvertedType::NONE | ConvertedType::BSON, physical) => return of_physical(physical),
        _ => return None,
    })
}

fn of_logical(leaf: &ColumnDescriptor, logical: &LogicalType) -> Option<ValueType> {
    Some(match logical {
        LogicalType::String | LogicalType::Enum | LogicalType::Json => ValueType::String,
        LogicalType::Decimal(of) => return decimal(of.precision, of.scale),
        LogicalType::Date => ValueType::Date,
        LogicalType::Time(of) => match of.unit {
            ParquetUnit::MILLIS => ValueType::TimeMillis,
            ParquetUnit::MICROS => ValueType::TimeMicros,
            ParquetUnit::NANOS => return None,
        },
        LogicalType::Timestamp(of) => timestamp(
            match of.unit {
                ParquetUnit::MILLIS => TimeUnit::Millisecond,
                ParquetUnit::MICROS => TimeUnit::Microsecond,
                ParquetUnit::NANOS => TimeUnit::Nanosecond,
            },
            of.is_adjusted_to_u_t_c,
        )?,
        // Unsigned numbers have another order.
        LogicalType::Integer(of) if of.is_signed => return of_physical(leaf.physical_type()),
        LogicalType::Bson => return of_physical(leaf.physical_type()),
        _ => return None,
    })
}

fn of_physical(physical: Physical) -> Option<ValueType> {
    Some(match physical {
        Physical::BOOLEAN => ValueType::Boolean,
        Physical::INT32 => ValueType::Int,
        Physical::INT64 => ValueType::Long,
        Physical::FLOAT => ValueType::Float,
        Physical::DOUBLE => ValueType::Double,
        Physical::BYTE_ARRAY => ValueType::Bytes,
        Physical::FIXED_LEN_BYTE_ARRAY => ValueType::Fixed,
        // Spark's timestamps of old: their statistics have no order.
        Physical::INT96 => ValueType::TimestampMicros,
    })
}

fn decimal(precision: i32, scale: i32) -> Option<ValueType> {
    Some(ValueType::Decimal(u8::try_from(precision).ok()?, i8::try_from(scale).ok()?))
}

fn timestamp(unit: TimeUnit, in_utc: bool) -> Option<ValueType> {
    Some(match (unit, in_utc) {
        (TimeUnit::Millisecond, true) => ValueType::TimestampMillis,
        (TimeUnit::Microsecond, true) => ValueType::TimestampMicros,
        (TimeUnit::Nanosecond, true) => ValueType::TimestampNanos,
        (TimeUnit::Millisecond, false) => ValueType::LocalTimestampMillis,
        (TimeUnit::Microsecond, false) => ValueType::LocalTimestampMicros,
        (TimeUnit::Nanosecond, false) => ValueType::LocalTimestampNanos,
        (TimeUnit::Second, _) => return None,
    })
}

/// The type of a column of a table; `None` if statistics have none for it.
pub(crate) fn of_column(data_type: &DataType) -> Option<ValueType> {
    Some(match data_type {
        DataType::Boolean => ValueType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => ValueType::Int,
        DataType::Int64 | DataType::UInt32 => ValueType::Long,
        DataType::Float32 => ValueType::Float,
        DataType::Float64 => ValueType::Double,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ValueType::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ValueType::Bytes,
        DataType::FixedSizeBinary(_) => ValueType::Fixed,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => ValueType::Decimal(*precision, *scale),
        DataType::Date32 => ValueType::Date,
        DataType::Time32(TimeUnit::Millisecond) => ValueType::TimeMillis,
        DataType::Time64(TimeUnit::Microsecond) => ValueType::TimeMicros,
        DataType::Timestamp(unit, zone) => return timestamp(*unit, zone.is_some()),
        DataType::Dictionary(_, values) => return of_column(values),
        _ => return None,
    })
}
