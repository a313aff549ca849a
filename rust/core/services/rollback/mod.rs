//! Rolls back writes that did not complete: deletes their files and their instants. And completed ones, newest first.
//!
//! On the timeline: `R.rollback.requested` (the plan), `R.rollback.inflight`; then the data files are deleted and,
//! under the table lock, the instant files of the failed write; `R_C.rollback` records the result; last, the markers
//! are deleted. After a crash at any point the next writer repeats the steps from the plan.

mod carry_out;
mod completed;
mod execute;
mod leftovers;
mod plan;
mod stale_markers;

#[cfg(test)]
mod tests;

pub(in crate::services) use completed::older_logs;
pub use execute::rollback;
pub(crate) use execute::{roll_back_leftovers, rollback_failed_writes};
pub(crate) use leftovers::Leftovers;
pub(crate) use plan::failed_writes;
