//! The part of a build that is done before the table lock is taken, by threads of this process or by tasks of several.

use std::collections::HashMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::build::IndexBuild;
use super::build_expression_index::read_ranges;
use super::build_request::BuildRequest;
use super::existing_files::{FileReport, FilesPlan, FilesUnit, committed_files, read_files, units_of};
use crate::error::{Error, Result};
use crate::file_group::join;
use crate::format::instant::Instant;
use crate::metadata_table::expression_index::ExpressionIndex;
use crate::metadata_table::write::{FileChanges, FunctionRanges};
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS};
use crate::storage::FileMeta;
use crate::table::{HudiTable, TableConfig, TableView, current, gone};
use crate::timeline::Timeline;
use crate::transaction::key_index::{KeyIndexPlan, KeyReport, PlannedIndex, StagedIndex};

/// What is read before the lock is taken.
pub(crate) struct IndexPlan {
    build: IndexBuild,
    wanted: FilesPlan,
    files: Vec<(String, FileMeta)>,
    indexes: Vec<PlannedIndex>,
    expressions: Vec<ExpressionIndex>,
    /// The state of the table that it is a plan of.
    timeline: Timeline,
}

/// What a task tells the process that commits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexReport {
    /// It read a file.
    #[allow(private_interfaces)]
    File(Box<FileReport>),
    /// It worked on the index of keys in this partition of the metadata table.
    #[allow(private_interfaces)]
    Keys(String, KeyReport),
}

impl IndexReport {
    /// A file was read.
    pub(crate) fn file(file: FileReport) -> Self {
        Self::File(Box::new(file))
    }

    /// A task worked on an index of keys.
    pub(crate) fn keys(plan: &KeyIndexPlan, report: KeyReport) -> Self {
        Self::Keys(plan.partition().to_owned(), report)
    }
}

impl IndexPlan {
    /// Plans what is to be read of the table as it is now, for an action with this requested time.
    ///
    /// # Errors
    /// `InvalidOption` for columns that the table does not have; `Unsupported` for partitions that are not built; `Conflict` if
    /// others clean the table again and again meanwhile; `Storage`.
    pub(crate) fn new(table: &HudiTable, request: &BuildRequest, instant: &str) -> Result<Self> {
        current(|| Self::plan(table, request, instant).map_err(gone))
    }

    fn plan(table: &HudiTable, request: &BuildRequest, instant: &str) -> Result<Self> {
        let view = TableView::new(table.storage().clone(), table.timeline()?)?;
        let build = IndexBuild::of(request.clone(), instant);
        let config = TableConfig::load(table.storage())?;
        let (scope, wanted) = build.scope(table, &config, &view, None)?;
        let of_files = [COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS].into_iter().any(|name| scope.has(name));
        let reads_files = of_files || !scope.expressions.is_empty();
        let files = if reads_files { committed_files(&view)? } else { Vec::new() };
        let kinds = scope.key_indexes(table, &config)?;
        let indexes = kinds.iter().map(|kind| PlannedIndex::new(table, &view, kind, instant)).collect::<Result<_>>()?;
        let timeline = view.timeline().clone();
        Ok(Self { build, wanted, files, indexes, expressions: scope.expressions, timeline })
    }

    /// What is wanted of files, and the files, as tasks read them.
    pub(crate) fn files(&self) -> (&FilesPlan, Vec<FilesUnit>) {
        (&self.wanted, units_of(&self.files))
    }

    /// The indexes of keys.
    pub(crate) fn indexes(&self) -> &[PlannedIndex] {
        &self.indexes
    }

    /// Does the work of all tasks on threads of this process.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Unsupported` for a table whose merger is missing; `Storage`.
    pub(crate) fn run(&self, table: &HudiTable) -> Result<Vec<IndexReport>> {
        let read = read_files(table, &self.wanted, self.files.clone())?;
        let mut reports: Vec<IndexReport> = read.into_iter().map(IndexReport::file).collect();
        for index in &self.indexes {
            reports.extend(index.run(table)?.into_iter().map(|report| IndexReport::keys(index.plan(), report)));
        }
        Ok(reports)
    }

    /// The build, of which the tasks have done their part. Slices that were cleaned since they were read are dealt with.
    ///
    /// # Errors
    /// `InvalidOption` for reports that are none of this build; `Corrupt`; `Storage`.
    pub(crate) fn into_build(self, table: &HudiTable, reports: Vec<IndexReport>) -> Result<IndexBuild> {
        let Self { build, indexes, expressions, timeline, .. } = self;
        let (mut files, mut by_index) = (FileChanges::default(), HashMap::<String, Vec<KeyReport>>::new());
        for report in reports {
            match report {
                IndexReport::File(file) => {
                    let (partition, file) = file.into_file();
                    files.partitions.entry(partition).or_default().added.push(file);
                }
                IndexReport::Keys(index, report) => by_index.entry(index).or_default().push(report),
            }
        }
        let mut staged = Vec::with_capacity(indexes.len());
        for index in indexes {
            let reports = by_index.remove(index.plan().partition()).unwrap_or_default();
            staged.push(StagedIndex::new(table, index, reports)?);
        }
        if let Some(index) = by_index.into_keys().next() {
            return Err(Error::invalid_option("a task reports of an index that is not built").with("index", index));
        }
        let mut ranges = Vec::with_capacity(expressions.len());
        if !staged.is_empty() || !expressions.is_empty() {
            let view = TableView::new(table.storage().clone(), table.timeline()?)?;
            // Slices are gone only where something was completed.
            if completed(view.timeline()).ne(completed(&timeline)) {
                staged.iter_mut().try_for_each(|index| index.look_ahead(&view))?;
            }
            for index in expressions {
                let read = read_ranges(table, (table.config(), &view), &index, &files, FunctionRanges::new())?;
                ranges.push((index, read));
            }
        }
        let mut known = HashMap::new();
        for (partition, changes) in files.partitions {
            known.extend(changes.added.into_iter().map(|file| (join(&partition, &file.name), file)));
        }
        Ok(IndexBuild { known, staged: Mutex::new(staged), expressions: Mutex::new(ranges), ..build })
    }
}

fn completed(timeline: &Timeline) -> impl Iterator<Item = &Instant> {
    timeline.instants().iter().filter(|instant| instant.is_completed())
}
