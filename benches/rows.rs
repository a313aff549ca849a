//! Rows that the benches work on: a long, a 16-character key, an integer, a double, a 64-character text, a timestamp.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};

/// A scattered but repeatable number for a row.
fn scattered(row: u64) -> u64 {
    let mixed = (row ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The record key of a row.
pub fn key(row: u64) -> String {
    format!("{:016x}", scattered(row))
}

/// Rows with the given numbers and event time, all in partition `part`.
pub fn rows(numbers: impl Iterator<Item = u64> + Clone, event_time: i64, part: &str) -> RecordBatch {
    let count = numbers.clone().count();
    let columns: [(&str, ArrayRef); 7] = [
        ("id", Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| n as i64)))),
        ("key", Arc::new(StringArray::from_iter_values(numbers.clone().map(key)))),
        ("part", Arc::new(StringArray::from(vec![part; count]))),
        ("n", Arc::new(Int32Array::from_iter_values(numbers.clone().map(|n| (scattered(n) % 1000) as i32)))),
        ("x", Arc::new(Float64Array::from_iter_values(numbers.clone().map(|n| scattered(n) as f64)))),
        ("s", Arc::new(StringArray::from_iter_values(numbers.map(|n| key(n).repeat(4))))),
        (
            "t",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values((0..count as i64).map(|_| event_time)).with_timezone("UTC"),
            ),
        ),
    ];
    #[allow(clippy::unwrap_used, reason = "the columns have one length")]
    RecordBatch::try_from_iter(columns).unwrap()
}
