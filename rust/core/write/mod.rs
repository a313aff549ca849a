//! Writing: insert, upsert, delete, overwrite, commit.
//!
//! | step | file | storage |
//! |---|---|---|
//! | rows to keys, partitions, ordering values | `incoming.rs` | none |
//! | one record for each key; where it is now | `tagging.rs` | reads |
//! | which file group each row goes to | `assignment.rs` | none |
//! | one file group merged, made or appended to | `merge_file.rs`, `create_file.rs`, `append_log.rs` | writes data files |
//! | the instant, from requested to completed | `commit.rs` | writes the timeline |
//! | what others did meanwhile | `conflicts.rs`, `retry.rs` | reads commits |
//!
//! `operation.rs` puts them together for one process; on Spark the middle steps run in tasks.

mod append_log;
mod assignment;
mod busy_groups;
mod column_merge;
mod commit;
mod config;
mod conflicts;
mod conformer;
mod context;
mod create_file;
mod delete_partition;
mod file_rows;
mod incoming;
mod log_keys;
mod logged;
mod merge_file;
mod operation;
mod outcome;
mod partial_rows;
mod recent_commits;
mod retry;
mod sort;
mod splice_merge;
mod stored_records;
mod stream_merge;
mod tagging;
pub mod task;

pub use append_log::{AppendRows, append_log};
pub use assignment::{Assignment, SmallFile, assign_inserts, room_in_small_files};
pub use busy_groups::UpdateStrategy;
pub use commit::{CommitOutcome, Committed, PendingCommit, PlannedFrom};
pub use config::{IndexType, Operation, SortMode, WriteConfig};
pub use context::WriteContext;
pub use create_file::{FileCreator, create_files};
pub use incoming::{Incoming, IncomingBatch, Preparer};
pub use log_keys::{LogKeys, LogWrites, Logs};
pub use merge_file::{MergeRows, first_copies, merge_file};
pub use operation::{WriteRequest, run_write};
pub use tagging::{FileUpdates, LoggedRow, MatchedRow, Tagged, Tagging, tag};
