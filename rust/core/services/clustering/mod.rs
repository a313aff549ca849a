//! Clustering: slices of a partition become fewer, larger or better sorted file groups.
//!
//! What one takes is decided without storage: which partitions (`partitions`), which slices together (`group` as Hudi
//! does it, `overlap` by the ranges of columns), and the record of it (`plan`). `ranges` reads the footers for the
//! strategies that go by them, `schedule` puts a plan on the timeline, and `column_ranges` tells how files lie now.
//!
//! A plan of hoodoo or of Hudi is carried out (`job`) group by group (`unit`): what is done with the rows says the
//! `recipe`; they are sorted by columns or along a `curve`, or taken over as they are (`combine`), and cut into files
//! (`outputs`).

mod codes;
mod column_ranges;
mod combine;
mod curve;
mod figures;
mod files;
mod group;
mod job;
mod options;
mod outputs;
mod overlap;
mod partitions;
mod plan;
mod portion;
mod ranges;
mod recipe;
mod schedule;
mod unit;

#[cfg(test)]
mod tests;

pub use column_ranges::{ColumnRanges, column_ranges};
pub use group::{Group, PartitionSlices};
pub use job::{Clustered, ClusteringJob, FILES, is_under_way, roll_back, roll_back_outdated, run, run_portion};
pub use options::{ClusteringOptions, GroupOrder, Grouping, Layout, PartitionFilter, SliceOrder};
pub use overlap::{ColumnRange, Depth, FileRanges, Ranges};
pub use partitions::{Chosen, choose};
pub use plan::{
    CHECKPOINT, Clustering, LAYOUT, PlanInput, Planned, PlannedGroup, SORT_COLUMNS, STRATEGY, TARGET_BYTES,
    plan_clustering, range_columns,
};
pub use portion::Portion;
pub use ranges::read_ranges;
pub use recipe::Recipe;
pub use schedule::{PendingClustering, due, explain, pending, plan, planned, schedule, schedule_now};
pub use unit::ClusteredFile;
