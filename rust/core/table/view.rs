//! The table's files as one snapshot of the timeline shows them.

use std::collections::{BTreeMap, HashMap};

use super::commit_metadata::read_write_metadata;
use crate::error::Result;
use crate::file_group::{CommitTimes, FileGroup, FileSlice, group_files, is_partition_metadata};
use crate::format::instant::Action;
use crate::storage::{FileMeta, Storage};
use crate::timeline::{META_FOLDER, Timeline};

impl CommitTimes for Timeline {
    fn is_committed(&self, requested: &str) -> bool {
        Timeline::is_committed(self, requested)
    }

    fn completion_time(&self, requested: &str) -> Option<&str> {
        Timeline::completion_time(self, requested)
    }

    fn logs_name_their_slice(&self) -> bool {
        self.commits_are_json()
    }
}

/// Partitions, file groups and slices. Lists storage when asked, never earlier.
pub struct TableView {
    storage: Storage,
    timeline: Timeline,
    /// File groups that were replaced, with the largest replacing instant.
    replaced: HashMap<(String, String), String>,
    /// Schema of the newest archived commit, in a look back to before the first one that is active.
    archived_schema: Option<String>,
}

impl TableView {
    /// A view; reads the replacecommits of the timeline.
    pub fn new(storage: Storage, timeline: Timeline) -> Result<Self> {
        let mut replaced = HashMap::new();
        for instant in timeline.completed(Action::ReplaceCommit) {
            let metadata = read_write_metadata(&storage, &timeline, instant)?;
            for (partition, ids) in metadata.partition_to_replace_file_ids {
                for id in ids {
                    // Instants come by requested time, so that the last one is the largest.
                    replaced.insert((partition.clone(), id), instant.requested.clone());
                }
            }
        }
        Ok(Self { storage, timeline, replaced, archived_schema: None })
    }

    /// The same view with what archived commits tell: file groups (partition, id) that they replaced, each with the
    /// replacing instant, and the schema of the newest.
    #[must_use]
    pub(super) fn with_archived(mut self, replaced: HashMap<(String, String), String>, schema: Option<String>) -> Self {
        for (group, instant) in replaced {
            self.replaced.entry(group).or_insert(instant);
        }
        self.archived_schema = schema;
        self
    }

    /// The Avro schema of the newest archived commit, where the history was read.
    pub(super) fn archived_schema(&self) -> Option<&str> {
        self.archived_schema.as_deref()
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

    /// All partitions with the files in them. A folder is one when it has a partition metadata file.
    pub fn partition_files(&self) -> Result<BTreeMap<String, Vec<FileMeta>>> {
        let mut folders: BTreeMap<String, Vec<FileMeta>> = BTreeMap::new();
        let top = self.storage.list("")?;
        let mut add = |files: Vec<FileMeta>| {
            for file in files {
                let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                folders.entry(folder.to_owned()).or_default().push(file);
            }
        };
        add(top.files);
        let below: Vec<&String> = top.folders.iter().filter(|f| f.as_str() != META_FOLDER).collect();
        add(self.storage.list_all_recursive(&below)?);
        folders.retain(|_, files| files.iter().any(|f| is_partition_metadata(f.name())));
        Ok(folders)
    }

    /// All partition paths.
    pub fn partitions(&self) -> Result<Vec<String>> {
        Ok(self.partition_files()?.into_keys().collect())
    }

    /// Every file group of a partition, replaced ones too.
    pub fn file_groups(&self, partition: &str) -> Result<Vec<FileGroup>> {
        let files = self.storage.list(partition)?.files;
        Ok(group_files(partition, &files, &self.timeline))
    }

    /// The newest slice of every file group of a partition that is not replaced, by file id.
    pub fn latest_slices(&self, partition: &str) -> Result<Vec<FileSlice>> {
        Ok(self.latest_of(self.file_groups(partition)?))
    }

    /// The same for all partitions, by partition and file id.
    pub fn all_latest_slices(&self) -> Result<Vec<FileSlice>> {
        let all = self.partition_files()?;
        Ok(all.iter().flat_map(|(p, files)| self.latest_of(group_files(p, files, &self.timeline))).collect())
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
