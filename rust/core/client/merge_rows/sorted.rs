//! Merges inputs that are sorted by their key, one overlapping key range at a time.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow_row::{OwnedRow, Row, RowConverter, Rows, SortField};

use super::lossless::lossless;
use super::{RowMerging, RowStream};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::merge::{Budget, Kept};
use crate::storage::spill;

/// Rows in the order of their keys.
pub(super) struct SortedMerge {
    merging: RowMerging,
    converter: RowConverter,
    older: RowStream,
    newer: RowStream,
    /// Older rows that are not merged yet.
    current: Option<Waiting>,
    /// Newer ones.
    waiting: VecDeque<Waiting>,
    newer_ended: bool,
    last_older: Option<OwnedRow>,
    last_newer: Option<OwnedRow>,
}

/// The rest of a batch, from a row on; at least one row.
struct Waiting {
    batch: RecordBatch,
    keys: Rows,
    from: usize,
}

impl Waiting {
    fn last(&self) -> Row<'_> {
        self.keys.row(self.keys.num_rows() - 1)
    }

    /// The largest key before the last one.
    fn before_last(&self) -> Option<OwnedRow> {
        let last = self.last();
        (self.from..self.keys.num_rows()).rev().map(|row| self.keys.row(row)).find(|row| *row < last).map(|r| r.owned())
    }

    /// Takes the rows with keys up to this one, or all. Returns whether rows are left.
    fn take(&mut self, bound: Option<&OwnedRow>) -> (RecordBatch, bool) {
        let end = bound.map_or(self.keys.num_rows(), |bound| rows_up_to(&self.keys, bound)).max(self.from);
        let taken = self.batch.slice(self.from, end - self.from);
        self.from = end;
        (taken, end < self.keys.num_rows())
    }
}

