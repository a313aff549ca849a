//! Sorting rows by some of their columns, or by what is made of them, within a budget of memory.
//!
//! Rows are sorted as they come, as many at a time as fit; such a run goes to the disk when more follow. In the end the
//! runs are merged, and inputs that were sorted already with them. Equal rows keep the order in which they came.

mod keys;
mod merge;
mod rows;
mod run;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;

use self::keys::{KeyEncoder, Keys};
use self::merge::{Cursor, Merge};
use self::rows::LEAST_ROWS;
pub(crate) use self::rows::OrderBy;
pub(crate) use self::rows::{Rows, batch_rows};
use self::run::{InMemory, SortedRun};
use crate::error::Result;
use crate::storage::{SpillOptions, SpillWriter};

/// Into how many batches such a one is cut on the disk.
const CHUNKS_OF_A_BATCH: usize = 8;

/// Makes what rows are compared by; several threads may do that for one sorter.
#[derive(Clone)]
pub(crate) struct Keyer(Arc<KeyEncoder>);

/// Rows with what they are compared by.
pub(crate) struct KeyedBatch {
    batch: RecordBatch,
    keys: Keys,
}

impl Keyer {
    /// Makes the keys of these rows, and puts them into their order among themselves.
    ///
    /// # Errors
    /// Those of the order.
    pub(crate) fn keyed(&self, batch: RecordBatch) -> Result<KeyedBatch> {
        let mut keys = self.0.of(&batch)?;
        // Batches in order are read from the front when they are merged, which memory is made for; in any order, each
        // value would be waited for.
        let batch = match keys.sort() {
            Some(rows) => take_record_batch(&batch, &rows)?,
            None => batch,
        };
        Ok(KeyedBatch { batch, keys })
    }
}

/// Sorts rows of one schema.
pub(crate) struct Sorter {
    schema: SchemaRef,
    keys: Arc<KeyEncoder>,
    spill: SpillOptions,
    threads: usize,
    run: SortedRun,
    /// Runs on the disk, and inputs that were sorted before, in the order in which they came.
    sorted: Vec<Rows>,
}

impl Sorter {
    /// A sorter of rows with these columns.
    ///
    /// # Errors
    /// `Unsupported` for types without an order; those of `order_by`.
    pub(crate) fn new(schema: SchemaRef, order_by: OrderBy, spill: SpillOptions, threads: usize) -> Result<Self> {
        let keys = Arc::new(KeyEncoder::new(order_by, &schema)?);
        let run = SortedRun::new(schema.clone(), threads);
        Ok(Self { schema, keys, spill, threads, run, sorted: Vec::new() })
    }

    /// What makes keys for this sorter.
    pub(crate) fn keyer(&self) -> Keyer {
        Keyer(self.keys.clone())
    }

    /// Adds rows in any order. Batches are numbered, because they may come from several threads: as long as all fit into memory,
    /// equal rows come in the order of the numbers.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub(crate) fn push_keyed(&mut self, number: u64, rows: KeyedBatch) -> Result<()> {
        if rows.batch.num_rows() == 0 {
            return Ok(());
        }
        self.run.push(number, rows.batch, rows.keys)?;
        // The rows, and beside them those of one batch as they are put into their order.
        if self.run.bytes() > self.spill.budget / 4 * 3 || self.run.is_full() {
            self.spill()?;
        }
        Ok(())
    }

    /// Adds a stream that is sorted already, of which no more than a batch is held. It is checked as it is read: rows that
    /// are not sorted are `Corrupt` then.
    ///
    /// # Errors
    /// Those of [`Sorter::push`].
    pub(crate) fn add_sorted(&mut self, rows: Rows) -> Result<()> {
        // Rows that came before it come before its equal ones.
        if !self.run.is_empty() {
            self.spill()?;
        }
        self.sorted.push(rows);
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let run = std::mem::replace(&mut self.run, SortedRun::new(self.schema.clone(), self.threads));
        let mut file = SpillWriter::create(&self.spill.folder, &self.schema)?;
        for batch in run.sorted(self.spill.budget) {
            let batch = batch?;
            // One of each run is in memory when they are merged.
            let step = batch.num_rows().div_ceil(CHUNKS_OF_A_BATCH).max(LEAST_ROWS);
            for start in (0..batch.num_rows()).step_by(step) {
                file.write(&batch.slice(start, step.min(batch.num_rows() - start)))?;
            }
        }
        self.sorted.push(Box::new(file.finish_to_read_once()?));
        Ok(())
    }

    /// All rows in their order.
    ///
    /// # Errors
    /// Those of the first batch of each input.
    pub(crate) fn finish(mut self) -> Result<Rows> {
        let rest: InMemory = self.run.sorted(self.spill.budget);
        if self.sorted.is_empty() {
            return Ok(Box::new(rest));
        }
        if !rest.is_empty() {
            self.sorted.push(Box::new(rest));
        }
        let cursors = self.sorted.into_iter().map(|rows| Cursor::open(rows, self.keys.clone()));
        Ok(Box::new(Merge::new(self.schema, cursors.collect::<Result<Vec<_>>>()?, self.spill.budget, self.threads)?))
    }
}

#[cfg(test)]
mod tests;
