//! What an upgrade would do.

use super::{properties, timeline};
use crate::error::{Error, Result};
use crate::format::properties::Properties;
use crate::services::rollback::failed_writes;
use crate::table::{HudiTable, TableConfig, TableType};
use crate::timeline::history::{HistoryReader, LoadMode};

/// A property that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyChange {
    /// The property.
    pub key: String,
    /// The value before; `None` if it was not there.
    pub old: Option<String>,
    /// The value afterwards; `None` if it is not there any more.
    pub new: Option<String>,
}

/// What an upgrade would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradePlan {
    /// The version of the table.
    pub from: u32,
    /// The version that it gets.
    pub to: u32,
    /// Files of the timeline that are written anew.
    pub instants: usize,
    /// Archived instants that are written anew.
    pub archived: usize,
    /// File slices whose log files are compacted.
    pub to_compact: usize,
    /// Requested times of failed writes that are rolled back.
    pub to_roll_back: Vec<String>,
    /// The partitions of the metadata table that is made anew.
    pub metadata_partitions: Vec<String>,
    /// The properties that change, by name.
    pub properties: Vec<PropertyChange>,
}

/// Returns what [`upgrade`](super::upgrade) would do now.
///
/// # Errors
/// `InvalidOption` for another version, and for what the options have to say; `Unsupported`; `Corrupt`; `Storage`.
pub fn planned(table: &HudiTable, to: u32) -> Result<UpgradePlan> {
    let config = table.config();
    let from = check_version(table, to)?;
    let after = after(table, to)?;
    let mut plan = UpgradePlan {
        from,
        to: to.max(from),
        instants: 0,
        archived: 0,
        to_compact: 0,
        to_roll_back: Vec::new(),
        metadata_partitions: Vec::new(),
        properties: changes(config.properties(), &after),
    };
    if from >= to {
        return Ok(plan);
    }
    let old = table.timeline()?;
    if config.table_type() == TableType::MergeOnRead {
        let slices = table.new_view(old.clone())?.all_latest_slices()?;
        plan.to_compact = slices.iter().filter(|slice| !slice.logs.is_empty()).count();
    }
    if from >= 8 {
        plan.to_roll_back = failed_writes(&old).into_iter().map(|i| i.requested).collect();
        return Ok(plan);
    }
    let moves = timeline::moves(table.storage(), &old)?;
    plan.to_roll_back = timeline::failed_writes(&moves);
    plan.instants = moves.len();
    plan.archived = HistoryReader::new(table.storage(), old.config()).read(None, None, LoadMode::Action)?.len();
    plan.metadata_partitions = config.metadata_partitions();
    Ok(plan)
}

/// Checks the version that is asked for. Returns the table's.
pub(super) fn check_version(table: &HudiTable, to: u32) -> Result<u32> {
    let from = table.config().version();
    let named = |e: Error| e.with("table", table.storage().uri());
    if !matches!(to, 8 | 9) {
        return Err(named(
            Error::invalid_option(format!("tables cannot be upgraded to version {to}")).remedy("Upgrade to 8 or 9"),
        ));
    }
    if from < to {
        properties::check_key_generator(table.config(), table.options()).map_err(named)?;
    }
    if from > to {
        return Err(named(
            Error::unsupported(format!(
                "the table has version {from}, and going back to version {to} is not supported"
            ))
            .remedy("Hudi's procedure downgrade_table does it"),
        ));
    }
    Ok(from)
}

/// The properties after the upgrade.
fn after(table: &HudiTable, to: u32) -> Result<Properties> {
    let config = table.config();
    let p = config.properties().clone();
    let p = match (config.version() < 8, to) {
        (true, _) => {
            let moved = properties::moved(config, table.options())?;
            let mut p = match to {
                9 => properties::version_9_of_6(moved, config.table_type()),
                _ => properties::version_8(moved, config.table_type()),
            };
            let partitions = config.get("hoodie.table.metadata.partitions");
            p.set("hoodie.table.metadata.partitions", partitions.unwrap_or_default());
            p
        }
        (false, 9) if config.version() == 8 => properties::version_9(p),
        _ => p,
    };
    // The checks of a table that has them.
    TableConfig::from_properties(p.clone())?;
    Ok(p)
}

fn changes(old: &Properties, new: &Properties) -> Vec<PropertyChange> {
    let mut keys: Vec<&str> = old.iter().chain(new.iter()).map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    let change = |key: &str| PropertyChange {
        key: key.to_owned(),
        old: old.get_non_empty(key).map(str::to_owned),
        new: new.get_non_empty(key).map(str::to_owned),
    };
    keys.into_iter().map(change).filter(|change| change.old != change.new).collect()
}
