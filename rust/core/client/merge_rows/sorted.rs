//! Both inputs sorted by their key: a batch of older rows and the newer rows of its range at a time.

use std::collections::VecDeque;
use std::iter::Peekable;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow_row::{OwnedRow, RowConverter, Rows, SortField};

use super::{RowMerging, RowStream};
use crate::error::{Error, Result};
use crate::merge::{Budget, Delta, Kept, MergeOnto, Step, in_order};
use crate::storage::spill;

/// Rows in the order of their keys.
pub(super) struct SortedMerge {
    merging: RowMerging,
    converter: RowConverter,
    older: Peekable<RowStream>,
    newer: RowStream,
    /// Newer rows that were read and not merged yet, with their keys; each batch has some.
    waiting: VecDeque<(RecordBatch, Rows)>,
    newer_ended: bool,
    last_older: Option<OwnedRow>,
    last_newer: Option<OwnedRow>,
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
            older: older.peekable(),
            newer,
            waiting: VecDeque::new(),
            newer_ended: false,
            last_older: None,
            last_newer: None,
        })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.older.next() {
            let batch = self.merging.older(batch?)?;
            if batch.num_rows() == 0 {
                continue;
            }
            let keys = self.keys(&batch)?;
            check_order(&keys, self.last_older.as_ref(), true, "older")?;
            let last = keys.row(keys.num_rows() - 1).owned();
            let newer = self.newer_up_to(&last)?;
            self.last_older = Some(last);
            let merged = self.merge(&batch, newer)?;
            if merged.num_rows() > 0 {
                return Ok(Some(merged));
            }
        }
        // Behind the last of the older rows: newer ones, batch after batch, each up to the key before its last one,
        // which may go on in the next batch.
        while self.read_more()? || !self.waiting.is_empty() {
            let newer = match self.waiting.back() {
                Some((_, keys)) if !self.newer_ended => {
                    let last = keys.row(keys.num_rows() - 1);
                    let before = (0..keys.num_rows()).rev().map(|row| keys.row(row)).find(|row| *row < last);
                    let Some(before) = before.map(|row| row.owned()) else { continue };
                    self.newer_up_to(&before)?
                }
                _ => self.waiting.drain(..).map(|(batch, _)| batch).collect(),
            };
            let merged = self.merge(&RecordBatch::new_empty(self.merging.schema.clone()), newer)?;
            if merged.num_rows() > 0 {
                return Ok(Some(merged));
            }
        }
        Ok(None)
    }

    /// Newer rows with keys up to this one, which no later batch has.
    fn newer_up_to(&mut self, last: &OwnedRow) -> Result<Vec<RecordBatch>> {
        let goes_on = |waiting: &VecDeque<(RecordBatch, Rows)>| {
            waiting.back().is_none_or(|(_, keys)| keys.row(keys.num_rows() - 1) <= last.row())
        };
        while goes_on(&self.waiting) && self.read_more()? {}
        let mut out = Vec::new();
        while let Some((batch, keys)) = self.waiting.pop_front() {
            let end = rows_up_to(&keys, last);
            out.push(batch.slice(0, end));
            if end < batch.num_rows() {
                let rest = batch.slice(end, batch.num_rows() - end);
                let keys = self.keys(&rest)?;
                self.waiting.push_front((rest, keys));
                break;
            }
        }
        Ok(out)
    }

    /// Reads another batch of newer rows; false when there are no more.
    fn read_more(&mut self) -> Result<bool> {
        while !self.newer_ended {
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
            self.waiting.push_back((batch, keys));
            return Ok(true);
        }
        Ok(false)
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Rows> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.merging.keys.names().len());
        for name in self.merging.keys.names() {
            let column = batch.column_by_name(name);
            let column = column.ok_or_else(|| Error::schema(format!("the key column '{name}' is missing")))?;
            if column.null_count() > 0 {
                return Err(Error::schema(format!("the key column '{name}' holds a null")).with("column", name));
            }
            let wanted = self.merging.schema.field_with_name(name)?.data_type();
            columns.push(arrow_cast::cast(column, wanted)?);
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
        let batches = kept.into_list();
        let rule = &self.merging.settings.rule;
        let delta = Delta::new(&self.merging.newer, &batches, in_order(&batches), rule, Step::Batch, budget)?;
        let mut onto = MergeOnto::new(delta, rule.clone(), self.merging.schema.clone(), true);
        let keys = self.merging.keys.of(older)?;
        let mut parts = vec![onto.merge(older, &keys, &|batch| self.merging.settings.ordering(batch))?];
        while let Some(new) = onto.next_new()? {
            parts.push(new);
        }
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let all = concat_batches(&self.merging.schema, &parts)?;
        let keys = self.keys(&all)?;
        let mut order: Vec<u32> = (0..all.num_rows() as u32).collect();
        // Nearly sorted already: runs are found and merged.
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
