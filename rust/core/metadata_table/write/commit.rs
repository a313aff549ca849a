//! The delta commit of an action.

use std::collections::{BTreeMap, BTreeSet};

use super::bloom::with_bloom_filters;
use super::changes::FileChanges;
use super::expression_index::{ExpressionChanges, FunctionRanges, expression_update};
use super::partition_stats::partition_stats;
use super::records::{Indexed, PartitionUpdate, Updates, updates};
use super::removal::remove_from;
use super::shard_logs::write_logs;
use super::sharded_keys::KeyChanges;
use super::{MAINTAINED, log_file};
use crate::error::{Error, Result};
use crate::file_group::{BaseFile, LogFile};
use crate::format::avro::metadata::{CommitMetadata, WriteStat, encode};
use crate::format::instant::{Action, Instant, State};
use crate::metadata_table::encode::RECORD_SCHEMA;
use crate::metadata_table::expression_index::ExpressionIndex;
use crate::metadata_table::keys::shard_of;
use crate::metadata_table::listing::MetadataListing;
use crate::metadata_table::record_index_shards::RecordIndexShards;
use crate::metadata_table::secondary_entries::SecondaryIndex;
use crate::metadata_table::{
    BLOOM_FILTERS, COLUMN_STATS, FILES, FOLDER, MetadataTable, PARTITION_STATS, REBUILD, RECORD_INDEX,
};
use crate::parallel::run_parallel;
use crate::storage::{FileMeta, Storage};
use crate::timeline::{INITIAL, Timeline};

/// The operation that commits of the metadata table have.
const OPERATION: &str = "UPSERT_PREPPED";
/// Log files that are written at a time.
const THREADS: usize = 16;

/// Commits to the metadata table of a table. The caller holds the table lock.
pub(crate) struct MetadataWriter {
    storage: Storage,
    listing: MetadataListing,
    /// The partitions that are kept up to date, with the file ids of their shards.
    shards: BTreeMap<&'static str, Vec<String>>,
}

/// What an action changes here.
pub(crate) struct Prepared {
    updates: Updates,
    /// What changed in expression indexes.
    pub(crate) expressions: Vec<ExpressionChanges>,
    /// What changed in the indexes of keys.
    pub(crate) keys: Vec<KeyChanges>,
    /// Partitions that cannot be kept up to date.
    pub(crate) unkept: Vec<String>,
}

/// A delta commit that is inflight.
pub(crate) struct Begun(Instant);

/// A shard's part of an update.
struct ShardLog {
    partition: String,
    file_id: String,
    update: PartitionUpdate,
}

impl MetadataWriter {
    /// Opens the metadata table for writing; `partitions` are those that the table names.
    ///
    /// # Errors
    /// `Corrupt` for a metadata table that is damaged; `Storage`.
    pub(crate) fn open(storage: &Storage, listing: MetadataListing, partitions: &[String]) -> Result<Self> {
        let kept = MAINTAINED.into_iter().filter(|name| partitions.iter().any(|one| one == name));
        let ids = |name| file_ids(storage, name, &listing.files(storage, &format!("{FOLDER}/{name}"))?);
        let shards = kept.map(|name| Ok((name, ids(name)?))).collect::<Result<_>>()?;
        Ok(Self { storage: storage.clone(), listing, shards })
    }

    /// What it was opened with.
    pub(crate) fn into_listing(self) -> MetadataListing {
        self.listing
    }

    /// Whether nothing was committed here since the metadata table was made.
    pub(crate) fn is_new(&self) -> bool {
        self.listing.timeline().completed_writes().all(|instant| instant.requested.starts_with(INITIAL))
    }

    /// The shards of the record index; `None` if there is none.
    ///
    /// # Errors
    /// `Corrupt` if one of them is missing.
    pub(crate) fn record_index_shards(&self) -> Result<Option<RecordIndexShards>> {
        let file_ids = self.shards.get(RECORD_INDEX);
        let shards = file_ids.map(|ids| RecordIndexShards::of_file_ids(ids.iter().map(String::as_str))).transpose();
        shards.map_err(|e| e.with("table", self.storage.uri()).remedy(REBUILD))
    }

