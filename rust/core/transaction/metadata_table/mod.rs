//! The metadata table at the end of an action: kept in step with the table, or dropped where the options say that it is not
//! wanted.

mod build;
mod build_expression_index;
mod build_key_index;
mod build_request;
mod existing_files;
mod function_ranges;
mod kept_expressions;
mod kept_keys;
mod plan;
mod properties;
mod undo;
mod wanted;
mod wanted_secondary_index;

use std::sync::atomic::Ordering;

use arrow::datatypes::Schema;

pub(crate) use build::IndexBuild;
pub use build_expression_index::Expression;
use build_key_index::build_wanted_record_index;
pub(crate) use build_request::BuildRequest;
pub(crate) use existing_files::read_unit;
pub use existing_files::{FilesPlan, FilesUnit};
use existing_files::{columns_of, with_ranges};
pub(crate) use function_ranges::RangeReader;
use kept_expressions::{ExpressionsAhead, kept_expressions};
use kept_keys::{KeysAhead, kept_keys};
pub(crate) use plan::IndexPlan;
pub use plan::IndexReport;
pub(super) use properties::is_wanted;
use properties::{COMPLETE, ENABLE, INFLIGHT, is_kept, now};
pub(crate) use undo::Undo;
use wanted::unmet_options;

use crate::error::{Error, ErrorKind, Result};
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::secondary_entries::is_secondary_index;
use crate::metadata_table::write::{FileChanges, Indexed, MetadataWriter};
use crate::metadata_table::{COLUMN_STATS, FILES, FOLDER, MetadataListing, PARTITION_STATS, RECORD_INDEX};
use crate::parallel::both;
use crate::storage::Storage;
use crate::table::{HudiTable, TableConfig, TableSchema, TableView, can_have_ranges};
use crate::timeline::Timeline;

/// The state of the metadata table, now that this action holds the table lock. Another writer may have made one since the
/// table was opened.
pub(super) enum Found {
    /// It is to be kept in step.
    Kept { config: Box<TableConfig>, writer: Box<MetadataWriter>, definitions: Result<IndexDefinitions> },
    /// It cannot be read, and so cannot be kept in step.
    Damaged { config: Box<TableConfig>, error: Error },
    /// There is none, though the options want one.
    Missing { config: Box<TableConfig>, files: bool },
    /// It is not wanted: what there is of it is to be dropped.
    Unwanted { partitions: bool, files: bool },
}

/// Looks for a metadata table. The caller holds the table lock.
pub(super) fn look(table: &HudiTable) -> Result<Found> {
    let storage = table.storage();
    let checked = table.metadata_folder_checked();
    let folder = || if checked.load(Ordering::Relaxed) { Ok(false) } else { storage.has_files(FOLDER) };
    let is_wanted = is_wanted(table)?;
    // What was there when the table was opened most likely is there still, so it is looked at beside the properties. Only
    // where they name no partition of it, files of it matter.
    let was_there = !table.config().metadata_partitions().is_empty();
    let early = || {
        Ok(match (was_there, is_wanted && storage.is_remote()) {
            (false, _) => (None, Some(folder()?)),
            (true, true) => (Some(Contents::read(storage, table.config())?), None),
            (true, false) => (None, None),
        })
    };
    let (config, (contents, files)) = both(storage.is_remote(), || TableConfig::load(storage), early)?;
    let partitions = config.metadata_partitions();
    let files = match files {
        None if partitions.is_empty() => folder()?,
        files => files.unwrap_or(true),
    };
    if !is_wanted {
        checked.store(true, Ordering::Relaxed);
        return Ok(Found::Unwanted { partitions: !partitions.is_empty(), files });
    }
    if partitions.is_empty() {
        return Ok(Found::Missing { config: Box::new(config), files });
    }
    let contents = match contents.filter(|_| is_read_alike(&config, table.config())) {
        Some(contents) => contents,
        None => Contents::read(storage, &config)?,
    };
    let config = Box::new(config);
    let Contents { listing, definitions } = contents;
    match listing.and_then(|listing| open(table, &config, listing)) {
        Ok(writer) => Ok(Found::Kept { config, writer: Box::new(writer), definitions }),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Found::Damaged { config, error }),
        Err(other) => Err(other),
    }
}

/// What there is of a metadata table, as far as it can be read.
struct Contents {
    listing: Result<MetadataListing>,
    definitions: Result<IndexDefinitions>,
}

impl Contents {
    fn read(storage: &Storage, config: &TableConfig) -> Result<Self> {
        let listing = || Ok(MetadataListing::read_all(storage, config.timeline()));
        let definitions = || Ok(IndexDefinitions::read(storage, config.get(PATH_PROPERTY)));
        let (listing, definitions) = both(storage.is_remote(), listing, definitions)?;
        Ok(Self { listing, definitions })
    }
}

