//! The keys that are looked for in a base file.

use std::sync::OnceLock;

use crate::file_group::base::keys::compare_keys;

/// Most keys that are listed one by one.
const LISTED_KEYS: usize = 100_000;

/// Keys that are looked for.
pub(in crate::write) struct KeyList<'a> {
    /// Their min and max.
    pub(in crate::write) range: Option<(&'a str, &'a str)>,
    /// The keys, unless there are very many.
    pub(in crate::write) all: Vec<&'a str>,
    sorted: OnceLock<Vec<&'a str>>,
}

impl<'a> KeyList<'a> {
    /// Of `count` keys.
    pub(in crate::write) fn new(count: usize, keys: impl Iterator<Item = &'a str> + Clone) -> Self {
        let min = keys.clone().min_by(|a, b| compare_keys(a, b));
        let range = min.zip(keys.clone().max_by(|a, b| compare_keys(a, b)));
        let all = if count <= LISTED_KEYS { keys.collect() } else { Vec::new() };
        Self { range, all, sorted: OnceLock::new() }
    }

    /// Whether one of the keys may be between two others, or be one of these.
    pub(in crate::write) fn may_be_in(&self, min: &str, max: &str) -> bool {
        if self.all.is_empty() {
            let overlaps = |(first, last)| compare_keys(last, min).is_ge() && compare_keys(first, max).is_le();
            return self.range.is_some_and(overlaps);
        }
        let sort = || {
            let mut all = self.all.clone();
            all.sort_unstable_by(|a, b| compare_keys(a, b));
            all
        };
        let sorted = self.sorted.get_or_init(sort);
        let first = sorted.partition_point(|key| compare_keys(key, min).is_lt());
        sorted.get(first).is_some_and(|key| compare_keys(key, max).is_le())
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyList, LISTED_KEYS};

    #[test]
    fn keys_in_ranges() {
        let cases = [
            ("a", "a", false, false),
            ("a", "b", true, true),
            ("c", "c", false, true),
            ("c", "e", true, true),
            ("f", "z", true, true),
            ("g", "z", false, false),
        ];
        let keys = ["d", "b", "f"];
        for (min, max, is_in, overlaps) in cases {
            assert_eq!(KeyList::new(3, keys.into_iter()).may_be_in(min, max), is_in, "{min} {max}");
            assert_eq!(KeyList::new(LISTED_KEYS + 1, keys.into_iter()).may_be_in(min, max), overlaps, "{min} {max}");
        }
        assert!(!KeyList::new(0, std::iter::empty()).may_be_in("a", "z"));
    }
}
