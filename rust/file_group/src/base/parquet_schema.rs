//! The Parquet schema that Hudi gives a base file for a table schema.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use parquet::basic::{LogicalType, Repetition, TimeUnit as ParquetTimeUnit, Type as Physical};
use parquet::schema::types::{PrimitiveTypeBuilder, SchemaDescriptor, Type, TypePtr};

use hoodoo_runtime::error::{Error, Result};

/// Builds the Parquet schema for a file schema.
///
/// It differs from what the Parquet crate would choose in decimals (always fixed bytes), in small integers (never
/// annotated: the annotation switches off statistics in Hudi) and in the fixed names of list and map children.
///
/// # Errors
/// `Schema`, with the column and its type, if Hudi does not support the type.
pub(crate) fn hudi_parquet_schema(schema: &Schema, message_name: &str) -> Result<SchemaDescriptor> {
    let fields = schema.fields().iter().map(|f| convert(f, f.name(), f.name())).collect::<Result<Vec<_>>>()?;
    let root = Type::group_type_builder(message_name).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

fn refused(path: &str, data_type: &DataType, remedy: &str) -> Error {
    Error::schema(format!("column '{path}' has type {data_type}, which a Hudi table cannot hold"))
        .with("column", path)
        .remedy(remedy)
}

fn repetition(field: &Field) -> Repetition {
    if field.is_nullable() { Repetition::OPTIONAL } else { Repetition::REQUIRED }
}

fn convert(field: &Field, name: &str, path: &str) -> Result<TypePtr> {
    let built = match field.data_type() {
        DataType::Struct(children) => {
            if children.is_empty() {
                return Err(refused(path, field.data_type(), "Give the struct a field"));
            }
            let children = children
                .iter()
                .map(|c| convert(c, c.name(), &format!("{path}.{}", c.name())))
                .collect::<Result<Vec<_>>>()?;
            Type::group_type_builder(name).with_fields(children).with_repetition(repetition(field)).build()?
        }
        DataType::List(child) | DataType::LargeList(child) | DataType::FixedSizeList(child, _) => {
            let element = convert(child, "element", &format!("{path}.element"))?;
            group_of(field, name, LogicalType::List, "list", vec![element])?
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else {
                return Err(refused(path, field.data_type(), "Give the map entries of key and value"));
            };
            let [key, value] = pair.as_ref() else {
                return Err(refused(path, field.data_type(), "Give the map entries of key and value"));
            };
            let children = vec![map_key(key, path)?, convert(value, "value", &format!("{path}.value"))?];
            group_of(field, name, LogicalType::Map, "key_value", children)?
        }
        _ => primitive(field, name, path)?.with_repetition(repetition(field)).build()?,
    };
    Ok(Arc::new(built))
}

fn map_key(key: &FieldRef, path: &str) -> Result<TypePtr> {
    let key = key.as_ref().clone().with_nullable(false);
    if !matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        return Err(refused(&format!("{path}.key"), key.data_type(), "Map keys are strings in Avro"));
    }
    convert(&key, "key", &format!("{path}.key"))
}

fn group_of(field: &Field, name: &str, logical: LogicalType, middle: &str, children: Vec<TypePtr>) -> Result<Type> {
    let repeated =
        Type::group_type_builder(middle).with_fields(children).with_repetition(Repetition::REPEATED).build()?;
    Ok(Type::group_type_builder(name)
        .with_fields(vec![Arc::new(repeated)])
        .with_logical_type(Some(logical))
        .with_repetition(repetition(field))
        .build()?)
}

fn primitive<'a>(field: &Field, name: &'a str, path: &str) -> Result<PrimitiveTypeBuilder<'a>> {
    let plain = |physical| Type::primitive_type_builder(name, physical);
    Ok(match field.data_type() {
        DataType::Boolean => plain(Physical::BOOLEAN),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => plain(Physical::INT32),
        DataType::Int64 => plain(Physical::INT64),
        DataType::Float32 => plain(Physical::FLOAT),
        DataType::Float64 => plain(Physical::DOUBLE),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            plain(Physical::BYTE_ARRAY).with_logical_type(Some(LogicalType::String))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => plain(Physical::BYTE_ARRAY),
        DataType::FixedSizeBinary(length) => plain(Physical::FIXED_LEN_BYTE_ARRAY).with_length(*length),
        DataType::Date32 => plain(Physical::INT32).with_logical_type(Some(LogicalType::Date)),
        DataType::Timestamp(unit @ (TimeUnit::Millisecond | TimeUnit::Microsecond), zone) => {
            let unit = if *unit == TimeUnit::Millisecond { ParquetTimeUnit::MILLIS } else { ParquetTimeUnit::MICROS };
            plain(Physical::INT64).with_logical_type(Some(LogicalType::timestamp(zone.is_some(), unit)))
        }
        DataType::Decimal128(precision, scale) if *scale >= 0 && *precision as i16 >= i16::from(*scale) => {
            plain(Physical::FIXED_LEN_BYTE_ARRAY)
                .with_length(decimal_bytes(*precision))
                .with_precision(i32::from(*precision))
                .with_scale(i32::from(*scale))
                .with_logical_type(Some(LogicalType::decimal(i32::from(*scale), i32::from(*precision))))
        }
        other => return Err(refused(path, other, "Cast the column to a type that Hudi has before writing")),
    })
}

/// Minimum number of bytes whose signed range holds all decimals of the precision.
fn decimal_bytes(precision: u8) -> i32 {
    ((f64::from(precision) * std::f64::consts::LOG2_10 + 1.0) / 8.0).ceil() as i32
}
