//! Reducing a batch to one record for each key, by the rule of the delta step.

use arrow::array::{Array, BooleanArray, StringArray};
use hashbrown::HashTable;

use super::event_time_ordering::{MergeMode, RecordComparator, Side, Step};
use super::ordering_values::OrderingValues;
use super::records::Records;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::interrupt;

/// A row of a list of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowRef {
    /// Which batch.
    pub batch: u32,
    /// Which row of it.
    pub row: u32,
}

/// What merging has to know of one batch.
pub struct KeyedRows<'a> {
    /// Record keys.
    pub keys: &'a StringArray,
    /// Ordering values.
    pub ordering: OrderingValues,
    /// Deletes.
    pub deleted: Option<BooleanArray>,
    /// Which rows come from a delete block. `None`: none of them.
    pub delete_block: Option<BooleanArray>,
}

impl<'a> KeyedRows<'a> {
    /// What merging has to know of records.
    pub fn of(records: &'a Records) -> Self {
        Self {
            keys: &records.keys,
            ordering: records.ordering.clone(),
            deleted: Some(records.deleted.clone()),
            delete_block: records.delete_block.clone(),
        }
    }
}

/// The records that a batch comes down to, findable by key.
pub struct Precombined {
    /// One row for each key, in the order of the first appearance of the key.
    pub rows: Vec<RowRef>,
    /// Positions in `rows`, by hash of the key.
    table: HashTable<u32>,
    hashes: Vec<u64>,
}

/// Rows after which a long loop looks whether it was interrupted.
const ROWS_BETWEEN_CHECKS: usize = 1 << 15;

/// Fixed seeds: the same input always comes out in the same order.
static HASHER: ahash::RandomState = ahash::RandomState::with_seeds(0x9ae1, 0x6a3d, 0x2c71, 0x51b5);

/// The hash of a record key that [`Precombined`] uses.
pub fn hash_key(key: &str) -> u64 {
    HASHER.hash_one(key)
}

fn key_of<'a>(batches: &[KeyedRows<'a>], at: RowRef) -> Option<&'a str> {
    batches.get(at.batch as usize).map(|b| b.keys.value(at.row as usize))
}

fn no_batch(at: RowRef, batches: &[KeyedRows<'_>]) -> Error {
    Error::internal(format!("a row is in batch {} of {}", at.batch, batches.len()))
}

/// Merges the rows of one key, batch after batch, row after row. `combine` false keeps every row (`insert`).
pub fn precombine(batches: &[KeyedRows<'_>], mode: MergeMode, combine: bool) -> Result<Precombined> {
    let rows_of = |(b, batch): (usize, &KeyedRows<'_>)| {
        (0..batch.keys.len()).map(move |row| RowRef { batch: b as u32, row: row as u32 })
    };
    precombine_in_order(batches, batches.iter().enumerate().flat_map(rows_of), mode, combine)
}

/// The same with the rows in another order than that of the batches.
pub fn precombine_in_order(
    batches: &[KeyedRows<'_>],
    order: impl Iterator<Item = RowRef>,
    mode: MergeMode,
    combine: bool,
) -> Result<Precombined> {
    let total: usize = batches.iter().map(|b| b.keys.len()).sum();
    if u32::try_from(total).is_err() {
        return Err(Error::invalid_option(format!("{total} rows for one partition in one write are too many"))
            .remedy("Write them in several batches"));
    }
    let mut out = Precombined {
        rows: Vec::with_capacity(total),
        table: HashTable::with_capacity(total),
        hashes: Vec::with_capacity(total),
    };
    let mut comparators = Comparators::new(batches, mode);
    for (number, at) in order.enumerate() {
        if number.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            interrupt::check()?;
        }
        let key = key_of(batches, at).ok_or_else(|| no_batch(at, batches))?;
        let hash = hash_key(key);
        if combine {
            let Precombined { rows, table, .. } = &out;
            let same = |i: &u32| rows.get(*i as usize).is_some_and(|r| key_of(batches, *r) == Some(key));
            if let Some(i) = table.find(hash, same).copied() {
                if let Some(old) = out.rows.get_mut(i as usize)
                    && comparators.new_wins(*old, at)?
                {
                    *old = at;
                }
                continue;
            }
        }
        let index = out.rows.len() as u32;
        out.rows.push(at);
        out.hashes.push(hash);
        let hashes = &out.hashes;
        out.table.insert_unique(hash, index, |i| hashes.get(*i as usize).copied().unwrap_or_default());
    }
    Ok(out)
}

impl Precombined {
    /// The rows, and the hashes of their keys.
    pub(super) fn into_parts(self) -> (Vec<RowRef>, Vec<u64>) {
        (self.rows, self.hashes)
    }

    /// Positions in `rows` of a key: one, or several when rows were not combined.
    pub fn find<'s>(&'s self, batches: &'s [KeyedRows<'_>], hash: u64, key: &'s str) -> impl Iterator<Item = u32> + 's {
        self.table
            .iter_hash(hash)
            .copied()
            .filter(move |i| self.rows.get(*i as usize).is_some_and(|r| key_of(batches, *r) == Some(key)))
    }
}

/// Comparators between pairs of batches, made when they are first needed.
struct Comparators<'a, 'b> {
    batches: &'a [KeyedRows<'b>],
    mode: MergeMode,
    made: std::collections::HashMap<(u32, u32), RecordComparator<'a>>,
}

