//! Merges the records of a shard by key.
//!
//! Log records are merged with each other in the order of their blocks, and then with the base file, which streams by. All
//! but statistics that are not of everything simply replace what was there. A delete removes the key.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, StringArray};

use super::kind::Kind;
use super::raw;
use super::slice::{each_logged, each_stored};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::log::LogBatch;
use crate::format::log::Wanted;
use crate::storage::Storage;
use crate::timeline::TimeZone;

/// Rows that are passed on at a time.
const BATCH_ROWS: usize = 16_384;

/// What a shard is read with.
pub(super) struct ShardReader<'a> {
    pub(super) storage: &'a Storage,
    pub(super) kind: Kind,
    pub(super) zone: TimeZone,
    /// Which records are read.
    pub(super) wanted: Wanted<'a>,
}

/// Log records by key.
struct LogRecords {
    kind: Kind,
    batches: Vec<RecordBatch>,
    /// Batch and row of each key, in the order of the keys' first records; `None` for a deleted one.
    rows: Vec<Option<(usize, usize)>>,
    by_key: HashMap<String, usize>,
    /// Keys that were deleted once, by their place in `rows`: the base file has nothing to say of them.
    deleted: HashSet<usize>,
}

impl LogRecords {
    fn new(kind: Kind) -> Self {
        Self { kind, batches: Vec::new(), rows: Vec::new(), by_key: HashMap::new(), deleted: HashSet::new() }
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let keys = keys_of(&batch)?.clone();
        let number = self.batches.len();
        self.batches.push(batch);
        for row in 0..keys.len() {
            match self.by_key.entry(keys.value(row).to_owned()) {
                Entry::Vacant(entry) => {
                    entry.insert(self.rows.len());
                    self.rows.push(Some((number, row)));
                }
                Entry::Occupied(entry) => {
                    let slot = *entry.get();
                    let before = self.rows.get(slot).copied().flatten();
                    let combined = match before.and_then(|(batch, row)| Some((self.batches.get(batch)?, row))) {
                        Some(old) => match self.batches.get(number) {
                            Some(new) => self.kind.combine(old, (new, row))?,
                            None => None,
                        },
                        None => None,
                    };
                    self.put(slot, combined, (number, row));
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, slot: usize, combined: Option<RecordBatch>, newer: (usize, usize)) {
        let place = match combined {
            Some(row) => {
                self.batches.push(row);
                (self.batches.len() - 1, 0)
            }
            None => newer,
        };
        if let Some(row) = self.rows.get_mut(slot) {
            *row = Some(place);
        }
    }

    fn delete(&mut self, keys: &StringArray) {
        for key in keys.iter().flatten() {
            let slot = *self.by_key.entry(key.to_owned()).or_insert(self.rows.len());
            match self.rows.get_mut(slot) {
                Some(row) => *row = None,
                None => self.rows.push(None),
            }
            self.deleted.insert(slot);
        }
    }

    /// Merges with rows of the base file; returns those that no log record is about.
    fn meet(&mut self, base: &RecordBatch) -> Result<RecordBatch> {
        let keys = keys_of(base)?;
        if self.by_key.is_empty() {
            return Ok(base.clone());
        }
        let mut kept = Vec::with_capacity(keys.len());
        for row in 0..keys.len() {
            let slot = self.by_key.get(keys.value(row)).copied();
            kept.push(slot.is_none());
            let Some(slot) = slot.filter(|slot| !self.deleted.contains(slot)) else { continue };
            let Some(newer) = self.rows.get(slot).copied().flatten() else { continue };
            let combined = match self.batches.get(newer.0) {
                Some(new) => self.kind.combine((base, row), (new, newer.1))?,
                None => None,
            };
            self.put(slot, combined, newer);
        }
        Ok(arrow_select::filter::filter_record_batch(base, &BooleanArray::from(kept))?)
    }
}

fn keys_of(flat: &RecordBatch) -> Result<&StringArray> {
    raw::flat(flat, "key")?.as_string_opt::<i32>().ok_or_else(|| Error::internal("keys of rows are not strings"))
}

impl ShardReader<'_> {
    /// Passes the live rows of a shard to `each`: those that only the base file has first, in its order.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`; and those of `each`.
    pub(super) fn each_row(
        &self,
        slice: &FileSlice,
        counts: impl Fn(&str) -> bool,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let columns = ["key", self.kind.column()];
        let mut logs = LogRecords::new(self.kind);
        each_logged(self.storage, slice, counts, self.wanted, &columns, &mut |content| match content {
            LogBatch::Records(stored) => logs.add(self.flat(&stored)?),
            LogBatch::Deletes(deletes) => {
                logs.delete(&deletes.keys);
                Ok(())
            }
        })?;
        if let Some(base) = &slice.base {
            let rows = self.kind.batch_rows();
            let flat = |stored: RecordBatch| self.flat(&stored);
            each_stored(self.storage, base, self.wanted, &columns, rows, &flat, &mut |flat| {
                each_live(&logs.meet(&flat)?, each)
            })?;
        }
        let LogRecords { batches, rows, .. } = logs;
        let live: Vec<(usize, usize)> = rows.into_iter().flatten().collect();
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        for some in live.chunks(BATCH_ROWS) {
            each_live(&arrow_select::interleave::interleave_record_batch(&batches, some)?, each)?;
        }
        Ok(())
    }

    fn flat(&self, stored: &RecordBatch) -> Result<RecordBatch> {
        self.kind.flatten(stored, self.zone)
    }
}

/// Passes the rows that are not deleted to `each`.
fn each_live(rows: &RecordBatch, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let deleted = raw::flat(rows, "is_deleted")?.as_boolean_opt();
    let deleted = deleted.ok_or_else(|| Error::internal("is_deleted of rows is no flag"))?;
    if rows.num_rows() == 0 {
        return Ok(());
    }
    if deleted.true_count() == 0 {
        return each(rows.clone());
    }
    let live: BooleanArray = deleted.iter().map(|deleted| Some(deleted != Some(true))).collect();
    each(arrow_select::filter::filter_record_batch(rows, &live)?)
}
