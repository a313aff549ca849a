//! Ranges of the columns of a log file, by the batches of records that go into it.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, GenericByteArray, PrimitiveArray, RecordBatch,
};
use arrow::compute;
use arrow::datatypes::{
    ByteArrayType, DataType, Date32Type, Decimal128Type, Field, Fields, Float32Type, Float64Type, Int32Type, Int64Type,
    Schema, Time32MillisecondType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use arrow_select::filter::filter;
use arrow_select::nullif::nullif;

use super::value_types::of_column;
use super::{empty_range, widen};
use crate::error::Result;
use crate::format::column_range::{ColumnRange, FileRanges, RangeValue, UnknownRange, ValueType};

/// Collects the ranges of a log file.
pub(crate) struct BatchRanges {
    columns: Vec<Column>,
    /// All columns that are indexed, those included that the records do not have.
    names: Vec<String>,
    rows: usize,
    is_partial: bool,
}

struct Column {
    /// Where it is: the index of a column, then of fields of structs. `None` within lists and maps.
    path: Option<Vec<usize>>,
    range: ColumnRange,
    value_type: Option<ValueType>,
    is_known: bool,
}

impl BatchRanges {
    /// Of records with these columns, for those of them that are in `columns`. Columns that the records do not have stay
    /// as they are stored, so the log file says nothing of them.
    pub(crate) fn new(schema: &Schema, columns: &[String]) -> Self {
        let column = |name: &String| {
            let found = find(schema.fields(), name)?;
            let value_type = found.as_ref().and_then(|(_, field)| of_column(field.data_type()));
            let path = found.map(|(path, _)| path);
            let is_known = path.is_some() && value_type.is_some();
            let range = empty_range(name, value_type.unwrap_or(ValueType::Null));
            Some(Column { path, range, value_type, is_known })
        };
        let columns_found: Vec<Column> = columns.iter().filter_map(column).collect();
        let is_partial = columns_found.len() < columns.len();
        Self { columns: columns_found, names: columns.to_vec(), rows: 0, is_partial }
    }

    /// Says that the records hold only some columns, or are merged with stored ones value by value.
    pub(crate) fn set_partial(&mut self) {
        self.is_partial = true;
    }

    /// Adds records.
    ///
    /// # Errors
    /// Those of Arrow, for columns that it cannot look at.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        for column in self.columns.iter_mut().filter(|column| column.is_known) {
            let array = column.path.as_deref().map(|path| array_at(batch, path)).transpose()?.flatten();
            let added = array.map(|array| column.add(&array)).transpose()?.flatten();
            column.is_known = added.is_some();
        }
        Ok(())
    }

    /// The ranges. A file without records, which has only deletes, has the range of no values for each indexed column.
    pub(crate) fn finish(self) -> FileRanges {
        let mut found = FileRanges { is_partial: self.is_partial, ..FileRanges::default() };
        if self.rows == 0 {
            found.ranges.extend(self.names.iter().map(|name| empty_range(name, ValueType::Null)));
            return found;
        }
        for Column { range, value_type, is_known, .. } in self.columns {
            match is_known {
                true => found.ranges.push(range),
                false => {
                    let value_count = i64::try_from(self.rows).unwrap_or(i64::MAX);
                    found.unknown.push(UnknownRange { column: range.column, value_count, value_type });
                }
            }
        }
        found
    }
}

impl Column {
    /// Adds values; `None` if their bounds are not known.
    fn add(&mut self, array: &ArrayRef) -> Result<Option<()>> {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.range.value_count = self.range.value_count.saturating_add(count(array.len()));
        let nulls = array.logical_null_count();
        self.range.null_count = self.range.null_count.saturating_add(count(nulls));
        if nulls == array.len() {
            return Ok(Some(()));
        }
        let bounds = match (array.as_any_dictionary_opt(), array.as_dictionary_opt::<Int32Type>()) {
            (None, _) => bounds(array),
            // Only of the values that occur.
            (_, Some(coded)) => bounds(&filter(coded.values(), &BooleanArray::new(coded.occupancy(), None))?),
            (Some(coded), None) => bounds(&compute::cast(array, coded.values().data_type())?),
        };
        Ok(bounds.and_then(|(min, max)| widen(&mut self.range, min, max)))
    }
}

/// The place of a column; `Some(None)` if it is within a list or a map.
#[allow(clippy::option_option)]
fn find<'f>(fields: &'f Fields, path: &str) -> Option<Option<(Vec<usize>, &'f Field)>> {
    if let Some((at, field)) = fields.iter().enumerate().find(|(_, field)| field.name() == path) {
        return Some(Some((vec![at], field)));
    }
    let (at, field, rest) = fields
        .iter()
        .enumerate()
        .find_map(|(at, field)| Some((at, field, path.strip_prefix(field.name().as_str())?.strip_prefix('.')?)))?;
    let DataType::Struct(within) = field.data_type() else { return Some(None) };
    let below = find(within, rest)?;
    Some(below.map(|(mut steps, field)| {
        steps.insert(0, at);
        (steps, field)
    }))
}

