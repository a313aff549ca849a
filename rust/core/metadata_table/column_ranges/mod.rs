//! Ranges of columns: what `column_stats` and `partition_stats` say, from the files that a writer has just written.
//!
//! | file | makes |
//! |---|---|
//! | `indexed.rs` | which columns have ranges |
//! | `footers.rs` | ranges of a base file, from its footer |
//! | `batches.rs` | ranges of a log file, from the batches that went into it |
//! | `partitions.rs` | ranges of a partition, from those of the files that were written in it |
//! | `stored.rs` | ranges as the metadata table has them |
//! | `any_value.rs` | the range of a column of which nothing is known |
//! | `records.rs` | keys and values of the metadata table |
//!
//! A range that is too wide costs time; one that is too narrow hides rows. So whatever is not sure to be a bound gives
//! the range of all values, or, where rows are not of one file alone, no records: files without any are read.

mod any_value;
mod batches;
mod footers;
mod indexed;
mod partitions;
pub(crate) mod records;
mod stored;
mod value_types;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub(crate) use any_value::any_value;
pub(crate) use batches::BatchRanges;
pub(crate) use footers::ranges_of_footer;
pub(crate) use indexed::{IndexVersion, IndexedColumnOptions, indexed_columns, type_in};
pub(crate) use partitions::{StoredRange, partition_range};
pub(crate) use stored::each_stored_range;
pub(crate) use value_types::of_column as column_type;

use crate::format::column_range::{ColumnRange, RangeValue, ValueType};

/// The range of no values.
pub(crate) fn empty_range(column: &str, value_type: ValueType) -> ColumnRange {
    ColumnRange {
        column: column.to_owned(),
        min: None,
        max: None,
        value_count: 0,
        null_count: 0,
        total_size: 0,
        total_uncompressed_size: 0,
        value_type,
    }
}

/// Widens a range to hold these values too; `None` if they are of another type.
fn widen(range: &mut ColumnRange, min: RangeValue, max: RangeValue) -> Option<()> {
    let smaller = range.min.as_ref().map_or(Some(Ordering::Less), |known| min.compare(known))?;
    let larger = range.max.as_ref().map_or(Some(Ordering::Greater), |known| max.compare(known))?;
    if smaller == Ordering::Less {
        range.min = Some(min);
    }
    if larger == Ordering::Greater {
        range.max = Some(max);
    }
    Some(())
}
