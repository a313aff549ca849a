//! Ranges of the columns of a base file, by its footer.
//!
//! What the footer says of a column is taken as it is, where it is sure to be a bound: strings may be truncated, with a
//! maximum that is larger. Statistics leave NaN out, which is larger than any number for Spark. Where there is NaN, or may
//! be, the maximum is infinity: with NaN itself as maximum, Spark finds nothing, since its cached tables leave NaN out too.

use std::collections::HashSet;

use parquet::data_type::AsBytes;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::value_types::of_leaf;
use super::{empty_range, widen};
use crate::file_group::base::{FIRST_DAY, FIRST_SECOND, has_old_calendar};
use crate::format::column_range::{ColumnRange, FileRanges, RangeValue, UnknownRange, ValueType};

/// The range of each of these columns that the file has. A file without rows has none.
pub(crate) fn ranges_of_footer(footer: &ParquetMetaData, columns: &[String]) -> FileRanges {
    let mut found = FileRanges::default();
    if footer.file_metadata().num_rows() <= 0 {
        return found;
    }
    let wanted: HashSet<&str> = columns.iter().map(String::as_str).collect();
    // Writers in Java take NaN for the largest number, so that it is in the statistics.
    let has_nan_in_bounds = footer.file_metadata().created_by().is_some_and(|by| by.starts_with("parquet-mr "));
    let has_old_calendar = has_old_calendar(footer);
    for (at, leaf) in footer.file_metadata().schema_descr().columns().iter().enumerate() {
        let name = leaf.path().string();
        if !wanted.contains(name.as_str()) {
            continue;
        }
        let value_type = of_leaf(leaf);
        let chunks = footer.row_groups().iter().map(|group| group.columns().get(at));
        let range = value_type.and_then(|known| range_of(leaf, known, &name, chunks, has_nan_in_bounds));
        match range.filter(|range| !(has_old_calendar && is_before_calendars_agree(range))) {
            Some(range) => found.ranges.push(range),
            None => {
                let value_count = footer.file_metadata().num_rows();
                found.unknown.push(UnknownRange { column: name, value_count, value_type });
            }
        }
    }
    found
}

/// Whether a column begins with days or times that the calendar of old Spark versions names differently. Readers refuse
/// them, and have to see them for that.
fn is_before_calendars_agree(range: &ColumnRange) -> bool {
    let first = match range.value_type {
        ValueType::Date => FIRST_DAY,
        ValueType::TimestampMillis => FIRST_SECOND * 1000,
        ValueType::TimestampMicros => FIRST_SECOND * 1_000_000,
        _ => return false,
    };
    match &range.min {
        Some(RangeValue::Int(days)) => i64::from(*days) < first,
        Some(RangeValue::Long(time)) => *time < first,
        _ => false,
    }
}

fn range_of<'a>(
    leaf: &ColumnDescriptor,
    value_type: ValueType,
    name: &str,
    chunks: impl Iterator<Item = Option<&'a ColumnChunkMetaData>>,
    has_nan_in_bounds: bool,
) -> Option<ColumnRange> {
    let mut range = empty_range(name, value_type);
    for chunk in chunks {
        let chunk = chunk?;
        let statistics = chunk.statistics()?;
        let nulls = i64::try_from(statistics.null_count_opt()?).ok()?;
        range.value_count = range.value_count.checked_add(chunk.num_values())?;
        range.null_count = range.null_count.checked_add(nulls)?;
        range.total_size = range.total_size.saturating_add(chunk.compressed_size());
        range.total_uncompressed_size = range.total_uncompressed_size.saturating_add(chunk.uncompressed_size());
        if nulls == chunk.num_values() {
            continue;
        }
        let (min, max) = bounds(leaf, value_type, statistics, has_nan_in_bounds)?;
        widen(&mut range, min, max)?;
    }
    Some(range)
}

