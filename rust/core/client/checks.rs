//! Checks before a write: does this job fit this table?

use crate::error::{Error, Result};
use crate::file_group::log::BlockFormat;
use crate::format::change_data::LOGGING_MODE;
use crate::format::instant::Action;
use crate::format::properties::Properties;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::MetadataWriter;
use crate::metadata_table::{FOLDER, MetadataListing};
use crate::parallel::both;
use crate::services::archive::ArchiveOptions;
use crate::services::clean::CleanOptions;
use crate::services::clustering::{ClusteringOptions, buckets_not_supported};
use crate::services::compaction::CompactionOptions;
use crate::services::metadata_table::MetadataServiceOptions;
use crate::table::keygen::KeyGeneratorType;
use crate::table::merge_config::{MergeRequest, orders_by};
use crate::table::{CHANGE_CAPTURE, HudiTable, Options, TableType, check_bucket_options, has_bucket_index};
use crate::timeline::Timeline;
use crate::transaction::Concurrency;
use crate::write::{UpdateStrategy, WriteConfig};

/// Options whose value has to be the table's, with the property that has it.
const FIXED: [(&str, &str, &str); 11] = [
    ("hoodie.table.name", "hoodie.table.name", ""),
    ("hoodie.table.type", "hoodie.table.type", "COPY_ON_WRITE"),
    ("hoodie.table.recordkey.fields", "hoodie.table.recordkey.fields", ""),
    ("hoodie.table.ordering.fields", "hoodie.table.ordering.fields", ""),
    ("hoodie.datasource.write.hive_style_partitioning", "hoodie.datasource.write.hive_style_partitioning", "false"),
    ("hoodie.datasource.write.partitionpath.urlencode", "hoodie.datasource.write.partitionpath.urlencode", "false"),
    ("hoodie.datasource.write.drop.partition.columns", "hoodie.datasource.write.drop.partition.columns", "false"),
    ("hoodie.populate.meta.fields", "hoodie.populate.meta.fields", "true"),
    ("hoodie.table.timeline.timezone", "hoodie.table.timeline.timezone", "LOCAL"),
    (CHANGE_CAPTURE, CHANGE_CAPTURE, "false"),
    (LOGGING_MODE, LOGGING_MODE, "DATA_BEFORE_AFTER"),
];

/// Refuses a write that the table or this library cannot take.
pub(crate) fn check_writable(table: &HudiTable, timeline: &Timeline) -> Result<()> {
    check_table(table, timeline)?;
    check_metadata_table(table, timeline)
}

/// The same for an action that makes the metadata table anew, or drops it, so that it may be damaged.
pub(super) fn check_table(table: &HudiTable, timeline: &Timeline) -> Result<()> {
    check_options(table)?;
    match timeline.pending().find(|i| i.action == Action::Restore) {
        None => Ok(()),
        Some(restore) => Err(Error::conflict("a restore of the table is pending")
            .with("table", table.storage().uri())
            .with("instant", restore)
            .remedy("Finish it first: t.restore(the savepoint), or hoodoo restore")),
    }
}

/// The same for the restore itself.
pub(super) fn check_options(table: &HudiTable) -> Result<()> {
    let config = table.config();
    let uri = table.storage().uri();
    if config.version() < 8 {
        return Err(Error::unsupported(format!("writing to tables of version {} is not supported", config.version()))
            .with("table", uri)
            .remedy("Upgrade the table: t.upgrade(), hoodoo upgrade, or hoodie.write.auto.upgrade=true for the write. Readers older than Hudi 1.0 cannot read it then"));
    }
    if let Some(format) = table.options().get("hoodie.logfile.data.block.format") {
        BlockFormat::parse(format).map_err(|e| e.with("table", uri))?;
    }
    if config.change_capture().map_err(|e| e.with("table", uri))?.is_some() && config.drops_partition_columns() {
        let what = "writing to tables with change data capture that drop partition columns is not supported";
        return Err(Error::unsupported(what).with("table", uri));
    }
    table.merge_settings().map_err(|e| e.with("table", uri))?;
    // Checked before the first change, because the write could not complete.
    let folders = config.timeline();
    for folder in [&folders.folder, &folders.history_folder, ".hoodie/.temp", ".hoodie/.heartbeat"] {
        table.storage().refuse_links(folder)?;
    }
    check_conflicts(table)?;
    let is_merge_on_read = config.table_type() == TableType::MergeOnRead;
    let has_metadata_table = !config.metadata_partitions().is_empty();
    check_services(table.options(), is_merge_on_read, has_metadata_table).map_err(|e| e.with("table", uri))
}

/// A metadata table is kept up to date, or dropped; and the former only if it can be read.
fn check_metadata_table(table: &HudiTable, timeline: &Timeline) -> Result<()> {
    let partitions = table.config().metadata_partitions();
    if partitions.is_empty() {
        return Ok(());
    }
    if table.options().flag("hoodie.metadata.enable", true)? {
        // Checked before the first change, because the write could not complete.
        table.storage().refuse_links(FOLDER)?;
        let (storage, config) = (table.storage(), table.config());
        let listing = || MetadataListing::read_all(storage, config.timeline());
        let definitions = || IndexDefinitions::read(storage, config.get(PATH_PROPERTY));
        let (listing, definitions) = both(storage.is_remote(), listing, definitions)?;
        let writer = MetadataWriter::open(storage, listing, &partitions)?;
        table.keep_metadata_listing(timeline, writer.into_listing(), definitions);
        return Ok(());
    }
    if !table.options().flag("hoodie.metadata.auto.delete.partitions", true)? {
        return Err(Error::unsupported(
            "the table has a metadata table, which with these options can be neither kept up to date nor dropped",
        )
        .with("table", table.storage().uri())
        .with("metadata", partitions.join(","))
        .remedy("Set hoodie.metadata.auto.delete.partitions=true, or leave hoodie.metadata.enable=false out"));
    }
    Ok(())
}

