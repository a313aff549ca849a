//! What other writers did since a write was planned: whether it may still be published.
//!
//! A plan belongs to a snapshot of the timeline. Under the table lock, the instants that have been completed since are
//! compared with what the write did: with the file groups that it changed or replaced, with the partitions in which it
//! found keys to be new, and with those that it replaces as a whole. This is stricter than Hudi's
//! `SimpleConcurrentFileWritesConflictResolutionStrategy`, which compares file groups only, and lets two writers insert
//! one and the same key.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::error::{Error, Result};
use crate::file_group::{LogFile, bucket_of_file_id, is_shared_file_id};
use crate::format::avro::metadata::{ReplaceCommitMetadata, WriteStat};
use crate::format::instant::{Action, Instant};
use crate::storage::{FileMeta, Storage};
use crate::table::commit_metadata::read_write_metadata;
use crate::table::planned_groups;
use crate::timeline::{Timeline, newest_archived_write};

/// Operations of services that write records that are stored already: no key is new.
const REWRITES: [&str; 3] = ["CLUSTER", "COMPACT", "LOG_COMPACT"];
/// Operations that leave what a log file was appended to where it is.
const COMPACTIONS: [&str; 2] = ["COMPACT", "LOG_COMPACT"];

/// What a write did to a file group that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A log file was appended, which a compaction does not lose.
    Appended,
    /// Its base file was written anew, or it was replaced.
    Rewritten,
}

/// What a write sets out to do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Intent {
    /// Whether it looks keys up, and inserts those that it does not find.
    pub(crate) looks_keys_up: bool,
    /// Whether keys are unique in the whole table, not in a partition.
    pub(crate) unique_in_table: bool,
    /// Whether it replaces the partitions that it writes to.
    pub(crate) replaces_partitions: bool,
    /// Whether it replaces the whole table.
    pub(crate) replaces_table: bool,
    /// Whether it has a bucket index, in which a key that is new can be in the file group of its bucket alone.
    pub(crate) is_by_bucket: bool,
    /// Whether it shares file groups with others that append log files: readers merge them.
    pub(crate) non_blocking: bool,
}

/// What a write did, as far as others may have got in its way.
pub(crate) struct Footprint<'a> {
    groups: HashMap<(&'a str, &'a str), Change>,
    /// Partitions where keys were looked for and not found.
    new_keys: HashSet<&'a str>,
    /// In a bucket index: the buckets, with their partitions, that had no file group before.
    new_buckets: Option<HashSet<(&'a str, u32)>>,
    /// Whether these were looked for in the whole table.
    everywhere: bool,
    /// Whether log files of others in the same file groups do no harm.
    non_blocking: bool,
    /// Partitions that are replaced as a whole.
    replaced: HashSet<&'a str>,
    /// Whether all of them are.
    whole_table: bool,
}

impl<'a> Footprint<'a> {
    /// That of a write with these results.
    pub(crate) fn new(intent: Intent, stats: &'a [WriteStat], replaced: &'a BTreeMap<String, Vec<String>>) -> Self {
        let mut groups = HashMap::new();
        let mut new_keys = HashSet::new();
        let mut new_buckets = HashSet::new();
        for stat in stats {
            let partition = stat.partition_path.as_deref().unwrap_or_default();
            let existed = stat.prev_commit.as_deref().is_some_and(|commit| commit != "null");
            if let Some(id) = stat.file_id.as_deref().filter(|_| existed) {
                let change = if is_log(stat) { Change::Appended } else { Change::Rewritten };
                let known = groups.entry((partition, id)).or_insert(change);
                if change == Change::Rewritten {
                    *known = change;
                }
            }
            // A shared file group of a bucket may have begun with this log file.
            let is_shared = intent.non_blocking && stat.file_id.as_deref().is_some_and(is_shared_file_id);
            if (!existed || is_shared)
                && let Some(bucket) = stat.file_id.as_deref().and_then(bucket_of_file_id)
            {
                new_buckets.insert((partition, bucket));
            }
            if intent.looks_keys_up && stat.num_inserts.unwrap_or(0) > 0 {
                new_keys.insert(partition);
            }
        }
        let ids = replaced.iter().flat_map(|(p, ids)| ids.iter().map(|id| (p.as_str(), id.as_str())));
        groups.extend(ids.map(|group| (group, Change::Rewritten)));
        let mut emptied: HashSet<&str> = replaced.keys().map(String::as_str).collect();
        if intent.replaces_partitions {
            emptied.extend(stats.iter().map(|s| s.partition_path.as_deref().unwrap_or_default()));
        }
        Self {
            groups,
            everywhere: intent.unique_in_table && !new_keys.is_empty(),
            new_keys,
            new_buckets: intent.is_by_bucket.then_some(new_buckets),
            non_blocking: intent.non_blocking,
            replaced: emptied,
            whole_table: intent.replaces_table,
        }
    }

