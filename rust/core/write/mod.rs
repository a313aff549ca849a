//! Writing: insert, upsert, delete, overwrite, commit.
//!
//! | step | folder | storage |
//! |---|---|---|
//! | columns, keys, partitions, delete marks of the rows | `prepare` | none |
//! | one record for each key, and where it is stored | `locate` | reads |
//! | which file group each row goes to | `route` | none |
//! | one file group merged, made or appended to | `rewrite` | writes data files |
//! | the instant, from requested to completed; what others did meanwhile | `commit` | writes the timeline |
//!
//! `setup.rs` has what all steps of a write share: its checks, its schema, how it looks up keys. `in_process.rs` runs the
//! steps in the threads of this process, `task` in the tasks of others, with a shuffle between them.

mod commit;
mod config;
mod in_process;
mod locate;
mod prepare;
mod rewrite;
mod route;
mod setup;
pub mod task;

pub(crate) use commit::alter::{alter_schema, held_type};
pub use commit::pending::CommitOutcome;
pub(crate) use commit::pending::Committed;
pub use config::Operation;
pub(crate) use config::WriteConfig;
pub use in_process::WriteRequest;
pub(crate) use in_process::run_write;
pub(crate) use locate::pending_file_groups::UpdateStrategy;
