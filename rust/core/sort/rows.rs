//! Streams of rows, and how many rows are best in a batch of one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};

use crate::error::Result;

/// Most rows of a batch that is given out.
pub(super) const BATCH_ROWS: usize = 32_768;
/// The part of the budget that such a batch may take.
const BATCH_SHARE: usize = 16;
/// Fewer rows are not worth a batch.
pub(super) const LEAST_ROWS: usize = 256;

/// Gives the columns by which rows are ordered: ascending, nulls first, the first column before the others.
pub(crate) type OrderBy = Arc<dyn Fn(&RecordBatch) -> Result<Vec<ArrayRef>> + Send + Sync>;

/// A stream of rows that are sorted.
pub(crate) type Rows = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Rows of a batch that takes no more than its part of the budget, when so many rows take so many bytes.
pub(crate) fn batch_rows(budget: usize, bytes: usize, rows: usize) -> usize {
    (budget / BATCH_SHARE / (bytes / rows.max(1)).max(1)).clamp(LEAST_ROWS, BATCH_ROWS)
}

/// Bytes that the values of a batch take.
pub(super) fn bytes_of(batch: &RecordBatch) -> Result<usize> {
    batch.columns().iter().map(|column| Ok(column.to_data().get_slice_memory_size()?)).sum()
}
