//! Record merging: which of two records of one key is kept.
//!
//! It works on Arrow batches and knows no tables and no files. There are three steps with slightly different rules: the
//! *batch* step merges the rows of one write with each other, the *delta* step records of log files with each other, and
//! the *final* step merges the result with the base file. Event-time and commit-time ordering are one comparison, in
//! `event_time_ordering.rs`.

#![warn(missing_docs, unreachable_pub)]

mod batch_merger;
mod budget;
mod choose;
mod columns;
mod event_time_ordering;
mod fold;
mod key_table;
mod ordering_columns;
mod ordering_values;
mod payload;
mod precombine;
mod records;
mod rule;

pub use batch_merger::{BatchMerger, MergeCounts, MergedRecords, Observe};
pub use budget::{Budget, Kept, rows_at_once};
pub use choose::{Chosen, Met, Stored, choose};
pub use columns::Fill;
pub use event_time_ordering::{MergeMode, RecordComparator, Side, Step};
pub use fold::in_order;
pub use fold::{fold, has_duplicates};
pub use key_table::{hash_bytes, hash_key};
pub use ordering_columns::{lies_in, missing as missing_ordering, ordering_column, ordering_type};
pub use ordering_values::OrderingValues;
pub use payload::{DEBEZIUM_UNAVAILABLE, PayloadClass};
pub use precombine::{KeyedRows, precombine};
pub use precombine::{Precombined, RowRef, precombine_in_order};
pub use records::RowAddress;
pub use records::{Records, nullable};
pub use rule::{CustomMerge, MergeRule, missing};
pub use rule::{MergeContext, MergedRows, RecordMerger};
