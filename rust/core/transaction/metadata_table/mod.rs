//! The metadata table at the end of an action: kept in step with the table, or dropped where the options say that it is not
//! wanted.

mod create;
mod existing_files;

use std::sync::atomic::Ordering;

use create::create_metadata_table;

use crate::error::Result;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::{FileChanges, Indexed, MAINTAINED, MetadataWriter};
use crate::metadata_table::{COLUMN_STATS, FOLDER};
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
    let writer = MetadataWriter::open(storage, config.timeline(), &partitions)?;
    Ok(Found::Kept { config: Box::new(config), writer: Box::new(writer) })
}

impl Found {
    /// Commits an action to the metadata table, or drops the metadata table. `new_time` gives the next time after the newest
    /// that there is. Returns warnings. The caller holds the table lock.
    pub(super) fn follow(
        self,
        table: &HudiTable,
        timeline: &Timeline,
        requested: &str,
        changes: Option<&FileChanges>,
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
                let writer = MetadataWriter::open(table.storage(), config.timeline(), &config.metadata_partitions())?;
                let kept = Self::Kept { config: Box::new(config), writer: Box::new(writer) };
                kept.follow(table, timeline, requested, Some(changes), new_time)
            }
            Self::Kept { config, writer } => {
                let Some(changes) = changes else { return Ok(Vec::new()) };
                let path = config.get(PATH_PROPERTY).map(str::to_owned);
                let mut definitions = IndexDefinitions::read(table.storage(), path.as_deref())?;
                let indexed = indexed(table, timeline, &config, &mut definitions, &writer, changes)?;
                let prepared = writer.prepare(timeline, changes, &indexed)?;
                let is_kept = |name: &str| MAINTAINED.contains(&name) && !prepared.unkept.contains(&name);
                let warnings = take_out(table, &config, &mut definitions, is_kept)?;
                table.keep_metadata_timeline(writer.commit(requested, prepared, new_time)?);
                Ok(warnings)
            }
        }
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
    is_kept: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let (kept, gone): (Vec<String>, Vec<String>) =
        config.metadata_partitions().into_iter().partition(|name| is_kept(name));
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
