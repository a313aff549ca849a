//! Makes a metadata table, and partitions of it.
//!
//! As Hudi does, each partition is a delta commit of its own. A log file without records in each shard fixes how many shards
//! there are; what the partition begins with is in base files.
//!
//! The partitions of a new metadata table have times before all real ones. Those of one that goes on have not: its timeline
//! would begin with them, and nobody could tell any more that what was written before its other instants is archived.

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
use crate::metadata_table::listing::{MetadataListing, PROPERTIES};
use crate::metadata_table::{BLOOM_FILTERS, COLUMN_STATS, FILES, FOLDER, PARTITION_STATS};
use crate::parallel::run_parallel;
use crate::storage::Storage;
use crate::timeline::{INITIAL, Timeline, TimelineConfig};

/// Operation of the delta commits that make partitions.
const OPERATION: &str = "BULK_INSERT";
/// Files of a shard are written by one task.
const WRITE_TOKEN: &str = "0-0-0";
/// Shards that are written at a time.
const THREADS: usize = 16;
/// Letters of the number behind [`INITIAL`], or behind the time of an action.
const NUMBER: usize = 3;
/// The first number behind the time of an action, as Hudi has it.
const FIRST_NUMBER: usize = 10;

/// The action of a table that makes partitions.
#[derive(Clone, Copy)]
pub(crate) struct MadeBy<'a> {
    /// How the timeline of the table is stored.
    pub(crate) table: &'a TimelineConfig,
    /// Requested time of the action, which is pending.
    pub(crate) instant: &'a str,
}

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
    by: MadeBy<'_>,
    partition: &str,
    shards: usize,
    update: PartitionUpdate,
    new_time: impl FnOnce(Option<&str>) -> Result<String>,
) -> Result<()> {
    initialize_by_key(storage, by, partition, file_ids_of(partition, shards)?, update, new_time)
}

/// The same, with shards of these file ids.
///
/// # Errors
/// Those of [`initialize_partition`].
pub(crate) fn initialize_by_key(
    storage: &Storage,
    by: MadeBy<'_>,
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
    initialize_partition(storage, by, partition, new_time, |time| {
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
    by: MadeBy<'_>,
    staged: &[StagedShard],
    changes: KeyChanges,
    new_time: impl FnOnce(Option<&str>) -> Result<String>,
) -> Result<()> {
    let partition = changes.partition().to_owned();
    initialize_partition(storage, by, &partition, new_time, |time| {
        let mut stats = publish_shards(storage, &partition, changes.file_ids(), (time, WRITE_TOKEN), staged)?;
        stats.extend(write_logs(storage, time, changes)?);
        Ok(stats)
    })
}

/// Makes a partition of a metadata table, which the table's properties do not name yet. `new_time` gives the next time after
/// the newest that there is; `write` writes the files of an instant. The caller holds the table lock.
///
/// # Errors
/// `Corrupt` for a metadata table that is damaged; `Storage`; those of `write` and of `new_time`.
fn initialize_partition(
    storage: &Storage,
    by: MadeBy<'_>,
    partition: &str,
    new_time: impl FnOnce(Option<&str>) -> Result<String>,
    write: impl FnOnce(&str) -> Result<Vec<WriteStat>>,
) -> Result<()> {
    let listing = MetadataListing::read(storage, by.table)?;
    let timeline = listing.timeline();
    let folder = format!("{FOLDER}/{partition}");
    // Of an attempt that failed, or of a partition that was dropped.
    storage.delete_folder(&folder)?;
    let requested = Instant {
        requested: first_free(timeline, by.instant)?,
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

/// A time at which no partition was made.
///
/// Of a metadata table that goes on, it is the first after the action that makes the partition. That one is pending, so that
/// nothing later is archived. Logs of what changed while the partition was made come before those of writes that began
/// later, and the time is nobody else's, so that the partition counts before the action is completed.
fn first_free(timeline: &Timeline, instant: &str) -> Result<String> {
    let is_new = timeline.completed_writes().all(|i| i.requested.starts_with(INITIAL));
    let (begin, first) = if is_new { (INITIAL, 0) } else { (instant, FIRST_NUMBER) };
    let number = |i: &Instant| i.requested.strip_prefix(begin).filter(|n| n.len() == NUMBER)?.parse::<usize>().ok();
    let last = timeline.instants().iter().filter_map(number).max();
    let next = last.map_or(first, |last| (last + 1).max(first));
    if next >= 1000 {
        return Err(Error::unsupported("the metadata table had too many partitions since it was made")
            .remedy("Drop it with `hoodoo metadata drop`, and rebuild it"));
    }
    Ok(format!("{begin}{next:0NUMBER$}"))
}

/// A log file without records, which says that there is such a shard.
fn write_empty_log(storage: &Storage, partition: &str, file_id: &str, instant: &str) -> Result<WriteStat> {
    let content = empty(instant)?;
    let written = stat(instant, (partition, file_id, 1), content.len(), (0, 0));
    storage.create(&format!("{FOLDER}/{}", written.path.as_deref().unwrap_or_default()), content)?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::instant::Layout;
    use crate::storage::FileMeta;
    use crate::timeline::TimeZone;

    #[test]
    fn a_partition_that_comes_later_is_made_after_what_is_archived() {
        let free = |names: &[&str]| {
            let config = TimelineConfig {
                layout: Layout::V2,
                folder: "t".into(),
                history_folder: "t/history".into(),
                zone: TimeZone::Utc,
                was_version_6: false,
            };
            let file = |name: &&str| FileMeta { path: format!("t/{name}"), size: 0, modified_ms: 0 };
            first_free(&Timeline::from_files(config, names.iter().map(file).collect()), "20260101000000000").unwrap()
        };
        let (first, second) = ("00000000000000000_05.deltacommit", "00000000000000001.deltacommit.requested");
        assert_eq!(free(&[]), "00000000000000000");
        assert_eq!(free(&[first, second]), "00000000000000002");
        let written = "20250101000000000_20250101000000001.deltacommit";
        assert_eq!(free(&[first, written]), "20260101000000000010");
        assert_eq!(free(&[written, "20260101000000000010_20260101000000002.deltacommit"]), "20260101000000000011");
    }
}