/// Minimum and maximum of a column chunk, if they are bounds of its values.
fn bounds(
    leaf: &ColumnDescriptor,
    value_type: ValueType,
    statistics: &Statistics,
    has_nan_in_bounds: bool,
) -> Option<(RangeValue, RangeValue)> {
    let is_decimal = matches!(value_type, ValueType::Decimal(..));
    Some(match statistics {
        Statistics::Boolean(s) => (RangeValue::Boolean(*s.min_opt()?), RangeValue::Boolean(*s.max_opt()?)),
        Statistics::Int32(s) if is_decimal => {
            (RangeValue::Decimal((*s.min_opt()?).into()), RangeValue::Decimal((*s.max_opt()?).into()))
        }
        Statistics::Int32(s) => (RangeValue::Int(*s.min_opt()?), RangeValue::Int(*s.max_opt()?)),
        Statistics::Int64(s) if is_decimal => {
            (RangeValue::Decimal((*s.min_opt()?).into()), RangeValue::Decimal((*s.max_opt()?).into()))
        }
        Statistics::Int64(s) => (RangeValue::Long(*s.min_opt()?), RangeValue::Long(*s.max_opt()?)),
        Statistics::Int96(_) => return None,
        Statistics::Float(s) => {
            let (min, max) = (*s.min_opt()?, *s.max_opt()?);
            let has_nan = may_have_nan(s.nan_count_opt(), has_nan_in_bounds, min.is_nan() || max.is_nan());
            // As Parquet's readers do, since writers may not tell one zero from the other. NaN as minimum says nothing:
            // some writers leave it there where it was the first value.
            let (min, max) = (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max });
            let min = if min.is_nan() { f32::NEG_INFINITY } else { min };
            (RangeValue::Float(min), RangeValue::Float(if has_nan { f32::INFINITY } else { max }))
        }
        Statistics::Double(s) => {
            let (min, max) = (*s.min_opt()?, *s.max_opt()?);
            let has_nan = may_have_nan(s.nan_count_opt(), has_nan_in_bounds, min.is_nan() || max.is_nan());
            let (min, max) = (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max });
            let min = if min.is_nan() { f64::NEG_INFINITY } else { min };
            (RangeValue::Double(min), RangeValue::Double(if has_nan { f64::INFINITY } else { max }))
        }
        // The order of old statistics of bytes is not known.
        _ if statistics.is_min_max_deprecated() => return None,
        Statistics::ByteArray(s) => {
            (of_bytes(leaf, value_type, s.min_opt()?.as_bytes())?, of_bytes(leaf, value_type, s.max_opt()?.as_bytes())?)
        }
        Statistics::FixedLenByteArray(s) => {
            (of_bytes(leaf, value_type, s.min_opt()?.as_bytes())?, of_bytes(leaf, value_type, s.max_opt()?.as_bytes())?)
        }
    })
}

fn may_have_nan(count: Option<u64>, has_nan_in_bounds: bool, is_in_bounds: bool) -> bool {
    is_in_bounds || count.map_or(!has_nan_in_bounds, |count| count > 0)
}

fn of_bytes(leaf: &ColumnDescriptor, value_type: ValueType, bytes: &[u8]) -> Option<RangeValue> {
    Some(match value_type {
        ValueType::String => RangeValue::String(std::str::from_utf8(bytes).ok()?.to_owned()),
        // A truncated decimal would be another number.
        ValueType::Decimal(..) if leaf.type_length() > 0 && usize::try_from(leaf.type_length()) != Ok(bytes.len()) => {
            return None;
        }
        ValueType::Decimal(..) => RangeValue::Decimal(unscaled(bytes)?),
        ValueType::Bytes | ValueType::Fixed => RangeValue::Bytes(bytes.to_vec()),
        _ => return None,
    })
}

/// The integer of big-endian bytes in two's complement.
fn unscaled(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first()? & 0x80 != 0;
    let (fill, needed) = (if negative { 0xff } else { 0 }, bytes.len().saturating_sub(16));
    let (beyond, low) = bytes.split_at_checked(needed)?;
    if beyond.iter().any(|byte| *byte != fill) {
        return None;
    }
    let mut whole = [fill; 16];
    whole.get_mut(16usize.checked_sub(low.len())?..)?.copy_from_slice(low);
    Some(i128::from_be_bytes(whole))
}