    /// What another write did that gets in the way, in words, with its partition and file group.
    fn meets(&self, other: &ReplaceCommitMetadata) -> Option<(&'static str, String, Option<String>)> {
        let operation = other.operation_type.as_deref().unwrap_or_default().to_ascii_uppercase();
        let adds_keys = !REWRITES.contains(&operation.as_str());
        let compacts = COMPACTIONS.contains(&operation.as_str());
        for (partition, ids) in &other.partition_to_replace_file_ids {
            if let Some(id) = ids.iter().find(|id| self.groups.contains_key(&(partition.as_str(), id.as_str()))) {
                return Some(("replaced a file group that this write changes", partition.clone(), Some(id.clone())));
            }
            if self.replaces(partition) {
                return Some(("replaced file groups of a partition that this write replaces", partition.clone(), None));
            }
        }
        for (partition, stat) in other.partition_to_write_stats.iter().flat_map(|(p, s)| s.iter().map(move |s| (p, s)))
        {
            let id = stat.file_id.as_deref().unwrap_or_default();
            match self.groups.get(&(partition.as_str(), id)) {
                // The log file goes to the slice that the compaction began, or stays behind the compacted log.
                Some(Change::Appended) if compacts || (self.non_blocking && is_log(stat)) => {}
                Some(_) => {
                    return Some((
                        "changed a file group that this write changes",
                        partition.clone(),
                        Some(id.to_owned()),
                    ));
                }
                None => {}
            }
            if self.replaces(partition) {
                return Some(("wrote to a partition that this write replaces", partition.clone(), None));
            }
            let inserts = adds_keys && (stat.num_inserts.unwrap_or(0) > 0 || is_new_group(stat));
            if self.has_new_bucket(partition, id) && !self.groups.contains_key(&(partition.as_str(), id)) {
                return Some((
                    "made the file group of a bucket that this write makes",
                    partition.clone(),
                    Some(id.to_owned()),
                ));
            }
            if inserts && (self.everywhere || self.new_keys.contains(partition.as_str())) && !self.is_other_bucket(id) {
                return Some(("wrote new records where this write found its keys to be new", partition.clone(), None));
            }
        }
        None
    }

    fn has_new_bucket(&self, partition: &str, file_id: &str) -> bool {
        let bucket = bucket_of_file_id(file_id);
        self.new_buckets.as_ref().zip(bucket).is_some_and(|(new, bucket)| new.contains(&(partition, bucket)))
    }

    /// Whether a file group that this write does not change is of another bucket than all that it writes to, so that no
    /// key of this write can be there.
    fn is_other_bucket(&self, file_id: &str) -> bool {
        self.new_buckets.is_some() && bucket_of_file_id(file_id).is_some()
    }

    fn replaces(&self, partition: &str) -> bool {
        self.whole_table || self.replaced.contains(partition)
    }
}

fn is_log(stat: &WriteStat) -> bool {
    let path = stat.path.clone().unwrap_or_default();
    LogFile::parse(&FileMeta { path, size: 0, modified_ms: 0 }).is_some()
}

/// Files of a group that began with this write; Hudi's log files of a new group say nothing of it, and count as inserts.
fn is_new_group(stat: &WriteStat) -> bool {
    stat.prev_commit.as_deref().is_none_or(|commit| commit == "null")
}