/// Whether the contents of the metadata table are found in the same way by both properties.
fn is_read_alike(one: &TableConfig, other: &TableConfig) -> bool {
    one.timeline() == other.timeline() && one.get(PATH_PROPERTY) == other.get(PATH_PROPERTY)
}

/// What an action means for the metadata table.
#[derive(Clone, Copy)]
pub(crate) enum Follow<'a> {
    /// It did this to the files of the table.
    Files(&'a FileChanges),
    /// Nothing: a rollback, of whose files the metadata table knows nothing.
    Nothing,
    /// It took back what other actions did, and what they committed to the metadata table, which has to name it; or the
    /// metadata table is made anew.
    Undone(Option<&'a IndexBuild>),
    /// It builds partitions of it.
    Build(&'a IndexBuild),
}

/// Opens the metadata table for the partitions of it that are kept.
fn open(table: &HudiTable, config: &TableConfig, listing: MetadataListing) -> Result<MetadataWriter> {
    let kept: Vec<String> = config.metadata_partitions().into_iter().filter(|name| is_kept(config, name)).collect();
    MetadataWriter::open(table.storage(), listing, &kept)
}

/// What an action changes in indexes, as far as it was found out before the table lock was taken.
#[derive(Default)]
pub(super) struct Ahead {
    keys: KeysAhead,
    expressions: ExpressionsAhead,
}

/// Finds out what an action changes in the indexes of keys and of expressions, before the table lock is taken.
pub(super) fn look_ahead(table: &HudiTable, requested: &str, follow: Follow<'_>) -> Result<Ahead> {
    let Follow::Files(changes) = follow else { return Ok(Ahead::default()) };
    if !is_wanted(table)? {
        return Ok(Ahead::default());
    }
    let keys = changes.keys.as_ref().map(|writes| kept_keys::keys_ahead(table, requested, writes)).transpose()?;
    Ok(Ahead { keys: keys.unwrap_or_default(), expressions: kept_expressions::expressions_ahead(table, changes)? })
}

impl Found {
    /// The metadata table of a table with these properties, which name partitions of it.
    fn kept(table: &HudiTable, config: TableConfig) -> Result<Self> {
        let Contents { listing, definitions } = Contents::read(table.storage(), &config)?;
        let writer = Box::new(open(table, &config, listing?)?);
        Ok(Self::Kept { config: Box::new(config), writer, definitions })
    }

    /// Commits an action to the metadata table, or drops the metadata table. `ahead` is that of [`look_ahead`]. `new_time`
    /// gives the next time after the newest that there is. Returns warnings. The caller holds the table lock.
    pub(super) fn follow(
        self,
        table: &HudiTable,
        timeline: &Timeline,
        requested: &str,
        (follow, ahead): (Follow<'_>, Ahead),
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
            (found, Follow::Undone(build)) => found.follow_restore(table, timeline, requested, build, new_time),
            (Self::Damaged { error, .. }, Follow::Build(build)) if !build.is_from_scratch() => Err(error),
            (Self::Damaged { error, .. }, Follow::Files(_)) => Err(error),
            (
                Self::Missing { config, .. } | Self::Kept { config, .. } | Self::Damaged { config, .. },
                Follow::Build(build),
            ) => build.execute(table, timeline, &config, None, new_time).map(|_| Vec::new()),
            (Self::Missing { config, .. }, Follow::Files(changes)) if table.makes_metadata_table(timeline)? => {
                let build = IndexBuild::of_options(table, requested)?;
                let config = build.execute(table, timeline, &config, Some(changes), &new_time)?;
                Self::kept(table, config)?.follow(table, timeline, requested, (follow, ahead), new_time)
            }
            (Self::Missing { files, .. }, _) => {
                table.metadata_folder_checked().store(true, Ordering::Relaxed);
                drop_metadata_table(table, false, files).map(|()| Vec::new())
            }
            (Self::Kept { .. } | Self::Damaged { .. }, Follow::Nothing) => Ok(Vec::new()),
            (Self::Kept { config, writer, definitions }, Follow::Files(changes)) => {
                if let Some(build) = undo::abandoned(&config, timeline, requested) {
                    let config = build.execute(table, timeline, &config, Some(changes), &new_time)?;
                    return Self::kept(table, config)?.follow(table, timeline, requested, (follow, ahead), new_time);
                }
                if let Some(config) =
                    build_wanted_record_index(table, timeline, requested, &config, changes, &new_time)?
                {
                    // The index is new, so that nothing is known of it.
                    let ahead = Ahead { keys: KeysAhead::default(), ..ahead };
                    return Self::kept(table, config)?.follow(table, timeline, requested, (follow, ahead), new_time);
                }
                let mut definitions = definitions?;
                let indexed = indexed(table, timeline, &config, &mut definitions, &writer, changes)?;
                let with_ranges = with_ranges(table, changes, &indexed.columns)?;
                let changes = with_ranges.as_ref().unwrap_or(changes);
                let prepare = || {
                    let (mut prepared, of) = (writer.prepare(timeline, changes, &indexed)?, (&*config, &definitions));
                    let kept = kept_keys(table, requested, of, &writer, changes, ahead.keys)?;
                    prepared.keys = kept.changes;
                    prepared.unkept.extend(kept.unkept);
                    let kept = kept_expressions(table, timeline, of, &writer, changes, ahead.expressions)?;
                    prepared.expressions = kept.changes;
                    prepared.unkept.extend(kept.unkept.iter().map(|(name, _)| name.clone()));
                    Ok((prepared, kept.unkept))
                };
                // If either fails, the action is taken back, and so is what it began here.
                let ((prepared, reasons), begun) =
                    both(table.storage().is_remote(), prepare, || writer.begin(requested))?;
                let stays = |name: &str| is_kept(&config, name) && !prepared.unkept.iter().any(|one| one == name);
                let gone = take_out(table, &config, &mut definitions, stays)?;
                table.keep_metadata_timeline(writer.commit(begun, prepared, new_time)?);
                let mut warnings = unmet_options(table, &config, &indexed.columns)?;
                warnings.extend((!gone.is_empty()).then(|| dropped(&gone)));
                warnings.extend(
                    reasons.into_iter().map(|(name, why)| format!("{name} was dropped because of this: {why}")),
                );
                Ok(warnings)
            }
        }
    }

    /// The same for an action that took others back. What they committed is no longer in the metadata table, unless that has
    /// to be made anew.
    fn follow_restore(
        self,
        table: &HudiTable,
        timeline: &Timeline,
        requested: &str,
        build: Option<&IndexBuild>,
        new_time: impl Fn(Option<&str>) -> Result<String>,
    ) -> Result<Vec<String>> {
        let (none, nothing) = (FileChanges::default(), Ahead::default());
        let config = match (self, build) {
            (Self::Kept { config, .. } | Self::Missing { config, .. } | Self::Damaged { config, .. }, Some(build)) => {
                build.execute(table, timeline, &config, None, &new_time)?
            }
            // It was read before the commits of the others were taken out.
            (Self::Kept { config, .. }, None) => *config,
            (other, _) => return other.follow(table, timeline, requested, (Follow::Nothing, nothing), new_time),
        };
        Self::kept(table, config)?.follow(table, timeline, requested, (Follow::Files(&none), nothing), new_time)
    }
}

fn dropped(partitions: &[String]) -> String {
    format!(
        "{} of the metadata table cannot be kept up to date and was dropped: readers would have missed rows. A writer of Hudi \
         that wants it builds it again",
        partitions.join(", ")
    )
}

/// The columns that have statistics: those that the definitions name, and those that the action adds to the table. Others that
/// are new to them would be missing in the files that are there.
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
    if let Some(mut columns) = known {
        let listed = columns.clone();
        if let Some(after) = &changes.columns {
            columns = current_columns(table, timeline, columns, after)?;
        }
        if columns != listed {
            definitions.set_column_stats(&columns, version);
            definitions.write(table.storage())?;
        }
        return Ok(Indexed { columns, version });
    }
    let is_first = writer.is_new() && !timeline.is_written();
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

/// The columns that have statistics in a table after an action that leaves it with these columns: those that it adds get some,
/// and those that were dropped have none in any file any more.
fn current_columns(
    table: &HudiTable,
    timeline: &Timeline,
    mut known: Vec<String>,
    after: &Schema,
) -> Result<Vec<String>> {
    if known.iter().all(|name| can_have_ranges(after, name))
        && table.new_to_index(&known, &Schema::empty(), after).is_empty()
    {
        return Ok(known);
    }
    let view = TableView::new(table.storage().clone(), timeline.clone())?;
    let Some(before) = TableSchema::resolve(table.config(), &view)? else { return Ok(known) };
    // The action may have begun before another one added a column.
    known.retain(|name| can_have_ranges(after, name) || can_have_ranges(&before.data, name));
    known.extend(table.new_to_index(&known, &before.data, after));
    Ok(known)
}

/// Takes the partitions out that nobody keeps up to date: first from the table's properties, by which readers decide, then
/// the definitions of their indexes and the files. Returns their names.
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
    let is_gone = |one: &str| match name {
        _ if one == name => true,
        COLUMN_STATS => one == PARTITION_STATS,
        // Keys are looked up in it.
        RECORD_INDEX => is_secondary_index(one),
        _ => false,
    };
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
