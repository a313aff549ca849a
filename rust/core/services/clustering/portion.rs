//! Parts of a group that tasks of several processes rewrite: those of a large group have each a range of the order.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;
use arrow_row::{RowConverter, SortField};
use base64_simd::STANDARD;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::avro::metadata::ClusteringGroup;
use crate::sort::OrderBy;

/// Rows of a batch that are looked at to find out where to divide a group.
const SAMPLED_ROWS: usize = 512;

/// What one task rewrites: a group, or the rows of it whose place in the order is in a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// The group.
    pub group: ClusteringGroup,
    /// The first place of the range, as text; from the beginning when there is none.
    pub from: Option<String>,
    /// The place behind the range; to the end when there is none.
    pub to: Option<String>,
}

impl Portion {
    /// All of a group.
    pub fn whole(group: ClusteringGroup) -> Self {
        Self { group, from: None, to: None }
    }

    /// What keeps the rows of the range; `None` when it is the whole group.
    ///
    /// # Errors
    /// `Corrupt` for a range that cannot be read; those of the order.
    pub(super) fn filter(&self, order: OrderBy, schema: &Schema) -> Result<Option<RangeFilter>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        let place = |text: &Option<String>| -> Result<Option<Vec<u8>>> {
            let decoded = text.as_ref().map(|text| STANDARD.decode_to_vec(text)).transpose();
            decoded.map_err(|e| Error::corrupt("the range of a clustering task cannot be read").caused_by(e))
        };
        let (from, to) = (place(&self.from)?, place(&self.to)?);
        Ok(Some(RangeFilter { places: Places::new(order, schema)?, from, to }))
    }
}

/// Places of rows in an order, as bytes that compare as the rows do.
pub(super) struct Places {
    order: OrderBy,
    converter: RowConverter,
}

impl Places {
    pub(super) fn new(order: OrderBy, schema: &Schema) -> Result<Self> {
        let columns = order(&RecordBatch::new_empty(schema.clone().into()))?;
        let fields = columns.iter().map(|c| SortField::new(c.data_type().clone()));
        let converter = RowConverter::new(fields.collect())
            .map_err(|e| Error::unsupported("sorting by a column of a type that has no order").caused_by(e))?;
        Ok(Self { order, converter })
    }

    /// The places of some rows of a batch, evenly spread.
    pub(super) fn sample(&self, batch: &RecordBatch, into: &mut Vec<Vec<u8>>) -> Result<()> {
        let rows = self.converter.convert_columns(&(self.order)(batch)?)?;
        let step = batch.num_rows().div_ceil(SAMPLED_ROWS).max(1);
        into.extend((0..batch.num_rows()).step_by(step).map(|row| rows.row(row).as_ref().to_vec()));
        Ok(())
    }
}

/// Keeps the rows of a range.
pub(super) struct RangeFilter {
    places: Places,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl RangeFilter {
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = self.places.converter.convert_columns(&(self.places.order)(batch)?)?;
        let inside = |row: &[u8]| {
            self.from.as_deref().is_none_or(|from| row >= from) && self.to.as_deref().is_none_or(|to| row < to)
        };
        let keep: BooleanArray = rows.iter().map(|row| Some(inside(row.as_ref()))).collect();
        Ok(filter_record_batch(batch, &keep)?)
    }
}

/// Divides a group at these sampled places into so many portions of about equal rows.
pub(super) fn divide(group: &ClusteringGroup, mut places: Vec<Vec<u8>>, parts: usize) -> Vec<Portion> {
    places.sort_unstable();
    let mut cuts: Vec<&Vec<u8>> = (1..parts).filter_map(|part| places.get(part * places.len() / parts)).collect();
    cuts.dedup();
    // Before the least value there is nothing.
    cuts.retain(|cut| places.first() != Some(*cut));
    let text = |place: &Vec<u8>| STANDARD.encode_to_string(place);
    let starts = std::iter::once(None).chain(cuts.iter().map(|cut| Some(text(cut))));
    let ends = cuts.iter().map(|cut| Some(text(cut))).chain(std::iter::once(None));
    starts.zip(ends).map(|(from, to)| Portion { group: group.clone(), from, to }).collect()
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
        let places = Places::new(order.clone(), &batch.schema()).unwrap();
        let mut sampled = Vec::new();
        places.sample(&batch, &mut sampled).unwrap();
        let portions = divide(&ClusteringGroup::default(), sampled, 4);
        assert_eq!(portions.len(), 4);
        let rows: Vec<usize> = portions
            .iter()
            .map(|p| p.filter(order.clone(), &batch.schema()).unwrap().unwrap().apply(&batch).unwrap().num_rows())
            .collect();
        assert_eq!(rows.iter().sum::<usize>(), 1000);
        assert!(rows.iter().all(|n| (200..300).contains(n)), "{rows:?}");
        let whole = Portion::whole(ClusteringGroup::default());
        assert!(whole.filter(order, &batch.schema()).unwrap().is_none());
        // One value cannot be divided.
        assert_eq!(divide(&ClusteringGroup::default(), vec![vec![1]; 9], 4).len(), 1);
    }
}
