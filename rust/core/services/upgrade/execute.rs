//! Upgrading, step by step. Each can be repeated.

use std::collections::BTreeMap;

use super::unfinished::Unfinished;
use super::{old_logs, plan, properties, timeline};
use crate::error::{Error, Result};
use crate::format::properties::Properties;
use crate::metadata_table::FOLDER as METADATA_FOLDER;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::services::compaction::{self, Kind};
use crate::services::indexing::{self, BuildRequest};
use crate::services::rollback::rollback_failed_writes;
use crate::table::{HudiTable, TableConfig, TableType};
use crate::timeline::format_instant;

/// Options with which the steps run: all logs are compacted, and no other service follows.
const QUIET: [(&str, &str); 6] = [
    ("hoodie.compaction.strategy", "org.apache.hudi.table.action.compact.strategy.UnBoundedCompactionStrategy"),
    ("hoodie.compaction.logfile.size.threshold", "0"),
    ("hoodie.compaction.logfile.num.threshold", "0"),
    ("hoodie.compact.inline", "false"),
    ("hoodie.compact.schedule.inline", "false"),
    ("hoodie.table.services.enabled", "false"),
];

/// What an upgrade did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upgraded {
    /// The version that the table had.
    pub from: u32,
    /// The version that it has.
    pub to: u32,
    /// Requested times of the compactions.
    pub compacted: Vec<String>,
    /// Requested times of the failed writes that were rolled back.
    pub rolled_back: Vec<String>,
    /// The partitions of the metadata table that was made anew.
    pub metadata_partitions: Vec<String>,
    /// What could not be done; the table is upgraded nevertheless.
    pub warnings: Vec<String>,
}

/// Upgrades a table to a version, or ends an upgrade that was interrupted. A table that has the version stays as it is.
///
/// # Errors
/// `Conflict` while others write; `InvalidOption`; `Unsupported`; `Corrupt`; `Lock`; `Storage`. The table can be read and
/// written after an error, in the one version or the other, and the upgrade can be done again.
pub fn upgrade(table: &HudiTable, to: u32) -> Result<Upgraded> {
    let quiet: BTreeMap<String, String> = QUIET.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let table = table.with_options(&quiet)?.reload()?;
    let version = plan::check_version(&table, to)?;
    let storage = table.storage();
    let begun = if version < 8 { None } else { Unfinished::read(storage)? };
    if version >= to && begun.is_none() {
        return Ok(Upgraded { from: version, to: version, ..Upgraded::default() });
    }
    if version < 8 {
        timeline::move_timeline(&table)?;
    }
    if begun.is_some() {
        let writer = table.timeline_writer()?;
        let _held = writer.lock().acquire()?;
        TableConfig::finish_update(storage)?;
    }
    let table = table.reload()?;
    let unfinished = match Unfinished::read(storage)? {
        Some(unfinished) => unfinished,
        None => {
            let new = Unfinished { from: table.config().version(), metadata_partitions: Vec::new() };
            new.write(storage)?;
            new
        }
    };
    let mut done = Upgraded { from: unfinished.from, to, ..Upgraded::default() };
    if unfinished.from < 8 {
        timeline::delete_old(storage)?;
        delete_old_metadata_table(&table)?;
    }
    if table.config().version() < to || unfinished.from < 8 && to == 8 {
        compact_all(&table, &mut done)?;
        done.rolled_back = rolled_back(&table)?;
        if unfinished.from < 8 {
            warn_of_kept_logs(old_logs::delete_superseded(&table)?, &mut done);
        } else if to == 9 {
            upgrade_metadata_table(&table)?;
        }
        set_version(&table, &unfinished, to)?;
    }
    let table = table.reload()?;
    make_metadata_table(&table, &unfinished, &mut done);
    Unfinished::remove(storage)?;
    tracing::info!(table = storage.uri(), from = done.from, to, "upgraded");
    Ok(done)
}

/// Deletes the metadata table of the old version, or what an interrupted rebuild left of the new one. One that is in use stays:
/// the upgrade was interrupted just before its end, and others may have written since.
fn delete_old_metadata_table(table: &HudiTable) -> Result<()> {
    let writer = table.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    match table.reload()?.config().complete_metadata_partitions().is_empty() {
        true => table.storage().delete_folder(METADATA_FOLDER),
        false => Ok(()),
    }
}

