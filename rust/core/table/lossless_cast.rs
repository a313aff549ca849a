//! Casts columns to the types of a table, unless a value would be lost.
//!
//! What a caller's library declares says little about the values: pandas makes every integer an int64, an integer column
//! with a gap a float64, and a column without values an object. So a declared type that is wider than the table's is no
//! reason to widen the table; a value that does not fit is.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
    UInt64Array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, and, cast_with_options, nullif, take};
use arrow::datatypes::{ArrowNativeType as _, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::util::display::array_value_to_string;

use super::schema::{held_incoming, types_differ};
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::base::evolve;
use crate::format::field_lookup::FieldLookup;

/// A column cast to another type.
pub(crate) enum Cast {
    /// The column in the other type.
    Lossless(ArrayRef),
    /// A value would be lost: the first such row, where it is known.
    Lossy(Option<usize>),
}

/// Brings a column to the type of a field, if all its values fit.
///
/// # Errors
/// `Schema` when the types have nothing in common.
pub(crate) fn cast_column(column: &ArrayRef, field: &Field) -> Result<Cast> {
    let cast = cast_nested(column, field.data_type(), field.name())?;
    Ok(match cast {
        Cast::Lossless(column) if !field.is_nullable() && column.null_count() > 0 => {
            Cast::Lossy((0..column.len()).find(|row| column.is_null(*row)))
        }
        other => other,
    })
}

/// The error of a value that does not fit, in a row that is counted from `offset`.
pub(crate) fn lossy_cast(column: &ArrayRef, field: &Field, row: Option<usize>, offset: usize) -> Error {
    let name = field.name();
    let error = match row {
        Some(row) if column.is_null(row) => {
            Error::schema(format!("column '{name}' is required and holds a null in row {}", offset + row))
        }
        Some(row) => {
            let value = array_value_to_string(column, row).unwrap_or_default();
            // A line of its own would end the message where only its first line is passed on.
            let value = if value.contains(char::is_control) { value.escape_debug().to_string() } else { value };
            let (row, held) = (offset + row, field.data_type());
            Error::schema(format!(
                "column '{name}': the value {value} in row {row} does not fit the table's type {held}"
            ))
        }
        None => Error::schema(format!(
            "column '{name}': {} does not fit the table's type {}",
            column.data_type(),
            field.data_type()
        )),
    };
    error.with("column", name).remedy(
        "Cast or fill the values. A write with schema_evolution='allow' widens the column where the types allow it",
    )
}

fn cast_nested(array: &ArrayRef, target: &DataType, path: &str) -> Result<Cast> {
    use DataType::{
        Decimal128, Dictionary, FixedSizeList, Float32, Float64, Int32, Int64, LargeList, LargeUtf8, List, Map, Null,
        Struct, UInt32, Utf8, Utf8View,
    };
    if array.data_type() == target {
        return Ok(Cast::Lossless(array.clone()));
    }
    if array.null_count() == array.len() || array.data_type() == &Null {
        return Ok(Cast::Lossless(new_null_array(target, array.len())));
    }
    match (array.data_type(), target) {
        (Dictionary(_, values), _) => cast_nested(&cast(array, values, false)?, target, path),
        (LargeList(item) | FixedSizeList(item, _), List(_)) => {
            cast_nested(&cast(array, &List(item.clone()), false)?, target, path)
        }
        (List(_), List(item)) => cast_list(array.as_list(), item, path),
        (Struct(_), Struct(fields)) => cast_struct(array.as_struct(), fields, path),
        (Map(_, _), Map(entries, sorted)) => cast_map(array.as_map(), entries, *sorted, path),
        (Utf8 | LargeUtf8 | Utf8View, Int32 | Int64 | Float32 | Float64) => {
            Ok(Cast::Lossy((0..array.len()).find(|row| array.is_valid(*row))))
        }
        (Int64 | UInt32, Int32)
        | (Float32 | Float64, Int32 | Int64)
        | (Float64 | Int32 | Int64 | UInt32, Float32)
        | (Int64, Float64) => cast_number(array, target),
        (Decimal128(p1, s1), Decimal128(p2, s2))
            if s1 > s2 || i16::from(*p1) - i16::from(*s1) > i16::from(*p2) - i16::from(*s2) =>
        {
            cast_number(array, target)
        }
        _ => cast_leaf(array, target, path).map(Cast::Lossless),
    }
}

/// A number fits when it comes back as it was.
fn cast_number(array: &ArrayRef, target: &DataType) -> Result<Cast> {
    let out = cast(array, target, true)?;
    let mut changed = distinct(array, &cast(&out, array.data_type(), true)?)?;
    if changed.true_count() > 0 && (array.data_type(), target) == (&DataType::Float64, &DataType::Float32) {
        // Hudi reads a float as a double by its digits, so 0.1 comes back as 0.1.
        changed = and(&changed, &distinct(array, &evolve(&out, array.data_type(), "")?)?)?;
    }
    Ok(first(&changed).map_or(Cast::Lossless(out), |row| Cast::Lossy(Some(row))))
}

fn first(rows: &BooleanArray) -> Option<usize> {
    rows.values().set_indices().next()
}

fn cast(array: &ArrayRef, target: &DataType, safe: bool) -> Result<ArrayRef> {
    Ok(cast_with_options(array, target, &CastOptions { safe, ..Default::default() })?)
}

fn cast_list(list: &ListArray, item: &FieldRef, path: &str) -> Result<Cast> {
    let taken = of_its_rows(list, list.offsets(), list.values().len())?;
    let list = taken.as_ref().map_or(list, |taken| taken.as_list::<i32>());
    let Cast::Lossless(values) = cast_nested(list.values(), item.data_type(), path)? else {
        return Ok(Cast::Lossy(None));
    };
    if !item.is_nullable() && values.null_count() > 0 {
        return Ok(Cast::Lossy(None));
    }
    let list = ListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned())?;
    Ok(Cast::Lossless(Arc::new(list)))
}

