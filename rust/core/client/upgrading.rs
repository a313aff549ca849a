//! Upgrading a table to a newer version.

use super::acquire_writer_lease;
use crate::error::Result;
use crate::services::upgrade::{self, Upgraded};
use crate::table::HudiTable;

/// Upgrades without being asked twice.
const AUTO_UPGRADE: &str = "hoodie.write.auto.upgrade";
/// The version that writers write.
const WRITE_VERSION: &str = "hoodie.table.version";

/// Upgrades a table to version 8 or 9; ends an upgrade that was interrupted.
///
/// # Errors
/// Those of [`upgrade::upgrade`].
pub fn upgrade(table: &HudiTable, to: u32) -> Result<Upgraded> {
    let table = table.reload()?;
    // Nobody of this library writes to older tables.
    let _lease = if table.config().version() >= 8 { acquire_writer_lease(&table)? } else { None };
    upgrade::upgrade(&table, to)
}

/// Upgrades an older table before a write, if `hoodie.write.auto.upgrade` is given as true. Hudi does so by default; readers of
/// older versions could not read the table any more, so that here it has to be said.
pub(super) fn upgrade_if_asked(table: &HudiTable) -> Result<Option<HudiTable>> {
    if table.config().version() >= 9 || !table.options().flag(AUTO_UPGRADE, false)? {
        return Ok(None);
    }
    let wanted = table.options().number(WRITE_VERSION, 9)?;
    let fresh = table.reload()?;
    if fresh.config().version() < wanted {
        upgrade(&fresh, wanted)?;
    }
    fresh.reload().map(Some)
}
