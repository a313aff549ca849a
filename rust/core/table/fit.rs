//! Columns brought to the types of a table, where nothing of their values is lost.
//!
//! What a caller's library declares says little about the values: pandas makes every integer an int64, an integer column
//! with a gap a float64, and a column without values an object. So a declared type that is wider than the table's is no
//! reason to widen the table; a value that does not fit is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, and, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::util::display::array_value_to_string;

use super::schema::conform_leaf;
use crate::error::{Error, Result};
use crate::file_group::base::evolve;

/// What became of a column.
pub(crate) enum Fit {
    /// All values fit.
    Fits(ArrayRef),
    /// One does not: the first such row, where that can be told.
    Misfit(Option<usize>),
}

/// Brings a column to the type of a field, if all its values fit.
///
/// # Errors
/// `Schema` when the types have nothing in common.
pub(crate) fn fit_column(column: &ArrayRef, field: &Field) -> Result<Fit> {
    let fit = fit(column, field.data_type(), field.name())?;
    Ok(match fit {
        Fit::Fits(column) if !field.is_nullable() && column.null_count() > 0 => {
            Fit::Misfit((0..column.len()).find(|row| column.is_null(*row)))
        }
        other => other,
    })
}

/// The error of a value that does not fit, in a row that is counted from `offset`.
pub(crate) fn does_not_fit(column: &ArrayRef, field: &Field, row: Option<usize>, offset: usize) -> Error {
    let name = field.name();
    let error = match row {
        Some(row) if column.is_null(row) => {
            Error::schema(format!("column '{name}' is required and holds a null in row {}", offset + row))
        }
        Some(row) => {
            let value = array_value_to_string(column, row).unwrap_or_default();
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

fn fit(array: &ArrayRef, target: &DataType, path: &str) -> Result<Fit> {
    use DataType::{
        Decimal128, Dictionary, FixedSizeList, Float32, Float64, Int32, Int64, LargeList, LargeUtf8, List, Map, Null,
        Struct, UInt32, Utf8, Utf8View,
    };
    if array.data_type() == target {
        return Ok(Fit::Fits(array.clone()));
    }
    if array.null_count() == array.len() || array.data_type() == &Null {
        return Ok(Fit::Fits(new_null_array(target, array.len())));
    }
    match (array.data_type(), target) {
        (Dictionary(_, values), _) => fit(&cast(array, values, false)?, target, path),
        (LargeList(item) | FixedSizeList(item, _), List(_)) => {
            fit(&cast(array, &List(item.clone()), false)?, target, path)
        }
        (List(_), List(item)) => fit_list(array.as_list(), item, path),
        (Struct(_), Struct(fields)) => fit_struct(array.as_struct(), fields, path),
        (Map(_, _), Map(entries, sorted)) => fit_map(array.as_map(), entries, *sorted, path),
        (Utf8 | LargeUtf8 | Utf8View, Int32 | Int64 | Float32 | Float64) => {
            Ok(Fit::Misfit((0..array.len()).find(|row| array.is_valid(*row))))
        }
        (Int64 | UInt32, Int32) | (Float32 | Float64, Int32 | Int64) | (Float64, Float32) => fit_number(array, target),
        (Decimal128(p1, s1), Decimal128(p2, s2))
            if s1 > s2 || i16::from(*p1) - i16::from(*s1) > i16::from(*p2) - i16::from(*s2) =>
        {
            fit_number(array, target)
        }
        _ => conform_leaf(array, target, path).map(Fit::Fits),
    }
}

/// A number fits when it comes back as it was.
fn fit_number(array: &ArrayRef, target: &DataType) -> Result<Fit> {
    let out = cast(array, target, true)?;
    let mut changed = distinct(array, &cast(&out, array.data_type(), true)?)?;
    if changed.true_count() > 0 && target == &DataType::Float32 {
        // Hudi reads a float as a double by its digits, so 0.1 comes back as 0.1.
        changed = and(&changed, &distinct(array, &evolve(&out, array.data_type(), "")?)?)?;
    }
    Ok(first(&changed).map_or(Fit::Fits(out), |row| Fit::Misfit(Some(row))))
}

fn first(rows: &BooleanArray) -> Option<usize> {
    rows.values().set_indices().next()
}

fn cast(array: &ArrayRef, target: &DataType, safe: bool) -> Result<ArrayRef> {
    Ok(cast_with_options(array, target, &CastOptions { safe, ..Default::default() })?)
}

fn fit_list(list: &ListArray, item: &FieldRef, path: &str) -> Result<Fit> {
    let Fit::Fits(values) = fit(list.values(), item.data_type(), path)? else { return Ok(Fit::Misfit(None)) };
    if !item.is_nullable() && values.null_count() > 0 {
        return Ok(Fit::Misfit(None));
    }
    let list = ListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned())?;
    Ok(Fit::Fits(Arc::new(list)))
}

fn fit_struct(given: &StructArray, fields: &Fields, path: &str) -> Result<Fit> {
    if given.fields().iter().any(|field| fields.iter().all(|f| f.name() != field.name())) {
        return Ok(Fit::Misfit(None));
    }
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let column = match given.column_by_name(field.name()) {
            None => new_null_array(field.data_type(), given.len()),
            Some(column) => match fit(column, field.data_type(), &format!("{path}.{}", field.name()))? {
                Fit::Fits(column) => column,
                // What a null struct holds inside is no value.
                Fit::Misfit(row) => return Ok(Fit::Misfit(row.filter(|row| given.is_valid(*row)))),
            },
        };
        let masked = given.nulls().map_or(0, |nulls| nulls.null_count());
        if !field.is_nullable() && column.null_count() > masked {
            return Ok(Fit::Misfit((0..given.len()).find(|row| given.is_valid(*row) && column.is_null(*row))));
        }
        columns.push(column);
    }
    let made = StructArray::try_new_with_length(fields.clone(), columns, given.nulls().cloned(), given.len())?;
    Ok(Fit::Fits(Arc::new(made)))
}

fn fit_map(map: &MapArray, entries: &FieldRef, sorted: bool, path: &str) -> Result<Fit> {
    let DataType::Struct(pair) = entries.data_type() else { return Ok(Fit::Misfit(None)) };
    let mut columns = Vec::with_capacity(pair.len());
    // Keys and values go by their place: their names differ between libraries.
    for (field, column) in pair.iter().zip([map.keys(), map.values()]) {
        let Fit::Fits(column) = fit(column, field.data_type(), path)? else { return Ok(Fit::Misfit(None)) };
        if !field.is_nullable() && column.null_count() > 0 {
            return Ok(Fit::Misfit(None));
        }
        columns.push(column);
    }
    let pairs = StructArray::try_new(pair.clone(), columns, None)?;
    let map = MapArray::try_new(entries.clone(), map.offsets().clone(), pairs, map.nulls().cloned(), sorted)?;
    Ok(Fit::Fits(Arc::new(map)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{
        Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array, NullArray, StringArray,
    };
    use arrow::datatypes::{Int32Type, Int64Type};

    fn of(array: impl Array + 'static, target: DataType) -> std::result::Result<ArrayRef, Option<usize>> {
        let array: ArrayRef = Arc::new(array);
        match fit_column(&array, &Field::new("v", target, true)).unwrap() {
            Fit::Fits(column) => Ok(column),
            Fit::Misfit(row) => Err(row),
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
}
