//! Makes the metadata table of a table that has none.

use super::{COMPLETE, INFLIGHT, columns_of, existing_files::existing_files, now};
use crate::error::Result;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::{FileChanges, Indexed, IndexedTable, NewPartition, create};
use crate::metadata_table::{COLUMN_STATS, FILES, PARTITION_STATS};
use crate::table::{HudiTable, TableConfig, TableSchema, TableView};
use crate::timeline::Timeline;

/// Partitions with how to turn them on and off, whether they are on by default, and the option and default of how many
/// shards they have. In the order in which they are made, which is Hudi's.
const PARTITIONS: [(&str, Option<(&str, bool)>, Option<&str>, usize); 3] = [
    (FILES, None, None, 1),
    (
        COLUMN_STATS,
        Some(("hoodie.metadata.index.column.stats.enable", true)),
        Some("hoodie.metadata.index.column.stats.file.group.count"),
        2,
    ),
    (
        PARTITION_STATS,
        Some(("hoodie.metadata.index.partition.stats.enable", true)),
        Some("hoodie.metadata.index.partition.stats.file.group.count"),
        1,
    ),
];

/// The partitions that the options want, with their shards.
///
/// # Errors
/// `InvalidOption`.
pub(super) fn wanted_partitions(table: &HudiTable) -> Result<Vec<NewPartition>> {
    let options = table.options();
    let mut wanted: Vec<NewPartition> = Vec::new();
    for (name, switch, count, default) in PARTITIONS {
        let is_on = switch.map_or(Ok(true), |(option, default)| options.flag(option, default))?;
        // Those of partitions are made of those of files.
        let has_column_stats = || wanted.iter().any(|partition| partition.name == COLUMN_STATS);
        let is_possible =
            name != PARTITION_STATS || has_column_stats() && !table.config().partition_fields().is_empty();
        if is_on && is_possible {
            let shards = count.map_or(Ok(default), |option| options.number(option, default))?.max(1);
            wanted.push(NewPartition { name, shards });
        }
    }
    Ok(wanted)
}

/// Makes the metadata table for the state of the table before an action that is completed next, which made these changes.
/// The caller holds the table lock.
///
/// # Errors
/// `InvalidOption`; `Corrupt`; `Storage`; those of `new_time`.
pub(super) fn create_metadata_table(
    table: &HudiTable,
    timeline: &Timeline,
    config: &TableConfig,
    changes: &FileChanges,
    new_time: impl Fn(Option<&str>) -> Result<String>,
) -> Result<TableConfig> {
    let storage = table.storage();
    let wanted = wanted_partitions(table)?;
    let version = table.index_version();
    let view = TableView::new(storage.clone(), timeline.clone())?;
    let schema = TableSchema::resolve(config, &view)?;
    let has_column_stats = wanted.iter().any(|partition| partition.name == COLUMN_STATS);
    let (existing, columns) = match schema.filter(|_| timeline.completed_writes().next().is_some()) {
        Some(schema) => {
            let columns = if has_column_stats { table.columns_to_index(&schema.data)? } else { Vec::new() };
            let (stored, _) = table.file_settings(&schema.data)?;
            (existing_files(table, &view, &columns, &stored)?, columns)
        }
        None => (FileChanges::default(), columns_of(changes)),
    };
    let indexed = Indexed { columns, version };
    let of = IndexedTable { name: config.name(), version: config.version(), timeline: config.timeline() };
    let made = create(storage, &of, &wanted, &existing, &indexed, new_time)?;
    let path = config.get(PATH_PROPERTY).map(str::to_owned);
    let mut definitions = IndexDefinitions::read(storage, path.as_deref())?;
    if has_column_stats {
        definitions.set_column_stats(&indexed.columns, version);
        definitions.write(storage)?;
    }
    let mut names = made;
    names.sort_unstable();
    let mut properties = vec![(COMPLETE, names.join(",")), (INFLIGHT, String::new())];
    if has_column_stats {
        properties.push((PATH_PROPERTY, definitions.path().to_owned()));
    }
    let properties: Vec<(&str, &str)> = properties.iter().map(|(key, value)| (*key, value.as_str())).collect();
    // From now on readers take it for valid.
    TableConfig::update(storage, &properties, &now(table))
}
