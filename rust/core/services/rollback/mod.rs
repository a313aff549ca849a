//! Rolling back: what a write that did not complete left behind is deleted, and its instant with it.
//!
//! On the timeline: `R.rollback.requested` (the plan: what goes), `R.rollback.inflight`, then the files are deleted,
//! and under the table lock the failed write's own instant files; `R_C.rollback` says what was done; last, the failed
//! write's marker folder. After a crash at any point the same steps are run again from the plan.

mod execute;
mod leftovers;
mod plan;

#[cfg(test)]
mod tests;

pub use execute::{roll_back_leftovers, rollback, rollback_failed_writes};
pub use leftovers::Leftovers;
pub use plan::{FoundFiles, failed_writes, plan_rollback};
