//! Compaction: the base file and the log files of each shard become a new base file. Log compaction: its log files become
//! one.
//!
//! A compaction of the metadata table takes all shards at once, for the table archives nothing beyond it. Readers go on
//! meanwhile: the instant of the compaction is later than all that is completed, so that what comes next belongs behind it.

mod logs;
mod shard;
mod shard_records;
mod statistics;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use logs::{compact_logs, is_due as log_compaction_is_due};

use super::{MetadataServices, OwnAction};
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::format::avro::metadata::{CommitMetadata, CompactionOperation, CompactionPlan, WriteStat, encode};
use crate::format::instant::{Action, Instant};
use crate::metadata_table::MetadataTable;
use crate::metadata_table::encode::RECORD_SCHEMA;
use crate::metadata_table::kind::Kind;
use crate::parallel::run_parallel;
use crate::timeline::Timeline;
use shard::{Compacted, compact_shard};

/// The operation of a compaction.
const OPERATION: &str = "COMPACT";
const MEBIBYTE: f64 = 1_048_576.0;
/// What Hudi takes for the size of a base file that does not exist yet, in mebibytes.
const NEW_BASE_FILE_MB: f64 = 120.0;

/// Whether a compaction is due after so many delta commits: by Hudi's rule, those that were requested after the last one.
pub(crate) fn is_due(metadata: &Timeline, max_delta_commits: usize) -> bool {
    let last = metadata.completed(Action::Commit).next_back().map(|i| i.requested.as_str());
    let since = metadata.completed(Action::DeltaCommit).filter(|i| last.is_none_or(|last| i.requested.as_str() > last));
    since.count() >= max_delta_commits.max(1)
}

/// Whether an action is completed in the metadata table and pending on the table: its writer died in between. A compaction
/// would put its records into a base file, from which nobody can take them back.
pub(crate) fn half_completed<'a>(table: &'a Timeline, metadata: &Timeline) -> Option<&'a Instant> {
    let is_completed = |instant: &Instant| metadata.completed_writes().any(|i| i.requested == instant.requested);
    table.pending().find(|instant| is_completed(instant))
}

/// Compacts all shards that have log files. Returns its instant; `None` if there was nothing to compact.
///
/// # Errors
/// `Corrupt`, with the file; `Lock`; `Storage`.
pub(crate) fn compact(services: &MetadataServices<'_>, metadata: &MetadataTable) -> Result<Option<Instant>> {
    let mut shards: Vec<(Kind, FileSlice)> = Vec::new();
    for partition in metadata.partitions() {
        let kind = metadata.kind(partition)?;
        let slices = metadata.shards(partition)?;
        shards.extend(slices.into_iter().filter(|slice| !slice.logs.is_empty()).map(|slice| (kind, slice)));
    }
    if shards.is_empty() {
        return Ok(None);
    }
    let plan = CompactionPlan::of_base_files(shards.iter().map(|(_, slice)| operation(slice)).collect());
    let action = services.begin(Action::Compaction, encode(&plan)?, metadata.timeline())?;
    let instant = action.requested();
    let numbered: Vec<(usize, (Kind, FileSlice))> = shards.into_iter().enumerate().collect();
    let compacted = run_parallel(numbered, services.threads, |(task, (kind, slice))| {
        let counts = |t: &str| metadata.counts(t);
        compact_shard(services.storage, kind, &slice, counts, instant, &format!("{task}-0-0"))
    })?;
    complete(services, action, compacted, OPERATION).map(Some)
}

/// Publishes a compaction with what it wrote.
fn complete(
    services: &MetadataServices<'_>,
    action: OwnAction<'_>,
    compacted: Vec<Compacted>,
    operation: &str,
) -> Result<Instant> {
    let mut by_partition: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
    for one in compacted {
        match one {
            Compacted::Written(stat) => {
                by_partition.entry(stat.partition_path.clone().unwrap_or_default()).or_default().push(*stat);
            }
            // It is read as before, from its base file and all its log files.
            Compacted::Skipped { file_id, why } => {
                tracing::warn!(
                    table = services.storage.uri(),
                    file_id,
                    "a shard of the metadata table is not compacted: {why}"
                );
            }
        }
    }
    let body = CommitMetadata {
        partition_to_write_stats: by_partition,
        compacted: Some(true),
        extra_metadata: BTreeMap::from([("schema".to_owned(), RECORD_SCHEMA.to_owned())]),
        version: None,
        operation_type: Some(operation.to_owned()),
    };
    action.complete(encode(&body)?)
}

/// What a plan says of a shard.
fn operation(slice: &FileSlice) -> CompactionOperation {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let log_bytes: f64 = slice.logs.iter().map(|log| log.size as f64).sum();
    let (read, written) = match &slice.base {
        Some(base) => (((base.size as f64 + log_bytes) / MEBIBYTE).floor(), (base.size as f64 / MEBIBYTE).floor()),
        None => ((log_bytes / MEBIBYTE).floor(), NEW_BASE_FILE_MB),
    };
    let metrics = [
        ("TOTAL_LOG_FILES", slice.logs.len() as f64),
        ("TOTAL_LOG_FILES_SIZE", log_bytes),
        ("TOTAL_IO_READ_MB", read),
        ("TOTAL_IO_WRITE_MB", written),
        ("TOTAL_IO_MB", read + written),
    ];
    CompactionOperation {
        base_instant_time: Some(slice.base_instant.clone()),
        delta_file_paths: Some(slice.logs.iter().map(|log| name(&log.path)).collect()),
        data_file_path: slice.base.as_ref().map(|base| name(&base.path)),
        file_id: Some(slice.file_id.clone()),
        partition_path: Some(super::partition_of(slice).to_owned()),
        metrics: Some(metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        bootstrap_file_path: None,
    }
}
