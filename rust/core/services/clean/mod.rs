//! Cleaning deletes file slices that no query of the retained commits needs.
//!
//! On the timeline: `T.clean.requested` (the plan: which files are deleted), `T.clean.inflight`, then the files are
//! deleted; `T_C.clean` records the result, and where the next incremental clean starts. A failed clean is repeated
//! from its plan. If there is nothing to delete, there is no instant.

mod execute;
mod plan;
mod retention;

#[cfg(test)]
mod tests;

pub(in crate::services) use execute::execute_below;
pub use execute::{clean, planned};
pub(crate) use execute::{clean_from, clean_now, finish_cleans};
pub(crate) use plan::CleanOptions;
pub(in crate::services) use plan::{CleanInput, CleanedTable, SAVEPOINTS, plan_clean};
pub(crate) use retention::{Retention, earliest_to_retain};
