//! The log file of a shard: a block of deletes, and one or two blocks of records.

use arrow::array::{Array, StringArray};
use hoodoo_hfile::{HFileWriter, HFileWriterOptions};

use super::records::PartitionUpdate;
use crate::error::{Error, Result};
use crate::file_group::LogFile;
use crate::format::avro::metadata::WriteStat;
use crate::format::log::{BlockKind, Deletes, HeaderKey, OrderingValue, write_block};
use crate::metadata_table::RECORD_INDEX;
use crate::metadata_table::column_ranges::records::KeyedRecord;
use crate::metadata_table::encode::RECORD_SCHEMA;
use crate::metadata_table::secondary_entries::is_secondary_index;

/// Size of a block of keys, before compression.
const KEY_BLOCK_BYTES: usize = 32 << 10;
/// Files of one delta commit are written by one task.
const WRITE_TOKEN: &str = "0-0-0";

/// The content of the log file that an instant writes to a shard of a partition.
///
/// # Errors
/// `InvalidOption` for a block of more than 2 GiB.
pub(super) fn content(instant: &str, partition: &str, update: PartitionUpdate) -> Result<Vec<u8>> {
    let PartitionUpdate { first, records, deletes } = update;
    let deletes: StringArray = deletes.into_iter().map(Some).collect();
    let mut content = content_of(instant, None, partition, &StringArray::new_null(0), sorted(partition, first)?)?;
    content.extend(content_of(instant, None, partition, &deletes, sorted(partition, records)?)?);
    Ok(content)
}

/// Records in the order of their keys; each key may be there once.
fn sorted(partition: &str, mut records: Vec<KeyedRecord>) -> Result<Records> {
    records.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
    let mut sorted = Records::of(partition);
    let mut last: Option<&str> = None;
    for (key, value) in &records {
        if last == Some(key) {
            return Err(Error::internal("two records of the metadata table have one key").with("key", key));
        }
        sorted.add(key, value)?;
        last = Some(key);
    }
    Ok(sorted)
}

/// Records in the order of their keys.
pub(in crate::metadata_table) struct Records {
    file: HFileWriter<Vec<u8>>,
    count: usize,
}

impl Records {
    /// None yet, of a partition.
    pub(in crate::metadata_table) fn of(partition: &str) -> Self {
        Self { file: HFileWriter::new(Vec::new(), options_of(partition)), count: 0 }
    }

    /// Adds a record; its key is greater than those before.
    ///
    /// # Errors
    /// `Internal` for a key that is not.
    pub(in crate::metadata_table) fn add(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.count += 1;
        self.file.append(key.as_bytes(), value).map_err(not_written)
    }

    /// How many there are.
    pub(in crate::metadata_table) fn count(&self) -> usize {
        self.count
    }
}

/// How the HFiles of a partition are written.
pub(super) fn options_of(partition: &str) -> HFileWriterOptions {
    match partition {
        // Some keys of very many are looked up: each costs a block.
        name if name == RECORD_INDEX || is_secondary_index(name) => {
            HFileWriterOptions::default().block_bytes(KEY_BLOCK_BYTES)
        }
        _ => HFileWriterOptions::default(),
    }
}

fn not_written(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("a record of the metadata table cannot be written").caused_by(e)
}

/// The content of a log file with these deletes and records. A log compaction has one more entry in the headers.
///
/// # Errors
/// `InvalidOption` for a block of more than 2 GiB.
pub(in crate::metadata_table) fn content_of(
    instant: &str,
    more: Option<(HeaderKey, String)>,
    partition: &str,
    deletes: &StringArray,
    records: Records,
) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut header = vec![(HeaderKey::InstantTime, instant), (HeaderKey::Schema, RECORD_SCHEMA)];
    header.extend(more.as_ref().map(|(key, value)| (*key, value.as_str())));
    if !deletes.is_empty() {
        let deletes = (0..deletes.len()).map(|row| (deletes.value(row), partition, OrderingValue::Default));
        write_block(&mut file, BlockKind::Delete, &header, &Deletes::write(deletes)?)?;
    }
    if records.count > 0 {
        let records = records.file.finish().map_err(not_written)?;
        write_block(&mut file, BlockKind::HfileData, &header, &records)?;
    }
    Ok(file)
}

/// The content of the first log file of a shard that gets no records yet: it makes the shard one that is there.
///
/// # Errors
/// None for a block without content.
pub(super) fn empty(instant: &str) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let none = Deletes::write(std::iter::empty::<(&str, &str, OrderingValue)>())?;
    write_block(&mut file, BlockKind::Delete, &[(HeaderKey::InstantTime, instant)], &none)?;
    Ok(file)
}

/// What the delta commit says of a log file of a shard: its bytes, how many records and deletes it has.
pub(in crate::metadata_table) fn stat(
    instant: &str,
    (partition, file_id, version): (&str, &str, u32),
    bytes: usize,
    (records, deletes): (usize, usize),
) -> WriteStat {
    let count = |n: usize| i64::try_from(n).ok();
    let name = LogFile::file_name(file_id, instant, version, WRITE_TOKEN);
    WriteStat {
        file_id: Some(file_id.to_owned()),
        path: Some(format!("{partition}/{name}")),
        prev_commit: Some(instant.to_owned()),
        num_writes: count(records),
        num_deletes: count(deletes),
        num_update_writes: count(records),
        num_inserts: Some(0),
        total_write_bytes: count(bytes),
        total_write_errors: Some(0),
        partition_path: Some(partition.to_owned()),
        file_size_in_bytes: count(bytes),
        log_version: i32::try_from(version).ok(),
        log_offset: Some(0),
        base_file: Some(String::new()),
        log_files: Some(vec![name]),
        ..WriteStat::default()
    }
}
