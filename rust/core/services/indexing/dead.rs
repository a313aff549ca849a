//! Indexes whose process was killed: nothing of them is visible, and they stay on the timeline until somebody removes them.

use super::remove_staged;
use crate::error::Result;
use crate::format::instant::{Action, Instant};
use crate::table::{HudiTable, TableConfig};
use crate::timeline::{Timeline, heartbeat};

/// Takes those of the pending indexes off the timeline whose process is gone, and deletes what they staged. Whether it did.
/// Those of Hudi name a partition that is under construction; its indexer goes on with them.
///
/// # Errors
/// `Lock`; `Storage`.
pub(in crate::services) fn remove_dead(
    table: &HudiTable,
    timeline: &Timeline,
    is_wanted: impl Fn(&Instant) -> bool,
) -> Result<bool> {
    let is_pending = |i: &&Instant| i.action == Action::Indexing && is_wanted(i);
    if timeline.pending().find(is_pending).is_none() {
        return Ok(false);
    }
    let config = TableConfig::load(table.storage())?;
    let complete = config.complete_metadata_partitions();
    if config.metadata_partitions().len() > complete.len() {
        return Ok(false);
    }
    let writer = table.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    let mut done = false;
    // Some may be complete by now.
    for instant in table.timeline()?.pending().filter(is_pending) {
        if !heartbeat::is_alive(table.storage(), table.clock(), &instant.requested)? {
            remove_staged(table, &instant.requested)?;
            writer.remove_pending(instant)?;
            done = true;
        }
    }
    Ok(done)
}