    /// The file ids of the shards of a secondary index, in their order.
    ///
    /// # Errors
    /// `Corrupt` if one of them is missing; `Storage`.
    pub(crate) fn secondary_index_shards(&self, index: &SecondaryIndex) -> Result<Vec<String>> {
        let files = self.listing.files(&self.storage, &format!("{FOLDER}/{}", index.partition))?;
        checked_shards(&self.storage, &index.partition, &files, |shards| index.file_ids(shards))
    }

    /// What an action changes in an expression index; `values` are the ranges of the files that it added.
    ///
    /// # Errors
    /// `Corrupt` if a shard is missing, or damaged; `Storage`.
    pub(crate) fn expression_changes(
        &self,
        table: &Timeline,
        index: &ExpressionIndex,
        changes: &FileChanges,
        values: &FunctionRanges,
    ) -> Result<ExpressionChanges> {
        let files = self.listing.files(&self.storage, &format!("{FOLDER}/{}", index.partition))?;
        let file_ids = checked_shards(&self.storage, &index.partition, &files, |shards| index.file_ids(shards))?;
        let stored = self.stored(table, [index.partition.as_str(), FILES]);
        let update = expression_update(Some(&stored), index, changes, values)?;
        Ok(ExpressionChanges { partition: index.partition.clone(), file_ids, update })
    }

    /// The metadata table as it was opened, with some of its partitions.
    fn stored<'n>(&self, table: &Timeline, names: impl IntoIterator<Item = &'n str>) -> MetadataTable {
        let names = names.into_iter().map(str::to_owned).collect();
        MetadataTable::of_listing(&self.storage, table, self.listing.clone(), names)
    }

    /// What an action of the table changes here. `table` is the timeline of the table.
    ///
    /// # Errors
    /// `Corrupt` for files of the metadata table that are damaged; `Storage`.
    pub(crate) fn prepare(&self, table: &Timeline, changes: &FileChanges, indexed: &Indexed) -> Result<Prepared> {
        let has = |name: &str| self.shards.contains_key(name);
        let with_bloom_filters = has(BLOOM_FILTERS).then(|| with_bloom_filters(&self.storage, changes)).transpose()?;
        let changes = with_bloom_filters.as_ref().unwrap_or(changes);
        let mut prepared = Prepared {
            updates: updates(changes, indexed, has),
            expressions: Vec::new(),
            keys: Vec::new(),
            unkept: Vec::new(),
        };
        if has(PARTITION_STATS) {
            let stored = self.stored(table, self.shards.keys().copied());
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
                None => prepared.unkept.push(PARTITION_STATS.to_owned()),
            }
        }
        Ok(prepared)
    }

    /// Begins the delta commit of an action of the table, whose time is `requested`. What another attempt of the same action
    /// left here is removed first.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn begin(&self, requested: &str) -> Result<Begun> {
        let (storage, timeline) = (&self.storage, self.listing.timeline());
        remove_from(storage, timeline, requested)?;
        let instant = Instant {
            requested: requested.to_owned(),
            action: Action::DeltaCommit,
            state: State::Requested,
            completed: None,
        };
        // First: log files without an instant would look like those of an archived one.
        storage.create(&timeline.path(&instant), Vec::new())?;
        storage.sync()?;
        let inflight = Instant { state: State::Inflight, ..instant };
        storage.create(&timeline.path(&inflight), Vec::new())?;
        Ok(Begun(inflight))
    }

    /// Completes a delta commit. `new_time` gives the next time after the newest that there is. Returns the timeline of the
    /// metadata table as it is then.
    ///
    /// # Errors
    /// `Storage`; those of `new_time`.
    pub(crate) fn commit(
        &self,
        Begun(inflight): Begun,
        prepared: Prepared,
        new_time: impl FnOnce(Option<&str>) -> Result<String>,
    ) -> Result<Timeline> {
        let Self { storage, listing, shards } = self;
        let (timeline, requested) = (listing.timeline(), inflight.requested.as_str());
        let mut logs = by_shard(prepared.updates, shards)?;
        for changed in prepared.expressions {
            logs.extend(shard_logs(&changed.partition, changed.update, &changed.file_ids)?);
        }
        let threads = if storage.is_remote() { THREADS } else { 1 };
        let mut stats = run_parallel(logs, threads, |log| self.write(requested, log))?;
        for keys in prepared.keys {
            stats.extend(write_logs(storage, requested, keys)?);
        }
        let completed = Instant {
            state: State::Completed,
            completed: Some(new_time(timeline.newest_time().max(Some(requested)))?),
            ..inflight.clone()
        };
        storage.create(&timeline.path(&completed), encode(&commit_metadata(stats, OPERATION))?)?;
        // The action itself is published next, and its own file alone is synced then.
        storage.sync()?;
        Ok(timeline.clone().with_action(&completed))
    }

    fn write(&self, requested: &str, log: ShardLog) -> Result<WriteStat> {
        let ShardLog { partition, file_id, update } = log;
        let counts = (update.records.len(), update.deletes.len());
        let content = log_file::content(requested, &partition, update)?;
        let stat = log_file::stat(requested, (&partition, &file_id, 1), content.len(), counts);
        let path = stat.path.as_deref().unwrap_or_default();
        self.storage.create(&format!("{FOLDER}/{path}"), content)?;
        Ok(stat)
    }
}

