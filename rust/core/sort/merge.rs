//! Merging sorted streams, of each of which a batch is in memory.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::keys::{KeyEncoder, Keys};
use super::rows::{BATCH_ROWS, Rows, batch_rows, bytes_of};
use super::run::gather;
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

    fn compare(&self, other: &Self) -> Ordering {
        match (&self.current, &other.current) {
            (Some(a), Some(b)) => a.keys.compare(a.row, &b.keys, b.row),
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
        }
    }
}

fn check(keys: &Keys, row: usize, next: &Keys, next_row: usize) -> Result<()> {
    match keys.compare(row, next, next_row) {
        Ordering::Greater => Err(Error::corrupt("rows that were said to be sorted are not")),
        _ => Ok(()),
    }
}

/// The rows of several sorted streams in one order.
pub(super) struct Merge {
    schema: SchemaRef,
    cursors: Vec<Cursor>,
    /// A heap of the streams that have rows, that with the smallest on top; of equal ones the earlier stream.
    heap: Vec<usize>,
    /// Rows of a batch that is given out.
    batch_rows: usize,
    failed: bool,
}

impl Merge {
    pub(super) fn new(schema: SchemaRef, cursors: Vec<Cursor>, budget: usize) -> Result<Self> {
        let mut rows_at_once = BATCH_ROWS;
        for batch in cursors.iter().filter_map(|c| c.current.as_ref()) {
            rows_at_once = rows_at_once.min(batch_rows(budget, bytes_of(&batch.data)?, batch.data.num_rows()));
        }
        let heap = (0..cursors.len()).filter(|c| cursors.get(*c).is_some_and(|c| c.current.is_some())).collect();
        let mut merge = Self { schema, cursors, heap, batch_rows: rows_at_once, failed: false };
        for position in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(position);
        }
        Ok(merge)
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        match (self.cursors.get(a), self.cursors.get(b)) {
            (Some(x), Some(y)) => x.compare(y).then(a.cmp(&b)).is_lt(),
            _ => false,
        }
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let mut least = position;
            for child in [2 * position + 1, 2 * position + 2] {
                if let (Some(c), Some(l)) = (self.heap.get(child), self.heap.get(least))
                    && self.is_before(*c, *l)
                {
                    least = child;
                }
            }
            if least == position {
                return;
            }
            self.heap.swap(position, least);
            position = least;
        }
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        let mut used: Vec<RecordBatch> = Vec::new();
        let mut rows: Vec<(usize, usize)> = Vec::with_capacity(self.batch_rows);
        while let Some(top) = self.heap.first().copied().filter(|_| rows.len() < self.batch_rows) {
            let cursor = self.cursors.get_mut(top).ok_or_else(no_rows)?;
            let batch = cursor.current.as_mut().ok_or_else(no_rows)?;
            let number = *batch.number.get_or_insert_with(|| {
                used.push(batch.data.clone());
                used.len() - 1
            });
            rows.push((number, batch.row));
            batch.row += 1;
            if batch.row == batch.data.num_rows() {
                cursor.next_batch()?;
                if cursor.current.is_none() {
                    let last = self.heap.len() - 1;
                    self.heap.swap(0, last);
                    self.heap.pop();
                }
            }
            self.sift_down(0);
        }
        for cursor in &mut self.cursors {
            if let Some(batch) = &mut cursor.current {
                batch.number = None;
            }
        }
        if rows.is_empty() {
            return Ok(None);
        }
        gather(&self.schema, &used.iter().collect::<Vec<_>>(), &rows, 1).map(Some)
    }
}

fn no_rows() -> Error {
    Error::internal("the merge of sorted rows waits for a stream that has none left")
}

impl Iterator for Merge {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}
