//! Which commits of a range changed rows, and where these changes are to be had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{Fields, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::last_writes::LastWrites;
use super::rows::change_columns;
use super::slices::GroupFiles;
use crate::error::{Error, Result};
use crate::file_group::{FileSlice, LogFile};
use crate::format::avro::metadata::{ReplaceCommitMetadata, WriteStat};
use crate::format::change_data::{AFTER, BEFORE};
use crate::format::internal_schema::SchemaHistory;
use crate::storage::FileMeta;
use crate::table::changes::{WriteTime, check_times};
use crate::table::scan::ScanRequest;
use crate::table::schema::TableSchema;
use crate::table::{HudiTable, TableView, shares_log_files};
use crate::timeline::Timeline;

/// What a query of changes reads.
#[derive(Debug, Clone)]
pub struct ChangePlan {
    /// The columns of the result.
    pub schema: SchemaRef,
    /// The changes, commit after commit in the order in which these completed.
    pub units: Vec<ChangeUnit>,
    /// All columns of the table, and those that are wanted of the rows before and after a change.
    pub(super) all: SchemaRef,
    pub(super) rows: SchemaRef,
    /// The state of the table that it is a plan of.
    pub(super) timeline: Arc<Timeline>,
    /// The names that columns had, where fields have ids.
    pub(super) history: Option<SchemaHistory>,
}

/// The changes of one commit in one file group. Can be read by another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeUnit {
    /// Requested time of the commit.
    pub instant: String,
    /// Where they are to be had.
    pub(super) source: ChangeSource,
}

/// Where changes are to be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ChangeSource {
    /// In change data logs.
    Logs {
        /// Path and bytes of each.
        files: Vec<(String, u64)>,
        /// The base file before the commit, where the logs have no rows of it.
        before: Option<FileSlice>,
        /// The base file of the commit, where the logs have no rows of it.
        after: Option<FileSlice>,
    },
    /// Between two states of a file group. A group that was not there before, or is not there any more, has one.
    States {
        /// Before the commit.
        before: Option<FileSlice>,
        /// After it.
        after: Option<FileSlice>,
        /// The log files by which they differ; none if they have different base files.
        added: Vec<LogFile>,
    },
}

/// A commit of the range.
struct Commit {
    time: WriteTime,
    metadata: ReplaceCommitMetadata,
}

impl HudiTable {
    /// Decides where the changes are to be had that commits made which completed in `(since, until]`.
    ///
    /// # Errors
    /// `Unsupported` for tables of version 6 and such that leave partition columns out of their files; `InvalidOption` for
    /// times that are none, for a filter, and when a file was cleaned that the changes cannot be told without.
    pub fn plan_change_data(&self, since: &str, until: Option<&str>, request: &ScanRequest) -> Result<ChangePlan> {
        let refused = |what: &str| Err(Error::unsupported(what).with("table", self.storage().uri()));
        if self.config().version() < 8 {
            return refused("queries of change data are not supported for tables of version 6");
        }
        if self.config().drops_partition_columns() {
            return refused("queries of change data are not supported for tables that drop partition columns");
        }
        if request.filter.is_some() {
            return Err(Error::invalid_option("a query of change data takes no filters")
                .remedy("Filter what it gives, by the fields of its columns before and after"));
        }
        check_times(since, until)?;
        let view = self.view(None)?;
        let (all, rows, history) = self.row_columns(&view, request.columns.as_deref())?;
        let commits = self.commits_completed_in(&view, since, until)?;
        if commits.iter().any(|commit| shares_log_files(&commit.metadata, &commit.time.requested)) {
            return refused(
                "queries of change data do not reach back to commits that were made when the table was of version 6",
            );
        }
        let units = self.change_units(&view, &commits).map_err(|e| e.with("table", self.storage().uri()))?;
        Ok(ChangePlan {
            schema: change_columns(&rows),
            units,
            all,
            rows,
            timeline: Arc::new(view.timeline().clone()),
            history,
        })
    }