/// The array at a path; values of a struct that is null are null.
fn array_at(batch: &RecordBatch, path: &[usize]) -> Result<Option<ArrayRef>> {
    let mut steps = path.iter();
    let Some(mut array) = steps.next().and_then(|at| batch.columns().get(*at)).cloned() else { return Ok(None) };
    for step in steps {
        let Some(outer) = array.as_struct_opt() else { return Ok(None) };
        let Some(inner) = outer.columns().get(*step) else { return Ok(None) };
        array = match outer.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => nullif(inner, &BooleanArray::new(!nulls.inner(), None))?,
            None => inner.clone(),
        };
    }
    Ok(Some(array))
}

/// Minimum and maximum of an array of which some values are not null; `None` for other types than tables have.
fn bounds(array: &ArrayRef) -> Option<(RangeValue, RangeValue)> {
    use RangeValue as V;
    let (min, max) = match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean_opt()?;
            (V::Boolean(compute::min_boolean(values)?), V::Boolean(compute::max_boolean(values)?))
        }
        DataType::Int32 => primitive::<Int32Type>(array, V::Int)?,
        DataType::Date32 => primitive::<Date32Type>(array, V::Int)?,
        DataType::Time32(TimeUnit::Millisecond) => primitive::<Time32MillisecondType>(array, V::Int)?,
        DataType::Int64 => primitive::<Int64Type>(array, V::Long)?,
        DataType::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(array, V::Long)?,
        DataType::Timestamp(TimeUnit::Millisecond, _) => primitive::<TimestampMillisecondType>(array, V::Long)?,
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitive::<TimestampMicrosecondType>(array, V::Long)?,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive::<TimestampNanosecondType>(array, V::Long)?,
        DataType::Decimal128(..) => primitive::<Decimal128Type>(array, V::Decimal)?,
        DataType::Float32 => {
            let (min, max) = numbers::<Float32Type>(array, f32::is_nan, f32::min)?;
            (V::Float(min), V::Float(max))
        }
        DataType::Float64 => {
            let (min, max) = numbers::<Float64Type>(array, f64::is_nan, f64::min)?;
            (V::Double(min), V::Double(max))
        }
        DataType::Utf8 => strings(array.as_string_opt::<i32>()?, |value| V::String(value.to_owned()))?,
        DataType::LargeUtf8 => strings(array.as_string_opt::<i64>()?, |value| V::String(value.to_owned()))?,
        DataType::Binary => strings(array.as_binary_opt::<i32>()?, |value| V::Bytes(value.to_vec()))?,
        DataType::LargeBinary => strings(array.as_binary_opt::<i64>()?, |value| V::Bytes(value.to_vec()))?,
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary_opt()?;
            let of = |value: Option<&[u8]>| value.map(|value| V::Bytes(value.to_vec()));
            (of(compute::min_fixed_size_binary(values))?, of(compute::max_fixed_size_binary(values))?)
        }
        _ => return None,
    };
    Some((min, max))
}

fn primitive<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    value: impl Fn(T::Native) -> RangeValue,
) -> Option<(RangeValue, RangeValue)> {
    let values = array.as_primitive_opt::<T>()?;
    Some((value(compute::min(values)?), value(compute::max(values)?)))
}

/// Minimum and maximum of numbers with NaN, which is the largest one. Arrow takes NaN with a sign for the smallest.
fn numbers<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    is_nan: impl Fn(T::Native) -> bool,
    smaller: impl Fn(T::Native, T::Native) -> T::Native,
) -> Option<(T::Native, T::Native)> {
    let values: &PrimitiveArray<T> = array.as_primitive_opt()?;
    let (min, max) = (compute::min(values)?, compute::max(values)?);
    if !is_nan(min) {
        return Some((min, max));
    }
    // `f64::min` leaves NaN out, unless there is nothing else.
    Some((values.iter().flatten().fold(min, smaller), min))
}

fn strings<'a, T: ByteArrayType>(
    values: &'a GenericByteArray<T>,
    value: impl Fn(&'a T::Native) -> RangeValue,
) -> Option<(RangeValue, RangeValue)>
where
    &'a T::Native: PartialOrd,
{
    let mut rows = values.iter().flatten();
    let first = rows.next()?;
    let (min, max) = rows
        .fold((first, first), |(min, max), row| (if row < min { row } else { min }, if row > max { row } else { max }));
    Some((value(min), value(max)))
}
