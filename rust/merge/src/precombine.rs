//! Reducing a batch to one record for each key, by the rule of the delta step.

use arrow::array::{Array, BooleanArray, StringArray};
use hashbrown::HashTable;

use super::event_time_ordering::{MergeMode, RecordComparator, Side, Step};
use super::key_table::{KeyTable, hash_key};
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
    table: KeyTable,
    may_repeat: bool,
}

/// Rows after which a long loop looks whether it was interrupted.
const ROWS_BETWEEN_CHECKS: usize = 1 << 15;

fn key_of<'a>(batches: &[KeyedRows<'a>], at: RowRef) -> Option<&'a str> {
    batches.get(at.batch as usize).map(|b| b.keys.value(at.row as usize))
}

fn no_batch(at: RowRef, batches: &[KeyedRows<'_>]) -> Error {
    Error::internal(format!("a row is in batch {} of {}", at.batch, batches.len()))
}

/// Merges the rows of one key, batch after batch, row after row. `combine` false keeps every row (`insert`).
pub fn precombine(batches: &[KeyedRows<'_>], mode: MergeMode, combine: bool) -> Result<Precombined> {
    precombine_in_order(batches, all_rows(batches), mode, combine)
}

/// The same with the rows in another order than that of the batches.
pub fn precombine_in_order(
    batches: &[KeyedRows<'_>],
    order: impl Iterator<Item = RowRef>,
    mode: MergeMode,
    combine: bool,
) -> Result<Precombined> {
    let (rows, hashes) = combined_rows(batches, order, mode, combine)?;
    Ok(Precombined { rows, table: KeyTable::new(&hashes), may_repeat: !combine })
}

/// The rows that [`precombine`] keeps, and the hashes of their keys.
pub(super) fn latest_rows(batches: &[KeyedRows<'_>], mode: MergeMode) -> Result<(Vec<RowRef>, Vec<u64>)> {
    combined_rows(batches, all_rows(batches), mode, true)
}

fn all_rows<'a>(batches: &'a [KeyedRows<'_>]) -> impl Iterator<Item = RowRef> + 'a {
    batches
        .iter()
        .enumerate()
        .flat_map(|(b, batch)| (0..batch.keys.len()).map(move |row| RowRef { batch: b as u32, row: row as u32 }))
}

fn combined_rows(
    batches: &[KeyedRows<'_>],
    order: impl Iterator<Item = RowRef>,
    mode: MergeMode,
    combine: bool,
) -> Result<(Vec<RowRef>, Vec<u64>)> {
    let total: usize = batches.iter().map(|b| b.keys.len()).sum();
    if u32::try_from(total).is_err() {
        return Err(Error::invalid_option(format!("{total} rows for one partition in one write are too many"))
            .remedy("Write them in several batches"));
    }
    let (mut rows, mut hashes) = (Vec::with_capacity(total), Vec::with_capacity(total));
    // Takes a third of the memory of a `KeyTable`, which counts here: all rows are found one after the other.
    let mut known = HashTable::<u32>::with_capacity(if combine { total } else { 0 });
    let mut comparators = Comparators::new(batches, mode);
    for (number, at) in order.enumerate() {
        if number.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            interrupt::check()?;
        }
        let key = key_of(batches, at).ok_or_else(|| no_batch(at, batches))?;
        let hash = hash_key(key);
        if combine {
            let same = |i: &u32| rows.get(*i as usize).is_some_and(|r| key_of(batches, *r) == Some(key));
            if let Some(i) = known.find(hash, same).copied() {
                if let Some(old) = rows.get_mut(i as usize)
                    && comparators.new_wins(*old, at)?
                {
                    *old = at;
                }
                continue;
            }
            let hash_of = |i: &u32| hashes.get(*i as usize).copied().unwrap_or_default();
            known.insert_unique(hash, rows.len() as u32, hash_of);
        }
        rows.push(at);
        hashes.push(hash);
    }
    Ok((rows, hashes))
}

impl Precombined {
    /// Position in `rows` of a key: of the first, when rows were not combined.
    pub fn find(&self, batches: &[KeyedRows<'_>], key: &str) -> Option<u32> {
        self.table.find(hash_key(key), |i| self.has_key(batches, i, key))
    }

    /// Looks up many keys, and tells `found` of each that is there: its row, and its position in `rows`; all positions,
    /// when rows were not combined. Nulls are no keys.
    pub fn find_all(&self, batches: &[KeyedRows<'_>], keys: &StringArray, mut found: impl FnMut(usize, u32)) {
        let is = |i: u32, key: &str| self.has_key(batches, i, key);
        self.table.find_all(keys, self.may_repeat, is, |row, i| {
            if keys.is_valid(row) {
                found(row, i);
            }
        });
    }

    fn has_key(&self, batches: &[KeyedRows<'_>], i: u32, key: &str) -> bool {
        self.rows.get(i as usize).is_some_and(|r| key_of(batches, *r) == Some(key))
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
        assert_eq!(got.find(&batches, "c"), Some(2));
        assert_eq!(got.find(&batches, "d"), None);
        let all = precombine(&batches, MergeMode::EventTime, false).unwrap();
        assert_eq!(all.rows.len(), 6);
        let wanted = StringArray::from(vec![Some("d"), Some("a"), None, Some("c")]);
        let found = |of: &Precombined| {
            let mut found = Vec::new();
            of.find_all(&batches, &wanted, |row, i| found.push((row, i)));
            found
        };
        assert_eq!(found(&got), [(1, 0), (3, 2)]);
        assert_eq!(found(&all), [(1, 0), (1, 2), (1, 5), (3, 4)]);
    }

    #[test]
    fn a_null_is_no_key() {
        let keys = StringArray::from(vec![""]);
        let batches = [rows(&keys, vec![1], vec![false])];
        let got = precombine(&batches, MergeMode::EventTime, true).unwrap();
        let mut found = Vec::new();
        got.find_all(&batches, &StringArray::from(vec![None, Some("")]), |row, i| found.push((row, i)));
        assert_eq!(found, [(1, 0)]);
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
