//! Makes a metadata table, and partitions of it.
//!
//! As Hudi does, each partition is a delta commit of its own, with a time before all real ones. A log file without records
//! in each shard fixes how many shards there are; what the partition begins with is in base files.

use std::borrow::Cow;

use super::base_file::write_base_file;
use super::commit::{by_shard_of, commit_metadata};
use super::log_file::{empty, stat};
use super::records::PartitionUpdate;
use super::shard_logs::write_logs;
use super::sharded_keys::KeyChanges;
use super::staged_shards::{StagedShard, publish_shards};
use crate::error::{Error, Result};
use crate::format::avro::metadata::{WriteStat, encode};
use crate::format::instant::{Action, Instant, State};
use crate::format::properties::Properties;
use crate::metadata_table::lag::INITIAL;
use crate::metadata_table::listing::{MetadataListing, PROPERTIES};
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FILES, FOLDER, PARTITION_STATS};
use crate::parallel::run_parallel;
use crate::storage::Storage;
use crate::timeline::{Timeline, TimelineConfig};

/// Operation of the delta commits that make partitions.
const OPERATION: &str = "BULK_INSERT";
/// Files of a shard are written by one task.
const WRITE_TOKEN: &str = "0-0-0";
/// Shards that are written at a time.
const THREADS: usize = 16;
/// Letters of the number behind [`INITIAL`].
const NUMBER: usize = 3;

/// The file ids of a partition that has so many shards.
///
/// # Errors
/// `Internal` for a partition whose shards have other names.
pub(crate) fn file_ids_of(partition: &str, shards: usize) -> Result<Vec<String>> {
    let prefix = match partition {
        FILES => "files",
        COLUMN_STATS => "col-stats",
        PARTITION_STATS => "partition-stats",
        BLOOM_FILTERS => "bloom-filters",
        other => return Err(Error::internal(format!("the shards of {other} have no names"))),
    };
    Ok((0..shards).map(|shard| format!("{prefix}-{shard:04}-0")).collect())
}

/// Makes an empty metadata table, without partitions. What an attempt that failed left is deleted first, so no property of
/// the table may name a partition. The caller holds the table lock.
///
/// # Errors
/// `Storage`.
pub(super) fn create_empty(storage: &Storage, name: &str, version: u32) -> Result<()> {
    storage.delete_folder(FOLDER)?;
    let name = format!("{name}_metadata");
    let version = version.to_string();
    let mut properties = Properties::new();
    for (key, value) in [
        ("hoodie.table.name", name.as_str()),
        ("hoodie.table.type", "MERGE_ON_READ"),
        ("hoodie.table.version", &version),
        ("hoodie.table.initial.version", &version),
        ("hoodie.timeline.layout.version", "2"),
        ("hoodie.timeline.path", "timeline"),
        ("hoodie.timeline.history.path", "history"),
        ("hoodie.archivelog.folder", "history"),
        ("hoodie.table.base.file.format", "HFILE"),
        ("hoodie.table.recordkey.fields", "key"),
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.table.keygenerator.type", "HOODIE_TABLE_METADATA"),
        ("hoodie.record.merge.mode", "CUSTOM"),
        ("hoodie.record.merge.strategy.id", "00000000-0000-0000-0000-000000000000"),
        ("hoodie.compaction.payload.class", "org.apache.hudi.metadata.HoodieMetadataPayload"),
        ("hoodie.datasource.write.drop.partition.columns", "false"),
        ("hoodie.table.checksum", &crc32fast::hash(format!(".{name}").as_bytes()).to_string()),
    ] {
        properties.set(key, value);
    }
    let content = properties.to_text(&["Properties saved by hoodoo"]);
    storage.create_folder(&format!("{FOLDER}/.hoodie/timeline/history"))?;
    storage.create_durable(PROPERTIES, content)
}

/// Makes a partition of a metadata table, from updates that are in memory.
///
/// # Errors
/// `Corrupt` for a metadata table that is damaged; `Storage`; those of `new_time`.
pub(super) fn initialize_with(
    storage: &Storage,
    table: &TimelineConfig,
    partition: &str,
    shards: usize,
    update: PartitionUpdate,
    new_time: impl FnOnce(Option<&str>) -> Result<String>,
) -> Result<()> {
    initialize_by_key(storage, table, partition, file_ids_of(partition, shards)?, update, new_time)
}