/// Fails when what others did since `planned_from` gets in the way of a write. To be asked under the table lock, with the
/// timeline as it is now.
///
/// # Errors
/// `Conflict`, of an outdated plan; `Corrupt` for metadata that cannot be read; `Storage`.
pub(crate) fn refuse_outdated(
    storage: &Storage,
    planned_from: &Timeline,
    now: &Timeline,
    own: &str,
    write: &Footprint<'_>,
) -> Result<()> {
    let conflict = |what: String| {
        Error::conflict(what)
            .outdated_plan()
            .with("table", storage.uri())
            .remedy("Nothing was written. Write again: the write is then planned from the table as it is now")
    };
    let was_completed: HashSet<(&str, Action)> = completed(planned_from).map(key).collect();
    let is_completed: HashSet<(&str, Action)> = completed(now).map(key).collect();
    let archived = |requested: &str| now.first_active().is_some_and(|first| requested < first);
    if let Some(gone) = completed(planned_from).find(|i| !is_completed.contains(&key(i)) && !archived(&i.requested)) {
        return Err(conflict("a commit that this write was planned from was rolled back".into()).with("instant", gone));
    }
    // What is in the history already cannot be compared any more.
    let newest = completed(planned_from).next_back().filter(|i| !is_completed.contains(&key(i)));
    let pending = planned_from.pending().filter(|i| i.action.is_write() && i.requested != own);
    let lost = pending.filter(|i| archived(&i.requested) && !now.instants().iter().any(|n| key(n) == key(i)));
    let archived = "the timeline that this write was planned from has been archived";
    if let Some(gone) = newest.into_iter().chain(lost).next() {
        return Err(conflict(archived.into()).with("instant", gone));
    }
    if let Some(unseen) = archived_unseen(storage, planned_from, now)? {
        return Err(conflict(archived.into()).with("instant", unseen));
    }
    let restores = |t: &Timeline| t.completed(Action::Restore).map(|i| i.requested.clone()).collect::<HashSet<_>>();
    if !restores(now).is_subset(&restores(planned_from)) {
        return Err(conflict("the table was restored while this write worked on it".into()));
    }
    let is_new = |i: &&Instant| i.requested != own && !was_completed.contains(&key(i));
    now.fetch(storage, completed(now).filter(is_new));
    for other in completed(now).filter(is_new) {
        let metadata = read_write_metadata(storage, now, other)?;
        if let Some((what, partition, id)) = write.meets(&metadata) {
            let error = conflict(format!("another writer {what}")).with("instant", other).with("partition", partition);
            return Err(match id {
                Some(id) => error.with("file group", id),
                None => error,
            });
        }
    }
    Ok(())
}

/// A write that was completed and archived since `planned_from`, where the instants that are left do not show it: because
/// there was no completed write then, or the newest one has a savepoint, which archiving passes over.
fn archived_unseen(storage: &Storage, planned_from: &Timeline, now: &Timeline) -> Result<Option<String>> {
    let newest = completed(planned_from).next_back().map_or("", |i| i.requested.as_str());
    let begins_later = now.first_active().is_some_and(|first| first > newest);
    if !begins_later || now.first_active() == planned_from.first_active() {
        return Ok(None);
    }
    // The write with which it begins may also be the next one after those that were known.
    let archived = newest_archived_write(storage, now.config())?;
    Ok(archived.filter(|requested| requested.as_str() > newest))
}

/// Fails when a file group that a write changes is part of a clustering that was planned since `planned_from`. To be asked
/// under the table lock.
///
/// # Errors
/// `Conflict`; `Corrupt`; `Storage`.
pub(crate) fn refuse_planned(
    storage: &Storage,
    planned_from: &Timeline,
    now: &Timeline,
    write: &Footprint<'_>,
) -> Result<()> {
    if write.groups.is_empty() {
        return Ok(());
    }
    let is_plan = |i: &&Instant| matches!(i.action, Action::Clustering);
    let known: HashSet<&str> = planned_from.pending().filter(is_plan).map(|i| i.requested.as_str()).collect();
    if now.pending().filter(is_plan).all(|i| known.contains(i.requested.as_str())) {
        return Ok(());
    }
    let planned = planned_groups(storage, now, &[Action::Clustering])?;
    match planned.iter().find(|(p, id)| write.groups.contains_key(&(p.as_str(), id.as_str()))) {
        None => Ok(()),
        Some((partition, id)) => {
            Err(Error::conflict("a clustering was planned of a file group while this write worked on it")
                .outdated_plan()
                .with("table", storage.uri())
                .with("partition", partition)
                .with("file group", id)
                .remedy("Nothing was written. Write again when the clustering is completed or rolled back"))
        }
    }
}

fn completed(timeline: &Timeline) -> impl DoubleEndedIterator<Item = &Instant> {
    timeline.completed_writes()
}

fn key(instant: &Instant) -> (&str, Action) {
    (instant.requested.as_str(), instant.action.completed_as())
}
