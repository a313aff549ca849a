//! Tasks of several processes that rewrite a group: each task of a large group rewrites a range of the sort order.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;
use arrow_row::{RowConverter, SortField};
use base64_simd::STANDARD;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::avro::metadata::ClusteringGroup;
use crate::sort::OrderBy;

/// Rows of a batch that are sampled to find the boundaries of tasks.
const SAMPLED_ROWS: usize = 512;

/// What one task rewrites: a group, or the rows of it whose sort key is in a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusteringTask {
    /// The group.
    pub group: ClusteringGroup,
    /// First sort key of the range, in Base64; `None`: from the beginning.
    pub from: Option<String>,
    /// Sort key after the range, in Base64; `None`: to the end.
    pub to: Option<String>,
}

impl ClusteringTask {
    /// All of a group.
    pub fn whole(group: ClusteringGroup) -> Self {
        Self { group, from: None, to: None }
    }

    /// The filter for the rows of the range; `None` for a whole group.
    ///
    /// # Errors
    /// `Corrupt` for a range that cannot be read; those of the order.
    pub(super) fn filter(&self, order: OrderBy, schema: &Schema) -> Result<Option<RangeFilter>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        let key = |text: &Option<String>| -> Result<Option<Vec<u8>>> {
            let decoded = text.as_ref().map(|text| STANDARD.decode_to_vec(text)).transpose();
            decoded.map_err(|e| Error::corrupt("the range of a clustering task cannot be read").caused_by(e))
        };
        let (from, to) = (key(&self.from)?, key(&self.to)?);
        Ok(Some(RangeFilter { keys: SortKeys::new(order, schema)?, from, to }))
    }
}

/// Sort keys of rows, as bytes that compare as the rows do.
pub(super) struct SortKeys {
    order: OrderBy,
    converter: RowConverter,
}

impl SortKeys {
    pub(super) fn new(order: OrderBy, schema: &Schema) -> Result<Self> {
        let columns = order(&RecordBatch::new_empty(schema.clone().into()))?;
        let fields = columns.iter().map(|c| SortField::new(c.data_type().clone()));
        let converter = RowConverter::new(fields.collect())
            .map_err(|e| Error::unsupported("sorting by a column of a type that has no order").caused_by(e))?;
        Ok(Self { order, converter })
    }

    /// Samples the sort keys of a batch at even distances.
    pub(super) fn sample(&self, batch: &RecordBatch, into: &mut Vec<Vec<u8>>) -> Result<()> {
        let rows = self.converter.convert_columns(&(self.order)(batch)?)?;
        let step = batch.num_rows().div_ceil(SAMPLED_ROWS).max(1);
        into.extend((0..batch.num_rows()).step_by(step).map(|row| rows.row(row).as_ref().to_vec()));
        Ok(())
    }
}

/// Keeps the rows of a range.
pub(super) struct RangeFilter {
    keys: SortKeys,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl RangeFilter {
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = self.keys.converter.convert_columns(&(self.keys.order)(batch)?)?;
        let inside = |row: &[u8]| {
            self.from.as_deref().is_none_or(|from| row >= from) && self.to.as_deref().is_none_or(|to| row < to)
        };
        let keep: BooleanArray = rows.iter().map(|row| Some(inside(row.as_ref()))).collect();
        Ok(filter_record_batch(batch, &keep)?)
    }
}

/// Divides a group at these sampled keys into so many tasks of about equal rows.
pub(super) fn divide(group: &ClusteringGroup, mut keys: Vec<Vec<u8>>, parts: usize) -> Vec<ClusteringTask> {
    keys.sort_unstable();
    let mut cuts: Vec<&Vec<u8>> = (1..parts).filter_map(|part| keys.get(part * keys.len() / parts)).collect();
    cuts.dedup();
    // No row is before the smallest value.
    cuts.retain(|cut| keys.first() != Some(*cut));
    let text = |key: &Vec<u8>| STANDARD.encode_to_string(key);
    let starts = std::iter::once(None).chain(cuts.iter().map(|cut| Some(text(cut))));
    let ends = cuts.iter().map(|cut| Some(text(cut))).chain(std::iter::once(None));
    starts.zip(ends).map(|(from, to)| ClusteringTask { group: group.clone(), from, to }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    #[test]
    fn every_row_is_in_one_portion() {
        let values: Vec<Option<i64>> = (0..1000).map(|i| (i % 7 > 0).then_some(i * 37 % 1000)).collect();
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        let batch = RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap();
        let order: OrderBy = Arc::new(|batch: &RecordBatch| Ok(batch.columns().to_vec()));
        let keys = SortKeys::new(order.clone(), &batch.schema()).unwrap();
        let mut sampled = Vec::new();
        keys.sample(&batch, &mut sampled).unwrap();
        let tasks = divide(&ClusteringGroup::default(), sampled, 4);
        assert_eq!(tasks.len(), 4);
        let rows: Vec<usize> = tasks
            .iter()
            .map(|p| p.filter(order.clone(), &batch.schema()).unwrap().unwrap().apply(&batch).unwrap().num_rows())
            .collect();
        assert_eq!(rows.iter().sum::<usize>(), 1000);
        assert!(rows.iter().all(|n| (200..300).contains(n)), "{rows:?}");
        let whole = ClusteringTask::whole(ClusteringGroup::default());
        assert!(whole.filter(order, &batch.schema()).unwrap().is_none());
        // One value cannot be divided.
        assert_eq!(divide(&ClusteringGroup::default(), vec![vec![1]; 9], 4).len(), 1);
    }
}
