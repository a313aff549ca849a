//! Repairing what a check of the table found, as far as no row can be lost by it.

use std::collections::{BTreeSet, HashSet};

use super::checks::check_table;
use super::{acquire_writer_lease, reopen};
use crate::error::Result;
use crate::file_group::written_at;
use crate::services::archive::archive;
use crate::services::clean::finish_cleans;
use crate::services::indexing::{self, BuildRequest};
use crate::services::rollback::roll_back_leftovers;
use crate::services::verify::{Problem, Repair, Report, verify};
use crate::table::{HudiTable, TableConfig};
use crate::transaction::write_partition_metadata;

/// Age of a file that no commit names before it is deleted: its writer may be one whose clock is behind.
const ORPHAN_AGE_MS: i64 = 3_600_000;

/// What was repaired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The problems that are solved, or, of a dry run, those that would be.
    pub repaired: Vec<Problem>,
    /// The check afterwards; of a dry run, the check now.
    pub left: Report,
}

/// Checks a table and repairs what can be repaired without a choice. `dry_run`: only says what. Writes that are under way are
/// left alone.
///
/// # Errors
/// Those of the check and of what is done: rolling back, archiving, making the metadata table anew.
pub fn repair(table: &HudiTable, dry_run: bool) -> Result<Repaired> {
    let found = verify(&table.reload()?)?;
    let todo: Vec<Problem> = found.problems.iter().filter(|problem| problem.repair.is_some()).cloned().collect();
    if dry_run || todo.is_empty() {
        return Ok(Repaired { repaired: todo, left: found });
    }
    let kinds: BTreeSet<Repair> = todo.iter().filter_map(|problem| problem.repair).collect();
    for kind in kinds {
        let subjects =
            todo.iter().filter(|problem| problem.repair == Some(kind)).map(|problem| problem.subject.as_str());
        run(&table.reload()?, kind, subjects.collect())?;
    }
    let left = verify(&table.reload()?)?;
    let still: HashSet<(&str, &str)> = left.problems.iter().map(|p| (p.subject.as_str(), p.message.as_str())).collect();
    let is_solved = |problem: &Problem| !still.contains(&(problem.subject.as_str(), problem.message.as_str()));
    let repaired = todo.into_iter().filter(is_solved).collect();
    Ok(Repaired { repaired, left })
}

fn run(table: &HudiTable, kind: Repair, subjects: Vec<&str>) -> Result<()> {
    let _lease = acquire_writer_lease(table)?;
    let (table, left) = reopen(table, check_table)?;
    match kind {
        Repair::Properties => {
            let writer = table.timeline_writer()?;
            let _held = writer.lock().acquire()?;
            TableConfig::finish_update(table.storage())
        }
        Repair::RollBack => {
            let (_, timeline) = roll_back_leftovers(&table, left)?;
            finish_cleans(&table, timeline).map(|_| ())
        }
        Repair::Archive => archive(&table).map(|_| ()),
        Repair::PartitionMetadata => subjects.into_iter().try_for_each(|subject| describe_partition(&table, subject)),
        Repair::DeleteFile => delete_orphans(&table, &subjects),
        Repair::MetadataTable => {
            let request = BuildRequest { from_scratch: true, ..BuildRequest::default() };
            indexing::index(&table, left.timeline(), request).map(|_| ())
        }
    }
}

/// Writes the metadata file of the partition that a file is in.
fn describe_partition(table: &HudiTable, file: &str) -> Result<()> {
    let partition = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let files = table.storage().list(partition)?.files;
    let first = files.iter().filter_map(written_at).min().unwrap_or_default();
    let as_parquet = table.config().partition_metadata_as_parquet();
    write_partition_metadata(table.storage(), partition, &first, as_parquet)
}

/// Deletes files that no instant wrote, if they are old and no write is pending.
fn delete_orphans(table: &HudiTable, files: &[&str]) -> Result<()> {
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    let timeline = writer.load()?;
    if timeline.pending().any(|i| i.action.is_write()) {
        return Ok(());
    }
    let now = table.clock().now_ms();
    for file in files {
        let Some(found) = table.storage().head(file)? else { continue };
        let is_unseen = written_at(&found).is_some_and(|instant| !timeline.is_committed(&instant));
        if is_unseen && now.saturating_sub(found.modified_ms) > ORPHAN_AGE_MS {
            held.verify()?;
            table.storage().delete(file)?;
        }
    }
    Ok(())
}
