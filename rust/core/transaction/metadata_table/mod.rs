//! The metadata table at the end of an action: kept in step with the table, or dropped where the options say that it is not
//! wanted.

mod build_record_index;
mod create;
mod existing_files;

use std::sync::atomic::Ordering;

use self::build_record_index::build_record_index;
use self::create::create_metadata_table;
use super::record_index::key_changes;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::record_index::KeyChanges;
use crate::metadata_table::write::{FileChanges, Indexed, MAINTAINED, MetadataWriter, record_index_shards};
use crate::metadata_table::{COLUMN_STATS, FOLDER, RECORD_INDEX};
use crate::parallel::both;
use crate::table::{HudiTable, TableConfig};
use crate::timeline::{TimeZone, Timeline, format_instant};

/// Whether the metadata table is kept.
const ENABLE: &str = "hoodie.metadata.enable";
const COMPLETE: &str = "hoodie.table.metadata.partitions";
const INFLIGHT: &str = "hoodie.table.metadata.partitions.inflight";

/// The state of the metadata table, now that this action holds the table lock. Another writer may have made one since the
/// table was opened.
pub(super) enum Found {
    /// It is to be kept in step.
    Kept { config: Box<TableConfig>, writer: Box<MetadataWriter> },
    /// There is none, though the options want one.
    Missing { config: Box<TableConfig>, files: bool },
    /// It is not wanted: what there is of it is to be dropped.
    Unwanted { partitions: bool, files: bool },
}

/// Whether the options let a table have one.
pub(super) fn is_wanted(table: &HudiTable) -> Result<bool> {
    table.options().flag(ENABLE, true)
}

/// Looks for a metadata table. The caller holds the table lock.
pub(super) fn look(table: &HudiTable) -> Result<Found> {
    let storage = table.storage();
    let checked = table.metadata_folder_checked();
    let folder = || if checked.load(Ordering::Relaxed) { Ok(false) } else { storage.has_files(FOLDER) };
    let (config, files) = both(storage.is_remote(), || TableConfig::load(storage), folder)?;
    let partitions = config.metadata_partitions();
    if !is_wanted(table)? {
        checked.store(true, Ordering::Relaxed);
        return Ok(Found::Unwanted { partitions: !partitions.is_empty(), files });
    }
    if partitions.is_empty() {
        return Ok(Found::Missing { config: Box::new(config), files });
    }
    let writer = open(table, &config)?;
    Ok(Found::Kept { config: Box::new(config), writer: Box::new(writer) })
}

/// Opens the metadata table for the partitions of it that are kept.
fn open(table: &HudiTable, config: &TableConfig) -> Result<MetadataWriter> {
    let kept: Vec<String> = config.metadata_partitions().into_iter().filter(|name| is_kept(config, name)).collect();
    MetadataWriter::open(table.storage(), config.timeline(), &kept)
}

/// Whether a partition is kept up to date. A record index that somebody is building, and has not completed, is not: its
/// shards may not be there yet.
fn is_kept(config: &TableConfig, name: &str) -> bool {
    let is_complete = || config.complete_metadata_partitions().iter().any(|complete| complete == name);
    MAINTAINED.contains(&name) && (name != RECORD_INDEX || is_complete())
}

/// Finds out which keys an action put somewhere else, if the table has a record index, before the table lock is taken.
pub(super) fn keys_ahead(
    table: &HudiTable,
    requested: &str,
    changes: Option<&FileChanges>,
) -> Result<Option<KeyChanges>> {
    let Some(writes) = changes.and_then(|changes| changes.keys.as_ref()) else { return Ok(None) };
    if !is_kept(table.config(), RECORD_INDEX)
        || !table.config().metadata_partitions().iter().any(|name| name == RECORD_INDEX)
        || !is_wanted(table)?
    {
        return Ok(None);
    }
    let found = record_index_shards(table.storage()).and_then(|shards| key_changes(table, requested, &shards, writes));
    match found {
        Ok(keys) => Ok(Some(keys)),
        // Under the lock it is seen whether the index is still there, and what becomes of it.
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Corrupt | ErrorKind::NotFound) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Found {
    /// Commits an action to the metadata table, or drops the metadata table. `keys` are those of [`keys_ahead`]. `new_time`
    /// gives the next time after the newest that there is. Returns warnings. The caller holds the table lock.
    pub(super) fn follow(
        self,
        table: &HudiTable,
        timeline: &Timeline,
        requested: &str,
        (changes, keys): (Option<&FileChanges>, Option<KeyChanges>),
        new_time: impl Fn(Option<&str>) -> Result<String>,
    ) -> Result<Vec<String>> {
        match self {
            Self::Unwanted { partitions, files } => drop_metadata_table(table, partitions, files).map(|()| Vec::new()),
            Self::Missing { config, files } => {
                let is_made = table.makes_metadata_table(timeline)?;
                let Some(changes) = changes.filter(|_| is_made) else {
                    table.metadata_folder_checked().store(true, Ordering::Relaxed);
                    return drop_metadata_table(table, false, files).map(|()| Vec::new());
                };
                let config = create_metadata_table(table, timeline, &config, changes, &new_time)?;
                let writer = open(table, &config)?;
                let kept = Self::Kept { config: Box::new(config), writer: Box::new(writer) };
                kept.follow(table, timeline, requested, (Some(changes), keys), new_time)
            }
            Self::Kept { config, writer } => {
                let Some(changes) = changes else { return Ok(Vec::new()) };
                if let Some(config) = build_record_index(table, timeline, &config, changes, &new_time)? {
                    let writer = open(table, &config)?;
                    let kept = Self::Kept { config: Box::new(config), writer: Box::new(writer) };
                    return kept.follow(table, timeline, requested, (Some(changes), None), new_time);
                }
                let path = config.get(PATH_PROPERTY).map(str::to_owned);
                let mut definitions = IndexDefinitions::read(table.storage(), path.as_deref())?;
                let indexed = indexed(table, timeline, &config, &mut definitions, &writer, changes)?;
                let mut prepared = writer.prepare(timeline, changes, &indexed)?;
                match moved_keys(table, requested, &writer, changes, keys)? {
                    Moved::Keys(keys) => prepared.keys = keys,
                    Moved::Unknown(e) => {
                        tracing::warn!(table = table.storage().uri(), "the record index cannot be kept: {e}");
                        prepared.unkept.push(RECORD_INDEX);
                    }
                }
                let stays = |name: &str| is_kept(&config, name) && !prepared.unkept.contains(&name);
                let warnings = take_out(table, &config, &mut definitions, stays)?;
                writer.commit(requested, prepared, new_time)?;
                Ok(warnings)
            }
        }
    }
}

/// What an action did to the locations of keys.
enum Moved {
    /// The keys that it put somewhere else, if there is a record index.
    Keys(Option<KeyChanges>),
    /// The record index cannot learn of it.
    Unknown(Error),
}

/// The keys that an action put somewhere else. Another writer may have made the record index, or made it anew, since they
/// were looked for.
fn moved_keys(
    table: &HudiTable,
    requested: &str,
    writer: &MetadataWriter,
    changes: &FileChanges,
    ahead: Option<KeyChanges>,
) -> Result<Moved> {
    let shards = match writer.record_index_shards() {
        Err(e) if e.kind() == ErrorKind::Corrupt => return Ok(Moved::Unknown(e)),
        shards => shards?,
    };
    let (Some(shards), Some(writes)) = (shards, &changes.keys) else { return Ok(Moved::Keys(None)) };
    if let Some(keys) = ahead.filter(|keys| keys.are_for(&shards)) {
        return Ok(Moved::Keys(Some(keys)));
    }
    match key_changes(table, requested, &shards, writes) {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Moved::Unknown(e)),
        keys => keys.map(|keys| Moved::Keys(Some(keys))),
    }
}

