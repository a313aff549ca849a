//! Log compaction: the log files of a shard become one, which stands in for them. The base file stays.
//!
//! Blocks of the new file name the instants whose blocks they replace, as in a log compaction of the table. Records are not
//! taken for final: what says that a file or a value is gone is still needed against the base file.

use arrow::array::StringArray;

use super::shard::{Compacted, read_logs, skipped};
use super::shard_records::ShardRecords;
use super::{complete, operation};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::log::LogScan;
use crate::format::avro::metadata::{CompactionPlan, WriteStat, encode};
use crate::format::instant::{Action, Instant};
use crate::format::log::HeaderKey;
use crate::metadata_table::kind::Kind;
use crate::metadata_table::services::{MetadataServices, partition_of};
use crate::metadata_table::slice::check_logs;
use crate::metadata_table::write::log_file::{Records, content_of, stat};
use crate::metadata_table::{FOLDER, MetadataTable};
use crate::parallel::run_parallel;
use crate::storage::Storage;
use crate::timeline::Timeline;

/// The operation of a log compaction.
const OPERATION: &str = "LOG_COMPACT";

/// Whether there were so many delta commits since the last compaction, of logs or of all.
pub(crate) fn is_due(metadata: &Timeline, threshold: usize) -> bool {
    let compacted = metadata.completed(Action::Commit).next_back().map(|i| i.requested.as_str());
    let since = metadata.completed(Action::DeltaCommit).rev().map(|i| i.requested.as_str()).take_while(|requested| {
        compacted.is_none_or(|compacted| *requested > compacted) && !metadata.is_log_compaction(requested)
    });
    since.count() >= threshold
}

/// Merges the log files of each shard that has so many of them, those before its last log compaction not counted. Returns
/// its instant; `None` if there is no such shard.
///
/// # Errors
/// `Corrupt`, with the file; `Lock`; `Storage`.
pub(crate) fn compact_logs(
    services: &MetadataServices<'_>,
    metadata: &MetadataTable,
    threshold: usize,
) -> Result<Option<Instant>> {
    let mut shards: Vec<(Kind, FileSlice)> = Vec::new();
    for partition in metadata.partitions() {
        let kind = metadata.kind(partition)?;
        let has_enough = |slice: &FileSlice| new_logs(slice, metadata.timeline()) >= threshold.max(2);
        shards.extend(metadata.shards(partition)?.into_iter().filter(has_enough).map(|slice| (kind, slice)));
    }
    if shards.is_empty() {
        return Ok(None);
    }
    let plan = CompactionPlan::of_logs(shards.iter().map(|(_, slice)| operation(slice)).collect());
    let action = services.begin(Action::LogCompaction, encode(&plan)?, metadata.timeline())?;
    let (storage, instant) = (services.storage, action.requested());
    let compacted = run_parallel(shards, services.threads, |(kind, slice)| {
        let merged = merge_logs(storage, kind, &slice, |t| metadata.counts(t), instant);
        merged.map(|stat| Compacted::Written(Box::new(stat))).or_else(|e| skipped(&slice, e))
    })?;
    complete(services, action, compacted, OPERATION).map(Some)
}

/// How many log files a reader of a shard reads: those from its last log compaction on.
fn new_logs(slice: &FileSlice, metadata: &Timeline) -> usize {
    let compacted = slice.logs.iter().rposition(|log| metadata.is_log_compaction(&log.instant));
    slice.logs.len() - compacted.unwrap_or(0)
}

pub(super) fn merge_logs(
    storage: &Storage,
    kind: Kind,
    slice: &FileSlice,
    counts: impl Fn(&str) -> bool,
    instant: &str,
) -> Result<WriteStat> {
    let scan = LogScan::open(storage, &slice.logs, counts)?;
    check_logs(storage, &scan)?;
    let mut records = ShardRecords::new(kind)?;
    let logged = read_logs(&scan, &mut records)?;
    let (partition, keys) = (partition_of(slice), records.len());
    let (mut merged, mut deletes) = (Records::of(partition), Vec::new());
    while let Some((key, logged)) = records.pop_before(None) {
        let key = String::from_utf8(key)
            .map_err(|e| Error::corrupt("a key of the metadata table is not UTF-8").caused_by(e))?;
        if let Some(value) = records.logged_value(key.as_bytes(), &logged) {
            merged.add(&key, &value)?;
        }
        if logged.replaces_base() {
            deletes.push(key);
        }
    }
    let counted = (merged.count(), deletes.len());
    let deletes: StringArray = deletes.into_iter().map(Some).collect();
    let replaced = (HeaderKey::CompactedBlockTimes, scan.instants().join(","));
    let content = content_of(instant, Some(replaced), partition, &deletes, merged)?;
    let stat = stat(instant, (partition, &slice.file_id, 1), content.len(), counted);
    storage.create(&format!("{FOLDER}/{}", stat.path.as_deref().unwrap_or_default()), content)?;
    let count = |n: usize| i64::try_from(n).ok();
    Ok(WriteStat {
        prev_commit: Some(slice.base_instant.clone()),
        total_updated_records_compacted: count(keys),
        ..logged.add_to(stat, slice)
    })
}
