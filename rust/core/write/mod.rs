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

mod commit;
mod config;
mod locate;
mod operation;
mod prepare;
mod rewrite;
mod route;
pub mod task;

pub use commit::pending::{CommitOutcome, Committed, PendingCommit, PlannedFrom};
pub use config::{IndexType, Operation, SortMode, WriteConfig};
pub use locate::busy_groups::UpdateStrategy;
pub use operation::{WriteRequest, run_write};
