//! Merging all records of a key, one after the other, pairs of many keys at a time.

use arrow::datatypes::SchemaRef;
use hashbrown::HashTable;

use super::event_time_ordering::Step;
use super::key_table::hash_key;
use super::records::{Records, RowAddress};
use super::rule::MergeRule;
use hoodoo_runtime::error::{Error, Result};

/// Merges the records of each key in the given order, so many keys at a time; the results, each key once, go to `out`.
pub fn fold(
    schema: &SchemaRef,
    batches: &[Records],
    order: impl Iterator<Item = RowAddress>,
    rule: &MergeRule,
    step: Step,
    keys_at_once: usize,
    out: &mut dyn FnMut(Records) -> Result<()>,
) -> Result<()> {
    let parts: Vec<&Records> = batches.iter().collect();
    let keys = ByKey::new(batches, order)?;
    let (alone, several) = keys.split();
    let alone: Vec<RowAddress> = alone.into_iter().map(|(place, _)| place).collect();
    for chunk in alone.chunks(keys_at_once.max(1)) {
        out(Records::gather(schema, &parts, chunk)?)?;
    }
    fold_keys(schema, batches, &keys, several, rule, step, keys_at_once, out)
}

/// The same for keys that have several records. Gives the others: where each is, and the hash of its key.
pub(super) fn fold_several(
    schema: &SchemaRef,
    batches: &[Records],
    rule: &MergeRule,
    step: Step,
    keys_at_once: usize,
    out: &mut dyn FnMut(Records) -> Result<()>,
) -> Result<Vec<(RowAddress, u64)>> {
    let keys = ByKey::new(batches, in_order(batches))?;
    let (alone, several) = keys.split();
    fold_keys(schema, batches, &keys, several, rule, step, keys_at_once, out)?;
    Ok(alone)
}

#[expect(clippy::too_many_arguments, reason = "they are those of `fold`")]
fn fold_keys(
    schema: &SchemaRef,
    batches: &[Records],
    keys: &ByKey,
    mut several: Vec<usize>,
    rule: &MergeRule,
    step: Step,
    keys_at_once: usize,
    out: &mut dyn FnMut(Records) -> Result<()>,
) -> Result<()> {
    let parts: Vec<&Records> = batches.iter().collect();
    for chunk in several.chunks_mut(keys_at_once.max(1)) {
        // Those with most records first, so that in every round the keys that have another one are the first ones.
        chunk.sort_by_key(|entry| std::cmp::Reverse(keys.rows_of(*entry).len()));
        let round = |round: usize| -> Vec<RowAddress> {
            chunk.iter().map_while(|entry| keys.rows_of(*entry).get(round).copied()).collect()
        };
        let mut merged = Records::gather(schema, &parts, &round(0))?;
        if merged.len() != chunk.len() {
            return Err(Error::internal(format!("of {} keys {} have a record", chunk.len(), merged.len())));
        }
        for number in 1.. {
            let rows = round(number);
            if rows.len() < merged.len() {
                out(merged.slice(rows.len(), merged.len() - rows.len()))?;
                merged = merged.slice(0, rows.len());
            }
            if rows.is_empty() {
                break;
            }
            let newer = Records::gather(schema, &parts, &rows)?;
            merged = rule.merge(step, &merged, &newer)?.records;
        }
    }
    Ok(())
}

/// Whether some key comes more than once.
///
/// # Errors
/// `Internal`.
pub fn has_duplicates(batches: &[Records]) -> Result<bool> {
    Ok(ByKey::new(batches, in_order(batches))?.counts.iter().any(|count| *count > 1))
}

/// All rows, batch after batch.
pub fn in_order(batches: &[Records]) -> impl Iterator<Item = RowAddress> + '_ {
    batches.iter().enumerate().flat_map(|(b, batch)| (0..batch.len()).map(move |row| (b, row)))
}

/// Rows of each key.
struct ByKey {
    rows: Vec<RowAddress>,
    starts: Vec<usize>,
    counts: Vec<usize>,
    hashes: Vec<u64>,
}

impl ByKey {
    fn new(batches: &[Records], order: impl Iterator<Item = RowAddress>) -> Result<Self> {
        let key = |(b, row): RowAddress| batches.get(b).map(|batch| batch.keys.value(row));
        let total: usize = batches.iter().map(Records::len).sum();
        let mut table: HashTable<usize> = HashTable::with_capacity(total);
        let mut first: Vec<(RowAddress, u64)> = Vec::new();
        let mut counts: Vec<usize> = Vec::new();
        let mut entries: Vec<(RowAddress, usize)> = Vec::with_capacity(total);
        for at in order {
            let Some(own) = key(at) else {
                return Err(Error::internal(format!("a record is in batch {} of {}", at.0, batches.len())));
            };
            let hash = hash_key(own);
            let same = |i: &usize| first.get(*i).is_some_and(|(other, _)| key(*other) == Some(own));
            let entry = match table.find(hash, same) {
                Some(entry) => *entry,
                None => {
                    let entry = first.len();
                    first.push((at, hash));
                    counts.push(0);
                    table.insert_unique(hash, entry, |i| first.get(*i).map_or(0, |(_, hash)| *hash));
                    entry
                }
            };
            if let Some(count) = counts.get_mut(entry) {
                *count += 1;
            }
            entries.push((at, entry));
        }
        let mut starts = Vec::with_capacity(counts.len());
        let mut next = 0;
        for count in &counts {
            starts.push(next);
            next += count;
        }
        let mut free = starts.clone();
        let mut rows = vec![(0, 0); entries.len()];
        for (at, entry) in entries {
            if let Some(place) = free.get_mut(entry) {
                if let Some(row) = rows.get_mut(*place) {
                    *row = at;
                }
                *place += 1;
            }
        }
        let hashes = first.into_iter().map(|(_, hash)| hash).collect();
        Ok(Self { rows, starts, counts, hashes })
    }

    /// Records that are the only ones of their key, with the hash of it; and the other keys.
    fn split(&self) -> (Vec<(RowAddress, u64)>, Vec<usize>) {
        let mut several: Vec<usize> = Vec::new();
        let mut alone: Vec<(RowAddress, u64)> = Vec::new();
        for (entry, hash) in self.hashes.iter().enumerate() {
            match self.rows_of(entry) {
                [only] => alone.push((*only, *hash)),
                _ => several.push(entry),
            }
        }
        (alone, several)
    }

    fn rows_of(&self, entry: usize) -> &[RowAddress] {
        let (start, count) =
            (self.starts.get(entry).copied().unwrap_or(0), self.counts.get(entry).copied().unwrap_or(0));
        self.rows.get(start..start + count).unwrap_or_default()
    }
}
