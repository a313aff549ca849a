//! Ranges of a partition, from what is stored and those of the files that a commit wrote in it.
//!
//! They are the minimum of minimums and the maximum of maximums, so that they hold all values that the partition ever had,
//! without a look at its other files. Hudi makes them tighter again when it next writes into the partition.

use super::any_value::{all_values, any_value};
use super::widen;
use crate::format::column_range::{ColumnRange, FileRanges, RangeValue, UnknownRange, ValueType};

/// What is known of a column of a partition before a commit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StoredRange {
    /// The partition had no files.
    New,
    /// It has this range.
    Known(ColumnRange),
    /// It may have any value.
    Unknown,
}

impl StoredRange {
    /// The same in the type of the column: statistics of the first version have all decimals with 15 digits behind the
    /// point, and readers of Hudi fail on one that has more digits than its column.
    pub(crate) fn with_type(self, value_type: ValueType) -> Self {
        let Self::Known(range) = self else { return self };
        let (ValueType::Decimal(_, stored), ValueType::Decimal(_, scale)) = (range.value_type, value_type) else {
            return Self::Known(range);
        };
        let factor = u32::try_from(stored.saturating_sub(scale)).ok().and_then(|digits| 10i128.checked_pow(digits));
        let shorter = |bound: &Option<RangeValue>| match (bound, factor) {
            (Some(RangeValue::Decimal(value)), Some(factor)) if value % factor == 0 => {
                Some(RangeValue::Decimal(value / factor))
            }
            _ => None,
        };
        let (min, max) = match (shorter(&range.min), shorter(&range.max)) {
            (Some(min), Some(max)) => (Some(min), Some(max)),
            _ if range.min.is_none() && range.max.is_none() => (None, None),
            _ => all_values(value_type).unzip(),
        };
        Self::Known(ColumnRange { min, max, value_type, ..range })
    }
}

/// The range of a column of a partition in which a commit wrote these files. `None` if it may have any value of an unknown
/// type.
pub(crate) fn partition_range(
    column: &str,
    stored: &StoredRange,
    files: &[Option<&FileRanges>],
) -> Option<ColumnRange> {
    let mut found: Vec<ColumnRange> = Vec::with_capacity(files.len() + 1);
    let mut is_known = *stored != StoredRange::Unknown;
    if let StoredRange::Known(range) = stored {
        found.push(range.clone());
    }
    for file in files {
        let range = file.and_then(|file| file.ranges.iter().find(|range| range.column == column));
        let unknown = file.and_then(|file| file.unknown.iter().find(|unknown| unknown.column == column));
        match (range, unknown) {
            (Some(range), _) => found.push(range.clone()),
            (_, Some(unknown)) if unknown.value_type.is_some() => found.push(any_value(unknown)),
            // Rows of which only other columns were updated; new ones are null here.
            (None, None) if file.is_some_and(|file| file.is_partial) => {
                let nulls = super::empty_range(column, ValueType::Null);
                found.push(ColumnRange { value_count: 1, null_count: 1, ..nulls });
            }
            _ => is_known = false,
        }
    }
    // The newest type is that of the table.
    let value_type = found.iter().map(|range| range.value_type).rfind(|known| *known != ValueType::Null);
    if !is_known {
        let unknown = UnknownRange { column: column.to_owned(), value_count: 0, value_type: Some(value_type?) };
        found.push(any_value(&unknown));
    }
    let mut whole = super::empty_range(column, value_type.unwrap_or(ValueType::Null));
    found.iter().for_each(|range| merge(&mut whole, range));
    Some(whole)
}

fn merge(known: &mut ColumnRange, other: &ColumnRange) {
    let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more);
    add(&mut known.value_count, other.value_count);
    add(&mut known.null_count, other.null_count);
    add(&mut known.total_size, other.total_size);
    add(&mut known.total_uncompressed_size, other.total_uncompressed_size);
    let (Some(min), Some(max)) = (&other.min, &other.max) else { return };
    let widened = promoted(min, known.value_type).zip(promoted(max, known.value_type)).and_then(|(min, max)| {
        let is_same = is_comparable(other.value_type, known.value_type);
        is_same.then(|| widen(known, min, max)).flatten()
    });
    if widened.is_none() {
        let (min, max) = all_values(known.value_type).unzip();
        (known.min, known.max) = (min, max);
    }
}

/// Whether values of an older type are comparable with those of a newer one, once they are promoted. Statistics of the first
/// version do not tell times from integers.
fn is_comparable(old: ValueType, new: ValueType) -> bool {
    use ValueType as T;
    match (old, new) {
        (T::Decimal(_, old), T::Decimal(_, new)) => old == new,
        (T::Int | T::Long | T::Float | T::Double | T::Bytes, new) => !matches!(new, T::Decimal(..)),
        _ => old == new,
    }
}

/// A value in the form that values of a type have: integers may have become longer, and numbers more precise.
fn promoted(value: &RangeValue, value_type: ValueType) -> Option<RangeValue> {
    Some(match (value, value_type) {
        (RangeValue::Int(value), ValueType::Long) => RangeValue::Long((*value).into()),
        (RangeValue::Int(value), ValueType::Double) => RangeValue::Double((*value).into()),
        (RangeValue::Float(value), ValueType::Double) => RangeValue::Double((*value).into()),
        (RangeValue::Long(_) | RangeValue::Int(_), ValueType::Float | ValueType::Double) => return None,
        _ => value.clone(),
    })
}
