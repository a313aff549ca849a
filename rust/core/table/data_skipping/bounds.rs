//! Min and max of the metadata table as arrays of a column's type.
//!
//! Whatever is not known for sure is null, and null skips nothing: other types than the column has, but for those that may
//! be widened; numbers that are no numbers; strings whose order depends on who compared them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    StringArray, Time32MillisecondArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    UInt64Array, new_null_array,
};
use arrow::datatypes::{DataType, TimeUnit};
use arrow_select::zip::zip;

use crate::error::Result;
use crate::file_group::base::{Bounds, evolve};
use crate::metadata_table::{ColumnStats, StoredBound};

/// Digits behind the point that decimals of the first version have.
const WRAPPED_SCALE: i8 = 15;

/// Bytes of a string that is long, and of one in a column where some are likely to be.
const LONG_STRING: usize = 1024;
const LONG_ON_AVERAGE: usize = 256;

/// Bytes that the values of a row group have at least where min and max are too long for Parquet, 4 KiB both together.
const TOO_LONG_FOR_BOUNDS: i64 = 2048;

/// The bounds of a column in files. Without a type only counts are known.
///
/// # Errors
/// Those of Arrow.
pub(super) fn bounds_of(stats: &[Option<ColumnStats>], column: &str, data_type: Option<&DataType>) -> Result<Bounds> {
    let data_type = data_type.unwrap_or(&DataType::Null);
    let side = |of: fn(&ColumnStats) -> Option<&StoredBound>| side_of(stats, of, column, data_type);
    let (mut nulls, mut rows) = (Vec::with_capacity(stats.len()), Vec::with_capacity(stats.len()));
    for one in stats {
        let counts = one.as_ref().and_then(counts);
        nulls.push(counts.map(|(nulls, _)| nulls));
        rows.push(counts.map_or(0, |(_, rows)| rows));
    }
    Ok(Bounds {
        mins: side(|stats| stats.min.as_ref())?,
        maxes: side(|stats| stats.max.as_ref())?,
        nulls: UInt64Array::from(nulls),
        rows: UInt64Array::from(rows),
    })
}

/// How many values of a file are null, and how many there are. `None` unless they are certain.
fn counts(stats: &ColumnStats) -> Option<(u64, u64)> {
    let (nulls, rows) = (u64::try_from(stats.null_count?).ok()?, u64::try_from(stats.value_count?).ok()?);
    let has_bounds = stats.min.is_some() || stats.max.is_some();
    // Values of a type that has no statistics are counted as nulls by some versions; these do not name the type either.
    let is_all_null = nulls >= rows && rows > 0;
    let may_be = || stats.value_type.is_some() && !may_count_long_values(stats);
    let is_certain = if is_all_null { !has_bounds && nulls == rows && may_be() } else { nulls <= rows };
    is_certain.then_some((nulls, rows))
}

/// Whether some of the nulls may be values: of a row group whose min and max are too long, Hudi takes all rows for nulls.
fn may_count_long_values(stats: &ColumnStats) -> bool {
    matches!(stats.value_type.as_deref(), Some("STRING" | "BYTES"))
        && stats.null_count != Some(0)
        && stats.bytes.is_none_or(|bytes| bytes >= TOO_LONG_FOR_BOUNDS)
}

/// One side of the bounds. Files may have been written with different types; each is widened as its values are.
fn side_of(
    stats: &[Option<ColumnStats>],
    of: fn(&ColumnStats) -> Option<&StoredBound>,
    column: &str,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let mut types: Vec<&str> = stats.iter().flatten().filter_map(|stats| stats.value_type.as_deref()).collect();
    types.sort_unstable();
    types.dedup();
    let mut all = new_null_array(data_type, stats.len());
    for value_type in types {
        let is_one = |stats: &ColumnStats| stats.value_type.as_deref() == Some(value_type);
        let values = stats.iter().map(|one| one.as_ref().filter(|one| is_one(one) && is_certain(one)).and_then(of));
        let Some(typed) = typed(value_type, values, data_type) else { continue };
        let Some(widened) = widened(&typed, column, data_type) else { continue };
        let mask: BooleanArray = stats.iter().map(|one| Some(one.as_ref().is_some_and(is_one))).collect();
        all = zip(&mask, &widened, &all)?;
    }
    Ok(all)
}

/// Whether the bounds are those of all values.
///
/// Where a row group has NaN, Parquet has no bounds, and Hudi takes both for zero: a range of floating-point numbers with
/// zero in it may have been put together with such bounds. Nor does Parquet have bounds of a row group whose strings are
/// long, 4 KiB both together, and Hudi then takes those of the other row groups for the whole, and its rows for nulls: the
/// strings of a column that may have long ones are not compared. Then its files are opened, whose footers have more.
fn is_certain(stats: &ColumnStats) -> bool {
    match (stats.value_type.as_deref(), &stats.min, &stats.max) {
        (Some("FLOAT" | "DOUBLE"), Some(StoredBound::Double(min)), Some(StoredBound::Double(max))) => {
            *min > 0.0 || *max < 0.0
        }
        (Some("FLOAT" | "DOUBLE"), ..) => false,
        (Some("STRING"), min, max) => {
            let is_short = |bound: &Option<StoredBound>| match bound {
                Some(StoredBound::String(value)) => value.len() <= LONG_STRING,
                _ => true,
            };
            let values = stats.value_count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            let bytes = stats.bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
            let is_long_on_average = bytes / values.max(1) > LONG_ON_AVERAGE.max(LONG_STRING / values.max(1));
            is_short(min) && is_short(max) && !is_long_on_average && !may_count_long_values(stats)
        }
        _ => true,
    }
}

