//! Writes of others that are under way, seen before they are completed: by their markers, and by what they declared.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::file_group::markers::marked_files;
use crate::file_group::{BaseFile, LogFile};
use crate::format::avro::metadata::{CommitMetadata, WriteStat, decode};
use crate::format::instant::{Action, Instant};
use crate::storage::{FileMeta, optional};
use crate::table::HudiTable;
use crate::timeline::{Timeline, heartbeat};

/// Fails if a writer that began earlier, and is alive, has already begun to write to file groups that this write changes. The
/// younger of two writers gives way, as in Hudi.
///
/// # Errors
/// `Conflict`; `Storage`.
pub(crate) fn refuse_early(table: &HudiTable, now: &Timeline, own: &str, changed: &[WriteStat]) -> Result<()> {
    let mine: HashSet<(&str, &str)> = groups_of(changed).collect();
    if mine.is_empty() {
        return Ok(());
    }
    let storage = table.storage();
    let older = |i: &&Instant| i.requested.as_str() < own && is_ingestion(i);
    for rival in now.pending().filter(older) {
        if !heartbeat::is_alive(storage, table.clock(), &rival.requested)? {
            continue;
        }
        for path in marked_files(storage, &rival.requested)?.unwrap_or_default() {
            let partition = path.rsplit_once('/').map_or("", |(partition, _)| partition);
            let file = FileMeta { path: path.clone(), size: 0, modified_ms: 0 };
            let id = BaseFile::parse(&file).map(|b| b.file_id).or_else(|| LogFile::parse(&file).map(|l| l.file_id));
            if let Some(id) = id.filter(|id| mine.contains(&(partition, id.as_str()))) {
                return Err(Error::conflict("an earlier write is under way in a file group that this write changes")
                    .with("table", storage.uri())
                    .with("instant", rival)
                    .with("partition", partition)
                    .with("file group", id)
                    .remedy("Nothing was written. Write again when the other write has ended"));
            }
        }
    }
    Ok(())
}

/// Fails if a write that is under way has declared to change these file groups, which a table service is about to replace.
///
/// # Errors
/// `Conflict`; `Storage`.
pub(crate) fn refuse_writers(table: &HudiTable, now: &Timeline, groups: &HashSet<(&str, &str)>) -> Result<()> {
    let storage = table.storage();
    for rival in now.pending().filter(|i| is_ingestion(i)) {
        let Some(body) = optional(now.read(storage, rival))? else { continue };
        // One that has not declared anything yet has not begun to write.
        let Ok(declared) = decode::<CommitMetadata>(&body) else { continue };
        let stats: Vec<WriteStat> = declared.partition_to_write_stats.into_values().flatten().collect();
        let met = groups_of(&stats).find(|group| groups.contains(group));
        if let Some((partition, id)) = met
            && heartbeat::is_alive(storage, table.clock(), &rival.requested)?
        {
            return Err(Error::conflict("a write is under way in a file group of the plan, and writers go first")
                .with("table", storage.uri())
                .with("instant", rival)
                .with("partition", partition)
                .with("file group", id)
                .remedy("Execute the plan again when the write has ended"));
        }
    }
    Ok(())
}

/// Whether it is a write of rows, and no table service.
fn is_ingestion(instant: &Instant) -> bool {
    matches!(instant.action, Action::Commit | Action::DeltaCommit | Action::ReplaceCommit)
}

fn groups_of(stats: &[WriteStat]) -> impl Iterator<Item = (&str, &str)> {
    stats.iter().filter_map(|stat| {
        let id = stat.file_id.as_deref().filter(|id| !id.is_empty())?;
        Some((stat.partition_path.as_deref().unwrap_or_default(), id))
    })
}
