//! The table's files as one snapshot of the timeline shows them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::cleaned_files::KnownCleans;
use super::commit_metadata::read_write_metadata;
use super::committed_files::{CommittedFile, Fault, READ_A_LATER_INSTANT, committed_files, gone_since};
use super::completion_times::{self, CompletionTimes};
use super::file_listing::{FileListing, Files, ListedFolders, MetadataSource};
use super::schema::{ArchivedSchema, TableSchema};
use crate::error::{Error, Result};
use crate::file_group::{FileGroup, FileSlice, group_files};
use crate::format::avro::metadata::ReplaceCommitMetadata;
use crate::format::instant::{Action, Instant};
use crate::metadata_table::MetadataTable;
use crate::storage::{FileMeta, Storage};
use crate::timeline::Timeline;

/// Partitions, file groups and slices. Looks for files when asked, never earlier.
pub struct TableView {
    storage: Storage,
    timeline: Timeline,
    /// File groups that were replaced, with the largest replacing instant.
    replaced: HashMap<(String, String), String>,
    /// When archived writes completed, as far as that was looked up.
    completion_times: Mutex<CompletionTimes>,
    /// Schema of the newest archived commit, in a look back to before the first one that is active.
    archived_schema: Option<ArchivedSchema>,
    /// Where files are found.
    pub(super) listing: FileListing,
    /// What the metadata that was read said about files, for whatever reason it was read.
    committed: Mutex<CommittedFiles>,
    /// Whether log files of another size than their commit says are taken.
    accepts_truncated_logs: bool,
    /// What listings are compared with, if they are.
    pub(super) known_cleans: Option<KnownCleans>,
    /// The table's schema, once it was looked for.
    pub(super) schema: OnceLock<Option<TableSchema>>,
}

#[derive(Default)]
struct CommittedFiles {
    commits: BTreeSet<String>,
    by_partition: HashMap<String, Vec<CommittedFile>>,
}

impl CommittedFiles {
    fn note(&mut self, requested: &str, metadata: &ReplaceCommitMetadata, timeline: &Timeline) {
        if self.commits.insert(requested.to_owned()) {
            for file in committed_files(metadata, requested, timeline) {
                self.by_partition.entry(file.partition.clone()).or_default().push(file);
            }
        }
    }
}

impl TableView {
    /// A view; reads the replacecommits of the timeline.
    pub fn new(storage: Storage, timeline: Timeline) -> Result<Self> {
        let mut replaced = HashMap::new();
        let mut committed = CommittedFiles::default();
        // With the one that tells the schema, most often.
        let newest = timeline.completed_writes().next_back();
        timeline.fetch(&storage, timeline.completed(Action::ReplaceCommit).chain(newest));
        for instant in timeline.completed(Action::ReplaceCommit) {
            let metadata = read_write_metadata(&storage, &timeline, instant)?;
            committed.note(&instant.requested, &metadata, &timeline);
            for (partition, ids) in metadata.partition_to_replace_file_ids {
                for id in ids {
                    // Instants come by requested time, so that the last one is the largest.
                    replaced.insert((partition.clone(), id), instant.requested.clone());
                }
            }
        }
        Ok(Self {
            listing: FileListing::new(storage.clone()),
            storage,
            timeline,
            replaced,
            completion_times: Mutex::default(),
            archived_schema: None,
            committed: Mutex::new(committed),
            accepts_truncated_logs: false,
            known_cleans: None,
            schema: OnceLock::new(),
        })
    }

    /// The same view, which asks the metadata table for files, if there is one to ask.
    #[must_use]
    pub(super) fn with_metadata_table(self, source: Option<MetadataSource>) -> Self {
        Self { listing: self.listing.with_metadata_table(source), ..self }
    }

