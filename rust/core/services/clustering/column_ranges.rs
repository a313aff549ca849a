//! The ranges of one column in the current files of a table, and how many of them overlap.

use std::collections::BTreeMap;

use super::super::schema_of;
use super::group_stats::{DepthTotal, first_column, points};
use super::overlap::{Depth, FileRanges, depth};
use super::ranges::read_ranges;
use super::schedule::check_column;
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::table::HudiTable;

/// The ranges of one column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnRanges {
    /// The file slices, by partition, with the column range of their base file.
    pub files: Vec<(FileSlice, Option<FileRanges>)>,
    /// Files of one partition that a point query on the column opens: maximum and mean.
    pub depth: Depth,
}

/// Reads the footers of all latest file slices; log files are ignored.
///
/// # Errors
/// `InvalidOption` for a column that the table does not have; `Corrupt` for a damaged file; `Storage`.
pub fn column_ranges(table: &HudiTable, column: &str) -> Result<ColumnRanges> {
    let view = table.view(None)?;
    let slices = view.all_latest_slices()?;
    if slices.is_empty() {
        return Ok(ColumnRanges::default());
    }
    let schema = schema_of(table, &view)?;
    check_column(table, &schema, column)?;
    let bases = slices.iter().filter_map(|s| s.base.clone()).collect();
    let mut ranges = read_ranges(table.storage(), bases, &[column.to_owned()], &schema, table.threads()?)?;
    let with_ranges = |slice: FileSlice| {
        let found = slice.base.as_ref().and_then(|base| ranges.remove(&base.path));
        (slice, found)
    };
    let files: Vec<_> = slices.into_iter().map(with_ranges).collect();
    let mut partitions: BTreeMap<&str, Vec<Option<&FileRanges>>> = BTreeMap::new();
    for (slice, found) in &files {
        partitions.entry(&slice.partition).or_default().push(found.as_ref());
    }
    let mut total = DepthTotal::default();
    for of_partition in partitions.values() {
        let ends = first_column(of_partition);
        let points = points(&ends);
        total.add(depth(&ends, &points), points.len());
    }
    let depth = total.depth();
    Ok(ColumnRanges { files, depth })
}
