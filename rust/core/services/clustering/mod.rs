//! Clustering rewrites file slices of a partition as fewer, larger or better sorted file groups.
//!
//! Planning reads no storage: `partitions` chooses the partitions, `group` (as Hudi does) and `overlap` (by column
//! ranges) choose which slices are rewritten together, and `plan` makes the Hudi plan. `ranges` reads the footers for
//! strategies that need column ranges, `schedule` puts a plan on the timeline, and `column_ranges` returns the column
//! ranges of the current files.
//!
//! `job` executes a plan of hoodoo or of Hudi, group by group (`group_rewriter`). The `execution_strategy` says what
//! happens to the rows: they are sorted by columns or along a `curve`, or copied as they are (`combine`), and written
//! to files of the target size by the rolling file writer of `transaction`. A `task` is a group, or a range of its rows, that one process
//! rewrites.

mod buckets;
mod column_ranges;
mod combine;
mod curve;
mod dictionary_keys;
mod execution_strategy;
mod files;
mod group;
mod group_rewriter;
mod group_stats;
mod input;
mod job;
mod options;
mod overlap;
mod partitions;
mod plan;
mod ranges;
mod schedule;
mod task;

#[cfg(test)]
mod tests;

pub(crate) use buckets::buckets_not_supported;
pub use column_ranges::column_ranges;
pub use group_rewriter::ClusteredFile;
pub use input::PlannedGroup;
pub(crate) use job::{Clustered, is_under_way, roll_back, roll_back_outdated};
pub use job::{ClusteringJob, run, run_task};
pub(crate) use options::ClusteringOptions;
pub use options::Layout;
pub use overlap::{Depth, FileRanges};
pub(crate) use plan::Planned;
pub use plan::TARGET_BYTES;
pub use schedule::{PendingClustering, due, pending, plan, planned};
pub(crate) use schedule::{explain, schedule, schedule_now};
pub use task::ClusteringTask;
