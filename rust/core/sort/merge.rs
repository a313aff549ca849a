//! Merging sorted streams, of each of which a batch is in memory.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::keys::{KeyEncoder, Keys};
use super::rows::{BATCH_ROWS, Rows, batch_rows, bytes_of};
use super::run::{gather, order, tiny_bits};
use crate::error::{Error, Result};

/// A position in a sorted stream.
pub(super) struct Cursor {
    rows: Rows,
    encoder: Arc<KeyEncoder>,
    current: Option<Batch>,
}

struct Batch {
    data: RecordBatch,
    keys: Keys,
    row: usize,
    /// Its number among the batches of the result in the making, once a row of it was taken.
    number: Option<usize>,
}

impl Cursor {
    /// Reads the first rows.
    pub(super) fn open(rows: Rows, encoder: Arc<KeyEncoder>) -> Result<Self> {
        let mut cursor = Self { rows, encoder, current: None };
        cursor.next_batch()?;
        Ok(cursor)
    }

    fn next_batch(&mut self) -> Result<()> {
        let before = self.current.take();
        for data in self.rows.by_ref() {
            let data = data?;
            if data.num_rows() == 0 {
                continue;
            }
            let keys = self.encoder.of(&data)?;
            if let Some(last) = &before {
                check(&last.keys, last.data.num_rows() - 1, &keys, 0)?;
            }
            (1..data.num_rows()).try_for_each(|row| check(&keys, row - 1, &keys, row))?;
            self.current = Some(Batch { data, keys, row: 0, number: None });
            break;
        }
        Ok(())
    }

    /// Goes on behind rows of the batch, which has this number among those of the result.
    fn pass(&mut self, rows: Range<usize>, number: usize) -> Result<()> {
        let Some(batch) = &mut self.current else { return Ok(()) };
        if rows.end == batch.keys.len() {
            return self.next_batch();
        }
        if !rows.is_empty() {
            batch.number = Some(number);
        }
        batch.row = rows.end;
        Ok(())
    }
}

fn check(keys: &Keys, row: usize, next: &Keys, next_row: usize) -> Result<()> {
    match keys.compare(row, next, next_row) {
        Ordering::Greater => Err(Error::corrupt("rows that were said to be sorted are not")),
        _ => Ok(()),
    }
}

/// The rows of several sorted streams in one order, equal ones by their streams. They are merged a range at a time: all rows
/// up to the least of the last rows that are in memory of each stream.
pub(super) struct Merge {
    schema: SchemaRef,
    /// Those that have rows.
    cursors: Vec<Cursor>,
    threads: usize,
    /// Rows of a batch that is given out.
    batch_rows: usize,
    /// What is given out next.
    ready: VecDeque<RecordBatch>,
    failed: bool,
}

impl Merge {
    pub(super) fn new(schema: SchemaRef, cursors: Vec<Cursor>, budget: usize, threads: usize) -> Result<Self> {
        let mut rows_at_once = BATCH_ROWS;
        for batch in cursors.iter().filter_map(|c| c.current.as_ref()) {
            rows_at_once = rows_at_once.min(batch_rows(budget, bytes_of(&batch.data)?, batch.data.num_rows()));
        }
        let cursors = cursors.into_iter().filter(|c| c.current.is_some()).collect();
        Ok(Self { schema, cursors, threads, batch_rows: rows_at_once, ready: VecDeque::new(), failed: false })
    }

    /// Merges ranges until there are rows for a batch.
    fn advance(&mut self) -> Result<()> {
        let mut used: Vec<RecordBatch> = Vec::new();
        let mut rows: Vec<(usize, usize)> = Vec::with_capacity(self.batch_rows);
        while rows.len() < self.batch_rows && !self.cursors.is_empty() {
            let current: Vec<&Batch> = self.cursors.iter().filter_map(|c| c.current.as_ref()).collect();
            if current.len() != self.cursors.len() {
                return Err(Error::internal("the merge of sorted rows waits for a stream that has none left"));
            }
            let ends = ends_of_range(&current);
            let ranges: Vec<Range<usize>> = current.iter().zip(&ends).map(|(batch, end)| batch.row..*end).collect();
            let keys: Vec<&Keys> = current.iter().map(|batch| &batch.keys).collect();
            let merged = order(&keys, tiny_bits(&keys), &ranges);
            let mut numbers = Vec::with_capacity(current.len());
            for (batch, range) in current.iter().zip(&ranges) {
                numbers.push(batch.number.unwrap_or(used.len()));
                if batch.number.is_none() && !range.is_empty() {
                    used.push(batch.data.clone());
                }
            }
            let number = |stream: u32| numbers.get(stream as usize).copied().unwrap_or_default();
            rows.extend(merged.into_iter().map(|(stream, row)| (number(stream), row as usize)));
            for ((cursor, range), number) in self.cursors.iter_mut().zip(ranges).zip(numbers) {
                cursor.pass(range, number)?;
            }
            self.cursors.retain(|cursor| cursor.current.is_some());
        }
        for cursor in &mut self.cursors {
            if let Some(batch) = &mut cursor.current {
                batch.number = None;
            }
        }
        let used: Vec<&RecordBatch> = used.iter().collect();
        // A little more than that rather than a small batch behind it.
        let batches = (rows.len() / self.batch_rows).max(1);
        for rows in rows.chunks(rows.len().div_ceil(batches).max(1)) {
            self.ready.push_back(gather(&self.schema, &used, rows, self.threads)?);
        }
        Ok(())
    }
}

/// Where the next range ends in each batch: behind the rows that come no later than the least of the last ones. What is still
/// to be read of any stream comes later.
fn ends_of_range(batches: &[&Batch]) -> Vec<usize> {
    let last = |batch: &Batch| batch.keys.len().saturating_sub(1);
    let compared = |a: (usize, usize), b: (usize, usize)| match (batches.get(a.0), batches.get(b.0)) {
        (Some(x), Some(y)) => x.keys.compare(a.1, &y.keys, b.1).then(a.0.cmp(&b.0)),
        _ => Ordering::Equal,
    };
    let lasts = batches.iter().enumerate().map(|(stream, batch)| (stream, last(batch)));
    let bound = lasts.min_by(|a, b| compared(*a, *b)).unwrap_or_default();
    let end = |(stream, batch): (usize, &&Batch)| {
        let (mut least, mut end) = (batch.row, batch.keys.len());
        while least < end {
            let middle = least + (end - least) / 2;
            match compared((stream, middle), bound) {
                Ordering::Greater => end = middle,
                _ => least = middle + 1,
            }
        }
        end
    };
    batches.iter().enumerate().map(end).collect()
}

impl Iterator for Merge {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.ready.is_empty()
            && let Err(e) = self.advance()
        {
            self.failed = true;
            return Some(Err(e));
        }
        self.ready.pop_front().map(Ok)
    }
}
