//! What a plan is made from: the timeline, and what storage says about the instants that could be archived.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::clean::SAVEPOINTS;
use super::plan::{ArchiveInput, ArchiveOptions, ArchivePlan, LastClean, MetadataTable, plan_archive};
use crate::error::{Error, Result};
use crate::file_group::{BaseFile, LogFile};
use crate::format::avro::metadata::{CleanerPlan, ReplaceCommitMetadata, RollbackMetadata, decode};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::run_parallel;
use crate::storage::{FileMeta, Storage, optional};
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, TableType};
use crate::timeline::{META_FOLDER, Timeline, TimelineConfig};

/// Partitions of an object store that are listed at a time.
const LISTINGS: usize = 16;

/// A plan with what it was made from.
pub(super) struct MadePlan {
    pub(super) plan: ArchivePlan,
    merge_on_read: bool,
    metadata_table: MetadataTable,
    files_left: Vec<(String, String)>,
}

impl MadePlan {
    /// Reads what the plan depends on, and makes it.
    ///
    /// # Errors
    /// `Unsupported` for a metadata table; `Corrupt`; `Storage`.
    pub(super) fn new(table: &HudiTable, timeline: &Timeline, options: &ArchiveOptions) -> Result<Self> {
        let storage = table.storage();
        if storage.uri().trim_end_matches('/').ends_with(&format!("{META_FOLDER}/metadata")) {
            return Err(Error::unsupported("archiving a metadata table is not supported")
                .with("table", storage.uri())
                .remedy("Archive the data table instead"));
        }
        let mut input = ArchiveInput {
            timeline,
            merge_on_read: table.config().table_type() == TableType::MergeOnRead,
            last_clean: None,
            metadata_table: MetadataTable::Absent,
            files_left: Vec::new(),
            more_bounds: Vec::new(),
        };
        if timeline.completed_writes().count() <= options.keep_max {
            // After most commits nothing is due, which needs no reads.
            return Ok(Self::of(plan_archive(&input, options), input));
        }
        input.last_clean = last_clean(storage, timeline)?;
        input.metadata_table = metadata_table(table)?;
        let plan = plan_archive(&input, options);
        // Only for instants that would be archived: the check lists their partitions.
        timeline.fetch(storage, plan.instants.iter());
        input.files_left = replaced_files(storage, timeline, &plan.instants)?;
        for instant in plan.instants.iter().filter(|i| i.action == Action::Rollback) {
            let left = rolled_back_file(storage, timeline, instant)?;
            input.files_left.extend(left.map(|file| (instant.requested.clone(), file)));
        }
        let plan = if input.files_left.is_empty() { plan } else { plan_archive(&input, options) };
        Ok(Self::of(plan, input))
    }

    fn of(plan: ArchivePlan, input: ArchiveInput<'_>) -> Self {
        let ArchiveInput { merge_on_read, metadata_table, files_left, .. } = input;
        Self { plan, merge_on_read, metadata_table, files_left }
    }

    /// Whether all instants of the plan may still be archived on a newer timeline, loaded under the table lock. What is
    /// not on the timeline can only have become more permissive: files of replaced file groups are deleted and never
    /// written, and the metadata table is compacted or dropped.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(super) fn holds(&self, storage: &Storage, now: &Timeline, options: &ArchiveOptions) -> Result<bool> {
        let input = ArchiveInput {
            timeline: now,
            merge_on_read: self.merge_on_read,
            last_clean: last_clean(storage, now)?,
            metadata_table: self.metadata_table.clone(),
            files_left: self.files_left.clone(),
            more_bounds: Vec::new(),
        };
        let due: HashSet<Instant> = plan_archive(&input, options).instants.into_iter().collect();
        Ok(self.plan.instants.iter().all(|i| due.contains(i)))
    }
}

