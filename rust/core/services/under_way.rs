//! Whether somebody is at work on a pending clean or rollback.

use crate::error::Result;
use crate::format::instant::Instant;
use crate::table::HudiTable;
use crate::timeline::{heartbeat, parse_instant_ms};
use crate::transaction::Concurrency;

/// How long one without a heartbeat counts as being executed: as long as a heartbeat lives.
const BELIEVED_MS: i64 = 120_000;

/// Whether a process is at work on a pending clean.
///
/// # Errors
/// `Storage`; those of the options.
pub(super) fn is_under_way(table: &HudiTable, instant: &Instant) -> Result<bool> {
    match heartbeat::look(table.storage(), table.clock(), &instant.requested)? {
        Some(is_alive) => Ok(is_alive),
        None => may_be_hudis(table, instant),
    }
}

/// Whether Hudi may be at work on a pending clean or rollback that has no heartbeat: Hudi shows none. Its own writers do not
/// ask; they execute it a second time, and complete it twice. A single writer has no others.
///
/// # Errors
/// Those of the options.
pub(super) fn may_be_hudis(table: &HudiTable, instant: &Instant) -> Result<bool> {
    if !Concurrency::from_options(table.options())?.several {
        return Ok(false);
    }
    let begun = parse_instant_ms(&instant.requested, table.config().timeline().zone);
    Ok(begun.is_some_and(|begun| table.clock().now_ms().saturating_sub(begun) < BELIEVED_MS))
}
