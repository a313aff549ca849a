//! The table services of the metadata table itself. All of them run under the table lock, at the end of a write to the table:
//! whatever is pending here is of a process that died.
//!
//! | file | does |
//! |---|---|
//! | `own_action.rs` | an action on the timeline of the metadata table, from its plan to its completion |
//! | `failed.rs` | takes compactions back whose process died |
//! | `compaction` | base files and log files of all shards become new base files; or their log files one log file |
//!
//! Which file slices are cleaned and which instants are archived is decided as for the table itself, where the services of
//! the table are.

pub(crate) mod compaction;
mod failed;
mod own_action;

pub(crate) use failed::take_back_failed;
pub(crate) use own_action::OwnAction;

use super::FOLDER;
use super::MetadataTable;
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::storage::Storage;
use crate::timeline::{LockGuard, Timeline};

/// What the services work with.
pub(crate) struct MetadataServices<'a> {
    /// The table's files.
    pub(crate) storage: &'a Storage,
    /// The table lock.
    pub(crate) held: &'a LockGuard,
    /// The timeline of the table.
    pub(crate) table: &'a Timeline,
    /// Partitions of the metadata table that are complete.
    pub(crate) partitions: &'a [String],
    /// Gives the next time after the newest that there is.
    pub(crate) new_time: &'a dyn Fn(Option<&str>) -> Result<String>,
    /// Threads that work at once.
    pub(crate) threads: usize,
}

impl MetadataServices<'_> {
    /// The metadata table as it is now.
    ///
    /// # Errors
    /// Those of [`MetadataTable::open`].
    pub(crate) fn open(&self) -> Result<MetadataTable> {
        MetadataTable::open(self.storage, self.table, self.partitions.to_vec())
    }
}

/// The partition of the metadata table that a slice belongs to.
fn partition_of(slice: &FileSlice) -> &str {
    slice.partition.strip_prefix(FOLDER).unwrap_or(&slice.partition).trim_start_matches('/')
}