/// The shards of the record index.
///
/// # Errors
/// `Corrupt` if there are none, or if one of them is missing; `Storage`.
pub(crate) fn record_index_shards(storage: &Storage) -> Result<RecordIndexShards> {
    let ids = file_ids(storage, RECORD_INDEX, &storage.list(&format!("{FOLDER}/{RECORD_INDEX}"))?.files)?;
    let shards = RecordIndexShards::of_file_ids(ids.iter().map(String::as_str));
    shards.map_err(|e| e.with("table", storage.uri()).remedy(REBUILD))
}

/// The file ids of the shards of a secondary index, in their order.
///
/// # Errors
/// `Corrupt` if there are none, or if one of them is missing; `Storage`.
pub(crate) fn secondary_index_shards(storage: &Storage, index: &SecondaryIndex) -> Result<Vec<String>> {
    let files = storage.list(&format!("{FOLDER}/{}", index.partition))?.files;
    checked_shards(storage, &index.partition, &files, |shards| index.file_ids(shards))
}

/// A record is in the shard that its hash says, of as many as there are, so that none of them may be missing.
fn checked_shards(
    storage: &Storage,
    partition: &str,
    files: &[FileMeta],
    names: impl Fn(usize) -> Vec<String>,
) -> Result<Vec<String>> {
    let ids = file_ids(storage, partition, files)?;
    if ids != names(ids.len()) {
        return Err(Error::corrupt("an index has shards of other names, or lacks one")
            .with("table", storage.uri())
            .with("file", format!("{FOLDER}/{partition}"))
            .remedy(format!("Build it anew with Table.index(\"{partition}\")")));
    }
    Ok(ids)
}

/// The file ids of a partition's shards, in their order, by the files in its folder.
fn file_ids(storage: &Storage, partition: &str, files: &[FileMeta]) -> Result<Vec<String>> {
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
        logs.extend(shard_logs(partition, update, ids)?);
    }
    Ok(logs)
}

/// The log files of a partition with these shards.
fn shard_logs(partition: &str, update: PartitionUpdate, ids: &[String]) -> Result<Vec<ShardLog>> {
    let updates = ids.iter().zip(by_shard_of(partition, update, ids)?);
    let updates = updates.filter(|(_, update)| *update != PartitionUpdate::default());
    let log = |(id, update): (&String, _)| ShardLog { partition: partition.to_owned(), file_id: id.clone(), update };
    Ok(updates.map(log).collect())
}

/// The part of each shard in an update of a partition.
pub(super) fn by_shard_of(partition: &str, update: PartitionUpdate, ids: &[String]) -> Result<Vec<PartitionUpdate>> {
    let mut shards: Vec<PartitionUpdate> = ids.iter().map(|_| PartitionUpdate::default()).collect();
    let lost = || Error::internal("a key of the metadata table has no shard").with("partition", partition);
    for record in update.first {
        shards.get_mut(shard_of(&record.0, ids.len())).ok_or_else(lost)?.first.push(record);
    }
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
