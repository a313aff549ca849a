//! Cleaning the metadata table: file slices that no reader of the retained commits needs, by the rules of the table's own
//! cleaner.

use std::collections::BTreeMap;

use super::MetadataServiceOptions;
use crate::error::Result;
use crate::file_group::FileGroup;
use crate::format::avro::metadata::{CleanerPlan, decode, encode};
use crate::format::instant::{Action, Instant, State};
use crate::metadata_table::services::{MetadataServices, OwnAction};
use crate::metadata_table::{FOLDER, MetadataTable};
use crate::services::clean::{
    CleanInput, CleanOptions, CleanedTable, Retention, earliest_to_retain, execute_below, plan_clean,
};
use crate::storage::FileMeta;
use crate::timeline::Timeline;

/// Instants that must have completed after a compaction before anything is deleted: a reader may be about to read the log
/// files that it replaced.
const PAUSE: usize = 3;

/// The newest compaction before the commits that are retained: what is older than its base files can go.
pub(super) fn retained_compaction(metadata: &Timeline, retained: usize) -> Option<&Instant> {
    let earliest = earliest_to_retain(metadata, retained)?;
    metadata.completed(Action::Commit).rfind(|i| i.requested < earliest.requested)
}

/// Whether a file slice can go that no clean has considered yet. Told from the timeline alone.
pub(super) fn is_due(metadata: &Timeline, retained: usize) -> bool {
    let Some(compaction) = retained_compaction(metadata, retained) else { return false };
    let newest = metadata.completed(Action::Commit).next_back();
    let is_after = |i: &&Instant| i.is_completed() && newest.is_none_or(|newest| i.requested > newest.requested);
    if metadata.instants().iter().filter(is_after).count() < PAUSE {
        return false;
    }
    // With this one, there were enough commits after the compaction for the first time.
    let last =
        metadata.completed_writes().filter(|i| i.requested > compaction.requested).nth(retained.saturating_sub(1));
    let since = last.and_then(|i| i.completed.as_deref()).unwrap_or_default();
    !metadata.completed(Action::Clean).any(|clean| clean.requested.as_str() > since)
}

/// The shards of the metadata table, as the cleaner sees them.
struct Shards<'a> {
    timeline: &'a Timeline,
    groups: BTreeMap<String, Vec<FileGroup>>,
}

impl CleanedTable for Shards<'_> {
    fn timeline(&self) -> &Timeline {
        self.timeline
    }

    fn groups_of(&self, partition: &str, _listed: &[FileMeta]) -> Result<Vec<FileGroup>> {
        Ok(self.groups.get(partition).cloned().unwrap_or_default())
    }

    fn replaced_at(&self, _partition: &str, _file_id: &str) -> Option<&str> {
        None
    }
}

/// Deletes the file slices that can go. Returns whether there were any.
///
/// # Errors
/// `Corrupt`; `Lock`; `Storage`.
pub(super) fn clean(
    services: &MetadataServices<'_>,
    metadata: &MetadataTable,
    options: &MetadataServiceOptions,
) -> Result<bool> {
    let mut groups = BTreeMap::new();
    for partition in metadata.partitions() {
        groups.insert(partition.clone(), metadata.groups(partition)?);
    }
    let listed: BTreeMap<String, Vec<FileMeta>> =
        groups.iter().map(|(partition, groups)| (partition.clone(), files_of(groups))).collect();
    let shards = Shards { timeline: metadata.timeline(), groups };
    let input = CleanInput {
        view: &shards,
        partitions: &listed,
        savepoints: &BTreeMap::new(),
        compactions: &[],
        is_partitioned: false,
        full_path: &|path| services.storage.absolute(path),
        now_ms: 0,
    };
    let options = CleanOptions {
        retention: Retention::Commits(options.commits_retained),
        trigger_max_commits: 1,
        incremental: false,
    };
    let Some(plan) = plan_clean(&input, &options)? else { return Ok(false) };
    let action = services.begin(Action::Clean, encode(&plan)?, metadata.timeline())?;
    carry_out(services, action, &plan)?;
    Ok(true)
}

fn files_of(groups: &[FileGroup]) -> Vec<FileMeta> {
    let slices = groups.iter().flat_map(|group| &group.slices);
    let files = slices.flat_map(|slice| {
        let base = slice.base.iter().map(|base| (&base.path, base.size));
        base.chain(slice.logs.iter().map(|log| (&log.path, log.size)))
    });
    files.map(|(path, size)| FileMeta { path: path.clone(), size, modified_ms: 0 }).collect()
}

/// Finishes cleans whose process died. Returns whether there were any.
///
/// # Errors
/// `Corrupt` for a plan that is damaged; `Lock`; `Storage`.
pub(super) fn finish_pending(services: &MetadataServices<'_>, metadata: &Timeline) -> Result<bool> {
    let pending: Vec<&Instant> = metadata.pending().filter(|i| i.action == Action::Clean).collect();
    for instant in &pending {
        let requested = Instant { state: State::Requested, completed: None, ..(*instant).clone() };
        let body = metadata.read(services.storage, &requested)?;
        if body.is_empty() {
            // It was never planned.
            for state in [State::Inflight, State::Requested] {
                services.storage.delete(&metadata.path(&Instant { state, ..requested.clone() }))?;
            }
            continue;
        }
        let plan: CleanerPlan =
            decode(&body).map_err(|e| e.with("table", services.storage.uri()).with("instant", instant))?;
        let action = services.resume((*instant).clone(), metadata)?;
        carry_out(services, action, &plan)?;
    }
    Ok(!pending.is_empty())
}

fn carry_out(services: &MetadataServices<'_>, action: OwnAction<'_>, plan: &CleanerPlan) -> Result<()> {
    services.held.verify()?;
    let done = execute_below(services.storage, FOLDER, services.threads, plan, action.requested())?;
    action.complete(encode(&done)?).map(|_| ())
}
