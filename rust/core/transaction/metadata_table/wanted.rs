//! Which partitions of the metadata table the options want.

use crate::error::{Error, Result};
use crate::metadata_table::write::NewPartition;
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX};
use crate::table::{GLOBAL_RECORD_INDEX, HudiTable, META_COLUMNS, RECORD_INDEX_BY_PARTITION, TableConfig};

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
/// Option: how many have them where there is no such list.
const MAX_COLUMNS: &str = "hoodie.metadata.index.column.stats.max.columns.to.index";

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
    unmet.extend(kept_record_index(table, has.iter().any(|name| name == RECORD_INDEX))?);
    if has.iter().any(|name| name == COLUMN_STATS) {
        unmet.extend(other_columns(table, columns)?);
    }
    Ok(unmet)
}

/// Whether the options turn a record index off that the table has, and none on.
fn kept_record_index(table: &HudiTable, is_there: bool) -> Result<Option<String>> {
    if !is_there || table.wanted_record_index()?.is_some() {
        return Ok(None);
    }
    let off =
        [GLOBAL_RECORD_INDEX, RECORD_INDEX_BY_PARTITION].into_iter().find(|key| table.options().get(key).is_some());
    Ok(off.map(|option| {
        format!("{option}=false: {RECORD_INDEX} is kept. Drop it with Table.drop_index(\"{RECORD_INDEX}\")")
    }))
}

/// Whether the options ask for statistics of other columns than these.
fn other_columns(table: &HudiTable, columns: &[String]) -> Result<Option<String>> {
    let options = table.options();
    let build = "Table.index(\"column_stats\", columns) builds them for other columns";
    let listed: Vec<&str> = options
        .get(COLUMN_LIST)
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    if listed.is_empty() {
        let max = options.number(MAX_COLUMNS, usize::MAX)?;
        let known = columns.iter().filter(|name| !META_COLUMNS.contains(&name.as_str())).count();
        return Ok(
            (known > max).then(|| format!("{MAX_COLUMNS}={max}: statistics of {known} columns are kept. {build}"))
        );
    }
    let missing: Vec<&str> = listed.into_iter().filter(|name| !columns.iter().any(|c| c == name)).collect();
    Ok((!missing.is_empty())
        .then(|| format!("{COLUMN_LIST}: there are no statistics of {}. {build}", missing.join(", "))))
}

impl Known {
    fn partition(&self, table: &HudiTable) -> Result<NewPartition> {
        let shards = self
            .shards
            .map_or(Ok(self.default_shards), |option| table.options().number(option, self.default_shards))?;
        Ok(NewPartition { name: self.name, shards: shards.max(1) })
    }
}
