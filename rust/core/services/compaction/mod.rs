//! Compaction: the base file and the log files of a slice become one base file.
//!
//! When one is due and what it takes is decided without storage (`plan`); the plan is Hudi's own record on the timeline,
//! so that a plan of Hudi is carried out here (`execute`), and the other way round. Writers go on meanwhile: what they
//! append belongs to the slice that the compaction makes. A log compaction merges the log files of a slice with each
//! other only (`log_compaction`).

mod execute;
mod log_compaction;
mod plan;

pub use execute::{Compacted, CompactionJob, due, pending, run, run_operation, schedule};
pub use plan::{CompactionOptions, Kind, Strategy, Trigger, plan_compaction, plan_log_compaction};