/// Compacts all log files by the rule of merging that the table has: the next version may have another one, and log files of
/// version 6 hold blocks of failed writes.
fn compact_all(table: &HudiTable, done: &mut Upgraded) -> Result<()> {
    if table.config().table_type() != TableType::MergeOnRead {
        return Ok(());
    }
    loop {
        let timeline = table.timeline()?;
        let mut planned = compaction::pending(&timeline, Kind::Base);
        if planned.is_empty() {
            planned.extend(compaction::schedule(table, timeline, Kind::Base)?);
        }
        if planned.is_empty() {
            return Ok(());
        }
        let before = done.compacted.len();
        for instant in planned {
            if compaction::run(table, &instant)?.is_some() {
                done.compacted.push(instant);
            }
        }
        if done.compacted.len() == before {
            return Err(Error::conflict("a compaction of the table is under way, and an upgrade has to wait for it")
                .with("table", table.storage().uri())
                .remedy("Upgrade again when it is over"));
        }
    }
}

fn rolled_back(table: &HudiTable) -> Result<Vec<String>> {
    let done = rollback_failed_writes(table)?;
    Ok(done.into_iter().flat_map(|metadata| metadata.commits_rollback).collect())
}

fn warn_of_kept_logs(kept: usize, done: &mut Upgraded) {
    if kept > 0 {
        done.warnings.push(format!(
            "{kept} log files of version 6 are held by savepoints: when their instants are archived, Hudi takes them for \
             newer than they are. Delete the savepoints of the time before the upgrade and clean the table before Hudi \
             reads it"
        ));
    }
}

/// The metadata table gets the version first, and the indexes that say no version the first one.
fn upgrade_metadata_table(table: &HudiTable) -> Result<()> {
    if table.config().metadata_partitions().is_empty() {
        return Ok(());
    }
    let storage = table.storage();
    let writer = table.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    let path = format!("{METADATA_FOLDER}/.hoodie/hoodie.properties");
    if let Some(content) = storage.read_if_exists(&path)? {
        let named = |e: Error| e.with("table", storage.uri()).with("file", &path);
        let mut p = Properties::parse(&content).map_err(named)?;
        p.set("hoodie.table.version", "9");
        let now = format_instant(table.clock().now_ms(), table.config().timeline().zone);
        storage.replace(&path, p.to_text(&["Updated by hoodoo", &now]))?;
    }
    let mut definitions = IndexDefinitions::read(storage, table.config().get(PATH_PROPERTY))?;
    if definitions.set_missing_versions() {
        definitions.write(storage)?;
    }
    Ok(())
}

fn set_version(table: &HudiTable, unfinished: &Unfinished, to: u32) -> Result<()> {
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    let now = format_instant(table.clock().now_ms(), table.config().timeline().zone);
    let was_6 = unfinished.from < 8;
    held.verify()?;
    let change = |current: TableConfig| {
        if current.version() >= 9 {
            return Ok(current.properties().clone());
        }
        let (p, table_type) = (current.properties().clone(), current.table_type());
        Ok(match (was_6, to) {
            (true, 9) => properties::version_9_of_6(p, table_type),
            (true, _) => properties::version_8(p, table_type),
            (false, 9) => properties::version_9(p),
            (false, _) => p,
        })
    };
    TableConfig::rewrite(table.storage(), change, &now).map(|_| ())
}

/// Makes the metadata table anew that the table of version 6 had. A failure is a warning: files are listed without one.
fn make_metadata_table(table: &HudiTable, unfinished: &Unfinished, done: &mut Upgraded) {
    if unfinished.metadata_partitions.is_empty() {
        return;
    }
    let made = || {
        if !table.options().flag("hoodie.metadata.enable", true)? {
            return Ok(Vec::new());
        }
        let partitions = unfinished.metadata_partitions.clone();
        let request = BuildRequest { partitions, from_scratch: true, ..BuildRequest::default() };
        Ok(indexing::index(table, &table.timeline()?, request)?.partitions)
    };
    match made() {
        Ok(partitions) => done.metadata_partitions = partitions,
        Err(e) => {
            let e: Error = e;
            done.warnings.push(format!(
                "the metadata table could not be made anew, and the table has none now: {e}. Make it with \
                 hoodoo metadata rebuild"
            ));
        }
    }
}
