//! The metadata table when completed actions of the table are undone.
//!
//! What an action did is in log files of its own in each partition of the metadata table, so that it can be taken out,
//! unless these were compacted since, or partitions were built that know of it. Then the metadata table is made anew.

use std::collections::{BTreeSet, HashSet};

use super::build::IndexBuild;
use super::build_request::BuildRequest;
use super::properties::{COMPLETE, INFLIGHT, is_wanted, now};
use super::{Follow, is_secondary_index};
use crate::error::{ErrorKind, Result};
use crate::format::instant::{Action, Instant, State};
use crate::metadata_table::expression_index::is_expression_index;
use crate::metadata_table::{FILES, MetadataListing};
use crate::table::{HudiTable, TableConfig};
use crate::timeline::Timeline;
use crate::transaction::forget_all;

/// What the metadata table needs when actions of the table are undone.
pub(crate) struct Undo {
    /// Requested times of the actions, if what they wrote can be taken out.
    separable: Vec<String>,
    /// Makes it anew.
    build: Option<IndexBuild>,
}

impl Undo {
    /// Finds out what is needed, before the first action is undone. From then on nobody reads a metadata table that has to
    /// be made anew. `instant` is the action that undoes them; `archived`: whether it undoes archived ones too, of which the
    /// metadata table was compacted. The caller holds the table lock, under which the timeline was loaded.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(crate) fn begin(
        table: &HudiTable,
        timeline: &Timeline,
        undone: &[Instant],
        archived: bool,
        instant: &str,
    ) -> Result<Self> {
        let separable: Vec<String> = undone.iter().map(|i| i.requested.clone()).collect();
        let config = TableConfig::load(table.storage())?;
        let partitions = config.metadata_partitions();
        if partitions.is_empty() || !is_wanted(table)? {
            return Ok(Self { separable, build: None });
        }
        let is_complete = config.complete_metadata_partitions().len() == partitions.len();
        if is_complete && !archived && is_separable(table, &config, timeline, undone)? {
            return Ok(Self { separable, build: None });
        }
        Self::anew(table, partitions, instant)
    }

    /// Whether the metadata table lists files of a write that is pending, or gone from the timeline. A damaged one is
    /// found out when the rollback completes.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn is_merged(table: &HudiTable, timeline: &Timeline, files: &[String]) -> Result<bool> {
        if files.is_empty() || !is_wanted(table)? {
            return Ok(false);
        }
        let look = || -> Result<bool> {
            let Some(metadata) = table.metadata_table_at(timeline)? else { return Ok(false) };
            let parts = files.iter().map(|path| path.rsplit_once('/').unwrap_or(("", path)));
            let partitions: BTreeSet<&str> = parts.clone().map(|(partition, _)| partition).collect();
            let listed = metadata.files_in(&partitions)?.files;
            let is_listed =
                |(partition, name): (&str, &str)| listed.get(partition).is_some_and(|f| f.contains_key(name));
            Ok(parts.into_iter().any(is_listed))
        };
        match look() {
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => Ok(false),
            found => found,
        }
    }

    /// What is needed where [`Undo::is_merged`] holds: the metadata table is made anew by the rollback `instant`. From now on
    /// nobody reads it. The caller holds the table lock.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(crate) fn of_merged(table: &HudiTable, instant: &str) -> Result<Self> {
        let partitions = TableConfig::load(table.storage())?.metadata_partitions();
        Self::anew(table, partitions, instant)
    }

    fn anew(table: &HudiTable, partitions: Vec<String>, instant: &str) -> Result<Self> {
        let properties = [(COMPLETE, ""), (INFLIGHT, &partitions.join(","))];
        TableConfig::update(table.storage(), &properties, &now(table))?;
        Ok(Self { separable: Vec::new(), build: Some(from_scratch(partitions, instant)) })
    }

    /// Takes out what the actions wrote. They are pending.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(crate) fn forget(&self, table: &HudiTable) -> Result<()> {
        if self.build.is_some() {
            return Ok(());
        }
        forget_all(table, &self.separable.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What the rollback that undoes them means for the metadata table.
    pub(crate) fn follow_rollback(&self) -> Follow<'_> {
        self.build.as_ref().map_or(Follow::Nothing, Follow::Build)
    }

    /// What the restore that undoes them means for it. Readers look for the restore there, unlike for a rollback.
    pub(crate) fn follow_restore(&self) -> Follow<'_> {
        Follow::Undone(self.build.as_ref())
    }
}

fn from_scratch(partitions: Vec<String>, instant: &str) -> IndexBuild {
    let is_named = |name: &String| is_secondary_index(name) || is_expression_index(name);
    let partitions = partitions.into_iter().filter(is_named).collect();
    IndexBuild::of(BuildRequest { partitions, from_scratch: true, ..BuildRequest::default() }, instant)
}

/// What makes a metadata table anew that nobody reads, because a process was killed that had begun to do so. The caller holds
/// the table lock, under which the timeline was loaded. `None` where others are at it.
pub(super) fn abandoned(config: &TableConfig, timeline: &Timeline, instant: &str) -> Option<IndexBuild> {
    let has_files = |names: &[String]| names.iter().any(|name| name == FILES);
    let partitions = config.metadata_partitions();
    let makes = |i: &Instant| matches!(i.action, Action::Indexing | Action::Rollback | Action::Restore);
    let is_abandoned =
        has_files(&partitions) && !has_files(&config.complete_metadata_partitions()) && !timeline.pending().any(makes);
    is_abandoned.then(|| from_scratch(partitions, instant))
}

/// Whether all that the metadata table knows of these actions is in log files of theirs.
fn is_separable(table: &HudiTable, config: &TableConfig, timeline: &Timeline, undone: &[Instant]) -> Result<bool> {
    let listing = match MetadataListing::read_all(table.storage(), config.timeline()) {
        Ok(listing) => listing,
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => return Ok(false),
        Err(e) => return Err(e),
    };
    let metadata = listing.timeline();
    let Some(first) = undone.iter().map(|i| i.requested.as_str()).min() else { return Ok(true) };
    let actions: HashSet<&str> = timeline.instants().iter().map(|i| i.requested.as_str()).collect();
    let is_own_delta = |i: &Instant| {
        let is_own = actions.contains(i.requested.as_str()) && !metadata.is_log_compaction(&i.requested);
        i.action == Action::DeltaCommit && is_own
    };
    let since = |i: &&Instant| i.requested.as_str() >= first || i.completed.as_deref().is_some_and(|at| at >= first);
    let is_harmless =
        |i: &Instant| matches!(i.action, Action::Clean | Action::Rollback) || i.is_completed() && is_own_delta(i);
    let is_known = |i: &Instant| {
        let known = metadata.files_of(&i.requested);
        i.state != State::Completed || known.iter().any(|(file, _)| file.is_completed())
    };
    Ok(metadata.instants().iter().filter(since).all(is_harmless) && undone.iter().all(is_known))
}
