//! What archived commits tell of an earlier state of the table.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::commit_metadata::{decode_write_metadata, read_write_metadata};
use super::schema::{ArchivedSchema, KEEP_SCHEMA};
use super::{HudiTable, TableView};
use crate::error::Result;
use crate::file_group::{FileSlice, group_files};
use crate::format::avro::metadata::ReplaceCommitMetadata;
use crate::format::internal_schema::LATEST_SCHEMA;
use crate::storage::FileMeta;
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode, TimeRange, entries};

/// The archived commits up to an instant.
#[derive(Default)]
pub(super) struct ArchivedCommits {
    /// Requested and completion times.
    completed: Vec<(String, String)>,
    /// File groups (partition, id) that were replaced, with the last replacing instant.
    replaced: HashMap<(String, String), String>,
    /// Schema of the newest commit that has one.
    schema: Option<ArchivedSchema>,
    /// Files that were written, by partition.
    files: BTreeMap<String, BTreeSet<String>>,
}

impl ArchivedCommits {
    /// Reads the history up to an instant.
    ///
    /// # Errors
    /// `Corrupt` and `Storage` when it cannot be read.
    pub(super) fn read(table: &HudiTable, timeline: &Timeline, until: &str) -> Result<Self> {
        let active: HashSet<&str> = timeline.completed_writes().map(|i| i.requested.as_str()).collect();
        let history = HistoryReader::new(table.storage(), timeline.config()).with_threads(table.threads()?);
        let mut archived = Self::default();
        for batch in history.scan(TimeRange::closed(None, Some(until)), LoadMode::Metadata)? {
            for entry in entries(&batch?)? {
                if !entry.action.is_write() || active.contains(entry.requested.as_str()) {
                    continue;
                }
                let metadata = decode_write_metadata(&entry.metadata.unwrap_or_default(), entry.action)?;
                archived.add(&entry.requested, metadata);
                if !entry.completed.is_empty() {
                    archived.completed.push((entry.requested, entry.completed));
                }
            }
        }
        Ok(archived)
    }

    /// Paths of the files that were written to a partition.
    pub(super) fn written_to(&self, partition: &str) -> impl Iterator<Item = &str> {
        self.files.get(partition).into_iter().flatten().map(String::as_str)
    }

    /// Commits come by requested time.
    fn add(&mut self, requested: &str, metadata: ReplaceCommitMetadata) {
        let keeps_schema = metadata.operation_type.as_deref().is_some_and(|op| KEEP_SCHEMA.contains(&op));
        if let Some(schema) = metadata.extra_metadata.get("schema").filter(|s| !s.is_empty() && !keeps_schema) {
            let ids = metadata.extra_metadata.get(LATEST_SCHEMA).cloned();
            self.schema = Some(ArchivedSchema { avro: schema.clone(), ids });
        }
        for (partition, ids) in &metadata.partition_to_replace_file_ids {
            self.replaced.extend(ids.iter().map(|id| ((partition.clone(), id.clone()), requested.to_owned())));
        }
        add_files(&mut self.files, metadata);
    }

    /// The table as it was at an instant, by these commits and those of the timeline.
    pub(super) fn view(&self, table: &HudiTable, timeline: &Timeline, as_of: &str) -> Result<TableView> {
        let source = table.metadata_source(timeline)?;
        let timeline = timeline.as_of(as_of).with_archived(self.completed.iter().cloned());
        let view = TableView::new(table.storage().clone(), timeline)?.with_metadata_table(source);
        Ok(view.with_archived(self.replaced.clone(), self.schema.clone()))
    }

    /// Files of the state that a view of [`ArchivedCommits::view`] shows which are not there any more. `groups`: the only file groups
    /// (partition, id) that matter.
    pub(super) fn missing_files(
        mut self,
        then: &TableView,
        groups: Option<&HashSet<(String, String)>>,
    ) -> Result<Vec<String>> {
        for instant in then.timeline().completed_writes() {
            add_files(&mut self.files, read_write_metadata(then.storage(), then.timeline(), instant)?);
        }
        let matters = |s: &FileSlice| groups.is_none_or(|g| g.contains(&(s.partition.clone(), s.file_id.clone())));
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (partition, paths) in self.files {
            let file = |path: String| FileMeta { path, size: 0, modified_ms: 0 };
            let files: Vec<FileMeta> = paths.into_iter().map(file).collect();
            for slice in then.latest_of(group_files(&partition, &files, then.timeline())).into_iter().filter(matters) {
                let logs = slice.logs.into_iter().map(|log| log.path);
                wanted.entry(partition.clone()).or_default().extend(slice.base.map(|b| b.path).into_iter().chain(logs));
            }
        }
        let mut missing = Vec::new();
        if groups.is_some() {
            for (partition, paths) in wanted {
                missing.extend(absent(paths, &then.files_of(&partition)?));
            }
            return Ok(missing);
        }
        let there = then.partition_files()?;
        for (partition, paths) in wanted {
            missing.extend(absent(paths, there.get(&partition).map(Vec::as_slice).unwrap_or_default()));
        }
        Ok(missing)
    }
}

fn add_files(files: &mut BTreeMap<String, BTreeSet<String>>, metadata: ReplaceCommitMetadata) {
    for (partition, stats) in metadata.partition_to_write_stats {
        let paths = stats.into_iter().filter_map(|stat| stat.path).filter(|path| !path.is_empty());
        files.entry(partition).or_default().extend(paths);
    }
}

fn absent(paths: Vec<String>, there: &[FileMeta]) -> impl Iterator<Item = String> {
    let there: HashSet<&str> = there.iter().map(|file| file.path.as_str()).collect();
    let absent: Vec<String> = paths.into_iter().filter(|path| !there.contains(path.as_str())).collect();
    absent.into_iter()
}
