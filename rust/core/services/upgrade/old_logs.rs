//! Log files that version 6 left in file slices which have been compacted since.
//!
//! Their names have the base instant of their slice. Once that is archived, Hudi 1.2 takes them for log files of the newest
//! slice (`HoodieFileGroup.getBaseInstantTime` finds no completion time): an old row wins again, or a deleted one is back. So
//! they go when the table is upgraded, as a clean would delete them later.

use std::collections::HashSet;

use crate::error::Result;
use crate::file_group::FileGroup;
use crate::format::instant::Action;
use crate::services::savepoint::read_savepoint;
use crate::table::HudiTable;
use crate::timeline::Timeline;

/// Deletes them, but for those that a savepoint holds. Returns how many of these there are.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(super) fn delete_superseded(table: &HudiTable) -> Result<usize> {
    let timeline = table.timeline()?;
    let held = held_by_savepoints(table, &timeline)?;
    let view = table.new_view(timeline)?;
    let mut kept = 0;
    for partition in view.partitions()? {
        let mut superseded = superseded(&view.file_groups(&partition)?);
        let all = superseded.len();
        superseded.retain(|path| !held.contains(path.rsplit('/').next().unwrap_or_default()));
        kept += all - superseded.len();
        table.storage().delete_all(&superseded)?;
    }
    Ok(kept)
}

/// Paths of log files that are named after a slice below the newest base file.
fn superseded(groups: &[FileGroup]) -> Vec<String> {
    let below = |group: &FileGroup| {
        let newest = group.slices.iter().position(|slice| slice.base.is_some()).unwrap_or(group.slices.len());
        let older = group.slices.iter().skip(newest + 1);
        let logs = older.flat_map(|slice| slice.logs.iter().filter(|log| log.instant == slice.base_instant));
        logs.map(|log| log.path.clone()).collect::<Vec<_>>()
    };
    groups.iter().flat_map(below).collect()
}

/// Names of the files that savepoints hold.
fn held_by_savepoints(table: &HudiTable, timeline: &Timeline) -> Result<HashSet<String>> {
    let mut held = HashSet::new();
    for saved in timeline.completed(Action::Savepoint) {
        let partitions = read_savepoint(table, timeline, saved)?.partition_metadata;
        held.extend(partitions.into_values().flat_map(|partition| partition.savepoint_data_file));
    }
    Ok(held)
}