    /// The metadata table, if the files are known from it.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn metadata_table(&self) -> Result<Option<Arc<MetadataTable>>> {
        self.listing.metadata_table()
    }

    /// The same view with what archived commits tell: file groups (partition, id) that they replaced, each with the
    /// replacing instant, and the schema of the newest.
    #[must_use]
    pub(super) fn with_archived(
        mut self,
        replaced: HashMap<(String, String), String>,
        schema: Option<ArchivedSchema>,
    ) -> Self {
        for (group, instant) in replaced {
            self.replaced.entry(group).or_insert(instant);
        }
        self.archived_schema = schema;
        self
    }

    /// The schema of the newest archived commit, where the history was read.
    pub(super) fn archived_schema(&self) -> Option<&ArchivedSchema> {
        self.archived_schema.as_ref()
    }

    /// The same view, in which log files may have another size than their commit says.
    #[must_use]
    pub(super) fn accepting_truncated_logs(self, accepts_truncated_logs: bool) -> Self {
        Self { accepts_truncated_logs, ..self }
    }

    /// The same view, whose listings are compared with what was cleaned since its timeline was loaded: one that lacks files
    /// for that reason is a `Conflict` of an outdated plan.
    #[must_use]
    pub(super) fn comparing(self, known: KnownCleans) -> Self {
        Self { known_cleans: Some(known), ..self }
    }

    /// The folders that were listed until now, where nothing compared them yet.
    pub(crate) fn listed_folders(&self) -> ListedFolders {
        self.listing.listed_folders()
    }

    /// The metadata of a completed write. The files that it names are looked for in later listings.
    pub fn write_metadata(&self, instant: &Instant) -> Result<ReplaceCommitMetadata> {
        let metadata = read_write_metadata(&self.storage, &self.timeline, instant)?;
        self.committed().note(&instant.requested, &metadata, &self.timeline);
        Ok(metadata)
    }

    fn committed(&self) -> MutexGuard<'_, CommittedFiles> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the file groups of a partition, or those that are wanted, with what commits say that were read.
    ///
    /// # Errors
    /// `Corrupt` for a file that is gone or has another size, `InvalidOption` in a look back; a `Conflict` of an outdated
    /// plan when it is only that the table changed since this view was made.
    fn check(&self, partition: &str, groups: &[FileGroup], wanted: Wanted<'_>) -> Result<()> {
        let committed = self.committed();
        let Some(files) = committed.by_partition.get(partition) else { return Ok(()) };
        let files = files.iter().filter(|file| is_wanted(wanted, partition, &file.file_id));
        match self.first_fault(files, groups) {
            None => Ok(()),
            Some((file, _)) if self.is_superseded(file)? => {
                Err(Error::conflict("the table was compacted and cleaned while it was listed")
                    .with("table", self.storage.uri())
                    .with("file", &file.path)
                    .remedy("Try again")
                    .outdated_plan())
            }
            Some((file, Fault::Missing)) if self.whole_before().is_some() => {
                let as_of = self.timeline.until().unwrap_or_default();
                Err(gone_since(self.storage.uri(), as_of, 1, &file.path).remedy(READ_A_LATER_INSTANT))
            }
            Some((file, fault)) => Err(file.error(fault).with("table", self.storage.uri())),
        }
    }

    /// Of a look back to a state that was found whole: the whole timeline by then.
    fn whole_before(&self) -> Option<&Timeline> {
        self.timeline.until()?;
        self.known_cleans.as_ref()?.of_whole_state()
    }

    fn first_fault<'a>(
        &self,
        files: impl IntoIterator<Item = &'a CommittedFile>,
        groups: &[FileGroup],
    ) -> Option<(&'a CommittedFile, Fault)> {
        let by_id: HashMap<&str, &FileGroup> = groups.iter().map(|g| (g.file_id.as_str(), g)).collect();
        let expected = files.into_iter().filter(|file| self.is_expected(file));
        let mut faults =
            expected.filter_map(|file| Some((file, file.fault(by_id.get(file.file_id.as_str()).copied())?)));
        faults.find(|(file, fault)| !(self.accepts_truncated_logs && file.is_log && matches!(fault, Fault::Size(_))))
    }

    /// Whether a file that is not as it should be is superfluous in the table as it is by now: others compact, cluster
    /// and clean between a look at the timeline and a listing.
    fn is_superseded(&self, file: &CommittedFile) -> Result<bool> {
        if let Some(before) = self.whole_before() {
            // What is newer than the state stands in for nothing of it.
            return Ok(!Timeline::load(&self.storage, before.config())?.is_same(before));
        }
        let mut seen = self.timeline.clone();
        // A file that is missed in so many states of the table is not between two of them.
        for _ in 0..5 {
            let now = Timeline::load(&self.storage, self.timeline.config())?;
            if now.instants() == seen.instants() {
                return Ok(false);
            }
            // Rolled back, by a restore maybe.
            if !now.is_committed(&file.commit) {
                return Ok(true);
            }
            let view =
                Self::new(self.storage.clone(), now.clone())?.accepting_truncated_logs(self.accepts_truncated_logs);
            if view.first_fault([file], &view.file_groups(&file.partition)?).is_none() {
                return Ok(true);
            }
            seen = now;
        }
        Ok(false)
    }

    /// Whether nothing but a later slice of its file group can have made the file superfluous.
    fn is_expected(&self, file: &CommittedFile) -> bool {
        // Files of savepointed commits before the first active one may have been left by archiving without their groups.
        self.replaced_at(&file.partition, &file.file_id).is_none()
            && self.timeline.first_active().is_none_or(|first| file.commit.as_str() >= first)
    }

    /// The timeline behind the view.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The storage behind the view.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The instant that replaced a file group.
    pub fn replaced_at(&self, partition: &str, file_id: &str) -> Option<&str> {
        self.replaced.get(&(partition.to_owned(), file_id.to_owned())).map(String::as_str)
    }

    /// All partitions with the files in them, found once.
    pub fn partition_files(&self) -> Result<BTreeMap<String, Vec<FileMeta>>> {
        Ok(self.all_files()?.into_iter().map(|(path, files)| (path, files.to_vec())).collect())
    }

    fn all_files(&self) -> Result<BTreeMap<String, Files>> {
        let all = self.listing.partition_files()?;
        self.compare_listings().map(|()| all)
    }

    /// All partition paths.
    pub fn partitions(&self) -> Result<Vec<String>> {
        let partitions = self.listing.partitions()?;
        self.compare_listings().map(|()| partitions)
    }

    /// Every file group of a partition, replaced ones too.
    pub fn file_groups(&self, partition: &str) -> Result<Vec<FileGroup>> {
        self.group(partition, &self.files_of(partition)?)
    }

    /// The files of a partition, found once.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn files_of(&self, partition: &str) -> Result<Arc<Vec<FileMeta>>> {
        let files = self.listing.files_of(partition)?;
        self.compare_listings().map(|()| files)
    }

    /// Lists partitions beside each other, where each takes a request, so that they are known when they are asked for one
    /// by one.
    ///
    /// # Errors
    /// `Storage`.
    pub fn list_ahead(&self, partitions: &[String]) -> Result<()> {
        self.listing.list_ahead(partitions, self.known_cleans.is_some())?;
        self.compare_listings()
    }

    /// A data file, as the listing of its partition shows it.
    ///
    /// # Errors
    /// `Storage`.
    pub fn file(&self, path: &str) -> Result<Option<FileMeta>> {
        let partition = path.rsplit_once('/').map_or("", |(partition, _)| partition);
        Ok(self.files_of(partition)?.iter().find(|file| file.path == path).cloned())
    }

    /// The file groups among listed files of a partition, replaced ones too. Looks archived completion times up where it
    /// depends on them.
    pub fn group(&self, partition: &str, files: &[FileMeta]) -> Result<Vec<FileGroup>> {
        let unclear = completion_times::unclear(files, &self.timeline);
        if let Some(first) = unclear {
            let mut completion_times = self.completion_times.lock().unwrap_or_else(PoisonError::into_inner);
            completion_times.look_up(&self.storage, &self.timeline, first)?;
            return Ok(group_files(partition, files, &completion_times.with(&self.timeline)));
        }
        Ok(group_files(partition, files, &self.timeline))
    }

    /// The newest slice of every file group of a partition that is not replaced, by file id.
    pub fn latest_slices(&self, partition: &str) -> Result<Vec<FileSlice>> {
        let mut groups = self.file_groups(partition)?;
        if self.is_contradicted(partition, &groups)? {
            groups = self.file_groups(partition)?;
        }
        self.check(partition, &groups, None)?;
        Ok(self.latest_of(groups))
    }

    /// The same of some file groups (partition, id). Files of others may be gone.
    pub(super) fn latest_slices_of(
        &self,
        partition: &str,
        wanted: &HashSet<(String, String)>,
    ) -> Result<Vec<FileSlice>> {
        let mut groups = self.file_groups(partition)?;
        if self.is_contradicted(partition, &groups)? {
            groups = self.file_groups(partition)?;
        }
        groups.retain(|group| is_wanted(Some(wanted), partition, &group.file_id));
        self.check(partition, &groups, Some(wanted))?;
        Ok(self.latest_of(groups))
    }

    /// The same for all partitions, by partition and file id.
    pub fn all_latest_slices(&self) -> Result<Vec<FileSlice>> {
        let mut all = self.all_groups()?;
        let known = self.committed_partitions();
        for partition in &known {
            if self.is_contradicted(partition, groups_of(&all, partition))? {
                all = self.all_groups()?;
                break;
            }
        }
        for partition in &known {
            self.check(partition, groups_of(&all, partition), None)?;
        }
        Ok(all.into_values().flat_map(|groups| self.latest_of(groups)).collect())
    }

    fn all_groups(&self) -> Result<BTreeMap<String, Vec<FileGroup>>> {
        let all = self.all_files()?;
        all.into_iter().map(|(path, files)| self.group(&path, &files).map(|groups| (path, groups))).collect()
    }

    /// The partitions of which commits name files.
    fn committed_partitions(&self) -> BTreeSet<String> {
        self.committed().by_partition.keys().cloned().collect()
    }

    /// Whether the metadata table does not have a file that a commit wrote, or another size of it. It is asked no more.
    fn is_contradicted(&self, partition: &str, groups: &[FileGroup]) -> Result<bool> {
        if !self.listing.is_from_metadata_table() {
            return Ok(false);
        }
        let fault = {
            let committed = self.committed();
            let files = committed.by_partition.get(partition);
            files.and_then(|files| self.first_fault(files, groups)).map(|(file, fault)| (file.clone(), fault))
        };
        match fault {
            // What a clean deleted, it rightly does not have any more.
            Some((file, Fault::Missing)) if self.whole_before().is_some() && !self.storage.exists(&file.path)? => {
                Ok(false)
            }
            Some((file, fault)) if !self.is_superseded(&file)? => {
                Ok(self.listing.distrust(&format!("{}: {}", file.path, file.message(fault))))
            }
            _ => Ok(false),
        }
    }

    /// The newest slices among listed file groups.
    pub fn latest_of(&self, groups: Vec<FileGroup>) -> Vec<FileSlice> {
        groups
            .into_iter()
            .filter(|g| self.replaced_at(&g.partition, &g.file_id).is_none())
            .filter_map(|g| g.slices.into_iter().next())
            .collect()
    }
}

/// The only file groups (partition, id) that matter, or all.
type Wanted<'a> = Option<&'a HashSet<(String, String)>>;

fn is_wanted(wanted: Wanted<'_>, partition: &str, file_id: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.contains(&(partition.to_owned(), file_id.to_owned())))
}

/// The file groups of a partition; none of one that is not there.
fn groups_of<'a>(all: &'a BTreeMap<String, Vec<FileGroup>>, partition: &str) -> &'a [FileGroup] {
    all.get(partition).map(Vec::as_slice).unwrap_or_default()
}
