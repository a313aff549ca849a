//! The metadata table at the end of an action: kept in step with the table, or dropped where the options say that it is not
//! wanted.

mod build;
mod existing_files;
mod wanted;

use std::sync::atomic::Ordering;

pub(crate) use build::{BuildRequest, IndexBuild};

use crate::error::{Error, ErrorKind, Result};
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::{FileChanges, Indexed, MAINTAINED, MetadataWriter};
use crate::metadata_table::{COLUMN_STATS, FILES, FOLDER, PARTITION_STATS};
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
    /// It cannot be read, and so cannot be kept in step.
    Damaged { config: Box<TableConfig>, error: Error },
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
    let config = Box::new(config);
    match MetadataWriter::open(storage, config.timeline(), &partitions) {
        Ok(writer) => Ok(Found::Kept { config, writer: Box::new(writer) }),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Found::Damaged { config, error }),
        Err(other) => Err(other),
    }
}

/// What an action means for the metadata table.
#[derive(Clone, Copy)]
pub(crate) enum Follow<'a> {
    /// It did this to the files of the table.
    Files(&'a FileChanges),
    /// Nothing: a rollback, of whose files the metadata table knows nothing.
    Nothing,
    /// It builds partitions of it.
    Build(&'a IndexBuild),
}

impl Found {
    /// Commits an action to the metadata table, or drops the metadata table. `new_time` gives the next time after the newest
    /// that there is. Returns warnings. The caller holds the table lock.
    pub(super) fn follow(
        self,
        table: &HudiTable,
        timeline: &Timeline,
        requested: &str,
        follow: Follow<'_>,
        new_time: impl Fn(Option<&str>) -> Result<String>,
    ) -> Result<Vec<String>> {
        match (self, follow) {
            (Self::Unwanted { .. }, Follow::Build(_)) => {
                Err(Error::invalid_option(format!("an index is to be built, and {ENABLE} is false"))
                    .with("table", table.storage().uri())
                    .remedy(format!("Leave {ENABLE} out")))
            }
            (Self::Unwanted { partitions, files }, _) => {
                drop_metadata_table(table, partitions, files).map(|()| Vec::new())
            }
            (Self::Damaged { error, .. }, Follow::Build(build)) if !build.is_from_scratch() => Err(error),
            (Self::Damaged { error, .. }, Follow::Files(_)) => Err(error),
            (
                Self::Missing { config, .. } | Self::Kept { config, .. } | Self::Damaged { config, .. },
                Follow::Build(build),
            ) => build.execute(table, timeline, &config, None, new_time).map(|_| Vec::new()),
            (Self::Missing { config, .. }, Follow::Files(changes)) if table.makes_metadata_table(timeline)? => {
                let build = IndexBuild::of_options(table)?;
                let config = build.execute(table, timeline, &config, Some(changes), &new_time)?;
                let writer = MetadataWriter::open(table.storage(), config.timeline(), &config.metadata_partitions())?;
                let kept = Self::Kept { config: Box::new(config), writer: Box::new(writer) };
                kept.follow(table, timeline, requested, follow, new_time)
            }
            (Self::Missing { files, .. }, _) => {
                table.metadata_folder_checked().store(true, Ordering::Relaxed);
                drop_metadata_table(table, false, files).map(|()| Vec::new())
            }
            (Self::Kept { .. } | Self::Damaged { .. }, Follow::Nothing) => Ok(Vec::new()),
            (Self::Kept { config, writer }, Follow::Files(changes)) => {
                let path = config.get(PATH_PROPERTY).map(str::to_owned);
                let mut definitions = IndexDefinitions::read(table.storage(), path.as_deref())?;
                let indexed = indexed(table, timeline, &config, &mut definitions, &writer, changes)?;
                let prepared = writer.prepare(timeline, changes, &indexed)?;
                let is_kept = |name: &str| MAINTAINED.contains(&name) && !prepared.unkept.contains(&name);
                let gone = take_out(table, &config, &mut definitions, is_kept)?;
                table.keep_metadata_timeline(writer.commit(requested, prepared, new_time)?);
                Ok(if gone.is_empty() { Vec::new() } else { vec![dropped(&gone)] })
            }
        }
    }
}

fn dropped(partitions: &[String]) -> String {
    format!(
        "{} of the metadata table cannot be kept up to date and was dropped: readers would have missed rows. A writer of Hudi \
         that wants it builds it again",
        partitions.join(", ")
    )
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
/// the definitions of their indexes and the files. Returns their names.
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
    Ok(gone)
}

/// Drops a partition of the metadata table, and those that are made of it. Returns what was dropped. The caller holds the
/// table lock.
///
/// # Errors
/// `InvalidOption` for `files`, without which there is no metadata table; `Storage`.
pub(crate) fn drop_partition(table: &HudiTable, name: &str) -> Result<Vec<String>> {
    if name == FILES {
        return Err(Error::invalid_option("a metadata table without `files` is none")
            .with("table", table.storage().uri())
            .remedy("Drop the metadata table as a whole: Table.drop_metadata_table()"));
    }
    let config = TableConfig::load(table.storage())?;
    let mut definitions = IndexDefinitions::read(table.storage(), config.get(PATH_PROPERTY))?;
    let is_gone = |one: &str| one == name || name == COLUMN_STATS && one == PARTITION_STATS;
    take_out(table, &config, &mut definitions, |one| !is_gone(one))
}

/// Drops the metadata table. Returns whether there was one. The caller holds the table lock.
///
/// # Errors
/// `Storage`.
pub(crate) fn drop_all(table: &HudiTable) -> Result<bool> {
    let config = TableConfig::load(table.storage())?;
    let has_partitions = !config.metadata_partitions().is_empty();
    let has_files = table.storage().has_files(FOLDER)?;
    drop_metadata_table(table, has_partitions, has_files)?;
    Ok(has_partitions || has_files)
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
