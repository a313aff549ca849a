//! What the keys of a base file are that another one in its place has and it has not, and the other way round.
//!
//! A file that is merged with new rows keeps its order, so that both are read side by side, and only keys that one of them
//! lacks are kept in memory. Files of another order are compared as well, and take more of it.

use std::collections::HashSet;

use arrow::array::{Array, StringArray};

use crate::error::Result;
use crate::interrupt;

/// How many keys further on a key is looked for before it counts as one that the file lacks.
const LOOK_AHEAD: usize = 32;
/// Keys that are passed on at a time.
const BATCH_ROWS: usize = 65_536;

/// Passes the keys that only the new file has to `added`; returns those that only the old one has. Of several rows of one
/// key, the new file may have fewer: the key is still there.
///
/// # Errors
/// Those of reading the keys; those of `added`.
pub(in crate::transaction) fn added_and_gone<I, J>(
    old: I,
    new: impl Fn() -> Result<J>,
    added: &mut dyn FnMut(&StringArray) -> Result<()>,
) -> Result<StringArray>
where
    I: Iterator<Item = Result<StringArray>>,
    J: Iterator<Item = Result<StringArray>>,
{
    let (mut old, mut newer) = (Cursor::new(old), Cursor::new(new()?));
    let (mut only_old, mut only_new) = (HashSet::new(), HashSet::new());
    loop {
        match (old.fill()?, newer.fill()?) {
            (true, true) => {}
            (true, false) => {
                let key = old.key();
                meet(key, &mut only_new, &mut only_old);
                old.row += 1;
                continue;
            }
            (false, true) if only_old.is_empty() => {
                // Most often rows that were added behind the old ones.
                added(&newer.batch.slice(newer.row, newer.batch.len() - newer.row))?;
                newer.row = newer.batch.len();
                continue;
            }
            (false, true) => {
                meet(newer.key(), &mut only_old, &mut only_new);
                newer.row += 1;
                continue;
            }
            (false, false) => break,
        }
        if old.key() == newer.key() {
            (old.row, newer.row) = (old.row + 1, newer.row + 1);
        } else if let Some(gone) = old.ahead(newer.key()) {
            for _ in 0..gone {
                meet(old.key(), &mut only_new, &mut only_old);
                old.row += 1;
            }
        } else if let Some(more) = newer.ahead(old.key()) {
            for _ in 0..more {
                meet(newer.key(), &mut only_old, &mut only_new);
                newer.row += 1;
            }
        } else {
            meet(old.key(), &mut only_new, &mut only_old);
            meet(newer.key(), &mut only_old, &mut only_new);
            (old.row, newer.row) = (old.row + 1, newer.row + 1);
        }
    }
    let only_new: Vec<String> = only_new.into_iter().collect();
    for some in only_new.chunks(BATCH_ROWS) {
        added(&some.iter().map(Some).collect())?;
    }
    if !only_old.is_empty() {
        for keys in new()? {
            keys?.iter().flatten().for_each(|key| {
                only_old.remove(key);
            });
        }
    }
    let mut gone: Vec<String> = only_old.into_iter().collect();
    gone.sort_unstable();
    Ok(gone.into_iter().map(Some).collect())
}

/// A key of one file: it is either among those that only the other one had so far, or it joins those of its own.
fn meet(key: &str, of_other: &mut HashSet<String>, own: &mut HashSet<String>) {
    if !of_other.remove(key) {
        own.insert(key.to_owned());
    }
}

/// The keys of a file, one after the other.
struct Cursor<I> {
    batches: I,
    batch: StringArray,
    row: usize,
}

impl<I: Iterator<Item = Result<StringArray>>> Cursor<I> {
    fn new(batches: I) -> Self {
        Self { batches, batch: StringArray::new_null(0), row: 0 }
    }

    /// Whether there is another key.
    fn fill(&mut self) -> Result<bool> {
        while self.row >= self.batch.len() {
            interrupt::check()?;
            match self.batches.next().transpose()? {
                Some(batch) => (self.batch, self.row) = (batch, 0),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn key(&self) -> &str {
        if self.row < self.batch.len() { self.batch.value(self.row) } else { "" }
    }

    /// How many keys before this one are next.
    fn ahead(&self, key: &str) -> Option<usize> {
        let end = self.batch.len().min(self.row.saturating_add(LOOK_AHEAD));
        (self.row..end).position(|row| self.batch.value(row) == key)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    fn batches(keys: &[String], rows: usize) -> Vec<Result<StringArray>> {
        keys.chunks(rows).map(|some| Ok(some.iter().map(Some).collect())).collect()
    }

    /// Keys that were added and those that are gone, as sets.
    fn difference(old: &[String], new: &[String], rows: usize) -> (BTreeSet<String>, Vec<String>) {
        let mut added = BTreeSet::new();
        let mut add = |keys: &StringArray| {
            added.extend(keys.iter().flatten().map(str::to_owned));
            Ok(())
        };
        let gone = added_and_gone(batches(old, rows).into_iter(), || Ok(batches(new, rows).into_iter()), &mut add);
        let gone = gone.unwrap().iter().flatten().map(str::to_owned).collect();
        (added, gone)
    }

    fn keys(list: &[&str]) -> Vec<String> {
        list.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn keys_that_one_file_lacks() {
        let old = keys(&["a", "b", "c", "d"]);
        for (new, added, gone) in [
            (vec!["a", "b", "c", "d"], vec![], vec![]),
            (vec!["a", "c", "d", "e", "f"], vec!["e", "f"], vec!["b"]),
            (vec!["x", "a", "b", "y", "c", "d"], vec!["x", "y"], vec![]),
            (vec!["d", "c", "b"], vec![], vec!["a"]),
            (vec![], vec![], vec!["a", "b", "c", "d"]),
        ] {
            for rows in [1, 2, 10] {
                let found = difference(&old, &keys(&new), rows);
                assert_eq!(found, (keys(&added).into_iter().collect(), keys(&gone)), "{new:?} in batches of {rows}");
            }
        }
    }

    #[test]
    fn a_key_with_a_row_left_is_not_gone() {
        let (added, gone) = difference(&keys(&["a", "b", "a"]), &keys(&["b", "a"]), 2);
        assert!(gone.is_empty() && added.iter().all(|key| key == "a"));
        let (added, gone) = difference(&keys(&["a"]), &keys(&["a", "a"]), 2);
        assert!(gone.is_empty() && added.iter().all(|key| key == "a"));
    }

    #[test]
    fn files_in_any_order_are_compared() {
        let number = |i: usize| i.wrapping_mul(7_919) % 5_000;
        let old: Vec<String> = (0..5_000).map(|i| format!("k{}", number(i))).collect();
        let new: Vec<String> = (100..5_100).map(|i| format!("k{i}")).collect();
        let (added, gone) = difference(&old, &new, 333);
        assert_eq!((added.len(), gone.len()), (100, 100));
        assert!(added.contains("k5000") && gone.contains(&"k99".to_owned()));
    }
}
