//! Record merging: which of two records of one key is kept.
//!
//! The module works on Arrow batches and knows no tables and no files. There are two steps with slightly different rules: the
//! *delta* step merges records that are not in a base file yet (a batch with itself, logs with each other), the
//! *final* step merges the result with the base file. `commit_time.rs` and `event_time.rs` would each be three lines,
//! so both live in `record_comparator.rs`.

mod batch_merger;
mod budget;
mod choose;
mod columns;
mod fold;
mod key_table;
mod ordering;
mod payload;
mod precombine;
mod record_comparator;
mod records;
mod rule;

pub use batch_merger::{BatchMerger, MergeCounts, MergedRecords};
pub use budget::{Budget, Kept, rows_at_once};
pub use choose::{Chosen, Met, Replaced, Stored, choose};
pub use columns::Fill;
pub use fold::{fold, has_duplicates, in_order};
pub use ordering::OrderingValues;
pub use payload::{DEBEZIUM_UNAVAILABLE, PayloadClass};
pub use precombine::{KeyedRows, Precombined, RowRef, hash_key, precombine, precombine_in_order};
pub use record_comparator::{MergeMode, RecordComparator, Side, Step};
pub use records::{Merged, Records, RowAddress, interleave_columns, nullable};
pub use rule::{CustomMerge, MergeContext, MergeRule, MergedRows, RecordMerger, missing};
