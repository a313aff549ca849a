//! Clustering: slices of a partition become fewer, larger or better sorted file groups.
//!
//! What one takes is decided without storage: which partitions (`partitions`), which slices together (`group` as Hudi
//! does it, `overlap` by the ranges of columns), and the record of it (`plan`). `ranges` reads the footers for the
//! strategies that go by them, `schedule` puts a plan on the timeline.

mod figures;
mod group;
mod options;
mod overlap;
mod partitions;
mod plan;
mod ranges;
mod schedule;

#[cfg(test)]
mod tests;

pub use group::{Group, PartitionSlices};
pub use options::{ClusteringOptions, GroupOrder, Grouping, Layout, PartitionFilter, SliceOrder};
pub use overlap::{ColumnRange, Depth, FileRanges, Ranges};
pub use partitions::{Chosen, choose};
pub use plan::{
    CHECKPOINT, Clustering, LAYOUT, PlanInput, Planned, PlannedGroup, SORT_COLUMNS, STRATEGY, TARGET_BYTES,
    plan_clustering, range_columns,
};
pub use ranges::read_ranges;
pub use schedule::{PendingClustering, due, explain, pending, plan, schedule};
