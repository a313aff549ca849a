//! Rows that are sorted in memory.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::{Array, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;

use super::keys::Keys;
use super::rows::{batch_rows, bytes_of};
use crate::error::{Error, Result};
use crate::parallel::run_parallel;

/// Every so many rows of a batch, one is looked at to divide all rows into ranges.
const SAMPLE_STEP: usize = 512;
/// Least rows of a range that were looked at.
const RANGE_SAMPLES: usize = 128;

/// Rows in the making of a run.
pub(super) struct SortedRun {
    schema: SchemaRef,
    threads: usize,
    /// The batches, each in its order, with their keys; by the number, equal rows come in order.
    batches: Vec<(u64, RecordBatch, Keys)>,
    bytes: usize,
    rows: usize,
}

/// A row: the first bytes of its key, its batch, its row number there.
type Entry = (u128, u32, u32);
/// A row by its batch and its row number there.
pub(super) type RowAddress = (u32, u32);

impl SortedRun {
    pub(super) fn new(schema: SchemaRef, threads: usize) -> Self {
        Self { schema, threads, batches: Vec::new(), bytes: 0, rows: 0 }
    }

    pub(super) fn push(&mut self, number: u64, batch: RecordBatch, keys: Keys) -> Result<()> {
        self.rows += batch.num_rows();
        self.bytes += bytes_of(&batch)? + keys.size();
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
    pub(super) fn sorted(mut self, budget: usize) -> InMemory {
        self.batches.sort_by_key(|(number, _, _)| *number);
        let batch_rows = batch_rows(budget, self.bytes, self.rows);
        let (batches, keys) = self.batches.into_iter().map(|(_, batch, keys)| (batch, keys)).unzip();
        InMemory {
            schema: self.schema,
            threads: self.threads,
            batches,
            ranges: Ranges::new(keys),
            order: VecDeque::new(),
            rows: self.rows,
            given: 0,
            batch_rows,
        }
    }
}

/// The order of the rows of batches that are sorted each, a range at a time: what is given out first need not wait for the
/// rest, and a range is small enough for the nearest caches.
struct Ranges {
    keys: Vec<Keys>,
    /// Bits of a row's number, when a key, its batch and its number go into one number.
    tiny: Option<u32>,
    /// The first rows of the ranges to come, the last range first; that of the next one is not among them.
    bounds: Vec<RowAddress>,
    /// Of each batch, the first row that is in none of the ranges so far.
    next: Vec<usize>,
    done: bool,
}

impl Ranges {
    fn new(keys: Vec<Keys>) -> Self {
        let tiny = tiny_bits(&keys.iter().collect::<Vec<_>>());
        let next = vec![0; keys.len()];
        let mut ranges = Self { keys, tiny, bounds: Vec::new(), next, done: false };
        let of_batch =
            |(batch, keys): (u32, &Keys)| (0..keys.len()).step_by(SAMPLE_STEP).map(move |row| (batch, row as u32));
        let mut samples: Vec<RowAddress> = (0..).zip(&ranges.keys).flat_map(of_batch).collect();
        samples.sort_unstable_by(|a, b| ranges.compare(*a, *b));
        // Of each batch, up to a step of rows more than the samples say may be in a range.
        let step = RANGE_SAMPLES.max(2 * ranges.keys.len());
        ranges.bounds = samples.into_iter().step_by(step).skip(1).collect();
        ranges.bounds.reverse();
        ranges
    }

    fn compare(&self, a: RowAddress, b: RowAddress) -> Ordering {
        let of_keys = match (self.keys.get(a.0 as usize), self.keys.get(b.0 as usize)) {
            (Some(x), Some(y)) => x.compare(a.1 as usize, y, b.1 as usize),
            _ => Ordering::Equal,
        };
        of_keys.then_with(|| a.cmp(&b))
    }

    /// The next range: the rows of each batch. `None` after the last one.
    fn next_range(&mut self) -> Option<Vec<Range<usize>>> {
        if self.done {
            return None;
        }
        let bound = self.bounds.pop();
        self.done = bound.is_none();
        let ranges = (0u32..).zip(self.keys.iter().zip(&self.next)).map(|(batch, (keys, start))| {
            let Some(bound) = bound else { return *start..keys.len() };
            let (mut least, mut end) = (*start, keys.len());
            while least < end {
                let middle = least + (end - least) / 2;
                match self.compare((batch, middle as u32), bound) {
                    Ordering::Less => least = middle + 1,
                    _ => end = middle,
                }
            }
            *start..end
        });
        let ranges: Vec<Range<usize>> = ranges.collect();
        self.next = ranges.iter().map(|range| range.end).collect();
        Some(ranges)
    }