pub(in crate::services) fn last_clean(storage: &Storage, timeline: &Timeline) -> Result<Option<LastClean>> {
    let Some(clean) = timeline.completed(Action::Clean).next_back() else { return Ok(None) };
    let requested = Instant { state: State::Requested, completed: None, ..clean.clone() };
    // Without its plan, replaced files count as not cleaned.
    let Some(body) = optional(timeline.read(storage, &requested))? else { return Ok(None) };
    let plan: CleanerPlan = decode(&body).map_err(|e| e.with("table", storage.uri()).with("instant", &requested))?;
    let savepointed = plan.extra_metadata.unwrap_or_default().remove(SAVEPOINTS).unwrap_or_default();
    Ok(Some(LastClean {
        requested: clean.requested.clone(),
        earliest_to_retain: plan.earliest_instant_to_retain.map(|i| i.timestamp).filter(|t| !t.is_empty()),
        savepointed: savepointed.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect(),
    }))
}

fn metadata_table(table: &HudiTable) -> Result<MetadataTable> {
    if table.config().metadata_partitions().is_empty() || !table.options().flag("hoodie.metadata.enable", true)? {
        return Ok(MetadataTable::Absent);
    }
    let base = format!("{META_FOLDER}/metadata/{META_FOLDER}/timeline");
    let config = TimelineConfig {
        folder: base.clone(),
        history_folder: format!("{base}/history"),
        ..table.config().timeline().clone()
    };
    let timeline = Timeline::load(table.storage(), &config)?;
    let last = timeline.completed(Action::Commit).next_back();
    Ok(last.map_or(MetadataTable::NeverCompacted, |i| MetadataTable::CompactedAt(i.requested.clone())))
}

fn file_group_of(file: &FileMeta) -> Option<String> {
    BaseFile::parse(file).map(|b| b.file_id).or_else(|| LogFile::parse(file).map(|l| l.file_id))
}

/// Instants that replaced file groups of which files still exist, each with one of the files.
fn replaced_files(storage: &Storage, timeline: &Timeline, instants: &[Instant]) -> Result<Vec<(String, String)>> {
    let mut replaced: Vec<(&Instant, ReplaceCommitMetadata)> = Vec::new();
    for instant in instants.iter().filter(|i| i.action == Action::ReplaceCommit) {
        replaced.push((instant, read_write_metadata(storage, timeline, instant)?));
    }
    // Many instants replace file groups of the same few partitions.
    let partitions: BTreeSet<&String> =
        replaced.iter().flat_map(|(_, metadata)| metadata.partition_to_replace_file_ids.keys()).collect();
    let at_once = if storage.is_remote() { LISTINGS } else { 1 };
    let list = |partition: String| -> Result<(String, HashMap<String, String>)> {
        let files = by_file_group(storage.list(&partition)?.files);
        Ok((partition, files))
    };
    let listed: HashMap<String, HashMap<String, String>> =
        run_parallel(partitions.into_iter().cloned().collect(), at_once, list)?.into_iter().collect();
    let left = |metadata: &ReplaceCommitMetadata| {
        metadata.partition_to_replace_file_ids.iter().find_map(|(partition, ids)| {
            let files = listed.get(partition)?;
            ids.iter().find_map(|id| files.get(id)).cloned()
        })
    };
    Ok(replaced.iter().filter_map(|(i, metadata)| Some((i.requested.clone(), left(metadata)?))).collect())
}

/// One file of each file group.
fn by_file_group(files: Vec<FileMeta>) -> HashMap<String, String> {
    files.into_iter().rev().filter_map(|file| Some((file_group_of(&file)?, file.path))).collect()
}

/// A file that the rollback failed to delete, if one still exists.
fn rolled_back_file(storage: &Storage, timeline: &Timeline, instant: &Instant) -> Result<Option<String>> {
    let body = timeline.read(storage, instant)?;
    let done: RollbackMetadata = decode(&body).map_err(|e| e.with("table", storage.uri()).with("instant", instant))?;
    for partition in done.partition_metadata.values() {
        for failed in &partition.failed_delete_files {
            let name = failed.rsplit('/').next().unwrap_or(failed);
            let path = if partition.partition_path.is_empty() {
                name.to_owned()
            } else {
                format!("{}/{name}", partition.partition_path)
            };
            if storage.exists(&path)? {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}