    /// All columns of the table, and those that are wanted of the rows before and after a change.
    pub(super) fn row_columns(
        &self,
        view: &TableView,
        wanted: Option<&[String]>,
    ) -> Result<(SchemaRef, SchemaRef, Option<SchemaHistory>)> {
        let resolved = TableSchema::resolve(self.config(), view)?;
        let (all, history) = resolved.map_or_else(|| (Arc::new(Schema::empty()), None), |s| (s.data, s.history));
        let Some(wanted) = wanted else { return Ok((all.clone(), all, history)) };
        let field = |name: &String| {
            let found = all.fields().iter().find(|field| field.name() == name).cloned();
            let has: Vec<&str> = all.fields().iter().map(|field| field.name().as_str()).collect();
            found.ok_or_else(|| {
                Error::schema(format!("the table has no column '{name}'")).with("columns", has.join(","))
            })
        };
        let rows = Schema::new(wanted.iter().map(field).collect::<Result<Fields>>()?);
        Ok((all, Arc::new(rows), history))
    }

    /// The commits of a range that may have changed rows, in the order in which they completed.
    fn commits_completed_in(&self, view: &TableView, since: &str, until: Option<&str>) -> Result<Vec<Commit>> {
        let inside = |write: &WriteTime| {
            write.completed.as_str() > since && until.is_none_or(|until| write.completed.as_str() <= until)
        };
        let mut commits = Vec::new();
        self.each_write(view, since, false, &inside, &mut |time, metadata| {
            if !matches!(metadata.operation_type.as_deref(), Some("COMPACT" | "LOG_COMPACT" | "CLUSTER" | "INDEX")) {
                commits.push(Commit { time, metadata });
            }
            Ok(())
        })?;
        commits.sort_by(|a, b| (&a.time.completed, &a.time.requested).cmp(&(&b.time.completed, &b.time.requested)));
        Ok(commits)
    }

    fn change_units(&self, view: &TableView, commits: &[Commit]) -> Result<Vec<ChangeUnit>> {
        let mut partitions: BTreeSet<&String> = BTreeSet::new();
        for Commit { metadata, .. } in commits {
            partitions.extend(metadata.partition_to_write_stats.keys());
            partitions.extend(metadata.partition_to_replace_file_ids.keys());
        }
        let partitions: Vec<String> = partitions.into_iter().cloned().collect();
        let replaces = commits.iter().any(|commit| !commit.metadata.partition_to_replace_file_ids.is_empty());
        let planner = Planner {
            groups: GroupFiles::list(view, &partitions)?,
            last_writes: replaces.then(|| LastWrites::read(self, view)).transpose()?,
            needs_before: !self.config().logging_mode()?.has(BEFORE),
            needs_after: !self.config().logging_mode()?.has(AFTER),
        };
        let mut units = Vec::new();
        for commit in commits {
            planner.plan(commit, &mut units)?;
        }
        Ok(units)
    }
}

struct Planner<'a> {
    groups: GroupFiles<'a>,
    /// Where commits replaced file groups.
    last_writes: Option<LastWrites<'a>>,
    /// What the table's change data logs leave out.
    needs_before: bool,
    needs_after: bool,
}