impl<'a, 'b> Comparators<'a, 'b> {
    fn new(batches: &'a [KeyedRows<'b>], mode: MergeMode) -> Self {
        Self { batches, mode, made: std::collections::HashMap::new() }
    }

    fn new_wins(&mut self, old: RowRef, new: RowRef) -> Result<bool> {
        let comparator = match self.made.entry((old.batch, new.batch)) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => {
                let side = |i: u32| {
                    let batch = self.batches.get(i as usize);
                    let batch = batch.ok_or_else(|| no_batch(RowRef { batch: i, row: 0 }, self.batches))?;
                    let (deleted, delete_block) = (batch.deleted.as_ref(), batch.delete_block.as_ref());
                    Ok::<_, Error>(Side { ordering: &batch.ordering, deleted, delete_block })
                };
                e.insert(RecordComparator::new(self.mode, Step::Batch, side(old.batch)?, side(new.batch)?)?)
            }
        };
        Ok(comparator.new_wins(old.row as usize, new.row as usize))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    fn rows<'a>(keys: &'a StringArray, ts: Vec<i64>, deleted: Vec<bool>) -> KeyedRows<'a> {
        let ordering = OrderingValues::try_new(vec![Arc::new(Int64Array::from(ts)) as ArrayRef]).unwrap();
        KeyedRows { keys, ordering, deleted: Some(BooleanArray::from(deleted)), delete_block: None }
    }

    #[test]
    fn one_row_for_each_key() {
        let (k1, k2) = (StringArray::from(vec!["a", "b", "a"]), StringArray::from(vec!["b", "c", "a"]));
        let batches = [rows(&k1, vec![12, 1, 11], vec![false; 3]), rows(&k2, vec![1, 5, 12], vec![false; 3])];
        let got = precombine(&batches, MergeMode::EventTime, true).unwrap();
        let at = |batch, row| RowRef { batch, row };
        assert_eq!(got.rows, [at(1, 2), at(1, 0), at(1, 1)]);
        assert_eq!(got.find(&batches, hash_key("c"), "c").collect::<Vec<_>>(), [2]);
        assert_eq!(got.find(&batches, hash_key("d"), "d").count(), 0);
        let all = precombine(&batches, MergeMode::EventTime, false).unwrap();
        assert_eq!(all.rows.len(), 6);
        assert_eq!(all.find(&batches, hash_key("a"), "a").count(), 3);
    }

    #[test]
    fn a_row_of_no_batch_is_an_error() {
        let keys = StringArray::from(vec!["a"]);
        let order = [RowRef { batch: 0, row: 0 }, RowRef { batch: 1, row: 0 }];
        let got =
            precombine_in_order(&[rows(&keys, vec![1], vec![false])], order.into_iter(), MergeMode::CommitTime, true);
        assert_eq!(got.map(|_| ()).unwrap_err().kind(), hoodoo_runtime::error::ErrorKind::Internal);
    }

    #[test]
    fn a_delete_in_the_batch_counts() {
        let keys = StringArray::from(vec!["a", "a", "b", "b"]);
        let batches = [rows(&keys, vec![12, 11, 12, 11], vec![true, false, false, true])];
        let got = precombine(&batches, MergeMode::EventTime, true).unwrap();
        assert_eq!(got.rows, [RowRef { batch: 0, row: 0 }, RowRef { batch: 0, row: 2 }]);
    }
}
