//! The hash of a record key by which the bucket index chooses its bucket.
//!
//! ```text
//! values = those of the key fields, in the order in which they are in the record key
//! h      = 1; for each value: h = 31 * h + String.hashCode(value), 0 for null; in 32 bits
//! bucket = (h & 0x7fffffff) % buckets
//! ```
//!
//! A key with a comma and a colon is taken as `field:value,…`, whatever key generator made it, and the values of the hash
//! fields count. Every other key is one value. Source: `KeyGenUtils.extractRecordKeysByFields` and `BucketIdentifier`.

use arrow::array::{Array, StringArray};

use crate::format::java::string_hash;

const NULL: &str = "__null__";
const EMPTY: &str = "__empty__";

/// The hashes of keys, without the sign bit. `fields` are the hash fields; none of them means all.
pub(super) fn hashes(keys: &StringArray, fields: &[String]) -> Vec<u32> {
    let (offsets, bytes) = (keys.value_offsets(), keys.value_data());
    let range = offsets.first().zip(offsets.last()).map(|(first, last)| *first as usize..*last as usize);
    let all = range.and_then(|range| bytes.get(range)).unwrap_or_default();
    let has = |byte: u8| all.contains(&byte);
    if all.is_ascii() && !(has(b',') && has(b':')) {
        let key = |ends: &[i32]| match ends {
            [from, to] => bytes.get(*from as usize..*to as usize).unwrap_or_default(),
            _ => &[],
        };
        return offsets.windows(2).map(|ends| with_value(31, ascii_hash(key(ends)))).collect();
    }
    (0..keys.len()).map(|row| hash(keys.value(row), fields)).collect()
}

/// The hash of one key.
pub(super) fn hash(key: &str, fields: &[String]) -> u32 {
    if !(key.contains(',') && key.contains(':')) {
        return with_value(31, string_hash(key));
    }
    let mut sum = None;
    each_value(key, fields, |value| {
        let value = match value {
            NULL => 0,
            EMPTY => string_hash(""),
            value => string_hash(value),
        };
        let before: i32 = sum.unwrap_or(1);
        sum = Some(before.wrapping_mul(31).wrapping_add(value));
    });
    match sum {
        Some(sum) => positive(sum),
        None => with_value(31, string_hash(key)),
    }
}

/// `before` with the hash of one more value.
fn with_value(before: i32, value: i32) -> u32 {
    positive(before.wrapping_add(value))
}

fn positive(hash: i32) -> u32 {
    hash.cast_unsigned() & i32::MAX.cast_unsigned()
}

/// `String.hashCode` of ASCII.
fn ascii_hash(bytes: &[u8]) -> i32 {
    bytes.iter().fold(0i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte)))
}

/// The values of the hash fields in a key of `field:value` pairs. A value may have commas and colons: it ends at the last
/// comma before the next colon that has one.
fn each_value<'k>(key: &'k str, fields: &[String], mut each: impl FnMut(&'k str)) {
    let all = fields.iter().all(String::is_empty);
    let colon_from = |from: usize| key.get(from..).and_then(|rest| rest.find(':')).map(|at| from + at);
    let mut rest = 0;
    while let Some(colon) = colon_from(rest) {
        let end = end_of_value(key, colon);
        let field = key.get(rest..colon).unwrap_or_default();
        if all || fields.iter().any(|wanted| wanted == field) {
            each(key.get(colon + 1..end.unwrap_or(key.len())).unwrap_or_default());
        }
        let Some(comma) = end else { return };
        rest = comma + 1;
    }
}

