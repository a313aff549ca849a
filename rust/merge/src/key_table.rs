//! Finding records by their keys, many at a time.
//!
//! Most of what a lookup takes is waiting for memory. So that many waits run at once, keys are looked up in steps: the
//! hashes of some hundred keys, then the first slot of each, then the records whose hashes are the same.

use arrow::array::{Array, StringArray};

/// Keys that are looked up together: what is known of them stays in the fastest memory.
const AT_ONCE: usize = 512;
/// What a slot holds that has no entry.
const EMPTY: u64 = 0;

/// Fixed seeds: the same input always comes out in the same order.
static HASHER: ahash::RandomState = ahash::RandomState::with_seeds(0x9ae1, 0x6a3d, 0x2c71, 0x51b5);

/// The hash of a record key by which records are found.
pub fn hash_key(key: &str) -> u64 {
    HASHER.hash_one(key)
}

/// The same of bytes.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    HASHER.hash_one(bytes)
}

/// Numbers of records by the hashes of their keys. A key may have several.
pub(super) struct KeyTable {
    /// Half of a hash, and the number of a record, counted from 1. A power of two of them, a third at least empty.
    slots: Vec<u64>,
}

impl KeyTable {
    /// Over the hashes of records, by their numbers: no more than `u32::MAX`.
    pub(super) fn new(hashes: &[u64]) -> Self {
        let count = (hashes.len() + hashes.len() / 2 + 1).next_power_of_two();
        let mut table = Self { slots: vec![EMPTY; count] };
        for (number, hash) in (1u32..).zip(hashes) {
            let mut at = table.first(*hash);
            while table.slot(at) != EMPTY {
                at += 1;
            }
            let place = at & (count - 1);
            if let Some(slot) = table.slots.get_mut(place) {
                *slot = (hash >> 32 << 32) | u64::from(number);
            }
        }
        table
    }

    /// The first record with this hash of which `is` says that it has the key.
    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.first(hash);
        loop {
            let slot = self.slot(at);
            if slot == EMPTY {
                return None;
            }
            let number = (slot as u32).wrapping_sub(1);
            if slot >> 32 == hash >> 32 && is(number) {
                return Some(number);
            }
            at += 1;
        }
    }

    fn first(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// A slot; behind the last comes the first.
    fn slot(&self, at: usize) -> u64 {
        self.slots.get(at & (self.slots.len() - 1)).copied().unwrap_or(EMPTY)
    }

    /// Looks up all keys, and tells `found` of each that is there: its row, and the number of the record for which `is`
    /// says that it has this key; of all such records if they `may_repeat` keys. A null is looked up as an empty key.
    pub(super) fn find_all(
        &self,
        keys: &StringArray,
        may_repeat: bool,
        is: impl Fn(u32, &str) -> bool,
        mut found: impl FnMut(usize, u32),
    ) {
        let mut hashes = [0u64; AT_ONCE];
        let mut slots = [EMPTY; AT_ONCE];
        let mut next = 0;
        while next < keys.len() {
            let count = AT_ONCE.min(keys.len() - next);
            for (i, hash) in hashes.iter_mut().enumerate().take(count) {
                *hash = hash_key(keys.value(next + i));
            }
            for (slot, hash) in slots.iter_mut().zip(&hashes).take(count) {
                *slot = self.slot(self.first(*hash));
            }
            for (i, (slot, hash)) in slots.iter().zip(&hashes).enumerate().take(count) {
                let (mut slot, mut at) = (*slot, self.first(*hash));
                while slot != EMPTY {
                    let number = (slot as u32).wrapping_sub(1);
                    if slot >> 32 == hash >> 32 && is(number, keys.value(next + i)) {
                        found(next + i, number);
                        if !may_repeat {
                            break;
                        }
                    }
                    at += 1;
                    slot = self.slot(at);
                }
            }
            next += count;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn found(stored: &[String], wanted: &[String]) -> Vec<(usize, u32)> {
        let hashes: Vec<u64> = stored.iter().map(|key| hash_key(key)).collect();
        let table = KeyTable::new(&hashes);
        let mut out = Vec::new();
        let is = |number: u32, key: &str| stored[number as usize] == key;
        table.find_all(&StringArray::from_iter_values(wanted), false, is, |row, number| out.push((row, number)));
        out
    }

    #[test]
    fn every_stored_key_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 511, 512, 513, 5000] {
            let stored: Vec<String> = (0..count).map(|i| format!("key-{i}")).collect();
            let wanted: Vec<String> = (0..2 * count + 3).rev().map(|i| format!("key-{i}")).collect();
            let expected: Vec<(usize, u32)> = wanted
                .iter()
                .enumerate()
                .filter_map(|(row, key)| Some((row, stored.iter().position(|s| s == key)? as u32)))
                .collect();
            assert_eq!(found(&stored, &wanted), expected, "{count}");
        }
    }

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        let stored = ["a", "b", "c"];
        let table = KeyTable::new(&[hash_key("b"); 3]);
        let mut out = Vec::new();
        let is = |number: u32, key: &str| stored[number as usize] == key;
        table.find_all(&StringArray::from(vec!["x", "b", "a"]), false, is, |row, number| out.push((row, number)));
        assert_eq!(out, [(1, 1)]);
        assert_eq!(table.find(hash_key("b"), |number| stored[number as usize] == "b"), Some(1));
        assert_eq!(table.find(hash_key("c"), |_| true), None);
    }

    #[test]
    fn records_of_one_key_are_all_found() {
        let stored = ["a", "b", "a"];
        let table = KeyTable::new(&stored.map(hash_key));
        let mut out = Vec::new();
        let is = |number: u32, key: &str| stored[number as usize] == key;
        table.find_all(&StringArray::from(vec!["a", "b"]), true, is, |row, number| out.push((row, number)));
        assert_eq!(out, [(0, 0), (0, 2), (1, 1)]);
    }
}
