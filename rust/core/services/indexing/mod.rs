//! Indexing: building partitions of the metadata table while writers go on.
//!
//! As an action of the timeline, like Hudi's:
//!
//! | step | where |
//! |---|---|
//! | [`IndexJob`] begins: the instant, and which files there are | process that commits |
//! | statistics and bloom filters of files are read; the keys of file slices go into shards, which are staged | tasks: threads of this process, or those of an engine |
//! | [`IndexJob::complete`]: files that came or went meanwhile are looked at, and the partition is made visible at once | process that commits, under the table lock |
//!
//! Others write until the last step, and never see a partition that is half built.

mod dead;

use std::collections::HashSet;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::file_group::markers::delete_markers;
use crate::format::avro::metadata::{IndexCommitMetadata, IndexPartitionInfo, IndexPlan as IndexPlanRecord, encode};
use crate::format::instant::Action;
use crate::interrupt;
use crate::metadata_table::expression_index::is_expression_index;
use crate::parallel::BatchStream;
use crate::table::{HudiTable, TableConfig};
use crate::timeline::Timeline;
use crate::transaction::{self, Follow, IndexBuild, IndexPlan, Transaction, read_unit};

pub(super) use dead::remove_dead;

pub use crate::transaction::Expression;
pub(crate) use crate::transaction::{BuildRequest, drop_all, drop_partition};
pub use crate::transaction::{FilesPlan, FilesUnit, IndexReport, KeyIndexPlan, SliceUnit};

/// Operation of the commit metadata.
const OPERATION: &str = "INDEX";

/// What a user of Hudi has to know of expression indexes: its readers compare a filter's value with the range of the function,
/// whatever the filter says of the column.
const HUDI_LOSES_ROWS: &str = "Hudi 1.2.0 uses an expression index for filters with = and IN on its column even if they are of the \
                               plain column or of another function, and then loses rows or fails: set \
                               hoodie.enable.data.skipping=false for such queries";

/// An index that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexed {
    /// Requested time.
    pub instant: String,
    /// Completion time.
    pub completed: String,
    /// The partitions that the metadata table has now.
    pub partitions: Vec<String>,
    /// What went wrong after it was published.
    pub warnings: Vec<String>,
}

/// Builds partitions of the metadata table; makes one where there is none. `timeline` was just loaded.
///
/// # Errors
/// `InvalidOption` for columns that the table does not have, and if the options turn the metadata table off; `Unsupported`
/// for indexes that are not built; `Conflict`; `Lock`; `Storage`.
pub(crate) fn index(table: &HudiTable, timeline: &Timeline, request: BuildRequest) -> Result<Indexed> {
    let job = IndexJob::begin(table, timeline, request)?;
    match job.plan.run(table) {
        Ok(reports) => job.complete(reports),
        Err(e) => {
            job.take_back();
            Err(e)
        }
    }
}

/// An index that is being built, whose tasks may run in several processes.
pub struct IndexJob {
    transaction: Transaction,
    request: BuildRequest,
    plan: IndexPlan,
}

impl IndexJob {
    /// Begins to build partitions of the metadata table. `timeline` was just loaded.
    ///
    /// # Errors
    /// `InvalidOption` for columns that the table does not have; `Unsupported` for indexes that are not built; `Conflict`;
    /// `Lock`; `Storage`.
    pub(crate) fn begin(table: &HudiTable, timeline: &Timeline, request: BuildRequest) -> Result<Self> {
        // Also those of Hudi that it has not begun to fill.
        remove_dead(table, timeline, |_| true)?;
        let request = BuildRequest { partitions: IndexBuild::names(table, &request)?, ..request };
        let plan = |timeline: &Timeline| {
            let upto = timeline.completed_writes().next_back().map(|instant| instant.requested.clone());
            encode(&IndexPlanRecord {
                version: Some(1),
                index_partition_infos: Some(infos(&request.partitions, upto.as_deref())),
            })
        };
        let mut transaction = Transaction::begin(table, Action::Indexing, None, false, plan, Vec::new())?;
        match IndexPlan::new(table, &request, transaction.requested()) {
            Ok(plan) => Ok(Self { transaction, request, plan }),
            Err(e) => {
                take_back(&mut transaction);
                Err(e)
            }
        }
    }

    /// The table.
    pub(crate) fn table(&self) -> &HudiTable {
        self.transaction.table()
    }

    /// Requested time.
    pub fn instant(&self) -> &str {
        self.transaction.requested()
    }

    /// What is wanted of files, and the files, as tasks read them: [`read_files`].
    pub fn files(&self) -> (&FilesPlan, Vec<FilesUnit>) {
        self.plan.files()
    }

    /// The indexes of keys: of each its plan, and what tasks read: [`read_keys`], [`write_shards`].
    pub fn indexes(&self) -> impl Iterator<Item = (&KeyIndexPlan, Vec<SliceUnit>)> {
        self.plan.indexes().iter().map(|index| (index.plan(), index.units()))
    }

