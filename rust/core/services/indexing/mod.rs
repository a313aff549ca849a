//! Indexing: building partitions of the metadata table while writers go on.
//!
//! As an action of the timeline, like Hudi's. The files that the table has are read first, while others write. Then, under
//! the table lock, those that came or went meanwhile are looked at, and the partition is written and made visible at once.
//! So writers never see one that is half built.

use std::collections::HashSet;

use crate::error::Result;
use crate::format::avro::metadata::{IndexCommitMetadata, IndexPartitionInfo, IndexPlan, encode};
use crate::format::instant::{Action, Instant};
use crate::metadata_table::expression_index::is_expression_index;
use crate::table::{HudiTable, TableConfig};
use crate::timeline::{Timeline, heartbeat};
use crate::transaction::{Follow, IndexBuild, Transaction};

pub use crate::transaction::Expression;
pub(crate) use crate::transaction::{BuildRequest, drop_all, drop_partition};

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
    remove_dead(table, timeline)?;
    let request = BuildRequest { partitions: IndexBuild::names(table, &request)?, ..request };
    let plan = |timeline: &Timeline| {
        let upto = timeline.completed_writes().next_back().map(|instant| instant.requested.clone());
        encode(&IndexPlan {
            version: Some(1),
            index_partition_infos: Some(infos(&request.partitions, upto.as_deref())),
        })
    };
    let mut transaction = Transaction::begin(table, Action::Indexing, None, false, plan, Vec::new())?;
    let done = build(table, &mut transaction, &request);
    if done.is_err() {
        // Nothing was visible. If this fails too, the next index takes it off the timeline.
        if let Err(again) = transaction.take_back() {
            tracing::warn!(table = table.storage().uri(), "a failed index is left on the timeline: {again}");
        }
    }
    done
}

fn build(table: &HudiTable, transaction: &mut Transaction, request: &BuildRequest) -> Result<Indexed> {
    let requested = transaction.requested().to_owned();
    let build = IndexBuild::prepare(table, request)?;
    let names = match request.partitions.is_empty() {
        true => TableConfig::load(table.storage())?.metadata_partitions(),
        false => request.partitions.clone(),
    };
    let body = encode(&IndexCommitMetadata {
        version: Some(1),
        operation_type: Some(OPERATION.to_owned()),
        index_partition_infos: Some(infos(&names, Some(&requested))),
    })?;
    let done = transaction.complete(body, Follow::Build(&build), &HashSet::new(), |_| Ok(()))?;
    let mut warnings = done.warnings;
    warnings.extend(done.ending.finish());
    let partitions = TableConfig::load(table.storage())?.complete_metadata_partitions();
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

/// Takes indexes off the timeline that a process of ours began and did not live to end: nothing of them is visible. Those of
/// Hudi name a partition that is under construction; its indexer goes on with them.
fn remove_dead(table: &HudiTable, timeline: &Timeline) -> Result<()> {
    let is_pending = |i: &&Instant| i.action == Action::Indexing;
    if timeline.pending().find(is_pending).is_none() {
        return Ok(());
    }
    let config = TableConfig::load(table.storage())?;
    let complete = config.complete_metadata_partitions();
    if config.metadata_partitions().len() > complete.len() {
        return Ok(());
    }
    let writer = table.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    // Some may be complete by now.
    for instant in table.timeline()?.pending().filter(is_pending) {
        if !heartbeat::is_alive(table.storage(), table.clock(), &instant.requested)? {
            writer.remove_pending(instant)?;
        }
    }
    Ok(())
}
