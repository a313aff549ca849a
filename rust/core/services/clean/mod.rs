//! Cleaning: deleting file slices that no query of the retained commits can need.
//!
//! On the timeline: `T.clean.requested` (the plan: which files go), `T.clean.inflight`, then the files are deleted;
//! `T_C.clean` says what was done, and where the next clean goes on. A clean that died is run again from its plan. When
//! there is nothing to delete, there is no instant.

mod execute;
mod plan;

#[cfg(test)]
mod tests;

pub use execute::{clean, clean_from};
pub use plan::{CleanInput, CleanOptions, commits_since, earliest_to_retain, plan_clean};
pub(in crate::services) use plan::{SAVEPOINTS, policy};