impl SortedMerge {
    pub(super) fn new(merging: RowMerging, older: RowStream, newer: RowStream) -> Result<Self> {
        let mut fields = Vec::new();
        for name in merging.keys.names() {
            fields.push(SortField::new(merging.schema.field_with_name(name)?.data_type().clone()));
        }
        let converter = RowConverter::new(fields)?;
        Ok(Self {
            merging,
            converter,
            older,
            newer,
            current: None,
            waiting: VecDeque::new(),
            newer_ended: false,
            last_older: None,
            last_newer: None,
        })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.current.is_none() {
                self.current = self.read_older()?;
            }
            if self.waiting.is_empty() {
                self.read_newer()?;
            }
            if self.current.is_none() && self.waiting.is_empty() {
                return Ok(None);
            }
            // The next batch of newer rows may have more rows of the last key.
            let newer_bound = match self.waiting.back() {
                Some(last) if !self.newer_ended => match last.before_last() {
                    Some(bound) => Some(bound),
                    None => {
                        self.read_newer()?;
                        continue;
                    }
                },
                _ => None,
            };
            let older_bound = self.current.as_ref().map(|current| current.last().owned());
            let bound = match (older_bound, newer_bound) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            let merged = self.merge_up_to(bound.as_ref())?;
            if merged.num_rows() > 0 {
                return Ok(Some(merged));
            }
        }
    }

    /// Merges rows with keys up to this one, or all that were read.
    fn merge_up_to(&mut self, bound: Option<&OwnedRow>) -> Result<RecordBatch> {
        interrupt::check()?;
        let mut older = RecordBatch::new_empty(self.merging.schema.clone());
        if let Some(mut current) = self.current.take() {
            let (taken, more) = current.take(bound);
            older = taken;
            self.current = more.then_some(current);
        }
        let mut newer = Vec::new();
        while let Some(mut first) = self.waiting.pop_front() {
            let (taken, more) = first.take(bound);
            newer.push(taken);
            if more {
                self.waiting.push_front(first);
                break;
            }
        }
        self.merge(&older, newer)
    }

    fn read_older(&mut self) -> Result<Option<Waiting>> {
        for batch in self.older.by_ref() {
            interrupt::check()?;
            let batch = self.merging.older(batch?)?;
            if batch.num_rows() > 0 {
                let keys = self.keys(&batch)?;
                check_order(&keys, self.last_older.as_ref(), true, "older")?;
                self.last_older = Some(keys.row(keys.num_rows() - 1).owned());
                return Ok(Some(Waiting { batch, keys, from: 0 }));
            }
        }
        Ok(None)
    }

    /// Reads another batch of newer rows, if there is one.
    fn read_newer(&mut self) -> Result<()> {
        while !self.newer_ended {
            interrupt::check()?;
            let Some(batch) = self.newer.next().transpose()? else {
                self.newer_ended = true;
                break;
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let keys = self.keys(&batch)?;
            check_order(&keys, self.last_newer.as_ref(), false, "newer")?;
            self.last_newer = Some(keys.row(keys.num_rows() - 1).owned());
            self.waiting.push_back(Waiting { batch, keys, from: 0 });
            break;
        }
        Ok(())
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Rows> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.merging.keys.names().len());
        for name in self.merging.keys.names() {
            let column = batch.column_by_name(name);
            let column = column.ok_or_else(|| Error::schema(format!("the key column '{name}' is missing")))?;
            if column.null_count() > 0 {
                return Err(Error::schema(format!("the key column '{name}' holds a null")).with("column", name));
            }
            columns.push(lossless(column, self.merging.schema.field_with_name(name)?, true)?);
        }
        Ok(self.converter.convert_columns(&columns)?)
    }

    /// Merges rows of one range of keys, in the order of the keys.
    fn merge(&self, older: &RecordBatch, newer: Vec<RecordBatch>) -> Result<RecordBatch> {
        if newer.iter().all(|batch| batch.num_rows() == 0) {
            return Ok(older.clone());
        }
        let put_away = |batches: &[RecordBatch]| spill(&self.merging.spill.folder, batches);
        let budget = Some(Budget { bytes: self.merging.spill.budget, spill: &put_away });
        let mut kept = Kept::new(budget);
        for batch in newer.iter().filter(|batch| batch.num_rows() > 0) {
            kept.push(self.merging.records(batch)?)?;
        }
        let mut merger = self.merging.batch_merger(kept, budget)?;
        let keys = self.merging.keys.of(older)?;
        let mut parts =
            vec![merger.merge(older, &keys, &|batch| self.merging.settings.ordering(batch), &mut |_, _| Ok(()))?];
        while let Some(new) = merger.next_new()? {
            parts.push(new);
        }
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let all = concat_batches(&self.merging.schema, &parts)?;
        let keys = self.keys(&all)?;
        let mut order: Vec<u32> = (0..all.num_rows() as u32).collect();
        // The rows are nearly sorted: the sort finds runs and merges them.
        order.sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        Ok(take_record_batch(&all, &UInt32Array::from(order))?)
    }
}

impl Iterator for SortedMerge {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// How many of the sorted keys are not larger than this one.
fn rows_up_to(keys: &Rows, last: &OwnedRow) -> usize {
    let (mut low, mut high) = (0, keys.num_rows());
    while low < high {
        let middle = low.midpoint(high);
        if keys.row(middle) <= last.row() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Fails unless keys ascend, from those of the batch before on.
fn check_order(keys: &Rows, before: Option<&OwnedRow>, unique: bool, side: &str) -> Result<()> {
    let wrong = |what: &str| {
        Err(Error::invalid_option(format!("the {side} rows are {what}"))
            .remedy("Sort them by the key columns, ascending, or leave out sorted=True"))
    };
    let starts = before.map(|row| row.row()).into_iter().chain(keys.iter());
    for (a, b) in starts.zip(keys.iter().skip(usize::from(before.is_none()))) {
        if a > b {
            return wrong("not sorted by their key");
        }
        if unique && a == b {
            return wrong("not unique in their key");
        }
    }
    Ok(())
}
