//! Merges by a hash table of the newer rows, while older rows stream.

use arrow::array::RecordBatch;

use super::{RowMerging, RowStream};
use crate::error::Result;
use crate::interrupt;
use crate::merge::{BatchMerger, Budget, Kept};
use crate::storage::spill;

/// The merged rows: older rows in their order, then new ones.
pub(super) struct HashMerge {
    merging: RowMerging,
    older: RowStream,
    /// The newer rows; read when the first result is asked for.
    newer: Option<RowStream>,
    merger: Option<BatchMerger>,
}

impl HashMerge {
    pub(super) fn new(merging: RowMerging, older: RowStream, newer: RowStream) -> Self {
        Self { merging, older, newer: Some(newer), merger: None }
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(newer) = self.newer.take() {
            self.merger = Some(read_newer(&self.merging, newer)?);
        }
        let Some(merger) = &mut self.merger else { return Ok(None) };
        for batch in self.older.by_ref() {
            interrupt::check()?;
            let batch = self.merging.older(batch?)?;
            let keys = self.merging.keys.of(&batch)?;
            let merged =
                merger.merge(&batch, &keys, &|batch| self.merging.settings.ordering(batch), &mut |_, _| Ok(()))?;
            if merged.num_rows() > 0 {
                return Ok(Some(merged));
            }
        }
        merger.next_new()
    }
}

impl Iterator for HashMerge {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

fn read_newer(merging: &RowMerging, newer: RowStream) -> Result<BatchMerger> {
    let put_away = |batches: &[RecordBatch]| spill(&merging.spill.folder, batches);
    let budget = Some(Budget { bytes: merging.spill.budget, spill: &put_away });
    let mut kept = Kept::new(budget);
    for batch in newer {
        interrupt::check()?;
        kept.push(merging.records(&batch?)?)?;
    }
    merging.batch_merger(kept, budget)
}