/// Checks the options with which a table is created: those of the writes that it is created for are no better later.
///
/// # Errors
/// `InvalidOption`; `Unsupported`.
pub(super) fn check_new(options: &Options, properties: &Properties) -> Result<()> {
    let is_merge_on_read = properties.get("hoodie.table.type") == Some("MERGE_ON_READ");
    WriteConfig::new(options)?;
    if has_bucket_index(options) {
        check_bucket_options(options)?;
    }
    check_services(options, is_merge_on_read, options.flag("hoodie.metadata.enable", true)?)
}

/// Checks the options of the inline services, because their errors after the commit would be warnings only.
fn check_services(options: &Options, is_merge_on_read: bool, has_metadata_table: bool) -> Result<()> {
    if options.number("hoodie.clean.trigger.max.commits", 1u32)? == 0 {
        return Err(Error::invalid_value("hoodie.clean.trigger.max.commits", 0, "a number from 1"));
    }
    let inline = options.flag("hoodie.table.services.enabled", true)?;
    if inline && options.flag("hoodie.clean.automatic", true)? {
        CleanOptions::from_options(options)?;
    }
    if inline && options.flag("hoodie.archive.automatic", true)? {
        ArchiveOptions::from_options(options)?;
    }
    if inline && has_metadata_table {
        MetadataServiceOptions::from_options(options)?;
    }
    if is_merge_on_read {
        CompactionOptions::from_options(options)?;
    }
    if Concurrency::from_options(options)?.non_blocking && !(is_merge_on_read && has_bucket_index(options)) {
        return Err(Error::invalid_option(
            "NON_BLOCKING_CONCURRENCY_CONTROL needs a merge-on-read table, and writers with a bucket index",
        )
        .remedy("Set hoodie.index.type=BUCKET for all writers, or use OPTIMISTIC_CONCURRENCY_CONTROL"));
    }
    let clustering = ClusteringOptions::from_options(options)?;
    if (clustering.inline || clustering.schedule_inline) && has_bucket_index(options) {
        return Err(buckets_not_supported());
    }
    UpdateStrategy::from_options(options)?;
    Ok(())
}

fn check_conflicts(table: &HudiTable) -> Result<()> {
    let (config, options) = (table.config(), table.options());
    let mut conflicts = Vec::new();
    for (option, property, default) in FIXED {
        let Some(given) = options.get(option) else { continue };
        let stored = config.get(property).unwrap_or(default);
        let payload = options.get("hoodie.datasource.write.payload.class");
        if option == "hoodie.table.ordering.fields" && payload.is_some_and(|class| orders_by(class, stored)) {
            // The job that created the table passes the option again, and its payload class overrides it again.
            continue;
        }
        if !normalized(given).eq_ignore_ascii_case(&normalized(stored)) {
            conflicts.push(format!("{option}: given '{given}', the table has '{stored}'"));
        }
    }
    // Those generators take partition columns and make no partitions of them.
    let ignores_partitions =
        matches!(table.key_config()?.kind, KeyGeneratorType::NonPartition | KeyGeneratorType::GlobalDelete);
    if let Some(given) = options.get("hoodie.table.partition.fields").filter(|_| !ignores_partitions) {
        let names: Vec<&str> = given.split(',').map(|f| f.split(':').next().unwrap_or_default().trim()).collect();
        let stored = config.partition_fields();
        if names.iter().filter(|n| !n.is_empty()).ne(stored.iter()) {
            conflicts
                .push(format!("hoodie.table.partition.fields: given '{given}', the table has '{}'", stored.join(",")));
        }
    }
    for option in ["hoodie.table.keygenerator.class", "hoodie.table.keygenerator.type"] {
        let given = options.get(option).map(KeyGeneratorType::parse).transpose()?.flatten();
        let stored = table.key_config()?.kind;
        if given.is_some_and(|kind| kind != stored) {
            let value = options.get(option).unwrap_or_default();
            conflicts.push(format!("{option}: given '{value}', the table has '{}'", stored.name()));
        }
    }
    if let Some(conflict) = merge_conflict(table)? {
        conflicts.push(conflict);
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(Error::invalid_option(format!("the options contradict the table: {}", conflicts.join("; ")))
        .with("table", table.storage().uri())
        .remedy("Leave these options out; the table keeps its own"))
}

fn merge_conflict(table: &HudiTable) -> Result<Option<String>> {
    let options = table.options();
    table.config().merge_contradiction(MergeRequest {
        mode: options.get("hoodie.record.merge.mode"),
        strategy: options.get("hoodie.record.merge.strategy.id"),
        payload: options.get("hoodie.datasource.write.payload.class"),
        has_ordering: !table.config().ordering_fields().is_empty(),
    })
}

fn normalized(value: &str) -> String {
    value.split(',').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",")
}
