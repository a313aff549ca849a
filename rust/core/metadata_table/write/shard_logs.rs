//! The log files of the shards of an index of keys.
//!
//! A shard gets one, unless an action changes so many keys that they would take too much memory: then it gets several, and
//! each key is in one of them.

use arrow::array::StringBuilder;

use super::log_file::{Records, content_of, empty, stat};
use super::sharded_keys::KeyChanges;
use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::metadata_table::FOLDER;
use crate::parallel::run_parallel;
use crate::storage::Storage;

/// Bytes of keys and values, before compression, at which a log file ends.
const FILE_BYTES: usize = 64 << 20;
/// Bytes of contents that are written at a time.
const WAITING_BYTES: usize = 32 << 20;
/// Log files of an object store that are written at a time.
const THREADS: usize = 16;

/// Writes the log files of an instant; what the delta commit says of them.
///
/// # Errors
/// `Storage`.
pub(super) fn write_logs(storage: &Storage, instant: &str, changes: KeyChanges) -> Result<Vec<WriteStat>> {
    let (file_ids, new) = (changes.file_ids().to_vec(), changes.new_shards());
    let partition = changes.partition().to_owned();
    let (values, gone, keys) = changes.into_parts();
    let mut logs = ShardLogs {
        storage,
        instant,
        partition: &partition,
        file_ids,
        current: None,
        written: Vec::new(),
        waiting: Waiting::default(),
    };
    let lost = || Error::internal("a key of an index has a value of no number");
    keys.for_each(&mut |shard, key, value| {
        let value = value.map(|value| values.get(value as usize).ok_or_else(lost)).transpose()?;
        logs.add(shard, key, value.or(gone.as_ref()).map(Vec::as_slice))
    })?;
    logs.end_file()?;
    let written: Vec<usize> = logs.written.clone();
    for shard in new.filter(|shard| !written.contains(shard)) {
        logs.publish(shard, 1, empty(instant)?, (0, 0))?;
    }
    logs.waiting.flush(storage)?;
    Ok(logs.waiting.stats)
}

struct ShardLogs<'a> {
    storage: &'a Storage,
    instant: &'a str,
    partition: &'a str,
    file_ids: Vec<String>,
    current: Option<Open>,
    /// Shards that have a log file.
    written: Vec<usize>,
    waiting: Waiting,
}

/// A log file that is being filled.
struct Open {
    shard: usize,
    version: u32,
    records: Records,
    deletes: StringBuilder,
    deleted: usize,
    bytes: usize,
}

impl Open {
    fn new(partition: &str, shard: usize, version: u32) -> Self {
        Self { shard, version, records: Records::of(partition), deletes: StringBuilder::new(), deleted: 0, bytes: 0 }
    }
}

impl ShardLogs<'_> {
    /// Adds a key with its record, or as one that is gone.
    fn add(&mut self, shard: usize, key: &str, value: Option<&[u8]>) -> Result<()> {
        let version = match &self.current {
            Some(open) if open.shard == shard && open.bytes < FILE_BYTES => None,
            Some(open) if open.shard == shard => Some(open.version + 1),
            _ => Some(1),
        };
        if let Some(version) = version {
            self.end_file()?;
            self.current = Some(Open::new(self.partition, shard, version));
        }
        let Some(open) = &mut self.current else { return Ok(()) };
        open.bytes += key.len();
        match value {
            Some(value) => {
                open.bytes += value.len();
                open.records.add(key, value)
            }
            None => {
                open.deletes.append_value(key);
                open.deleted += 1;
                Ok(())
            }
        }
    }

    fn end_file(&mut self) -> Result<()> {
        let Some(Open { shard, version, records, mut deletes, deleted, .. }) = self.current.take() else {
            return Ok(());
        };
        let counts = (records.count(), deleted);
        let content = content_of(self.instant, None, self.partition, &deletes.finish(), records)?;
        self.publish(shard, version, content, counts)
    }

    fn publish(&mut self, shard: usize, version: u32, content: Vec<u8>, counts: (usize, usize)) -> Result<()> {
        let file_id = self.file_ids.get(shard).map(String::as_str).unwrap_or_default();
        let stat = stat(self.instant, (self.partition, file_id, version), content.len(), counts);
        self.written.push(shard);
        self.waiting.add(stat, content);
        if self.waiting.bytes > WAITING_BYTES { self.waiting.flush(self.storage) } else { Ok(()) }
    }
}

/// Log files that are yet to be written, where each takes a request.
#[derive(Default)]
struct Waiting {
    files: Vec<(String, Vec<u8>)>,
    bytes: usize,
    stats: Vec<WriteStat>,
}

impl Waiting {
    fn add(&mut self, stat: WriteStat, content: Vec<u8>) {
        self.bytes += content.len();
        let path = stat.path.clone().unwrap_or_default();
        self.files.push((format!("{FOLDER}/{path}"), content));
        self.stats.push(stat);
    }

    fn flush(&mut self, storage: &Storage) -> Result<()> {
        let threads = if storage.is_remote() { THREADS } else { 1 };
        self.bytes = 0;
        run_parallel(std::mem::take(&mut self.files), threads, |(path, content)| storage.create(&path, content))?;
        Ok(())
    }
}