    /// Publishes the index. `reports` are those of all tasks, each once.
    ///
    /// # Errors
    /// `InvalidOption` if the options turn the metadata table off, and for reports of other tasks; `Conflict`; `Lock`;
    /// `Storage`. Then there is no index, and nothing of it is left.
    pub fn complete(self, reports: Vec<IndexReport>) -> Result<Indexed> {
        let Self { mut transaction, request, plan } = self;
        let table = transaction.table().clone();
        let build = plan.into_build(&table, reports);
        let done = build.and_then(|build| publish(&table, &mut transaction, &request, &build));
        match done {
            Ok(done) => {
                if let Err(left) = remove_staged(&table, &done.instant) {
                    tracing::warn!(table = table.storage().uri(), "files of an index were not deleted: {left}");
                }
                Ok(done)
            }
            Err(e) => {
                take_back(&mut transaction);
                Err(e)
            }
        }
    }

    /// Gives the index up. What the tasks wrote is deleted.
    pub fn take_back(mut self) {
        take_back(&mut self.transaction);
    }
}

/// Takes off the timeline what is not visible. If this fails too, the next index does.
fn take_back(transaction: &mut Transaction) {
    let (table, instant) = (transaction.table().clone(), transaction.requested().to_owned());
    let taken = || {
        // If only the answer of the storage was lost, it stands.
        if !table.timeline()?.completed(Action::Indexing).any(|i| i.requested == instant) {
            transaction.take_back()?;
        }
        remove_staged(&table, &instant)
    };
    if let Err(again) = interrupt::clean_up(taken) {
        tracing::warn!(table = table.storage().uri(), "a failed index is left on the timeline: {again}");
    }
}

/// Deletes what tasks wrote for an action that is over.
fn remove_staged(table: &HudiTable, instant: &str) -> Result<()> {
    delete_markers(table.storage(), instant)
}

/// Reads files for an index that another process builds.
///
/// # Errors
/// `Storage`.
pub fn read_files(table: &HudiTable, plan: &FilesPlan, unit: FilesUnit) -> Result<Vec<IndexReport>> {
    Ok(read_unit(table, plan, unit)?.into_iter().map(IndexReport::file).collect())
}

/// The keys of file slices for an index that another process builds, each with its shard and the number of its slice.
///
/// # Errors
/// `Corrupt`, with the file; `Unsupported` for a table whose merger is missing; `Storage`; while streaming too.
pub fn read_keys(table: &HudiTable, plan: &KeyIndexPlan, units: Vec<SliceUnit>) -> Result<BatchStream> {
    transaction::read_keys(table, plan, units)
}

/// Writes shards of an index that another process builds, from the rows of [`read_keys`] in the order of shards and keys.
/// `token` is unique to this attempt.
///
/// # Errors
/// `Conflict` if the index is no longer being built; `Storage`; those of `rows`.
pub fn write_shards(
    table: &HudiTable,
    plan: &KeyIndexPlan,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    token: &str,
) -> Result<Vec<IndexReport>> {
    let written = transaction::write_shards(table, plan, rows, token)?;
    Ok(written.into_iter().map(|report| IndexReport::keys(plan, report)).collect())
}

fn publish(
    table: &HudiTable,
    transaction: &mut Transaction,
    request: &BuildRequest,
    build: &IndexBuild,
) -> Result<Indexed> {
    let names = match request.partitions.is_empty() {
        true => TableConfig::load(table.storage())?.metadata_partitions(),
        false => request.partitions.clone(),
    };
    let body = encode(&IndexCommitMetadata {
        version: Some(1),
        operation_type: Some(OPERATION.to_owned()),
        index_partition_infos: Some(infos(&names, Some(transaction.requested()))),
    })?;
    let done = transaction.complete(body, Follow::Build(build), &HashSet::new(), |_| Ok(()))?;
    let mut warnings = done.warnings;
    warnings.extend(done.ending.finish());
    // The index stands: an error would take it back.
    let partitions = match TableConfig::load(table.storage()) {
        Ok(config) => config.complete_metadata_partitions(),
        Err(e) => {
            warnings.push(format!("what was built could not be looked up: {e}"));
            names
        }
    };
    for name in request.partitions.iter().filter(|name| !partitions.contains(name)) {
        warnings.push(format!(
            "{name} was not built: nothing is known of a column in some file, and a range that is too narrow hides rows. Rewrite \
             the file, by a clustering or a compaction"
        ));
    }
    if request.partitions.iter().any(|name| is_expression_index(name)) {
        warnings.push(HUDI_LOSES_ROWS.to_owned());
    }
    Ok(Indexed {
        instant: done.instant.requested,
        completed: done.instant.completed.unwrap_or_default(),
        partitions,
        warnings,
    })
}

fn infos(partitions: &[String], upto: Option<&str>) -> Vec<IndexPartitionInfo> {
    let info = |name: &String| IndexPartitionInfo {
        version: Some(1),
        metadata_partition_path: Some(name.clone()),
        index_upto_instant: upto.map(str::to_owned),
        extra_metadata: None,
    };
    partitions.iter().map(info).collect()
}
