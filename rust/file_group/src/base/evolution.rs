//! Schema evolution on read: casts columns of a file to the current types of the table, as Hudi does.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Float64Array, ListArray, MapArray, StringArray, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, Float32Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType,
};

use super::changed_types::cast_changed;
use super::row_group::leaf_count;
use hoodoo_format::field_lookup::FieldLookup;
use hoodoo_format::java::{double_text, float_text};
use hoodoo_runtime::error::{Error, Result};

/// Normalises a file's type: small integers are ints as in Avro, list children are called `element`, map entries
/// `key_value` of `key` and `value`.
pub(super) fn normal_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|f| normal_field(f, f.name())).collect()),
        DataType::List(child) => DataType::List(normal_field(child, "element")),
        DataType::Map(entries, sorted) => DataType::Map(normal_entries(entries), *sorted),
        other => other.clone(),
    }
}

pub(super) fn normal_field(field: &Field, name: &str) -> FieldRef {
    Arc::new(Field::new(name, normal_type(field.data_type()), field.is_nullable()))
}

fn normal_entries(entries: &Field) -> FieldRef {
    let pair: Fields = match entries.data_type() {
        DataType::Struct(pair) => {
            pair.iter().zip(["key", "value"]).map(|(field, name)| normal_field(field, name)).collect()
        }
        _ => Fields::empty(),
    };
    Arc::new(Field::new("key_value", DataType::Struct(pair), false))
}

/// The leaves of a file that `target` needs.
pub(super) fn wanted_leaves(file: &Fields, target: &Fields) -> Vec<usize> {
    let (mut next, mut wanted) = (0, Vec::new());
    mark_fields(file, target, &mut next, &mut wanted);
    wanted
}

fn mark_fields(file: &Fields, target: &Fields, next: &mut usize, wanted: &mut Vec<usize>) {
    let asked = FieldLookup::new(target);
    for field in file {
        match asked.get(field.name()) {
            Some(target) => mark(field.data_type(), target.data_type(), next, wanted),
            None => *next += leaf_count(field.data_type()),
        }
    }
}

fn mark(file: &DataType, target: &DataType, next: &mut usize, wanted: &mut Vec<usize>) {
    match (file, target) {
        (DataType::Struct(fields), DataType::Struct(targets)) => {
            let (first, before) = (*next, wanted.len());
            mark_fields(fields, targets, next, wanted);
            // One field is always needed to know where the struct itself is null; a map can only be read whole.
            if wanted.len() == before {
                wanted.extend(smallest_field(fields, first));
            }
        }
        (DataType::List(child), DataType::List(target)) => mark(child.data_type(), target.data_type(), next, wanted),
        _ => {
            let count = leaf_count(file);
            wanted.extend(*next..*next + count);
            *next += count;
        }
    }
}

/// The leaves of the field with the fewest, of fields that begin at a leaf.
fn smallest_field(fields: &Fields, first: usize) -> Range<usize> {
    let mut next = first;
    let leaves = fields.iter().map(|field| {
        let begin = next;
        next += leaf_count(field.data_type());
        begin..next
    });
    leaves.filter(|leaves| !leaves.is_empty()).min_by_key(Range::len).unwrap_or(first..first)
}

fn refused(path: &str, from: &DataType, to: &DataType) -> Error {
    Error::schema(format!("column '{path}' is {from} in a base file and cannot be read as {to}"))
        .with("column", path)
        .remedy("Hudi only widens types; read with the schema of the table, or rewrite the column")
}

/// Casts an array of a file to the type of the table.
///
/// # Errors
/// `Schema`, with the column and both types, if Hudi does not support the cast.
pub fn evolve(array: &ArrayRef, target: &DataType, path: &str) -> Result<ArrayRef> {
    use DataType::{Binary, Date32, Decimal128, Float32, Float64, Int32, Int64, List, Map, Struct, Utf8};
    let from = array.data_type();
    if from == target {
        return Ok(array.clone());
    }
    match (from, target) {
        (DataType::Null, _) => Ok(new_null_array(target, array.len())),
        // Enumerations of Avro.
        (DataType::Dictionary(_, values), _) => evolve(&exact_cast(array, values)?, target, path),
        (Struct(_), Struct(fields)) => evolve_struct(array.as_struct(), fields, path),
        (List(_), List(field)) => evolve_list(array.as_list(), field, path),
        (Map(_, _), Map(entries, sorted)) => evolve_map(array.as_map(), entries, *sorted, path),
        (DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16, Int32 | Int64 | Float32 | Float64)
        | (DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16, Utf8)
        | (DataType::UInt32, Int64)
        | (Int32, Int64 | Float32 | Float64 | Utf8)
        | (Int64, Float32 | Float64 | Utf8)
        | (Date32 | Decimal128(_, _), Utf8)
        | (DataType::LargeUtf8 | DataType::Utf8View, Utf8)
        | (DataType::LargeBinary | DataType::BinaryView, Binary)
        | (DataType::FixedSizeBinary(_) | Utf8, Binary) => exact_cast(array, target),
        (Float32, Float64) => Ok(Arc::new(float_to_double(array))),
        (Float32, Utf8) => Ok(Arc::new(strings(array.as_primitive::<Float32Type>().iter().map(|v| v.map(float_text))))),
        (Float64, Utf8) => {
            Ok(Arc::new(strings(array.as_primitive::<Float64Type>().iter().map(|v| v.map(double_text)))))
        }
        (Binary, Utf8) => Ok(Arc::new(binary_to_text(array.as_binary::<i32>()))),
        (Decimal128(p, s), Decimal128(to_p, to_s))
            if to_s >= s && i16::from(*to_p) - i16::from(*to_s) >= i16::from(*p) - i16::from(*s) =>
        {
            exact_cast(array, target)
        }
        (DataType::Timestamp(unit, from_zone), DataType::Timestamp(to_unit, zone))
            if from_zone.is_some() == zone.is_some() =>
        {
            timestamp(array, *unit, *to_unit, zone.as_ref()).ok_or_else(|| refused(path, from, target))
        }
        _ => cast_changed(array, target, path).unwrap_or_else(|| Err(refused(path, from, target))),
    }
}

