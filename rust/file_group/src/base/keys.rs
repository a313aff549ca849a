//! The record keys of one file: collected while it is written, and their range in the footer.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};

use super::RECORD_KEY_COLUMN;
use hoodoo_runtime::error::{Error, Result};

/// Minimum and maximum record key of a file, in Hudi's order of strings: that of Java, but that of UTF-8 in files of Spark's
/// row writer (`bulk_insert`). See [`KeyRange::is_certain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The minimum.
    pub min: String,
    /// The maximum.
    pub max: String,
}

impl KeyRange {
    /// Whether the range is the same in both orders. These differ only behind the surrogates, from U+E000 on, and agree about
    /// every key as long as neither end has such a character.
    pub fn is_certain(&self) -> bool {
        let is_before = |end: &str| end.bytes().all(|byte| byte < 0xee);
        is_before(&self.min) && is_before(&self.max)
    }

    /// Whether a key may be in the file.
    pub fn contains(&self, key: &str) -> bool {
        !self.is_certain() || compare_keys(&self.min, key).is_le() && compare_keys(key, &self.max).is_le()
    }

    /// Whether a key between two others, or one of these, may be in the file.
    pub fn overlaps(&self, min: &str, max: &str) -> bool {
        !self.is_certain() || compare_keys(max, &self.min).is_ge() && compare_keys(min, &self.max).is_le()
    }

    /// Whether a key is outside in both orders.
    pub fn excludes(&self, key: &str) -> bool {
        let is_outside = compare_keys(key, &self.min).is_lt() || compare_keys(key, &self.max).is_gt();
        is_outside && (self.is_certain() || key < self.min.as_str() || key > self.max.as_str())
    }
}

/// Compares strings as Java does, by UTF-16 units, as Hudi compares key ranges. Differs from the order of UTF-8 bytes
/// only if one string has a character beyond U+FFFF and the other one between U+E000 and U+FFFF.
pub fn compare_keys(a: &str, b: &str) -> Ordering {
    fn rank(lead: u8) -> u8 {
        match lead {
            0xf0.. => lead - 2,
            0xee | 0xef => lead + 0x10,
            _ => lead,
        }
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = common_bytes(a, b);
    match (a.get(same), b.get(same)) {
        (Some(x), Some(y)) => rank(*x).cmp(&rank(*y)),
        _ => a.len().cmp(&b.len()),
    }
}

/// Length of the common prefix, eight bytes at a time: keys mostly have long common prefixes.
fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).take_while(|(x, y)| x == y).count() * 8;
    let rest = a.iter().skip(words).zip(b.iter().skip(words));
    words + rest.take_while(|(x, y)| x == y).count()
}

/// Collects the key column of the batches of a file.
#[derive(Default)]
pub(super) struct KeyCollector {
    keep: bool,
    rows: usize,
    keys: Vec<StringArray>,
    count: usize,
    range: Option<(String, String)>,
}

impl KeyCollector {
    /// `keep`: whether to keep the keys, for a bloom filter.
    pub(super) fn new(keep: bool) -> Self {
        Self { keep, ..Self::default() }
    }

    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(column) = batch.column_by_name(RECORD_KEY_COLUMN) else { return Ok(()) };
        let rows_before = self.rows;
        self.rows += column.len();
        let nulls = column.null_count();
        // A table without meta fields has only nulls here, and no key range.
        if nulls == column.len() && self.count == 0 {
            return Ok(());
        }
        if nulls > 0 || self.count != rows_before {
            return Err(Error::schema("a record has no record key").with("column", RECORD_KEY_COLUMN));
        }
        let keys = column.as_string_opt::<i32>().ok_or_else(|| {
            Error::schema(format!("record keys have type {}, expected Utf8", column.data_type()))
                .with("column", RECORD_KEY_COLUMN)
        })?;
        self.count += keys.len();
        self.widen(keys);
        if self.keep {
            self.keys.push(keys.clone());
        }
        Ok(())
    }

    fn widen(&mut self, keys: &StringArray) {
        let mut values = keys.iter().flatten();
        let Some(first) = values.next() else { return };
        let (mut min, mut max) = match &self.range {
            Some((min, max)) => (min.as_str(), max.as_str()),
            None => (first, first),
        };
        for key in std::iter::once(first).chain(values) {
            if compare_keys(key, max).is_gt() {
                max = key;
            } else if compare_keys(key, min).is_lt() {
                min = key;
            }
        }
        let unchanged = self.range.as_ref().is_some_and(|(a, b)| a == min && b == max);
        if !unchanged {
            self.range = Some((min.to_owned(), max.to_owned()));
        }
    }

    /// Rows whose key column was added.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the keys, and their range if there are any.
    pub(super) fn finish(self) -> (Vec<StringArray>, Option<KeyRange>) {
        (self.keys, self.range.map(|(min, max)| KeyRange { min, max }))
    }
}

#[cfg(test)]
mod tests {
    use super::KeyRange;

    #[test]
    fn a_range_whose_order_is_unknown_excludes_little() {
        let range = |min: &str, max: &str| KeyRange { min: min.to_owned(), max: max.to_owned() };
        let plain = range("b", "d");
        assert!(plain.is_certain() && plain.contains("c") && !plain.contains("\u{1F600}") && plain.excludes("e"));
        assert!(plain.overlaps("a", "b") && !plain.overlaps("e", "f"));
        // By UTF-8: the second one is the larger, and by UTF-16 the smaller.
        let of_utf8 = range("\u{E000}", "\u{1F600}");
        assert!(!of_utf8.is_certain() && of_utf8.contains("\u{1F600}") && of_utf8.overlaps("a", "b"));
        assert!(!of_utf8.excludes("\u{E000}") && !of_utf8.excludes("\u{1F600}") && of_utf8.excludes("a"));
    }
}
