//! Files that commits name and that no later slice, replacement or clean made obsolete: they must exist with the
//! committed size. Archived commits count too: an old file group may have files of no other.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::listing::Listing;
use super::{Report, file_groups, is_about_content};
use crate::error::Result;
use crate::file_group::FileGroup;
use crate::format::avro::metadata::ReplaceCommitMetadata;
use crate::format::instant::CommitTimes;
use crate::table::commit_metadata::decode_write_metadata;
use crate::table::{CommittedFile, Fault, HudiTable, TableView, committed_files};
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode, TimeRange, entries};

type Group = (String, String);

/// Files by file group.
#[derive(Default)]
pub(super) struct Expected {
    files: HashMap<Group, Vec<CommittedFile>>,
    replaced: HashSet<Group>,
}

/// One archived commit.
struct Archived<'a> {
    requested: &'a str,
    completed: &'a str,
    timeline: &'a Timeline,
}

impl CommitTimes for Archived<'_> {
    fn is_committed(&self, _: &str) -> bool {
        true
    }

    fn completion_time(&self, requested: &str) -> Option<&str> {
        (requested == self.requested).then_some(self.completed)
    }

    fn logs_name_their_slice(&self) -> bool {
        self.timeline.logs_name_their_slice()
    }

    fn is_planned_slice(&self, instant: &str) -> bool {
        self.timeline.is_planned_slice(instant)
    }
}

impl Expected {
    /// The files of archived commits; none if the history cannot be read, which is reported elsewhere.
    pub(super) fn of_history(table: &HudiTable, timeline: &Timeline) -> Result<Self> {
        let mut expected = Self::default();
        let active: HashSet<&str> = timeline.completed_writes().map(|i| i.requested.as_str()).collect();
        let mut pass = || -> Result<()> {
            let history = HistoryReader::new(table.storage(), timeline.config()).with_threads(table.threads()?);
            for batch in history.scan(TimeRange::all(), LoadMode::Metadata)? {
                for entry in entries(&batch?)?.into_iter().filter(|e| e.action.is_write()) {
                    if active.contains(entry.requested.as_str()) {
                        continue;
                    }
                    let body = entry.metadata.unwrap_or_default();
                    let metadata = decode_write_metadata(&body, entry.action)?;
                    let times = Archived { requested: &entry.requested, completed: &entry.completed, timeline };
                    expected.add(&metadata, &entry.requested, &times);
                }
            }
            Ok(())
        };
        match pass() {
            Err(e) if is_about_content(&e) => Ok(Self::default()),
            other => other.map(|()| expected),
        }
    }

    /// Adds a commit; call it in order of completion.
    pub(super) fn add(&mut self, metadata: &ReplaceCommitMetadata, requested: &str, times: &impl CommitTimes) {
        for file in committed_files(metadata, requested, times) {
            let group = (file.partition.clone(), file.file_id.clone());
            if self.replaced.contains(&group) {
                continue;
            }
            let files = self.files.entry(group).or_default();
            if !file.is_log {
                files.retain(|earlier| earlier.time >= file.time);
            }
            files.push(file);
        }
        for (partition, ids) in &metadata.partition_to_replace_file_ids {
            for id in ids {
                let group = (partition.clone(), id.clone());
                self.files.remove(&group);
                self.replaced.insert(group);
            }
        }
    }

    /// Compares with what is there. Skips the files in `reported`.
    pub(super) fn check(
        &self,
        view: &TableView,
        listing: &Listing,
        reported: &BTreeSet<String>,
        report: &mut Report,
    ) -> Result<()> {
        let mut groups: HashMap<Group, FileGroup> = HashMap::new();
        for (partition, files) in listing {
            for group in file_groups(view, partition, files)? {
                groups.insert((group.partition.clone(), group.file_id.clone()), group);
            }
        }
        let mut found: Vec<(&CommittedFile, Fault)> = Vec::new();
        for (group, files) in &self.files {
            if view.replaced_at(&group.0, &group.1).is_some() {
                continue;
            }
            let stored = groups.get(group);
            found.extend(files.iter().filter_map(|file| Some((file, file.fault(stored)?))));
        }
        found.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        for (file, fault) in found.into_iter().filter(|(file, _)| !reported.contains(&file.path)) {
            report.error(
                &file.path,
                file.message(fault),
                "Restore the file from a backup, or restore the table to a savepoint before the commit",
            );
        }
        Ok(())
    }
}
