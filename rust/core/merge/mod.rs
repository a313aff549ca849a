//! Record merging: which of two records of one key is kept.
//!
//! The room knows Arrow batches only, no tables and no files. There are two steps with slightly different rules: the
//! *delta* step merges records that are not in a base file yet (a batch with itself, logs with each other), the
//! *final* step merges the result with the base file. `commit_time.rs` and `event_time.rs` would each be three lines,
//! so both live in `judge.rs`.

mod budget;
mod choose;
mod columns;
mod delta;
mod fold;
mod judge;
mod key_table;
mod ordering;
mod payload;
mod precombine;
mod records;
mod rule;

pub use budget::{Budget, Kept, rows_at_once};
pub use choose::{Chosen, Met, Replaced, Stored, choose};
pub use columns::Fill;
pub use delta::{Delta, MergeCounts, MergeOnto};
pub use fold::{fold, has_duplicates, in_order};
pub use judge::{Judge, MergeMode, Side, Step};
pub use ordering::OrderingValues;
pub use payload::{DEBEZIUM_UNAVAILABLE, PayloadClass};
pub use precombine::{KeyedRows, Precombined, RowRef, hash_key, precombine, precombine_in_order};
pub use records::{Merged, Records, RowAddress, interleave_columns, nullable};
pub use rule::{CustomMerge, MergeContext, MergeRule, MergedRows, RecordMerger, missing};
