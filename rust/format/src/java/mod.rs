//! Numbers as text, digit for digit as the JVM writes them: record keys, partition paths, numbers that became text.

mod digits;
mod number;

pub use number::{write_decimal, write_double, write_float};

/// `Double.toString`.
pub fn double_text(value: f64) -> String {
    let mut text = String::new();
    // Writing to a `String` does not fail.
    let _ = write_double(&mut text, value);
    text
}

/// `Float.toString`.
pub fn float_text(value: f32) -> String {
    let mut text = String::new();
    let _ = write_float(&mut text, value);
    text
}

/// `String.hashCode`: what the order of Java's hash tables follows from.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The bucket of a text in a Java hash table with so many buckets, a power of two.
pub fn hash_bucket(text: &str, buckets: usize) -> usize {
    let hash = string_hash(text).cast_unsigned();
    (hash ^ (hash >> 16)) as usize & (buckets.max(1) - 1)
}

/// The buckets of a Java hash set that was made of `first` elements and then grew to `all`.
pub fn hash_set_buckets(first: usize, all: usize) -> usize {
    let mut buckets = (first + first / 3 + 1).max(16).next_power_of_two();
    while all > buckets / 4 * 3 {
        buckets *= 2;
    }
    buckets
}

#[cfg(test)]
mod hash_tests {
    use super::*;

    #[test]
    fn hashes_are_java_s() {
        assert_eq!(string_hash(""), 0);
        assert_eq!(
            string_hash("2024-01-03"),
            "2024-01-03".bytes().fold(0i32, |h, b| h.wrapping_mul(31).wrapping_add(b.into()))
        );
        assert_eq!(string_hash("hello"), 99_162_322);
        assert_eq!(hash_set_buckets(4, 11), 16);
        assert_eq!(hash_set_buckets(4, 13), 32);
        assert_eq!(hash_set_buckets(12, 12), 32);
        // As Hudi wrote them.
        let days = ["2024-01-02", "2024-01-01", "2024-01-04", "2024-01-03", "2024-01-05"];
        let buckets = days.map(|day| hash_bucket(day, 16));
        assert_eq!(buckets, [0, 1, 2, 3, 5]);
    }
}