/// The same, with shards of these file ids.
///
/// # Errors
/// Those of [`initialize_partition`].
pub(crate) fn initialize_by_key(
    storage: &Storage,
    table: &TimelineConfig,
    partition: &str,
    file_ids: Vec<String>,
    update: PartitionUpdate,
    new_time: impl FnOnce(Option<&str>) -> Result<String>,
) -> Result<()> {
    let mut by_shard = by_shard_of(partition, update, &file_ids)?;
    for update in &mut by_shard {
        update.records.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
    }
    let write = |time: &str, (file_id, update): (String, PartitionUpdate)| {
        let record = |(key, value): (String, Vec<u8>)| Ok((Cow::Owned(key.into_bytes()), Cow::Owned(value)));
        let records = update.records.into_iter().map(record);
        let first = write_empty_log(storage, partition, &file_id, time)?;
        let base = write_base_file(storage, partition, &file_id, time, WRITE_TOKEN, records)?;
        Ok(std::iter::once(first).chain(base).collect::<Vec<_>>())
    };
    let shards = file_ids.into_iter().zip(by_shard).collect();
    initialize_partition(storage, table, partition, new_time, |time| {
        let threads = if storage.is_remote() { THREADS } else { 1 };
        Ok(run_parallel(shards, threads, |shard| write(time, shard))?.into_iter().flatten().collect())
    })
}

/// Makes the partition of an index of keys, from the shards that were written ahead, and what has changed since.
///
/// # Errors
/// `Corrupt` for a metadata table that is damaged; `Storage`; those of `new_time`.
pub(crate) fn initialize_keys(
    storage: &Storage,
    table: &TimelineConfig,
    staged: &[StagedShard],
    changes: KeyChanges,
    new_time: impl FnOnce(Option<&str>) -> Result<String>,
) -> Result<()> {
    let partition = changes.partition().to_owned();
    initialize_partition(storage, table, &partition, new_time, |time| {
        let mut stats = publish_shards(storage, &partition, changes.file_ids(), (time, WRITE_TOKEN), staged)?;
        stats.extend(write_logs(storage, time, changes)?);
        Ok(stats)
    })
}

/// Makes a partition of a metadata table, which the table's properties do not name yet. `table` is the timeline of the
/// table; `new_time` gives the next time after the newest that there is; `write` writes the files of an instant. The caller
/// holds the table lock.
///
/// # Errors
/// `Corrupt` for a metadata table that is damaged; `Storage`; those of `write` and of `new_time`.
fn initialize_partition(
    storage: &Storage,
    table: &TimelineConfig,
    partition: &str,
    new_time: impl FnOnce(Option<&str>) -> Result<String>,
    write: impl FnOnce(&str) -> Result<Vec<WriteStat>>,
) -> Result<()> {
    let listing = MetadataListing::read(storage, table)?;
    let timeline = listing.timeline();
    let folder = format!("{FOLDER}/{partition}");
    // Of an attempt that failed, or of a partition that was dropped.
    storage.delete_folder(&folder)?;
    let requested = Instant {
        requested: first_free(timeline, storage.list(FOLDER)?.folders.len().saturating_sub(1))?,
        action: Action::DeltaCommit,
        state: State::Requested,
        completed: None,
    };
    let time = requested.requested.clone();
    let create = |instant: &Instant, body: Vec<u8>| storage.create(&timeline.path(instant), body);
    create(&requested, Vec::new())?;
    storage.sync()?;
    let inflight = Instant { state: State::Inflight, ..requested };
    create(&inflight, Vec::new())?;
    let marker = format!("#partition metadata\ncommitTime={time}\npartitionDepth=1\n");
    storage.create(&format!("{folder}/.hoodie_partition_metadata"), marker)?;
    let stats = write(&time)?;
    let completed = Instant {
        state: State::Completed,
        completed: Some(new_time(timeline.newest_time().max(Some(&time)))?),
        ..inflight
    };
    storage.sync()?;
    // No action of the table is pending for it: as soon as it is there, it counts, and so must its content.
    storage.create_durable(&timeline.path(&completed), encode(&commit_metadata(stats, OPERATION))?)?;
    storage.sync()
}

/// The first time of those that make partitions at which none of so many partitions was made.
fn first_free(timeline: &Timeline, partitions: usize) -> Result<String> {
    let numbers = timeline.instants().iter().filter_map(|i| i.requested.strip_prefix(INITIAL)?.parse::<usize>().ok());
    // Archived ones are not on the timeline any more.
    let next = numbers.max().map_or(0, |last| last + 1).max(partitions);
    if next >= 1000 {
        return Err(Error::unsupported("the metadata table had too many partitions since it was made")
            .remedy("Drop it with `hoodoo metadata drop`, and rebuild it"));
    }
    Ok(format!("{INITIAL}{next:0NUMBER$}"))
}

/// A log file without records, which says that there is such a shard.
fn write_empty_log(storage: &Storage, partition: &str, file_id: &str, instant: &str) -> Result<WriteStat> {
    let content = empty(instant)?;
    let written = stat(instant, (partition, file_id, 1), content.len(), (0, 0));
    storage.create(&format!("{FOLDER}/{}", written.path.as_deref().unwrap_or_default()), content)?;
    Ok(written)
}
