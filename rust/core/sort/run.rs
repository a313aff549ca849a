//! Rows that are sorted in memory.

use std::cmp::Ordering;

use arrow::array::{Array, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;

use super::keys::Keys;
use super::{BATCH_ROWS, batch_rows, bytes_of};
use crate::error::{Error, Result};
use crate::parallel::run_parallel;

/// Rows in the making of a run.
pub(super) struct SortedRun {
    schema: SchemaRef,
    threads: usize,
    /// The batches with their keys; by the number, equal rows come in order.
    batches: Vec<(u64, RecordBatch, Keys)>,
    bytes: usize,
    rows: usize,
}

/// A row: the first bytes of its key, its batch, its place there.
type Entry = (u128, u32, u32);

impl SortedRun {
    pub(super) fn new(schema: SchemaRef, threads: usize) -> Self {
        Self { schema, threads, batches: Vec::new(), bytes: 0, rows: 0 }
    }

    pub(super) fn push(&mut self, number: u64, batch: RecordBatch, keys: Keys) -> Result<()> {
        self.rows += batch.num_rows();
        self.bytes += bytes_of(&batch)? + keys.size() + batch.num_rows() * size_of::<Entry>();
        self.batches.push((number, batch, keys));
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether more rows could not be numbered.
    pub(super) fn is_full(&self) -> bool {
        self.rows > u32::MAX as usize / 2
    }

    /// The rows in their order; equal ones as they came.
    pub(super) fn sorted(mut self, budget: usize) -> Result<InMemory> {
        self.batches.sort_by_key(|(number, _, _)| *number);
        let (batches, all_keys): (Vec<RecordBatch>, Vec<Keys>) =
            self.batches.into_iter().map(|(_, batch, keys)| (batch, keys)).unzip();
        let order = match tiny_order(&all_keys, self.threads)? {
            Some(order) => order,
            None => order(&all_keys, self.threads)?,
        };
        let batch_rows = batch_rows(budget, self.bytes, self.rows);
        Ok(InMemory { schema: self.schema, threads: self.threads, batches, order, next: 0, batch_rows })
    }
}

/// Batch and row of all rows in their order.
fn order(all_keys: &[Keys], threads: usize) -> Result<Vec<(u32, u32)>> {
    let mut order: Vec<Entry> = Vec::with_capacity(all_keys.iter().map(Keys::len).sum());
    for (number, keys) in (0..).zip(all_keys) {
        order.extend((0..keys.len()).map(|row| (keys.prefix(row), number, row as u32)));
    }
    let compare = |a: &Entry, b: &Entry| {
        let rest = || match (all_keys.get(a.1 as usize), all_keys.get(b.1 as usize)) {
            (Some(x), Some(y)) => x.compare_rest(a.2 as usize, y, b.2 as usize),
            _ => Ordering::Equal,
        };
        a.0.cmp(&b.0).then_with(rest).then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
    };
    sort_runs(&mut order, threads, &compare)?;
    Ok(order.into_iter().map(|(_, batch, row)| (batch, row)).collect())
}

/// The same where a key, its batch and its row go into one number; `None` where they do not.
fn tiny_order(all_keys: &[Keys], threads: usize) -> Result<Option<Vec<(u32, u32)>>> {
    let most_rows = all_keys.iter().map(Keys::len).max().unwrap_or_default();
    let row_bits = usize::BITS - most_rows.leading_zeros();
    let has_room = row_bits < u32::BITS && all_keys.len() <= 1 << (u32::BITS - row_bits);
    if !has_room || !all_keys.iter().all(Keys::are_tiny) {
        return Ok(None);
    }
    let mut order: Vec<u128> = Vec::with_capacity(all_keys.iter().map(Keys::len).sum());
    for (number, keys) in (0u128..).zip(all_keys) {
        let batch = number << row_bits;
        order.extend((0..keys.len()).map(|row| keys.prefix(row) | batch | row as u128));
    }
    sort_runs(&mut order, threads, &u128::cmp)?;
    let place = |entry: u128| (entry as u32 >> row_bits, entry as u32 & ((1 << row_bits) - 1));
    Ok(Some(order.into_iter().map(place).collect()))
}

/// Sorts entries that are in order for long stretches, which are merged.
fn sort_runs<T: Copy + Send>(
    entries: &mut [T],
    threads: usize,
    compare: &(impl Fn(&T, &T) -> Ordering + Sync),
) -> Result<()> {
    if threads > 1 && entries.len() > BATCH_ROWS {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| Error::storage("no threads to sort with").caused_by(e))?;
        pool.install(|| sort_halves(entries, threads, compare));
    } else {
        entries.sort_by(compare);
    }
    Ok(())
}

fn sort_halves<T: Copy + Send>(entries: &mut [T], threads: usize, compare: &(impl Fn(&T, &T) -> Ordering + Sync)) {
    if threads > 1 {
        let (a, b) = entries.split_at_mut(entries.len() / 2);
        rayon::join(|| sort_halves(a, threads / 2, compare), || sort_halves(b, threads - threads / 2, compare));
    }
    // What is in order already is found, and merged.
    entries.sort_by(compare);
}

/// Rows of several batches, given out in an order.
pub(super) struct InMemory {
    schema: SchemaRef,
    threads: usize,
    batches: Vec<RecordBatch>,
    order: Vec<(u32, u32)>,
    next: usize,
    /// Rows of a batch that is given out.
    batch_rows: usize,
}

impl InMemory {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Iterator for InMemory {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.order.len().min(self.next + self.batch_rows);
        let rows = self.order.get(self.next..end).filter(|rows| !rows.is_empty())?;
        let rows: Vec<(usize, usize)> = rows.iter().map(|(batch, row)| (*batch as usize, *row as usize)).collect();
        self.next = end;
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        Some(gather(&self.schema, &batches, &rows, self.threads))
    }
}

/// Rows of several batches as one, column by column.
pub(super) fn gather(
    schema: &SchemaRef,
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
    threads: usize,
) -> Result<RecordBatch> {
    let columns = run_parallel((0..schema.fields().len()).collect(), threads, |column| {
        let parts: Vec<&dyn Array> =
            batches.iter().filter_map(|b| b.columns().get(column)).map(AsRef::as_ref).collect();
        Ok(interleave(&parts, rows)?)
    })?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