impl Planner<'_> {
    /// The units of a commit: one for each file group that it wrote to or replaced.
    fn plan(&self, commit: &Commit, units: &mut Vec<ChangeUnit>) -> Result<()> {
        let mut groups: BTreeMap<(&str, &str), Vec<&WriteStat>> = BTreeMap::new();
        for (partition, stats) in &commit.metadata.partition_to_write_stats {
            for stat in stats.iter().filter(|stat| stat.path.as_ref().is_some_and(|path| !path.is_empty())) {
                groups.entry((partition, stat.file_id.as_deref().unwrap_or_default())).or_default().push(stat);
            }
        }
        let unit = |source| ChangeUnit { instant: commit.time.requested.clone(), source };
        // What a commit replaced comes before what it wrote: a key that is in both is deleted, and then inserted.
        let replaced = &commit.metadata.partition_to_replace_file_ids;
        for (partition, file_id) in
            replaced.iter().flat_map(|(partition, ids)| ids.iter().map(move |id| (partition, id)))
        {
            let before = Some(self.replaced(&commit.time, partition, file_id)?);
            units.push(unit(ChangeSource::States { before, after: None, added: Vec::new() }));
        }
        for ((partition, file_id), stats) in groups {
            units.extend(self.written(&commit.time, partition, file_id, &stats)?.map(unit));
        }
        Ok(())
    }

    /// The changes in a file group that a commit wrote to. `None` where it wrote no rows.
    fn written(
        &self,
        write: &WriteTime,
        partition: &str,
        file_id: &str,
        stats: &[&WriteStat],
    ) -> Result<Option<ChangeSource>> {
        let (logs, bases): (Vec<&WriteStat>, Vec<&WriteStat>) =
            stats.iter().copied().partition(|stat| LogFile::parse(&unlisted(stat)).is_some());
        let Some(stat) = bases.first().or(logs.first()).copied() else { return Ok(None) };
        let mut added = Vec::new();
        for log in logs {
            let path = log.path.as_deref().unwrap_or_default();
            added.extend(LogFile::parse(self.groups.there(write, path)?));
        }
        if let Some(stat) = bases.first() {
            if let Some(logged) = stat.cdc_stats.as_ref().filter(|logged| !logged.is_empty()) {
                return self.logged(write, stat, logged).map(Some);
            }
            // A file without rows need not be there.
            let is_made = stat.file_size_in_bytes.unwrap_or(0) > 0 || stat.num_writes != Some(0);
            let is_new = stat.prev_commit.as_deref().is_none_or(|prev| matches!(prev, "" | "null"));
            let before = if is_new { None } else { self.before(write, partition, file_id, stat)? };
            if !is_made {
                return Ok(Some(ChangeSource::States { before, after: None, added: Vec::new() }));
            }
            self.groups.there(write, stat.path.as_deref().unwrap_or_default())?;
            let after = self.groups.after(write, partition, file_id);
            return Ok(Some(ChangeSource::States { before, after, added: Vec::new() }));
        }
        let before = self.before(write, partition, file_id, stat)?;
        let after = self.groups.after(write, partition, file_id);
        Ok(Some(ChangeSource::States { before, after, added }))
    }

    /// A file group just before a commit completed, all its files being there.
    fn before(&self, write: &WriteTime, partition: &str, file_id: &str, stat: &WriteStat) -> Result<Option<FileSlice>> {
        let before = self.groups.before(write, partition, file_id);
        self.groups.check_before(write, before.as_ref(), stat)?;
        Ok(before)
    }

    fn logged(&self, write: &WriteTime, stat: &WriteStat, logged: &BTreeMap<String, i64>) -> Result<ChangeSource> {
        let file = |path: &String| self.groups.there(write, path).map(|file| (file.path.clone(), file.size));
        let files = logged.keys().map(file).collect::<Result<Vec<_>>>()?;
        let (partition, file_id) = (stat.partition_path.as_deref(), stat.file_id.as_deref());
        let (partition, file_id) = (partition.unwrap_or_default(), file_id.unwrap_or_default());
        let before = match self.needs_before {
            true => self.before(write, partition, file_id, stat)?,
            false => None,
        };
        let after = match self.needs_after {
            true => {
                self.groups.there(write, stat.path.as_deref().unwrap_or_default())?;
                self.groups.after(write, partition, file_id)
            }
            false => None,
        };
        Ok(ChangeSource::Logs { files, before, after })
    }

    /// A file group as it was when a commit replaced it.
    fn replaced(&self, write: &WriteTime, partition: &str, file_id: &str) -> Result<FileSlice> {
        let Some(before) = self.groups.before(write, partition, file_id) else {
            return Err(self.groups.gone(write, &format!("the file group {file_id}")));
        };
        // Nothing in this commit says which files it had.
        let last = self.last_writes.as_ref().map(|last| last.before(write, partition, file_id)).transpose()?;
        match last.flatten() {
            Some(path) if self.groups.file(&path).is_none() => Err(self.groups.gone(write, &path)),
            _ => Ok(before),
        }
    }
}

fn unlisted(stat: &WriteStat) -> FileMeta {
    FileMeta { path: stat.path.clone().unwrap_or_default(), size: 0, modified_ms: 0 }
}
