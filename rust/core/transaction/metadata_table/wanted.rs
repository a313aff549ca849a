//! Which partitions of the metadata table the options want.

use crate::error::{Error, Result};
use crate::metadata_table::write::NewPartition;
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS};
use crate::table::{HudiTable, TableConfig};

/// A partition: the option that turns it on and off, and whether it is on without; the option for the number of its shards,
/// and how many there are without.
struct Known {
    name: &'static str,
    switch: Option<(&'static str, bool)>,
    shards: Option<&'static str>,
    default_shards: usize,
}

/// Option: the columns that have statistics.
const COLUMN_LIST: &str = "hoodie.metadata.index.column.stats.column.list";

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
/// `InvalidOption`; `Internal` for a partition that is made otherwise.
pub(super) fn new_partition(table: &HudiTable, name: &str) -> Result<NewPartition> {
    let known = PARTITIONS.iter().find(|known| known.name == name);
    let known = known.ok_or_else(|| Error::internal(format!("nobody knows how {name} is built")))?;
    known.partition(table)
}

/// Warnings about options that ask for another metadata table than the table has, with these columns in its statistics. A
/// write keeps the one that there is.
///
/// # Errors
/// `InvalidOption`.
pub(super) fn unmet_options(table: &HudiTable, config: &TableConfig, columns: &[String]) -> Result<Vec<String>> {
    let options = table.options();
    let has = config.metadata_partitions();
    let mut unmet = Vec::new();
    for known in &PARTITIONS {
        let Some((option, _)) = known.switch.filter(|(option, _)| options.get(option).is_some()) else { continue };
        let (name, is_on) = (known.name, options.flag(option, false)?);
        let is_possible = name != PARTITION_STATS || !config.partition_fields().is_empty();
        match (is_on, has.iter().any(|one| one == name)) {
            (true, false) if is_possible => {
                unmet.push(format!(
                    "{option}=true: the metadata table has no {name}. Build it with Table.index(\"{name}\")"
                ));
            }
            (false, true) => {
                unmet.push(format!("{option}=false: {name} is kept. Drop it with Table.drop_index(\"{name}\")"));
            }
            _ => {}
        }
    }
    let listed = options.get(COLUMN_LIST).unwrap_or_default().split(',').map(str::trim);
    let missing: Vec<&str> = listed.filter(|name| !name.is_empty() && !columns.iter().any(|c| c == name)).collect();
    if !missing.is_empty() && has.iter().any(|name| name == COLUMN_STATS) {
        unmet.push(format!(
            "{COLUMN_LIST}: there are no statistics of {}. Table.index(\"column_stats\", columns) builds them for other columns",
            missing.join(", ")
        ));
    }
    Ok(unmet)
}

impl Known {
    fn partition(&self, table: &HudiTable) -> Result<NewPartition> {
        let shards = self
            .shards
            .map_or(Ok(self.default_shards), |option| table.options().number(option, self.default_shards))?;
        Ok(NewPartition { name: self.name, shards: shards.max(1) })
    }
}