fn exact_cast(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, target, &CastOptions { safe: false, ..Default::default() })?)
}

fn strings(values: impl Iterator<Item = Option<String>>) -> StringArray {
    values.collect()
}

/// Casts by the decimal digits: 0.1f becomes 0.1, not 0.10000000149011612.
fn float_to_double(array: &ArrayRef) -> Float64Array {
    array
        .as_primitive::<Float32Type>()
        .unary(|v| if v.is_finite() { format!("{v:e}").parse().unwrap_or_else(|_| f64::from(v)) } else { f64::from(v) })
}

fn binary_to_text(array: &BinaryArray) -> StringArray {
    array.iter().map(|v| v.map(String::from_utf8_lossy)).collect()
}

fn timestamp(array: &ArrayRef, from: TimeUnit, to: TimeUnit, zone: Option<&Arc<str>>) -> Option<ArrayRef> {
    match (from, to) {
        (TimeUnit::Microsecond, TimeUnit::Microsecond) => {
            Some(Arc::new(array.as_primitive::<TimestampMicrosecondType>().clone().with_timezone_opt(zone.cloned())))
        }
        (TimeUnit::Millisecond, TimeUnit::Millisecond) => {
            Some(Arc::new(array.as_primitive::<TimestampMillisecondType>().clone().with_timezone_opt(zone.cloned())))
        }
        // Old versions of Hudi called milliseconds microseconds in files; newer ones go by the table, which has no other
        // way to come to milliseconds.
        (TimeUnit::Microsecond, TimeUnit::Millisecond) => {
            let millis =
                array.as_primitive::<TimestampMicrosecondType>().reinterpret_cast::<TimestampMillisecondType>();
            Some(Arc::new(millis.with_timezone_opt(zone.cloned())))
        }
        (TimeUnit::Millisecond, TimeUnit::Microsecond) => {
            let millis = array.as_primitive::<TimestampMillisecondType>().reinterpret_cast::<Int64Type>();
            let micros = millis.unary_opt::<_, TimestampMicrosecondType>(|v| v.checked_mul(1000));
            Some(Arc::new(micros.with_timezone_opt(zone.cloned())))
        }
        _ => None,
    }
}

fn evolve_struct(array: &StructArray, fields: &Fields, path: &str) -> Result<ArrayRef> {
    let stored = FieldLookup::new(array.fields());
    let columns = fields
        .iter()
        .map(|field| {
            let path = format!("{path}.{}", field.name());
            match stored.position(field.name()).and_then(|at| array.columns().get(at)) {
                Some(column) => evolve(column, field.data_type(), &path),
                None if field.is_nullable() => Ok(new_null_array(field.data_type(), array.len())),
                None => Err(missing(&path)),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let built = if fields.is_empty() {
        StructArray::new_empty_fields(array.len(), array.nulls().cloned())
    } else {
        StructArray::try_new(fields.clone(), columns, array.nulls().cloned()).map_err(|e| misfit(path, e))?
    };
    Ok(Arc::new(built))
}

pub(super) fn missing(path: &str) -> Error {
    Error::schema(format!("column '{path}' is required, and a base file does not have it"))
        .with("column", path)
        .remedy("Only nullable columns can be added to a table")
}

fn misfit(path: &str, error: arrow::error::ArrowError) -> Error {
    Error::schema(format!("column '{path}' of a base file does not fit the table"))
        .with("column", path)
        .caused_by(error)
}

fn evolve_list(array: &ListArray, field: &FieldRef, path: &str) -> Result<ArrayRef> {
    let values = evolve(array.values(), field.data_type(), &format!("{path}.element"))?;
    let list = ListArray::try_new(field.clone(), array.offsets().clone(), values, array.nulls().cloned());
    Ok(Arc::new(list.map_err(|e| misfit(path, e))?))
}

fn evolve_map(array: &MapArray, entries: &FieldRef, sorted: bool, path: &str) -> Result<ArrayRef> {
    let DataType::Struct(pair) = entries.data_type() else {
        return Err(refused(path, array.data_type(), entries.data_type()));
    };
    let [key, value] = pair.as_ref() else { return Err(refused(path, array.data_type(), entries.data_type())) };
    let columns = vec![
        evolve(array.keys(), key.data_type(), &format!("{path}.key"))?,
        evolve(array.values(), value.data_type(), &format!("{path}.value"))?,
    ];
    let built = StructArray::try_new(pair.clone(), columns, None)
        .and_then(|e| MapArray::try_new(entries.clone(), array.offsets().clone(), e, array.nulls().cloned(), sorted));
    Ok(Arc::new(built.map_err(|e| misfit(path, e))?))
}
