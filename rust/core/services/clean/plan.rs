//! Which file slices are deleted, by Hudi's policies.
//!
//! `KEEP_LATEST_COMMITS` and `KEEP_LATEST_BY_HOURS` retain commits; `E` is the earliest of them. A query that began at
//! any retained commit must find its files. So these slices of each file group stay: all since `E`, the newest before
//! `E`, and the newest of all. A file group that was replaced before `E` is deleted as a whole.
//!
//! `KEEP_LATEST_FILE_VERSIONS` keeps the newest slices of each file group, and nothing of replaced ones.
//!
//! What a savepoint or a pending compaction needs stays with each policy.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::retention::Retention;
use crate::error::Result;
use crate::file_group::{FileGroup, FileSlice, parse_change_log, written_at};
use crate::format::avro::metadata::{
    ActionInstant, CleanFileInfo, CleanMetadata, CleanerPlan, CompactionPlan, SavepointMetadata,
};
use crate::format::instant::Instant;
use crate::storage::FileMeta;
use crate::table::{Options, TableView};
use crate::timeline::Timeline;

/// Key in a plan of the savepoints that existed.
pub(in crate::services) const SAVEPOINTS: &str = "savepointed_timestamps";

/// Settings of cleaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CleanOptions {
    /// What is kept.
    pub retention: Retention,
    /// Number of commits after which a clean is due (`hoodie.clean.trigger.max.commits`).
    pub trigger_max_commits: usize,
    /// Whether only partitions that changed since the last clean are considered (`hoodie.clean.incremental.enabled`).
    pub incremental: bool,
}

impl CleanOptions {
    /// Reads the settings.
    ///
    /// # Errors
    /// `InvalidOption` for invalid numbers and unknown policies.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        Ok(Self {
            retention: Retention::from_options(options)?,
            trigger_max_commits: options.number("hoodie.clean.trigger.max.commits", 1)?,
            incremental: options.flag("hoodie.clean.incremental.enabled", true)?,
        })
    }
}

/// A table that is cleaned.
pub(crate) trait CleanedTable {
    /// Its timeline.
    fn timeline(&self) -> &Timeline;
    /// The file groups of a partition, of which these files were listed.
    ///
    /// # Errors
    /// `Corrupt` and `Storage` if the history cannot be read.
    fn groups_of(&self, partition: &str, listed: &[FileMeta]) -> Result<Vec<FileGroup>>;
    /// The instant that replaced a file group.
    fn replaced_at(&self, partition: &str, file_id: &str) -> Option<&str>;
}

impl CleanedTable for TableView {
    fn timeline(&self) -> &Timeline {
        TableView::timeline(self)
    }

    fn groups_of(&self, partition: &str, listed: &[FileMeta]) -> Result<Vec<FileGroup>> {
        self.group(partition, listed)
    }

    fn replaced_at(&self, partition: &str, file_id: &str) -> Option<&str> {
        TableView::replaced_at(self, partition, file_id)
    }
}

/// Input of a plan.
pub(crate) struct CleanInput<'a> {
    /// The table.
    pub view: &'a dyn CleanedTable,
    /// Listed files by partition path: of all partitions, or of those that changed since the last clean.
    pub partitions: &'a BTreeMap<String, Vec<FileMeta>>,
    /// Savepoints by the requested time of the commit that each protects.
    pub savepoints: &'a BTreeMap<String, SavepointMetadata>,
    /// Plans of pending compactions and log compactions.
    pub compactions: &'a [CompactionPlan],
    /// Whether the table has partition columns.
    pub is_partitioned: bool,
    /// Formats a path for the plan.
    pub full_path: &'a dyn Fn(&str) -> String,
    /// Milliseconds since the epoch.
    pub now_ms: i64,
}

/// Number of completed writes since the last clean.
pub(crate) fn commits_since(timeline: &Timeline, last_clean: Option<&CleanMetadata>) -> usize {
    let seen = last_clean.map_or("", |c| c.last_completed_commit_timestamp.as_str());
    timeline.completed_writes().filter(|i| i.requested.as_str() > seen).count()
}