/// The values as the table's type. `None` where values are not widened to it, or not in an order that is kept.
fn widened(array: &ArrayRef, column: &str, to: &DataType) -> Option<ArrayRef> {
    let from = array.data_type();
    let is_number =
        |t: &DataType| matches!(t, DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64);
    if from == to {
        return Some(array.clone());
    }
    if is_number(from) && is_number(to) { evolve(array, to, column).ok() } else { None }
}

/// Values of a type of Hudi's as Arrow has them; `None` for a type that is not compared. `to` settles what Hudi's type
/// leaves open.
fn typed<'a>(
    value_type: &str,
    values: impl Iterator<Item = Option<&'a StoredBound>>,
    to: &DataType,
) -> Option<ArrayRef> {
    let long = |bound: Option<&StoredBound>| match bound {
        Some(StoredBound::Long(value)) => Some(*value),
        _ => None,
    };
    let int = |bound| long(bound).and_then(|value| i32::try_from(value).ok());
    let double = |bound: Option<&StoredBound>| match bound {
        Some(StoredBound::Double(value)) if !value.is_nan() => Some(*value),
        _ => None,
    };
    Some(match (value_type, to) {
        ("BOOLEAN", _) => Arc::new(values.map(|v| long(v).map(|v| v != 0)).collect::<BooleanArray>()),
        ("INT", _) => Arc::new(values.map(int).collect::<Int32Array>()),
        ("LONG", _) => Arc::new(values.map(long).collect::<Int64Array>()),
        #[allow(clippy::cast_possible_truncation, reason = "it was made of an f32")]
        ("FLOAT", _) => Arc::new(values.map(|v| double(v).map(|v| v as f32)).collect::<Float32Array>()),
        ("DOUBLE", _) => Arc::new(values.map(double).collect::<Float64Array>()),
        ("STRING", _) => Arc::new(values.map(ordered_string).collect::<StringArray>()),
        ("DATE", _) => Arc::new(values.map(int).collect::<Date32Array>()),
        ("DECIMAL", DataType::Decimal128(precision, scale)) => {
            let unscaled = values.map(|bound| unscaled(bound, *scale)).collect::<Decimal128Array>();
            Arc::new(unscaled.with_precision_and_scale(*precision, *scale).ok()?)
        }
        ("TIME_MILLIS", _) => Arc::new(values.map(int).collect::<Time32MillisecondArray>()),
        ("TIME_MICROS", _) => Arc::new(values.map(long).collect::<Time64MicrosecondArray>()),
        ("TIMESTAMP_MICROS", DataType::Timestamp(TimeUnit::Microsecond, Some(zone))) => {
            Arc::new(values.map(long).collect::<TimestampMicrosecondArray>().with_timezone(zone.clone()))
        }
        ("TIMESTAMP_MILLIS", DataType::Timestamp(TimeUnit::Millisecond, Some(zone))) => {
            Arc::new(values.map(long).collect::<TimestampMillisecondArray>().with_timezone(zone.clone()))
        }
        ("LOCAL_TIMESTAMP_MICROS", DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            Arc::new(values.map(long).collect::<TimestampMicrosecondArray>())
        }
        ("LOCAL_TIMESTAMP_MILLIS", DataType::Timestamp(TimeUnit::Millisecond, None)) => {
            Arc::new(values.map(long).collect::<TimestampMillisecondArray>())
        }
        _ => return None,
    })
}

/// A string that has the same order to all others by UTF-16, as in Java, and by UTF-8, as in Parquet. Letters behind the
/// surrogates do not.
fn ordered_string(bound: Option<&StoredBound>) -> Option<&str> {
    match bound {
        Some(StoredBound::String(value)) if value.chars().all(|c| c < '\u{E000}') => Some(value),
        _ => None,
    }
}

/// The digits of a decimal with so many behind the point; `None` if they are not exactly these.
fn unscaled(bound: Option<&StoredBound>, scale: i8) -> Option<i128> {
    let Some(StoredBound::String(text)) = bound else { return None };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let has = i8::try_from(fraction.len()).ok()?;
    // What the first version cuts off is unknown.
    if has == WRAPPED_SCALE && scale > WRAPPED_SCALE {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let power = |digits: i8| 10i128.checked_pow(u32::try_from(digits).ok()?);
    if has <= scale {
        return digits.checked_mul(power(scale.checked_sub(has)?)?);
    }
    let divisor = power(has.checked_sub(scale)?)?;
    (digits.checked_rem(divisor)? == 0).then(|| digits.checked_div(divisor)).flatten()
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
