//! Which partitions of the metadata table the options want.

use crate::error::{Error, Result};
use crate::metadata_table::write::NewPartition;
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS};
use crate::table::HudiTable;

/// A partition: the option that turns it on and off, and whether it is on without; the option for the number of its shards,
/// and how many there are without.
struct Known {
    name: &'static str,
    switch: Option<(&'static str, bool)>,
    shards: Option<&'static str>,
    default_shards: usize,
}

/// In the order in which Hudi makes them.
const PARTITIONS: [Known; 4] = [
    Known { name: FILES, switch: None, shards: None, default_shards: 1 },
    Known {
        name: COLUMN_STATS,
        switch: Some(("hoodie.metadata.index.column.stats.enable", true)),
        shards: Some("hoodie.metadata.index.column.stats.file.group.count"),
        default_shards: 2,
    },
    Known {
        name: BLOOM_FILTERS,
        switch: Some(("hoodie.metadata.index.bloom.filter.enable", false)),
        shards: Some("hoodie.metadata.index.bloom.filter.file.group.count"),
        default_shards: 4,
    },
    Known {
        name: PARTITION_STATS,
        switch: Some(("hoodie.metadata.index.partition.stats.enable", true)),
        shards: Some("hoodie.metadata.index.partition.stats.file.group.count"),
        default_shards: 1,
    },
];

/// The partitions that a new metadata table has.
///
/// # Errors
/// `InvalidOption`.
pub(super) fn wanted_partitions(table: &HudiTable) -> Result<Vec<NewPartition>> {
    let mut wanted: Vec<NewPartition> = Vec::new();
    for known in &PARTITIONS {
        let is_on = known.switch.map_or(Ok(true), |(option, default)| table.options().flag(option, default))?;
        // Those of partitions are made of those of files.
        let has_column_stats = || wanted.iter().any(|partition| partition.name == COLUMN_STATS);
        let is_partitioned = || !table.config().partition_fields().is_empty();
        let is_possible = known.name != PARTITION_STATS || has_column_stats() && is_partitioned();
        if is_on && is_possible {
            wanted.push(known.partition(table)?);
        }
    }
    Ok(wanted)
}

/// A new partition of this name, with the shards that the options say.
///
/// # Errors
/// `InvalidOption`; `Unsupported` for a partition that is not built.
pub(super) fn new_partition(table: &HudiTable, name: &str) -> Result<NewPartition> {
    let known = PARTITIONS.iter().find(|known| known.name == name);
    let known =
        known.ok_or_else(|| Error::unsupported(format!("hoodoo does not build {name} of the metadata table")))?;
    known.partition(table)
}

impl Known {
    fn partition(&self, table: &HudiTable) -> Result<NewPartition> {
        let shards = self
            .shards
            .map_or(Ok(self.default_shards), |option| table.options().number(option, self.default_shards))?;
        Ok(NewPartition { name: self.name, shards: shards.max(1) })
    }
}