/// Makes the plan; `None` if there is nothing to delete.
///
/// # Errors
/// `Corrupt` and `Storage` if the history cannot be read.
pub(crate) fn plan_clean(input: &CleanInput<'_>, options: &CleanOptions) -> Result<Option<CleanerPlan>> {
    let timeline = input.view.timeline();
    let keep = match options.retention {
        Retention::FileVersions(versions) => Keep::new(input, Kept::Versions(versions)),
        retention => match retention.earliest(timeline, input.now_ms) {
            Some(earliest) => Keep::new(input, Kept::Since(earliest)),
            None => return Ok(None),
        },
    };
    let mut files: BTreeMap<String, Vec<CleanFileInfo>> = BTreeMap::new();
    let mut partitions_to_be_deleted = Vec::new();
    for (partition, listed) in input.partitions {
        let paths = keep.files_to_delete(input.view, partition, listed)?;
        if paths.is_empty() {
            continue;
        }
        if !partition.is_empty() && is_emptied(listed, &paths) {
            partitions_to_be_deleted.push(partition.clone());
        }
        let info = |path: &String| CleanFileInfo {
            file_path: Some((input.full_path)(path)),
            is_bootstrap_base_file: Some(false),
        };
        files.insert(partition.clone(), paths.iter().map(info).collect());
    }
    if files.is_empty() {
        return Ok(None);
    }
    let mut extra = BTreeMap::new();
    if input.is_partitioned && !input.savepoints.is_empty() {
        let times: Vec<&str> = input.savepoints.keys().map(String::as_str).collect();
        extra.insert(SAVEPOINTS.to_owned(), times.join(","));
    }
    Ok(Some(CleanerPlan {
        earliest_instant_to_retain: keep.kept.earliest().map(|earliest| ActionInstant {
            timestamp: earliest.requested.clone(),
            action: earliest.action.completed_as().name().to_owned(),
            state: earliest.state.name().to_owned(),
        }),
        last_completed_commit_timestamp: last_completed(timeline),
        policy: options.retention.policy().to_owned(),
        files_to_be_deleted_per_partition: Some(BTreeMap::new()),
        file_paths_to_be_deleted_per_partition: Some(files),
        partitions_to_be_deleted: Some(partitions_to_be_deleted),
        extra_metadata: Some(extra),
        ..Default::default()
    }))
}

fn last_completed(timeline: &Timeline) -> String {
    timeline.completed_writes().next_back().map(|i| i.requested.clone()).unwrap_or_default()
}

/// Whether no data file of the partition is left, whoever wrote it.
fn is_emptied(listed: &[FileMeta], deleted: &[String]) -> bool {
    let deleted: HashSet<&str> = deleted.iter().map(String::as_str).collect();
    listed.iter().filter(|f| written_at(f).is_some()).all(|f| deleted.contains(f.path.as_str()))
}

/// What a policy keeps.
#[derive(Clone, Copy)]
enum Kept<'a> {
    /// What queries of this commit and of later ones read.
    Since(&'a Instant),
    /// So many slices of each file group, and of a replaced one none.
    Versions(usize),
}

impl<'a> Kept<'a> {
    fn earliest(self) -> Option<&'a Instant> {
        match self {
            Self::Since(earliest) => Some(earliest),
            Self::Versions(_) => None,
        }
    }
}

/// Decides which slices stay.
struct Keep<'a> {
    kept: Kept<'a>,
    savepointed: HashSet<&'a str>,
    /// Base instant of the slice that a pending compaction reads, by partition and file id.
    compacted: HashMap<(&'a str, &'a str), &'a str>,
}

impl<'a> Keep<'a> {
    fn new(input: &CleanInput<'a>, kept: Kept<'a>) -> Self {
        let savepointed = input
            .savepoints
            .values()
            .flat_map(|s| s.partition_metadata.values())
            .flat_map(|p| p.savepoint_data_file.iter().map(String::as_str))
            .collect();
        let operations = input.compactions.iter().flat_map(|plan| plan.operations.iter().flatten());
        let compacted = operations
            .filter_map(|o| {
                Some(((o.partition_path.as_deref()?, o.file_id.as_deref()?), o.base_instant_time.as_deref()?))
            })
            .collect();
        Self { kept, savepointed, compacted }
    }

