//! One shard: its base file and its log files become a new base file.
//!
//! The records of the log files are in memory, those of the base file stream by. Both are sorted by the bytes of their keys,
//! and so is the new file.

use hoodoo_hfile::{DataBlock, HFileReader};

use super::shard_records::{LoggedKey, ShardRecords};
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::FileSlice;
use crate::file_group::log::{LogScan, RawBlock};
use crate::format::avro::metadata::WriteStat;
use crate::metadata_table::encode::RECORD_SCHEMA;
use crate::metadata_table::kind::Kind;
use crate::metadata_table::slice::{StoredFile, check_logs, open_base};
use crate::metadata_table::write::base_file::NewBaseFile;
use crate::storage::Storage;
use crate::storage::guard::decode;

/// What became of a shard.
pub(super) enum Compacted {
    /// Its new base file.
    Written(Box<WriteStat>),
    /// It cannot be compacted here.
    Skipped { file_id: String, why: Error },
}

/// What was read of the log files.
#[derive(Default)]
pub(super) struct LogCounts {
    records: i64,
    blocks: i64,
}

impl LogCounts {
    /// A write stat with what was read of the log files of a slice.
    pub(super) fn add_to(&self, stat: WriteStat, slice: &FileSlice) -> WriteStat {
        WriteStat {
            total_log_records: Some(self.records),
            total_log_blocks: Some(self.blocks),
            total_corrupt_log_block: Some(0),
            total_rollback_blocks: Some(0),
            total_log_files_compacted: i64::try_from(slice.logs.len()).ok(),
            total_log_size_compacted: i64::try_from(slice.logs.iter().map(|log| log.size).sum::<u64>()).ok(),
            ..stat
        }
    }
}

/// Compacts a shard. `counts` says which instants count.
///
/// # Errors
/// `Corrupt`, with the file; `Storage`.
pub(super) fn compact_shard(
    storage: &Storage,
    kind: Kind,
    slice: &FileSlice,
    counts: impl Fn(&str) -> bool,
    instant: &str,
    write_token: &str,
) -> Result<Compacted> {
    match write_shard(storage, kind, slice, counts, instant, write_token) {
        Ok(stat) => Ok(Compacted::Written(Box::new(stat))),
        Err(e) => skipped(slice, e),
    }
}

/// What cannot be compacted here: records of another schema, or keys in another order. Hudi can compact these.
///
/// # Errors
/// The error, if it is another one.
pub(super) fn skipped(slice: &FileSlice, why: Error) -> Result<Compacted> {
    match why.kind() {
        ErrorKind::Unsupported => Ok(Compacted::Skipped { file_id: slice.file_id.clone(), why }),
        _ => Err(why),
    }
}

fn write_shard(
    storage: &Storage,
    kind: Kind,
    slice: &FileSlice,
    counts: impl Fn(&str) -> bool,
    instant: &str,
    write_token: &str,
) -> Result<WriteStat> {
    let mut records = ShardRecords::new(kind)?;
    let scan = LogScan::open(storage, &slice.logs, counts)?;
    check_logs(storage, &scan)?;
    let logged = read_logs(&scan, &mut records)?;
    let (log_keys, partition) = (records.len(), super::super::partition_of(slice));
    let mut file = NewBaseFile::create(storage, partition, &slice.file_id, instant, write_token)?;
    let mut updated = 0;
    if let Some(base) = &slice.base {
        let named = |e: Error| e.with("table", storage.uri()).with("file", &base.path);
        let merge = || merge_base(&open_base(storage, base)?, &mut records, &mut file);
        updated = decode("an HFile", merge).map_err(named)?;
    }
    while let Some((key, logged)) = records.pop_before(None) {
        append(&records, &mut file, &key, logged)?;
    }
    let stat = file.finish()?;
    let count = |n: usize| i64::try_from(n).ok();
    let base = slice.base.as_ref();
    Ok(WriteStat {
        prev_commit: base.map(|base| base.instant.clone()).or(stat.prev_commit.clone()),
        prev_base_file: base.map(|base| base.name().to_owned()),
        num_update_writes: count(updated),
        num_inserts: count(log_keys.saturating_sub(updated)),
        total_updated_records_compacted: count(log_keys),
        ..logged.add_to(stat, slice)
    })
}

/// Reads the blocks of the log files, in the order in which they are merged.
///
/// # Errors
/// `Corrupt`, with the file; `Unsupported` for records of another schema; `Storage`.
pub(super) fn read_logs(scan: &LogScan, records: &mut ShardRecords) -> Result<LogCounts> {
    let mut read = LogCounts::default();
    for block in 0..scan.blocks() {
        read.blocks += 1;
        scan.read_raw(block, &mut |content| match content {
            RawBlock::Deletes(deletes) => {
                deletes.keys.iter().flatten().for_each(|key| records.delete(key.as_bytes()));
                Ok(())
            }
            RawBlock::Records { content, schema } => {
                check_schema(schema)?;
                for block in HFileReader::open(content)?.data_blocks()? {
                    for entry in block?.entries() {
                        records.add(entry.key, entry.value)?;
                        read.records += 1;
                    }
                }
                Ok(())
            }
        })?;
    }
    Ok(read)
}

/// Merges the records of the base file with those of the log files that are not behind its last key. Returns how many of them
/// the log files change.
fn merge_base(base: &HFileReader<StoredFile>, records: &mut ShardRecords, file: &mut NewBaseFile) -> Result<usize> {
    let schema = base.file_info("schema").ok_or_else(|| Error::corrupt("an HFile has no schema in its file info"))?;
    check_schema(&String::from_utf8_lossy(schema))?;
    let (mut updated, mut last) = (0, Vec::new());
    for block in base.data_blocks()? {
        updated += merge_block(&block?, records, file, &mut last)?;
    }
    Ok(updated)
}

fn merge_block(
    block: &DataBlock,
    records: &mut ShardRecords,
    file: &mut NewBaseFile,
    last: &mut Vec<u8>,
) -> Result<usize> {
    let mut updated = 0;
    for entry in block.entries() {
        if !last.is_empty() && entry.key <= last.as_slice() {
            return Err(Error::unsupported("the keys of a base file are not in the order of their bytes"));
        }
        last.clear();
        last.extend_from_slice(entry.key);
        while let Some((key, logged)) = records.pop_before(Some(entry.key)) {
            append(records, file, &key, logged)?;
        }
        match records.pop(entry.key) {
            None => file.append(entry.key, entry.value)?,
            Some(logged) => {
                updated += 1;
                if let Some(value) = records.value(entry.key, logged, Some(entry.value))? {
                    file.append(entry.key, &value)?;
                }
            }
        }
    }
    Ok(updated)
}

/// Appends a record that only log files have.
fn append(records: &ShardRecords, file: &mut NewBaseFile, key: &[u8], logged: LoggedKey) -> Result<()> {
    match records.value(key, logged, None)? {
        Some(value) => file.append(key, &value),
        None => Ok(()),
    }
}

/// Values are copied as they are, so all of them have to be of the schema that the new file names.
fn check_schema(schema: &str) -> Result<()> {
    if schema.trim_ascii_end() == RECORD_SCHEMA || is_same(schema) {
        return Ok(());
    }
    Err(Error::unsupported("its records are of another schema than Hudi 1.2 writes")
        .remedy("Let Hudi 1.2 compact the metadata table once"))
}

fn is_same(schema: &str) -> bool {
    let parsed = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
    parsed(schema).is_some_and(|schema| Some(schema) == parsed(RECORD_SCHEMA))
}