/// The comma behind the value that begins after a colon; `None` for the last value.
fn end_of_value(key: &str, colon: usize) -> Option<usize> {
    let value = key.get(colon + 1..)?;
    let mut colons = value.match_indices(':').map(|(at, _)| at);
    colons.find_map(|next| value.get(..next)?.rfind(',')).map(|comma| colon + 1 + comma)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn signed(key: &str) -> i32 {
        // The hash with its sign, as the table of `BucketIdentifier` has it.
        31i32.wrapping_add(string_hash(key))
    }

    /// Key, hash and bucket of 64 and of 7, as Hudi 1.2.0 made them.
    const SINGLE: [(&str, i32, u32, u32); 34] = [
        ("a", 128, 0, 2),
        ("b", 129, 1, 3),
        ("ab", 3136, 0, 0),
        ("k0", 3396, 4, 1),
        ("k1", 3397, 5, 2),
        ("k10", 104_425, 41, 6),
        ("k99999", -1_177_252_723, 13, 6),
        ("hello world", 1_794_106_083, 35, 0),
        ("Aa", 2143, 31, 1),
        ("BB", 2143, 31, 1),
        ("AaAa", 2_031_775, 31, 4),
        ("BBBB", 2_031_775, 31, 4),
        ("AaBB", 2_031_775, 31, 4),
        ("polygenelubricants", -2_147_483_617, 31, 3),
        ("zz", 3935, 31, 1),
        ("Zz", 2943, 63, 3),
        ("0", 79, 15, 2),
        ("7", 86, 22, 2),
        ("1234567890123456789", 1_462_655_001, 25, 3),
        ("ü", 283, 27, 3),
        ("É", 232, 40, 1),
        ("日本語", 25_921_974, 54, 1),
        ("😀", 1_772_930, 2, 5),
        ("\0x", 151, 23, 4),
        ("a,b", 94_710, 54, 0),
        ("a:b", 95_144, 40, 0),
        ("id:x", 3_226_104, 56, 0),
        ("null", 3_392_934, 38, 6),
        ("__null__x", 447_594_992, 48, 5),
        ("part=1", -995_411_226, 38, 4),
        ("2024-01-01", -613_341_601, 31, 4),
        ("3.14", 1_565_149, 29, 5),
        ("42", 1693, 29, 6),
        ("-1", 1475, 3, 5),
    ];

    #[test]
    fn keys_of_one_value() {
        let fields = ["id".to_owned()];
        let long = format!("key_with_very_long_{}", "x".repeat(50));
        for (key, expected, of_64, of_7) in SINGLE.into_iter().chain([(long.as_str(), -213_690_190, 50, 2)]) {
            assert_eq!(signed(key), expected, "{key}");
            let found = hash(key, &fields);
            assert_eq!((found % 64, found % 7), (of_64, of_7), "{key}");
        }
        let ints = [("0", 7), ("1", 0), ("2", 1), ("7", 6), ("8", 7), ("10", 6), ("-1", 3), ("-8", 2)];
        for (key, bucket) in ints.into_iter().chain([("2147483647", 3), ("-2147483648", 1)]) {
            assert_eq!(hash(key, &fields) % 8, bucket, "{key}");
        }
    }

    /// Key, bucket of 16 by both fields, and by `id` alone.
    const COMPOSITE: [(&str, u32, Option<u32>); 9] = [
        ("id:a,k2:1", 1, Some(0)),
        ("id:a,k2:2", 2, Some(0)),
        ("id:a,k2:3", 3, None),
        ("id:b,k2:2", 1, Some(1)),
        ("id:x:y,k2:5", 15, Some(6)),
        ("id:x,y,k2:6", 2, Some(4)),
        ("id:ü,k2:-7", 15, Some(11)),
        ("id:__empty__,k2:3", 4, Some(15)),
        ("id:__null__,k2:4", 5, None),
    ];

    #[test]
    fn keys_of_several_values() {
        let both = ["k2".to_owned(), "id".to_owned()];
        for (key, of_both, of_id) in COMPOSITE {
            for fields in [both.as_slice(), &[], &[String::new()]] {
                assert_eq!(hash(key, fields) % 16, of_both, "{key} {fields:?}");
            }
            if let Some(of_id) = of_id {
                assert_eq!(hash(key, &["id".to_owned()]) % 16, of_id, "{key}");
            }
        }
    }

    #[test]
    fn a_key_that_is_no_list_of_fields_counts_as_a_whole() {
        let fields = ["id".to_owned()];
        // Has both separators, but none of the fields.
        assert_eq!(hash("http://a,b", &fields), positive(signed("http://a,b")));
        // One field of a complex key.
        assert_eq!(hash("id:a,b", &fields), positive(signed("a,b")));
        assert_eq!(hash("id:2024-10-22 13:50:42,k:v:w", &fields), positive(signed("2024-10-22 13:50:42")));
    }

    #[test]
    fn an_array_hashes_as_its_keys() {
        let plain: Vec<&str> =
            SINGLE.iter().map(|row| row.0).filter(|key| key.is_ascii() && !key.contains(',')).collect();
        let all: Vec<&str> = SINGLE.iter().map(|row| row.0).chain(COMPOSITE.iter().map(|row| row.0)).collect();
        let fields = ["id".to_owned()];
        for keys in [plain, all, Vec::new()] {
            let array = StringArray::from(keys.clone());
            let expected: Vec<u32> = keys.iter().map(|key| hash(key, &fields)).collect();
            assert_eq!(hashes(&array, &fields), expected);
            let last = keys.len().saturating_sub(1);
            assert_eq!(hashes(&array.slice(last.min(1), last), &fields), expected.get(last.min(1)..).unwrap());
        }
    }
}