/// Lists or maps without what is stored behind them and is of no row: of a slice, or under null. `None` where there is no
/// such value, as in what most libraries make.
fn of_its_rows(array: &dyn Array, offsets: &OffsetBuffer<i32>, values: usize) -> Result<Option<ArrayRef>> {
    let ends = (offsets.first().as_usize(), offsets.last().as_usize());
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let nothing_under_nulls =
        nulls.is_none_or(|nulls| offsets.lengths().zip(nulls).all(|(length, valid)| valid || length == 0));
    if ends == (0, values) && nothing_under_nulls {
        return Ok(None);
    }
    let all = UInt64Array::from_iter_values(0..array.len() as u64);
    Ok(Some(take(array, &all, None)?))
}

/// A field of a struct, null where the struct is: what a null struct holds inside is no value.
fn of_its_struct(field: &ArrayRef, given: &StructArray) -> Result<ArrayRef> {
    let Some(nulls) = given.nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(field.clone()) };
    if field.data_type() == &DataType::Null {
        return Ok(field.clone());
    }
    Ok(nullif(field, &BooleanArray::new(!nulls.inner(), None))?)
}

fn cast_struct(given: &StructArray, fields: &Fields, path: &str) -> Result<Cast> {
    if given.fields().iter().any(|field| fields.iter().all(|f| f.name() != field.name())) {
        return Ok(Cast::Lossy(None));
    }
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let column = match given.column_by_name(field.name()) {
            None => new_null_array(field.data_type(), given.len()),
            Some(column) => {
                let column = of_its_struct(column, given)?;
                match cast_nested(&column, field.data_type(), &format!("{path}.{}", field.name()))? {
                    Cast::Lossless(column) => column,
                    lossy => return Ok(lossy),
                }
            }
        };
        let masked = given.nulls().map_or(0, |nulls| nulls.null_count());
        if !field.is_nullable() && column.null_count() > masked {
            return Ok(Cast::Lossy((0..given.len()).find(|row| given.is_valid(*row) && column.is_null(*row))));
        }
        columns.push(column);
    }
    let made = StructArray::try_new_with_length(fields.clone(), columns, given.nulls().cloned(), given.len())?;
    Ok(Cast::Lossless(Arc::new(made)))
}