    /// The rows of a range in their order.
    fn order(&self, range: &[Range<usize>]) -> Vec<RowAddress> {
        order(&self.keys.iter().collect::<Vec<_>>(), self.tiny, range)
    }
}

/// Bits of a row's number, when a key, its batch and its number go into one number.
pub(super) fn tiny_bits(keys: &[&Keys]) -> Option<u32> {
    let most_rows = keys.iter().map(|keys| keys.len()).max().unwrap_or_default();
    let row_bits = usize::BITS - most_rows.leading_zeros();
    let has_room = row_bits < u32::BITS && keys.len() <= 1 << (u32::BITS - row_bits);
    (has_room && keys.iter().all(|keys| keys.are_tiny())).then_some(row_bits)
}

/// Some rows of batches that are sorted each, a range of each batch, in one order; equal ones by their batches.
pub(super) fn order(keys: &[&Keys], tiny: Option<u32>, ranges: &[Range<usize>]) -> Vec<RowAddress> {
    let rows = ranges.iter().map(ExactSizeIterator::len).sum();
    let batches = (0u32..).zip(keys.iter().zip(ranges.iter().cloned()));
    if let Some(row_bits) = tiny {
        let mut order: Vec<u128> = Vec::with_capacity(rows);
        for (number, (keys, range)) in batches {
            let batch = u128::from(number) << row_bits;
            order.extend(range.map(|row| keys.prefix(row) | batch | row as u128));
        }
        // What is in order for long stretches is found, and merged.
        order.sort();
        let address = |entry: u128| (entry as u32 >> row_bits, entry as u32 & ((1 << row_bits) - 1));
        return order.into_iter().map(address).collect();
    }
    let mut order: Vec<Entry> = Vec::with_capacity(rows);
    for (number, (keys, range)) in batches {
        order.extend(range.map(|row| (keys.prefix(row), number, row as u32)));
    }
    order.sort_by(|a, b| {
        let rest = || match (keys.get(a.1 as usize), keys.get(b.1 as usize)) {
            (Some(x), Some(y)) => x.compare_rest(a.2 as usize, y, b.2 as usize),
            _ => Ordering::Equal,
        };
        a.0.cmp(&b.0).then_with(rest).then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
    });
    order.into_iter().map(|(_, batch, row)| (batch, row)).collect()
}

/// Rows of several batches, given out in an order.
pub(super) struct InMemory {
    schema: SchemaRef,
    threads: usize,
    batches: Vec<RecordBatch>,
    ranges: Ranges,
    /// The next rows, as far as their order is known.
    order: VecDeque<RowAddress>,
    /// Rows of all batches.
    rows: usize,
    /// Those of them that were given out.
    given: usize,
    /// Rows of a batch that is given out.
    batch_rows: usize,
}

impl InMemory {
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        while self.order.len() < self.batch_rows {
            let ranges: Vec<_> = (0..self.threads.max(1)).map_while(|_| self.ranges.next_range()).collect();
            if ranges.is_empty() {
                break;
            }
            for order in run_parallel(ranges, self.threads, |range| Ok(self.ranges.order(&range)))? {
                self.order.extend(order);
            }
        }
        let rows = self.order.drain(..self.batch_rows.min(self.order.len()));
        let rows: Vec<(usize, usize)> = rows.map(|(batch, row)| (batch as usize, row as usize)).collect();
        if rows.is_empty() && self.given != self.rows {
            // Once is enough.
            let given = std::mem::replace(&mut self.given, self.rows);
            return Err(Error::internal(format!("of {} rows that were sorted {given} came out", self.rows)));
        }
        if rows.is_empty() {
            return Ok(None);
        }
        self.given += rows.len();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        gather(&self.schema, &batches, &rows, self.threads).map(Some)
    }
}

impl Iterator for InMemory {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// Rows of several batches as one, column by column.
pub(super) fn gather(
    schema: &SchemaRef,
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
    threads: usize,
) -> Result<RecordBatch> {
    // Without one of the columns the others would be taken from the wrong batches.
    let wanted = schema.fields().len();
    if let Some(batch) = batches.iter().find(|batch| batch.num_columns() < wanted) {
        let columns = batch.num_columns();
        return Err(Error::internal(format!("a sorted batch has {columns} columns instead of {wanted}")));
    }
    let columns = run_parallel((0..schema.fields().len()).collect(), threads, |column| {
        let parts: Vec<&dyn Array> =
            batches.iter().filter_map(|b| b.columns().get(column)).map(AsRef::as_ref).collect();
        Ok(interleave(&parts, rows)?)
    })?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
