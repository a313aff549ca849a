//! Makes a metadata table with its first partitions.

use super::changes::FileChanges;
use super::initialize::{MadeBy, create_empty, initialize_with};
use super::partition_stats::partition_stats;
use super::records::{Indexed, PartitionUpdate, updates};
use crate::error::Result;
use crate::metadata_table::PARTITION_STATS;
use crate::storage::Storage;

/// A partition that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewPartition {
    /// Its name.
    pub(crate) name: &'static str,
    /// How many shards it has, for good.
    pub(crate) shards: usize,
}

/// The table that a metadata table is of.
pub(crate) struct IndexedTable<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its version.
    pub(crate) version: u32,
    /// The action of it that makes the metadata table.
    pub(crate) by: MadeBy<'a>,
}

/// Makes a metadata table for a table that has these files. Returns the partitions that were made: all that are wanted,
/// but for statistics of partitions where nothing is known of some file. The table's properties do not name them yet. The
/// caller holds the table lock.
///
/// # Errors
/// `Storage`; those of `new_time`.
pub(crate) fn create(
    storage: &Storage,
    table: &IndexedTable<'_>,
    wanted: &[NewPartition],
    existing: &FileChanges,
    indexed: &Indexed,
    new_time: impl Fn(Option<&str>) -> Result<String>,
) -> Result<Vec<&'static str>> {
    create_empty(storage, table.name, table.version)?;
    add(storage, table.by, wanted, existing, indexed, new_time)
}

/// Adds partitions to the metadata table of a table that has these files; see [`create`].
///
/// # Errors
/// `Corrupt` for a metadata table that is damaged; `Storage`; those of `new_time`.
pub(crate) fn add(
    storage: &Storage,
    by: MadeBy<'_>,
    wanted: &[NewPartition],
    existing: &FileChanges,
    indexed: &Indexed,
    new_time: impl Fn(Option<&str>) -> Result<String>,
) -> Result<Vec<&'static str>> {
    let is_wanted = |name: &str| wanted.iter().any(|partition| partition.name == name);
    let mut updates = updates(existing, indexed, is_wanted);
    let mut made = Vec::with_capacity(wanted.len());
    for NewPartition { name, shards } in wanted {
        let update = match *name {
            PARTITION_STATS => match partition_stats(None, existing, indexed)? {
                Some(records) => PartitionUpdate { records, ..PartitionUpdate::default() },
                None => continue,
            },
            name => updates.remove(name).unwrap_or_default(),
        };
        initialize_with(storage, by, name, *shards, update, &new_time)?;
        made.push(*name);
    }
    Ok(made)
}