fn cast_map(map: &MapArray, entries: &FieldRef, sorted: bool, path: &str) -> Result<Cast> {
    let taken = of_its_rows(map, map.offsets(), map.entries().len())?;
    let map = taken.as_ref().map_or(map, |taken| taken.as_map());
    let DataType::Struct(pair) = entries.data_type() else { return Ok(Cast::Lossy(None)) };
    let mut columns = Vec::with_capacity(pair.len());
    // Keys and values go by their position: their names differ between libraries.
    for (field, column) in pair.iter().zip([map.keys(), map.values()]) {
        let Cast::Lossless(column) = cast_nested(column, field.data_type(), path)? else {
            return Ok(Cast::Lossy(None));
        };
        if !field.is_nullable() && column.null_count() > 0 {
            return Ok(Cast::Lossy(None));
        }
        columns.push(column);
    }
    let pairs = StructArray::try_new(pair.clone(), columns, None)?;
    let map = MapArray::try_new(entries.clone(), map.offsets().clone(), pairs, map.nulls().cloned(), sorted)?;
    Ok(Cast::Lossless(Arc::new(map)))
}

/// Brings a batch to the schema of the table: types cast, columns in order, missing ones null.
pub(crate) fn conform_batch(batch: &RecordBatch, target: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(target.fields().len());
    let given = FieldLookup::new(batch.schema_ref().fields());
    for field in target.fields() {
        let column = match given.position(field.name()).and_then(|at| batch.columns().get(at)) {
            Some(column) => column.clone(),
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        match cast_column(&column, field)? {
            Cast::Lossless(column) => columns.push(column),
            Cast::Lossy(row) => return Err(lossy_cast(&column, field, row, 0)),
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(target.clone(), columns, &options)?)
}

/// Brings a column without nested ones to a type that holds all that its own does.
fn cast_leaf(column: &ArrayRef, target: &DataType, name: &str) -> Result<ArrayRef> {
    let given = column.data_type();
    let source = Schema::new(vec![Field::new("v", given.clone(), true)]);
    let held = held_incoming(&source).map_err(|e| e.with("column", name))?;
    let held_type = held.field(0).data_type();
    let column = cast_exactly(column, held_type, name)?;
    let column = match (held_type, target) {
        (DataType::Timestamp(..), DataType::Timestamp(..))
        | (DataType::FixedSizeBinary(_), DataType::Binary)
        | (DataType::Binary, DataType::Utf8) => cast_exactly(&column, target, name)?,
        _ => column,
    };
    evolve(&column, target, name).map_err(|e| match e.kind() {
        ErrorKind::Schema => types_differ(name, target, given),
        _ => e,
    })
}

/// A cast that fails when it would lose something.
fn cast_exactly(column: &ArrayRef, target: &DataType, name: &str) -> Result<ArrayRef> {
    if column.data_type() == target {
        return Ok(column.clone());
    }
    let options = CastOptions { safe: false, ..Default::default() };
    let lossy = |why: &str| {
        Error::schema(format!("column '{name}' of type {} does not fit {target}: {why}", column.data_type()))
            .with("column", name)
            .remedy("Cast or round the column before writing")
    };
    let out = cast_with_options(column, target, &options)
        .map_err(|e| lossy("a value is out of range or malformed").caused_by(e))?;
    if column.data_type() == &DataType::Date64 && &cast_with_options(&out, column.data_type(), &options)? != column {
        return Err(lossy("the time of day would be lost"));
    }
    if let (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) = (column.data_type(), target) {
        let digits = |unit: &TimeUnit| match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        if digits(from) > digits(to) {
            let back = cast_with_options(&out, column.data_type(), &options)?;
            if &back != column {
                return Err(lossy("fractions of the smaller unit would be lost"));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{
        Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array, NullArray, StringArray,
        TimestampNanosecondArray,
    };
    use arrow::datatypes::{Int32Type, Int64Type};

    fn schema(name: &str, data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new(name, data_type, true)]))
    }

    fn of(array: impl Array + 'static, target: DataType) -> std::result::Result<ArrayRef, Option<usize>> {
        let array: ArrayRef = Arc::new(array);
        match cast_column(&array, &Field::new("v", target, true)).unwrap() {
            Cast::Lossless(column) => Ok(column),
            Cast::Lossy(row) => Err(row),
        }
    }

    #[test]
    fn numbers_fit_when_they_come_back() {
        let narrowed = of(Int64Array::from(vec![Some(7), None]), DataType::Int32).unwrap();
        assert_eq!(narrowed.as_ref(), &Int32Array::from(vec![Some(7), None]) as &dyn Array);
        assert_eq!(of(Int64Array::from(vec![1, 1 << 40]), DataType::Int32), Err(Some(1)));
        let whole = of(Float64Array::from(vec![Some(3.0), None]), DataType::Int64).unwrap();
        assert_eq!(whole.as_ref(), &Int64Array::from(vec![Some(3), None]) as &dyn Array);
        assert_eq!(of(Float64Array::from(vec![3.0, 3.5]), DataType::Int64), Err(Some(1)));
        assert_eq!(of(Float64Array::from(vec![f64::NAN]), DataType::Int32), Err(Some(0)));
        assert_eq!(of(Float64Array::from(vec![9.3e18]), DataType::Int64), Err(Some(0)));
        let short = of(Float64Array::from(vec![0.1, f64::from(0.1f32), f64::INFINITY]), DataType::Float32).unwrap();
        assert_eq!(short.as_ref(), &Float32Array::from(vec![0.1, 0.1, f32::INFINITY]) as &dyn Array);
        assert_eq!(of(Float64Array::from(vec![0.5, 0.123_456_789]), DataType::Float32), Err(Some(1)));
        let decimal = Decimal128Array::from(vec![150, 151]).with_precision_and_scale(10, 3).unwrap();
        assert_eq!(of(decimal, DataType::Decimal128(10, 2)), Err(Some(1)));
    }

    #[test]
    fn what_has_no_values_fits_every_type() {
        assert_eq!(of(NullArray::new(2), DataType::Date32).unwrap().null_count(), 2);
        assert_eq!(of(StringArray::from(vec![None::<&str>]), DataType::Int32).unwrap().null_count(), 1);
        assert_eq!(of(StringArray::from(vec![None, Some("7")]), DataType::Int32), Err(Some(1)));
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)]), None]);
        let item = Arc::new(Field::new("element", DataType::Int32, true));
        let expected = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None]);
        let fitted = of(list, DataType::List(item)).unwrap();
        assert_eq!(fitted.as_list::<i32>().value(0).as_ref(), expected.value(0).as_ref());
        let coded: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        assert_eq!(of(coded, DataType::Utf8).unwrap().data_type(), &DataType::Utf8);
    }

    #[test]
    fn nanoseconds_are_taken_when_nothing_is_lost() {
        let target = schema("t", DataType::Timestamp(TimeUnit::Microsecond, None));
        let batch = |v: i64| {
            RecordBatch::try_from_iter([("t", Arc::new(TimestampNanosecondArray::from(vec![v])) as ArrayRef)]).unwrap()
        };
        assert!(conform_batch(&batch(5_000), &target).is_ok());
        assert!(conform_batch(&batch(5_001), &target).is_err());
    }

    #[test]
    fn only_what_has_values_of_no_row_is_copied() {
        let is_copied = |list: &ListArray| of_its_rows(list, list.offsets(), list.values().len()).unwrap().is_some();
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None, Some(vec![]), None]);
        assert!(!is_copied(&list));
        assert!(is_copied(&list.slice(1, 3)), "a value before it");
        assert!(is_copied(&list.slice(0, 0)), "a value behind it");
        let nulls = Some([false, true, true, true].as_slice().into());
        let item = Arc::new(Field::new("item", DataType::Int64, true));
        let hidden = ListArray::new(item, list.offsets().clone(), list.values().clone(), nulls);
        assert!(is_copied(&hidden), "a value under null");
    }

    #[test]
    fn numbers_become_text_where_the_table_says_so() {
        let target = schema("a", DataType::Utf8);
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![5])) as ArrayRef)]).unwrap();
        let got = conform_batch(&batch, &target).unwrap();
        assert_eq!(got.column(0).as_ref(), &StringArray::from(vec!["5"]) as &dyn Array);
    }
}