/// The columns that have statistics: those that the definitions name. A column that is new to them would be missing in the
/// files that are there.
fn indexed(
    table: &HudiTable,
    timeline: &Timeline,
    config: &TableConfig,
    definitions: &mut IndexDefinitions,
    writer: &MetadataWriter,
    changes: &FileChanges,
) -> Result<Indexed> {
    let version = table.index_version();
    let known = definitions.source_fields(COLUMN_STATS).filter(|columns| !columns.is_empty());
    if let Some(columns) = known {
        return Ok(Indexed { columns, version });
    }
    let is_first = writer.is_new() && timeline.completed_writes().next().is_none();
    if !is_first || !config.metadata_partitions().iter().any(|name| name == COLUMN_STATS) {
        return Ok(Indexed { columns: Vec::new(), version });
    }
    let columns = columns_of(changes);
    if !columns.is_empty() && definitions.set_column_stats(&columns, version) {
        definitions.write(table.storage())?;
        if config.get(PATH_PROPERTY).is_none() {
            TableConfig::update(table.storage(), &[(PATH_PROPERTY, definitions.path())], &now(table))?;
        }
    }
    Ok(Indexed { columns, version })
}

/// The columns of which the files of an action have statistics.
fn columns_of(changes: &FileChanges) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for file in changes.partitions.values().flat_map(|one| &one.added) {
        let Some(ranges) = &file.ranges else { continue };
        let ranges = ranges.get();
        let names = ranges.ranges.iter().map(|range| &range.column);
        for name in names.chain(ranges.unknown.iter().map(|unknown| &unknown.column)) {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
    }
    columns
}

/// Takes the partitions out that nobody keeps up to date: first from the table's properties, by which readers decide, then
/// the definitions of their indexes and the files. Returns a warning that names them.
fn take_out(
    table: &HudiTable,
    config: &TableConfig,
    definitions: &mut IndexDefinitions,
    stays: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let (kept, gone): (Vec<String>, Vec<String>) =
        config.metadata_partitions().into_iter().partition(|name| stays(name));
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let storage = table.storage();
    let complete: Vec<String> =
        config.complete_metadata_partitions().into_iter().filter(|name| kept.contains(name)).collect();
    let pending: Vec<String> = kept.into_iter().filter(|name| !complete.contains(name)).collect();
    TableConfig::update(storage, &[(COMPLETE, &complete.join(",")), (INFLIGHT, &pending.join(","))], &now(table))?;
    let mut changed = false;
    for name in &gone {
        changed |= definitions.remove(name);
    }
    if changed {
        definitions.write(storage)?;
    }
    for name in &gone {
        storage.delete_folder(&format!("{FOLDER}/{name}"))?;
    }
    Ok(vec![format!(
        "{} of the metadata table cannot be kept up to date and was dropped: readers would have missed rows. A writer of Hudi \
         that wants it builds it again",
        gone.join(", ")
    )])
}

/// Drops the metadata table as Hudi does: first the table property, by which readers decide, then the folder.
fn drop_metadata_table(table: &HudiTable, partitions: bool, files: bool) -> Result<()> {
    let storage = table.storage();
    if partitions {
        TableConfig::update(storage, &[(COMPLETE, ""), (INFLIGHT, "")], &now(table))?;
    }
    if partitions || files { storage.delete_folder(FOLDER) } else { Ok(()) }
}

fn now(table: &HudiTable) -> String {
    format_instant(table.clock().now_ms(), TimeZone::Utc)
}
