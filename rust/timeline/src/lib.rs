//! The timeline: which actions were done to the table, when, and how far they came.
//!
//! [`Timeline`] is a snapshot that never changes; [`TimelineWriter`] makes transitions. Layout 2 (table versions 8
//! and 9) keeps instants in `.hoodie/timeline` and its archive as an LSM tree in `.hoodie/timeline/history`; layout 1
//! (version 6) keeps them in `.hoodie`.

#![warn(missing_docs, unreachable_pub)]

mod active;
mod first_active;
pub mod heartbeat;
pub mod history;
mod holder;
mod lock;
mod renewal;
mod timer;
mod transitions;
mod true_time;

pub use active::Timeline;
pub use first_active::{INITIAL, newest_archived_write};
pub use heartbeat::Heartbeat;
pub use lock::{ExternalLease, ExternalLock, ExternalLockRequest, register_external_locks};
pub use lock::{LastLease, LockGuard, WriterLease};
pub use lock::{LockConfig, LockProviderKind, LockWait, TableLock, table_lock};
pub use timer::Timer;
pub use transitions::{Published, TimelineWriter};
pub use true_time::{Clock, SystemClock, TimeGenerator, TimeZone, format_instant, parse_instant_ms};

use hoodoo_format::instant::Layout;

/// Takes the locks of the process, for a fork.
pub fn hold_locks(held: &mut Vec<Box<dyn std::any::Any>>) {
    held.push(Box::new(holder::hold_lock()));
    held.push(Box::new(lock::hold_lock()));
    held.push(Box::new(true_time::hold_lock()));
}

/// The folder below the table's base that holds Hudi's own files.
pub const META_FOLDER: &str = ".hoodie";

/// Where the timeline of a table is and how its times are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineConfig {
    /// Layout of the folder.
    pub layout: Layout,
    /// Folder of the active timeline, relative to the table's base.
    pub folder: String,
    /// Folder of the history, relative to the table's base.
    pub history_folder: String,
    /// Zone in which instant times are written.
    pub zone: TimeZone,
    /// Whether the table was of version 6 and may have log files of that time: others appended to them, and their names have
    /// the base instant of their slice.
    pub was_version_6: bool,
}
