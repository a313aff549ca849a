//! Minimum and maximum of a column in a whole file, by the statistics of its row groups.

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use arrow_row::{RowConverter, SortField};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::reader::ChunkReader;

use super::evolution::evolve;
use super::pruning::{keeps_order, without_nan};
use super::reader::BaseFileReader;
use super::row_group::leaf_count;
use hoodoo_runtime::error::Result;

/// Minimum and maximum of a column.
#[derive(Debug, Clone)]
pub struct ColumnBounds {
    /// The minimum, as an array of one value; null if the column has nulls.
    pub min: ArrayRef,
    /// The maximum, as an array of one value; null if the column has only nulls.
    pub max: ArrayRef,
    /// Number of nulls.
    pub nulls: u64,
}

impl<R: ChunkReader + 'static> BaseFileReader<R> {
    /// Returns minimum and maximum of a top-level column as values of the given type; nulls sort first. `None` without
    /// valid statistics, or if the cast does not keep the order. Writers may truncate strings: then these are bounds, not
    /// values of the column. NaN is left out.
    ///
    /// # Errors
    /// `Corrupt` for statistics that cannot be decoded.
    pub fn column_bounds(&self, column: &str, data_type: &DataType) -> Result<Option<ColumnBounds>> {
        let all_null = || {
            let null = new_null_array(data_type, 1);
            ColumnBounds { min: null.clone(), max: null, nulls: self.rows() }
        };
        let file = self.statistics(self.metadata());
        let Some((leaf, field)) = file.leaf(column) else { return Ok(Some(all_null())) };
        self.check_calendar(leaf..leaf + leaf_count(field.data_type()))?;
        if !file.trusted(leaf, field) || !keeps_order(field.data_type(), data_type) {
            return Ok(None);
        }
        let schema = self.metadata().file_metadata().schema_descr();
        let converter =
            StatisticsConverter::from_column_index(leaf, field, schema)?.with_missing_null_counts_as_zero(false);
        let groups = self.metadata().row_groups();
        let mins = evolve(&without_nan(converter.row_group_mins(groups)?), data_type, column)?;
        let maxes = evolve(&without_nan(converter.row_group_maxes(groups)?), data_type, column)?;
        let counts = converter.row_group_null_counts(groups)?;
        let mut nulls = 0u64;
        let mut kept = Vec::with_capacity(groups.len());
        for (at, group) in groups.iter().enumerate() {
            let rows = group.num_rows().max(0).cast_unsigned();
            let Some(null) = counts.iter().nth(at).flatten() else { return Ok(None) };
            nulls = nulls.saturating_add(null);
            match (mins.is_valid(at), maxes.is_valid(at)) {
                (true, true) => kept.push(at),
                _ if null == rows => {}
                _ => return Ok(None),
            }
        }
        if kept.is_empty() {
            return Ok(Some(all_null()));
        }
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
        let (min, max) = (
            converter.convert_columns(std::slice::from_ref(&mins))?,
            converter.convert_columns(std::slice::from_ref(&maxes))?,
        );
        let min = kept.iter().copied().min_by_key(|at| min.row(*at)).unwrap_or(0);
        let max = kept.iter().copied().max_by_key(|at| max.row(*at)).unwrap_or(0);
        let min = if nulls > 0 { new_null_array(data_type, 1) } else { mins.slice(min, 1) };
        Ok(Some(ColumnBounds { min, max: maxes.slice(max, 1), nulls }))
    }
}