    /// Paths of the files to delete, those of replaced file groups first.
    fn files_to_delete(&self, view: &dyn CleanedTable, partition: &str, listed: &[FileMeta]) -> Result<Vec<String>> {
        let groups = view.groups_of(partition, listed)?;
        let (replaced, live): (Vec<&FileGroup>, Vec<&FileGroup>) =
            groups.iter().partition(|g| view.replaced_at(partition, &g.file_id).is_some());
        let gone = replaced
            .into_iter()
            .filter(|g| view.replaced_at(partition, &g.file_id).is_some_and(|at| self.needs_no_replaced(at)))
            .flat_map(|g| g.slices.iter())
            .filter(|s| !self.is_savepointed(s) && !self.is_compacted(s));
        let old = live.into_iter().flat_map(|g| self.old_slices(g));
        let changes = ChangeLogs::of(listed);
        Ok(gone.chain(old).flat_map(|slice| slice_files(slice).chain(changes.of_slice(slice))).collect())
    }

    /// Whether no query that must find its files reads a file group that was replaced then.
    fn needs_no_replaced(&self, replaced_at: &str) -> bool {
        self.kept.earliest().is_none_or(|earliest| replaced_at < earliest.requested.as_str())
    }

    fn old_slices<'g>(&self, group: &'g FileGroup) -> Vec<&'g FileSlice> {
        let old: Vec<&FileSlice> = match self.kept {
            Kept::Since(earliest) => slices_before(group, &earliest.requested).collect(),
            Kept::Versions(versions) => {
                // A pending compaction makes a version more, and its input stays beside the counted ones.
                let is_planned = self.compacted.contains_key(&(group.partition.as_str(), group.file_id.as_str()));
                let counted = versions.saturating_sub(usize::from(is_planned));
                group.slices.iter().filter(|s| !self.is_compacted(s)).skip(counted).collect()
            }
        };
        old.into_iter().filter(|s| !self.is_savepointed(s) && !self.is_compacted(s)).collect()
    }

    fn is_savepointed(&self, slice: &FileSlice) -> bool {
        let name = |path: &str| path.rsplit('/').next().is_some_and(|n| self.savepointed.contains(n));
        slice.base.iter().any(|b| name(&b.path)) || slice.logs.iter().any(|l| name(&l.path))
    }

    fn is_compacted(&self, slice: &FileSlice) -> bool {
        let planned = self.compacted.get(&(slice.partition.as_str(), slice.file_id.as_str()));
        planned.is_some_and(|base| slice.base_instant.as_str() >= *base)
    }
}

/// The slices that no query of this commit or of a later one reads.
fn slices_before<'g>(group: &'g FileGroup, earliest: &str) -> impl Iterator<Item = &'g FileSlice> {
    let newest = group.slices.first().map(|s| s.base_instant.as_str());
    let before = group.slices.iter().map(|s| s.base_instant.as_str()).find(|i| *i < earliest);
    let goes = move |instant: &str| Some(instant) != newest && Some(instant) != before;
    let old = group.slices.iter().skip_while(move |s| Some(s.base_instant.as_str()) != before);
    old.filter(move |s| goes(&s.base_instant))
}

/// Change data logs. Each goes with the slice whose base file the same write made.
struct ChangeLogs<'a>(HashMap<String, Vec<(String, &'a str)>>);

impl<'a> ChangeLogs<'a> {
    fn of(listed: &'a [FileMeta]) -> Self {
        let mut by_group: HashMap<String, Vec<(String, &'a str)>> = HashMap::new();
        for file in listed {
            if let Some(log) = parse_change_log(file) {
                by_group.entry(log.file_id).or_default().push((log.instant, &file.path));
            }
        }
        Self(by_group)
    }

    fn of_slice(&self, slice: &FileSlice) -> impl Iterator<Item = String> {
        let of_group = self.0.get(&slice.file_id).into_iter().flatten();
        of_group.filter(move |(instant, _)| *instant == slice.base_instant).map(|(_, path)| (*path).to_owned())
    }
}

fn slice_files(slice: &FileSlice) -> impl Iterator<Item = String> + '_ {
    slice.base.iter().map(|b| b.path.clone()).chain(slice.logs.iter().map(|l| l.path.clone()))
}
