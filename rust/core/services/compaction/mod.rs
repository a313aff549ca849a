//! Compaction: the base file and the log files of a slice become one base file.
//!
//! When one is due and what it takes is decided without storage (`plan`); the plan is Hudi's own record on the timeline,
//! so that a plan of Hudi is carried out here, and the other way round: `job` does so an operation at a time (`unit`),
//! copying what does not change. Writers go on meanwhile: what they append belongs to the slice that the
//! compaction makes. A log compaction merges the log files of a slice with each other only (`log_compaction`).

mod job;
mod log_compaction;
mod plan;
mod schedule;
mod strategy;
mod task;
mod unit;

pub(crate) use job::{Compacted, is_under_way};
pub use job::{CompactionJob, run, run_task};
pub(crate) use plan::CompactionOptions;
pub use plan::Kind;
pub(crate) use schedule::schedule;
pub use schedule::{due, pending};
pub use task::CompactionTask;
