//! Upgrading a table.

use hoodoo::client;
use hoodoo::services::upgrade::{self, Upgraded};
use pyo3::prelude::*;

use crate::call;
use crate::table::NativeTable;

/// Key, old value, new value.
type ChangeRow = (String, Option<String>, Option<String>);
/// Version before and afterwards; files of the timeline, archived instants, file slices with log files; failed writes;
/// partitions of the metadata table; properties.
type PlanRow = (u32, u32, usize, usize, usize, Vec<String>, Vec<String>, Vec<ChangeRow>);
/// Version before and afterwards; compactions; failed writes; partitions of the metadata table; warnings.
type UpgradeRow = (u32, u32, Vec<String>, Vec<String>, Vec<String>, Vec<String>);

/// What an upgrade would do now.
#[pyfunction]
pub fn plan_upgrade(py: Python<'_>, table: &NativeTable, to: u32) -> PyResult<PlanRow> {
    let plan = call::run(py, || upgrade::planned(&table.table.reload()?, to))?;
    let changes = plan.properties.into_iter().map(|change| (change.key, change.old, change.new));
    Ok((
        plan.from,
        plan.to,
        plan.instants,
        plan.archived,
        plan.to_compact,
        plan.to_roll_back,
        plan.metadata_partitions,
        changes.collect(),
    ))
}

/// Upgrades a table; ends an upgrade that was interrupted.
#[pyfunction]
pub fn upgrade_table(py: Python<'_>, table: &NativeTable, to: u32) -> PyResult<UpgradeRow> {
    let Upgraded { from, to, compacted, rolled_back, metadata_partitions, warnings } =
        call::run(py, || client::upgrade(&table.table, to))?;
    Ok((from, to, compacted, rolled_back, metadata_partitions, warnings))
}
