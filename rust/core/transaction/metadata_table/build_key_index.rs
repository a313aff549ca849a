//! Builds indexes of keys in the metadata table: the record index, and secondary indexes.

use std::collections::BTreeSet;

use super::properties::{COMPLETE, now};
use crate::error::{ErrorKind, Result};
use crate::metadata_table::RECORD_INDEX;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::{FileChanges, MadeBy, initialize_keys};
use crate::table::{HudiTable, TableConfig, TableView};
use crate::timeline::Timeline;
use crate::transaction::key_index::{KeyIndexKind, StagedIndex};

/// Builds the record index that the options ask for, if there is none, for the state of the table before an action that is
/// completed next, which has this requested time and made these changes. Returns the properties with it; `None` if nothing is
/// built. The caller holds the table lock.
///
/// # Errors
/// `InvalidOption`; `Corrupt`; `Storage`; those of `new_time`.
pub(super) fn build_wanted_record_index(
    table: &HudiTable,
    timeline: &Timeline,
    requested: &str,
    config: &TableConfig,
    changes: &FileChanges,
    new_time: impl Fn(Option<&str>) -> Result<String>,
) -> Result<Option<TableConfig>> {
    let Some(is_partitioned) = table.wanted_record_index()? else { return Ok(None) };
    let has_index = config.metadata_partitions().iter().any(|name| name == RECORD_INDEX);
    let is_write = changes.keys.as_ref().is_some_and(|keys| keys.compacted.is_none());
    if has_index || !is_write || changes.partitions.is_empty() {
        return Ok(None);
    }
    let partitions: Vec<String> = changes.partitions.keys().cloned().collect();
    let build = || {
        let view = TableView::new(table.storage().clone(), timeline.clone())?;
        let staged = StagedIndex::build(table, &view, &KeyIndexKind::Records(is_partitioned), requested)?;
        build_key_index((table, requested), &view, config, staged, &partitions, new_time)
    };
    match build() {
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            tracing::warn!(table = table.storage().uri(), "the record index is not built: {e}");
            Ok(None)
        }
        built => built.map(Some),
    }
}

/// Commits an index whose shards are staged, for the state of the table that a view shows; in an index by partition the data
/// partitions `also` get shards too. `instant` is the action that builds it. The table's properties do not name the index.
/// Returns those that do. The caller holds the table lock.
///
/// # Errors
/// `InvalidOption` for a column that is gone; `Corrupt`; `Unsupported` for a table whose merger is missing; `Storage`; those of
/// `new_time`.
pub(super) fn build_key_index(
    (table, instant): (&HudiTable, &str),
    view: &TableView,
    config: &TableConfig,
    staged: StagedIndex,
    also: &[String],
    new_time: impl Fn(Option<&str>) -> Result<String>,
) -> Result<TableConfig> {
    let (storage, kind, folder) = (table.storage(), staged.kind(), staged.folder());
    let (shards, changes) = staged.finish(view, also)?;
    initialize_keys(storage, MadeBy { table: config.timeline(), instant }, &shards, changes, new_time)?;
    storage.delete_folder(&folder)?;
    let mut definitions = IndexDefinitions::read(storage, config.get(PATH_PROPERTY))?;
    let partition = match &kind {
        KeyIndexKind::Records(is_partitioned) => {
            definitions.set_record_index(*is_partitioned);
            RECORD_INDEX
        }
        KeyIndexKind::Values(index) => {
            definitions.set_secondary_index(index);
            &index.partition
        }
    };
    publish(table, config, &definitions, partition)
}

/// Writes the definitions of indexes, and names one more partition as complete. Returns the properties that do.
///
/// # Errors
/// `Storage`.
pub(super) fn publish(
    table: &HudiTable,
    config: &TableConfig,
    definitions: &IndexDefinitions,
    partition: &str,
) -> Result<TableConfig> {
    definitions.write(table.storage())?;
    let complete = config.complete_metadata_partitions();
    let names: BTreeSet<String> = complete.into_iter().chain([partition.to_owned()]).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    let properties = [(COMPLETE, names.as_str()), (PATH_PROPERTY, definitions.path())];
    // From now on readers take it for valid.
    TableConfig::update(table.storage(), &properties, &now(table))
}
