//! The delta commit of an action.

use std::collections::{BTreeMap, BTreeSet};

use super::bloom::with_bloom_filters;
use super::changes::FileChanges;
use super::partition_stats::partition_stats;
use super::records::{Indexed, PartitionUpdate, Updates, updates};
use super::removal::remove_from;
use super::{MAINTAINED, log_file};
use crate::error::{Error, Result};
use crate::file_group::{BaseFile, LogFile};
use crate::format::avro::metadata::{CommitMetadata, WriteStat, encode};
use crate::format::instant::{Action, Instant, State};
use crate::metadata_table::encode::RECORD_SCHEMA;
use crate::metadata_table::keys::shard_of;
use crate::metadata_table::lag::INITIAL;
use crate::metadata_table::open::timeline_config;
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FOLDER, MetadataTable, PARTITION_STATS, REBUILD};
use crate::parallel::run_parallel;
use crate::storage::Storage;
use crate::timeline::{Timeline, TimelineConfig};

/// The operation that commits of the metadata table have.
const OPERATION: &str = "UPSERT_PREPPED";
/// Files of one delta commit are written by one task.
const WRITE_TOKEN: &str = "0-0-0";
/// Log files that are written at a time.
const THREADS: usize = 16;

/// Commits to the metadata table of a table. The caller holds the table lock.
pub(crate) struct MetadataWriter {
    storage: Storage,
    timeline: Timeline,
    /// The partitions that are kept up to date, with the file ids of their shards.
    shards: BTreeMap<&'static str, Vec<String>>,
}

/// What an action changes here.
pub(crate) struct Prepared {
    updates: Updates,
    /// Partitions that cannot be kept up to date.
    pub(crate) unkept: Vec<&'static str>,
}

/// A shard's part of an update.
struct ShardLog {
    partition: &'static str,
    file_id: String,
    update: PartitionUpdate,
}

impl MetadataWriter {
    /// Opens the metadata table for writing; `partitions` are those that the table names.
    ///
    /// # Errors
    /// `Corrupt` for a metadata table that is damaged; `Unsupported` for other versions than 8 and 9; `Storage`.
    pub(crate) fn open(storage: &Storage, table: &TimelineConfig, partitions: &[String]) -> Result<Self> {
        let damaged = |e: Error| e.with("table", storage.uri()).remedy(REBUILD);
        let config = timeline_config(storage, table).map_err(damaged)?;
        let timeline = Timeline::load(storage, &config)?;
        let kept = MAINTAINED.into_iter().filter(|name| partitions.iter().any(|one| one == name));
        let shards = run_parallel(kept.collect(), THREADS, |name| Ok((name, file_ids(storage, name)?)))?;
        Ok(Self { storage: storage.clone(), timeline, shards: shards.into_iter().collect() })
    }

    /// Whether nothing was committed here since the metadata table was made.
    pub(crate) fn is_new(&self) -> bool {
        self.timeline.completed_writes().all(|instant| instant.requested.starts_with(INITIAL))
    }

    /// What an action of the table changes here. `table` is the timeline of the table.
    ///
    /// # Errors
    /// `Corrupt` for files of the metadata table that are damaged; `Storage`.
    pub(crate) fn prepare(&self, table: &Timeline, changes: &FileChanges, indexed: &Indexed) -> Result<Prepared> {
        let has = |name: &str| self.shards.contains_key(name);
        let with_bloom_filters = has(BLOOM_FILTERS).then(|| with_bloom_filters(&self.storage, changes)).transpose()?;
        let changes = with_bloom_filters.as_ref().unwrap_or(changes);
        let mut prepared = Prepared { updates: updates(changes, indexed, has), unkept: Vec::new() };
        if has(PARTITION_STATS) {
            let names = self.shards.keys().map(|name| (*name).to_owned()).collect();
            let stored = MetadataTable::of_timelines(&self.storage, table, self.timeline.clone(), names);
            // Writers of Hudi make them of the statistics of files.
            let records = match has(COLUMN_STATS) && !indexed.columns.is_empty() {
                true => partition_stats(Some(&stored), changes, indexed)?,
                false => None,
            };
            match records {
                Some(records) if records.is_empty() => {}
                Some(records) => {
                    let update = PartitionUpdate { records, ..PartitionUpdate::default() };
                    prepared.updates.insert(PARTITION_STATS, update);
                }
                None => prepared.unkept.push(PARTITION_STATS),
            }
        }
        Ok(prepared)
    }

