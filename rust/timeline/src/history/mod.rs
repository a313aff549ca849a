//! The history: archived instants, kept as an LSM tree of Parquet files in `.hoodie/timeline/history`.
//!
//! | file | content |
//! |---|---|
//! | `_version_` | decimal number N of the current manifest |
//! | `manifest_<N>` | JSON `{"files":[{"fileName":…,"fileLen":…}]}` |
//! | `<minT>_<maxT>_<level>.parquet` | rows of archived instants: times, action, metadata, plan, version |
//!
//! Archiving adds a file of level 0; when a level has as many files as `hoodie.timeline.compaction.batch.size` says,
//! the oldest become one file of the next level. (Layout 1 has log files in its place: [`archive_v1`].) Format and behaviour are Hudi's (`LSMTimelineWriter`,
//! `ArchivedTimelineLoaderV2`); files of either are read by both.

mod archive_v1;
mod check;
mod compactor;
mod entry;
mod file;
mod layout;
mod manifest;
mod overlap;
mod reader;
mod splice;
mod writer;

#[cfg(test)]
mod tests;

pub use check::faults;
pub use compactor::Compacted;
pub use compactor::CompactionLimits;
pub use entry::{HistoryEntry, LoadMode, TimeRange, entries};
pub use manifest::Snapshot;
pub use manifest::parse_manifest;
pub use reader::{HistoryArrow, HistoryReader};
pub use writer::HistoryWriter;
