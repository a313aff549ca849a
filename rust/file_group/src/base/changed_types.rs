//! Casts that only a change of a column's type asks for (Hudi's `ALTER COLUMN … TYPE`): to decimals, and of text.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Date32Array, Decimal128Array, Decimal128Builder};
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type};

use hoodoo_format::java::{double_text, float_text};
use hoodoo_runtime::error::{Error, Result};

/// Casts an array; `None` for types that are not cast.
///
/// # Errors
/// `Schema` for a value that does not fit the type.
pub(super) fn cast_changed(array: &ArrayRef, target: &DataType, path: &str) -> Option<Result<ArrayRef>> {
    let DataType::Decimal128(precision, scale) = target else {
        let is_date = matches!((array.data_type(), target), (DataType::Utf8, DataType::Date32));
        return is_date.then(|| dates(array, path));
    };
    let place = Place { path, from: array.data_type(), precision: *precision, scale: *scale };
    Some(match array.data_type() {
        DataType::Int32 => place.decimals(array.as_primitive::<Int32Type>().iter(), |v| v.to_string()),
        DataType::Int64 => place.decimals(array.as_primitive::<Int64Type>().iter(), |v| v.to_string()),
        DataType::Float32 => place.decimals(array.as_primitive::<Float32Type>().iter(), float_text),
        DataType::Float64 => place.decimals(array.as_primitive::<Float64Type>().iter(), double_text),
        DataType::Utf8 => place.decimals(array.as_string::<i32>().iter(), |v| v.trim().to_owned()),
        _ => return None,
    })
}

fn misfit(path: &str, text: &str, target: &str) -> Error {
    Error::schema(format!("column '{path}' has become {target}, and its value '{text}' is none"))
        .with("column", path)
        .remedy("Leave the column out, or change its type to one that takes all values")
}

fn dates(array: &ArrayRef, path: &str) -> Result<ArrayRef> {
    let days = |text: &str| -> Option<i32> {
        let mut parts = text.trim().splitn(3, '-');
        let mut part = || parts.next()?.parse::<u32>().ok();
        let (year, month, day) = (part()?, part()?, part()?);
        Date32Type::parse(&format!("{year:04}-{month:02}-{day:02}"))
    };
    let values = array
        .as_string::<i32>()
        .iter()
        .map(|text| text.map(|text| days(text).ok_or_else(|| misfit(path, text, "a date"))).transpose());
    Ok(Arc::new(values.collect::<Result<Date32Array>>()?))
}

/// A column that becomes decimal.
struct Place<'a> {
    path: &'a str,
    from: &'a DataType,
    precision: u8,
    scale: i8,
}

impl Place<'_> {
    fn decimals<T>(&self, values: impl Iterator<Item = Option<T>>, text: impl Fn(T) -> String) -> Result<ArrayRef> {
        let mut decimals = Decimal128Builder::with_capacity(values.size_hint().0);
        for value in values {
            let Some(value) = value else {
                decimals.append_null();
                continue;
            };
            let text = text(value);
            let Some(decimal) = rounded(&text, self.scale).filter(|value| fits(*value, self.precision)) else {
                let target = format!("decimal({}, {})", self.precision, self.scale);
                return Err(misfit(self.path, &text, &target).with("type", self.from));
            };
            decimals.append_value(decimal);
        }
        let decimals: Decimal128Array = decimals.finish().with_precision_and_scale(self.precision, self.scale)?;
        Ok(Arc::new(decimals))
    }
}

fn fits(value: i128, precision: u8) -> bool {
    10u128.checked_pow(u32::from(precision)).is_none_or(|limit| value.unsigned_abs() < limit)
}

/// The decimal that a number in Java's spelling is, rounded half up as `BigDecimal.setScale` does it.
fn rounded(text: &str, scale: i8) -> Option<i128> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, number) = match number.strip_prefix(['-', '+']) {
        Some(rest) => (number.starts_with('-'), rest),
        None => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Digits that stand before the last one of the scale.
    let kept = i64::try_from(whole.len()).ok()? + i64::from(exponent) + i64::from(scale);
    let mut digits = whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0'));
    let mut value: i128 = 0;
    for _ in 0..kept {
        let digit = match digits.next() {
            Some(digit) => digit,
            None if value == 0 => break,
            None => 0,
        };
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    if kept >= 0 && digits.next().is_some_and(|digit| digit >= 5) {
        value = value.checked_add(1)?;
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Array, Float64Array, StringArray};

    #[test]
    fn numbers_round_as_in_java() {
        let cases = [
            ("1", 2, Some(100)),
            ("-1.005", 2, Some(-101)),
            ("1.0049", 2, Some(100)),
            ("1.0E10", 1, Some(100_000_000_000)),
            ("1.5E-3", 2, Some(0)),
            ("5.0E-3", 2, Some(1)),
            ("9.0E-9", 2, Some(0)),
            ("0.0", 2, Some(0)),
            ("NaN", 2, None),
            ("Infinity", 2, None),
            ("", 0, None),
            ("1e999999999", 2, None),
        ];
        for (text, scale, expected) in cases {
            assert_eq!(rounded(text, scale), expected, "{text}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.005), None]));
        let cast = cast_changed(&doubles, &DataType::Decimal128(5, 2), "c").unwrap().unwrap();
        assert_eq!(cast.as_primitive::<arrow::datatypes::Decimal128Type>().value(0), 101);
        assert!(cast.is_null(1));
        assert!(cast_changed(&doubles, &DataType::Decimal128(2, 2), "c").unwrap().is_err());
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["2024-05-01", " 2024-5-2"]));
        let dates = cast_changed(&texts, &DataType::Date32, "c").unwrap().unwrap();
        assert_eq!(dates.as_primitive::<Date32Type>().values(), &[19844, 19845]);
        let bad: ArrayRef = Arc::new(StringArray::from(vec!["soon"]));
        let error = cast_changed(&bad, &DataType::Date32, "c").unwrap().unwrap_err();
        assert!(error.message().contains("'soon'"));
        assert!(cast_changed(&bad, &DataType::Int32, "c").is_none());
    }
}