    /// Commits an action of the table: `requested` is its time, `new_time` gives the next time after the newest that there
    /// is. What another attempt of the same action left here is removed first. Returns the timeline of the metadata table as
    /// it is then.
    ///
    /// # Errors
    /// `Storage`; those of `new_time`.
    pub(crate) fn commit(
        &self,
        requested: &str,
        prepared: Prepared,
        new_time: impl FnOnce(Option<&str>) -> Result<String>,
    ) -> Result<Timeline> {
        let Self { storage, timeline, shards } = self;
        remove_from(storage, timeline, requested)?;
        let instant = Instant {
            requested: requested.to_owned(),
            action: Action::DeltaCommit,
            state: State::Requested,
            completed: None,
        };
        let create = |instant: &Instant, body: Vec<u8>| storage.create(&timeline.path(instant), body);
        // First: log files without an instant would look like those of an archived one.
        create(&instant, Vec::new())?;
        storage.sync()?;
        let inflight = Instant { state: State::Inflight, ..instant };
        create(&inflight, Vec::new())?;
        let logs = by_shard(prepared.updates, shards)?;
        let threads = if storage.is_remote() { THREADS } else { 1 };
        let stats = run_parallel(logs, threads, |log| self.write(requested, log))?;
        let completed = Instant {
            state: State::Completed,
            completed: Some(new_time(timeline.newest_time().max(Some(requested)))?),
            ..inflight
        };
        create(&completed, encode(&commit_metadata(stats, OPERATION))?)?;
        // The action itself is published next, and its own file alone is synced then.
        storage.sync()?;
        Ok(timeline.clone().with_action(&completed))
    }

    fn write(&self, requested: &str, log: ShardLog) -> Result<WriteStat> {
        let ShardLog { partition, file_id, update } = log;
        let name = LogFile::file_name(&file_id, requested, 1, WRITE_TOKEN);
        let path = format!("{partition}/{name}");
        let count = |n: usize| i64::try_from(n).ok();
        let (records, deletes) = (count(update.records.len()), count(update.deletes.len()));
        let content = log_file::content(requested, partition, update)?;
        let bytes = count(content.len());
        self.storage.create(&format!("{FOLDER}/{path}"), content)?;
        Ok(WriteStat {
            file_id: Some(file_id),
            path: Some(path),
            prev_commit: Some(requested.to_owned()),
            num_writes: records,
            num_deletes: deletes,
            num_update_writes: records,
            num_inserts: Some(0),
            total_write_bytes: bytes,
            total_write_errors: Some(0),
            partition_path: Some(partition.to_owned()),
            file_size_in_bytes: bytes,
            log_version: Some(1),
            log_offset: Some(0),
            base_file: Some(String::new()),
            log_files: Some(vec![name]),
            ..WriteStat::default()
        })
    }
}

/// The file ids of a partition's shards, in their order.
fn file_ids(storage: &Storage, partition: &str) -> Result<Vec<String>> {
    let files = storage.list(&format!("{FOLDER}/{partition}"))?.files;
    let id =
        |file| BaseFile::parse(file).map(|base| base.file_id).or_else(|| LogFile::parse(file).map(|log| log.file_id));
    let ids: BTreeSet<String> = files.iter().filter_map(id).collect();
    if ids.is_empty() {
        return Err(Error::corrupt("a partition of the metadata table has no files")
            .with("table", storage.uri())
            .with("file", format!("{FOLDER}/{partition}"))
            .remedy(REBUILD));
    }
    Ok(ids.into_iter().collect())
}

/// Divides updates by the hashes of keys.
fn by_shard(updates: Updates, shards: &BTreeMap<&'static str, Vec<String>>) -> Result<Vec<ShardLog>> {
    let mut logs = Vec::new();
    for (partition, update) in updates {
        let ids = shards.get(partition).map(Vec::as_slice).unwrap_or_default();
        let updates_of_shards = by_shard_of(partition, update, ids)?;
        let updates_of_shards =
            ids.iter().zip(updates_of_shards).filter(|(_, update)| *update != PartitionUpdate::default());
        logs.extend(updates_of_shards.map(|(id, update)| ShardLog { partition, file_id: id.clone(), update }));
    }
    Ok(logs)
}

/// The part of each shard in an update of a partition.
pub(super) fn by_shard_of(partition: &str, update: PartitionUpdate, ids: &[String]) -> Result<Vec<PartitionUpdate>> {
    let mut shards: Vec<PartitionUpdate> = ids.iter().map(|_| PartitionUpdate::default()).collect();
    let lost = || Error::internal("a key of the metadata table has no shard").with("partition", partition);
    for record in update.records {
        shards.get_mut(shard_of(&record.0, ids.len())).ok_or_else(lost)?.records.push(record);
    }
    for key in update.deletes {
        shards.get_mut(shard_of(&key, ids.len())).ok_or_else(lost)?.deletes.push(key);
    }
    Ok(shards)
}

/// The metadata of a commit of the metadata table.
pub(super) fn commit_metadata(stats: Vec<WriteStat>, operation: &str) -> CommitMetadata {
    let mut by_partition: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
    for stat in stats {
        by_partition.entry(stat.partition_path.clone().unwrap_or_default()).or_default().push(stat);
    }
    CommitMetadata {
        partition_to_write_stats: by_partition,
        compacted: Some(false),
        extra_metadata: BTreeMap::from([("schema".to_owned(), RECORD_SCHEMA.to_owned())]),
        version: None,
        operation_type: Some(operation.to_owned()),
    }
}
