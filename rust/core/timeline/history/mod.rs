//! The history: archived instants, kept as an LSM tree of Parquet files in `.hoodie/timeline/history`.
//!
//! | file | content |
//! |---|---|
//! | `_version_` | decimal number N of the current manifest |
//! | `manifest_<N>` | JSON `{"files":[{"fileName":…,"fileLen":…}]}` |
//! | `<minT>_<maxT>_<level>.parquet` | rows of archived instants, one requested time each |
//!
//! Tables of version 6 (layout 1) keep theirs in log files; see `archive_v1.rs`.

mod archive_v1;
mod reader;

pub use reader::{HistoryEntry, HistoryReader, LoadMode};
