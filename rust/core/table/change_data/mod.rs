//! Changes row by row: Hudi's query of change data (`hoodie.datasource.query.incremental.format=cdc`).
//!
//! | module | what |
//! |---|---|
//! | `plan` | which commits, and for each file group of a commit, where its changes are to be had |
//! | `slices` | a file group as it was before and after a commit; refuses when a file of it is gone |
//! | `last_writes` | which file was written last to a file group that a commit replaced |
//! | `run` | reads the units of a plan |
//! | `reader` | what that takes |
//! | `logs` | changes from change data logs, with what these leave out |
//! | `compare` | changes from two states of a file group, by key |
//! | `rows` | changes as columns |
//!
//! A change has the columns `op` (`i`, `u` or `d`), `ts_ms` (the requested time of the commit), and `before` and `after`,
//! rows of the table.

mod compare;
mod last_writes;
mod logs;
mod plan;
mod reader;
mod rows;
mod run;
mod slices;

pub use plan::{ChangePlan, ChangeUnit};
