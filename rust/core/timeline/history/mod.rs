//! The history: archived instants, kept as an LSM tree of Parquet files in `.hoodie/timeline/history`.
//!
//! | file | content |
//! |---|---|
//! | `_version_` | decimal number N of the current manifest |
//! | `manifest_<N>` | JSON `{"files":[{"fileName":…,"fileLen":…}]}` |
//! | `<minT>_<maxT>_<level>.parquet` | rows of archived instants, one requested time each |

mod reader;

pub use reader::{HistoryEntry, HistoryReader, LoadMode};
