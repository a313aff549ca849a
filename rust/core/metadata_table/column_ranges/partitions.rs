//! Ranges of a partition, from those of the files that a commit wrote in it.
//!
//! They are merged with what the metadata table has: minimum of minimums, maximum of maximums. So they hold all values
//! that the partition ever had, without a look at the other files; Hudi's next write into the partition, or a compaction
//! of the index by it, makes them tight again.

use std::collections::BTreeMap;

use super::any_value::{all_values, any_value};
use super::widen;
use crate::format::column_range::{ColumnRange, FileRanges, ValueType};

/// One range for each column of which a file says something. A column of which one file may hold any value gets all
/// values of its type as range: without a record, the partition would be skipped.
pub(super) fn partition_ranges<'a>(files: impl IntoIterator<Item = &'a FileRanges>) -> Vec<ColumnRange> {
    let mut columns: BTreeMap<&str, ColumnRange> = BTreeMap::new();
    for file in files {
        for range in &file.ranges {
            match columns.get_mut(range.column.as_str()) {
                Some(known) => merge(known, range),
                None => _ = columns.insert(&range.column, range.clone()),
            }
        }
        for unknown in &file.unknown {
            let any = any_value(unknown);
            match columns.get_mut(unknown.column.as_str()) {
                Some(known) => merge(known, &any),
                None => _ = columns.insert(&unknown.column, any),
            }
        }
    }
    columns.into_values().collect()
}

fn merge(known: &mut ColumnRange, other: &ColumnRange) {
    let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more);
    add(&mut known.value_count, other.value_count);
    add(&mut known.null_count, other.null_count);
    add(&mut known.total_size, other.total_size);
    add(&mut known.total_uncompressed_size, other.total_uncompressed_size);
    if known.value_type == ValueType::Null {
        known.value_type = other.value_type;
    }
    let (Some(min), Some(max)) = (other.min.clone(), other.max.clone()) else { return };
    if widen(known, min, max).is_none() {
        let (min, max) = all_values(known.value_type).unzip();
        (known.min, known.max) = (min, max);
    }
}
