//! The base files of the shards of a new index of keys, written before the table lock is taken, by one process or by tasks
//! of several.
//!
//! They are staged beside the markers of the instant that builds the index, where no reader looks. Publishing gives them
//! the names that they have in the metadata table. Beside each file there is one with a number for each key: that of the
//! file slice that it came from, four bytes each. By these numbers the keys of slices are found that nobody can read again.

use std::collections::HashSet;
use std::io::Write;

use arrow::array::{RecordBatch, StringArray, StringBuilder};
use hoodoo_hfile::{HFileError, HFileReader};
use serde::{Deserialize, Serialize};

use super::base_file::{ShardFile, base_file_name, base_stat};
use super::sharded_keys::columns;
use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::metadata_table::FOLDER;
use crate::metadata_table::slice::StoredFile;
use crate::parallel::run_parallel;
use crate::storage::guard::decode;
use crate::storage::{FileWriter, Storage};

/// In place of the number of a shard: the slice could not be read.
pub(crate) const UNREAD: u32 = u32::MAX;
/// Bytes of numbers that wait to be written.
const NUMBER_BYTES: usize = 64 << 10;
/// Files of an object store that get their names at a time.
const THREADS: usize = 16;
/// Keys that are passed on at a time.
const BATCH_ROWS: usize = 65_536;

/// A shard that waits for its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StagedShard {
    /// Its number.
    pub(crate) shard: u32,
    /// Where its base file is.
    path: String,
    bytes: u64,
    records: u64,
}

/// Writes shards.
pub(crate) struct ShardWriter<'a> {
    /// Where they are staged.
    pub(crate) folder: String,
    /// Distinguishes attempts.
    pub(crate) token: &'a str,
    /// The storage of the table.
    pub(crate) storage: &'a Storage,
    /// The partition of the metadata table.
    pub(crate) partition: &'a str,
    /// The file ids of its shards.
    pub(crate) file_ids: &'a [String],
    /// The values of keys by number.
    pub(crate) values: &'a [Vec<u8>],
}

/// What was written.
#[derive(Default)]
pub(crate) struct Written {
    /// The shards that have keys.
    pub(crate) shards: Vec<StagedShard>,
    /// The slices of which there may be only some keys.
    pub(crate) unread: Vec<u32>,
}

impl ShardWriter<'_> {
    /// Writes keys (`key_rows`), which come by shard and in the order of their bytes. Of equal ones the last counts.
    ///
    /// # Errors
    /// `Storage`; `Internal` for keys in another order; those of `rows`.
    pub(crate) fn write(&self, rows: impl Iterator<Item = Result<RecordBatch>>) -> Result<Written> {
        let mut written = Written::default();
        let mut open: Option<OpenShard> = None;
        for batch in rows {
            let batch = batch?;
            let (shards, keys, numbers) = columns(&batch)?;
            for row in 0..batch.num_rows() {
                let (shard, key, number) = (shards.value(row), keys.value(row), numbers.value(row));
                if shard == UNREAD {
                    written.unread.push(number);
                    continue;
                }
                match &mut open {
                    Some(open) if open.shard == shard => open.add(key, number, self.values)?,
                    _ => {
                        if let Some(whole) = open.replace(self.begin(shard, key, number)?) {
                            written.shards.push(whole.finish(self.values)?);
                        }
                    }
                }
            }
        }
        if let Some(whole) = open {
            written.shards.push(whole.finish(self.values)?);
        }
        Ok(written)
    }

    fn begin(&self, shard: u32, key: &str, number: u32) -> Result<OpenShard> {
        let no_shard = || Error::internal("a key of an index has no shard").with("shard", shard);
        let file_id = self.file_ids.get(shard as usize).ok_or_else(no_shard)?;
        let path = format!("{}/{file_id}_{}.hfile", self.folder, self.token);
        Ok(OpenShard {
            shard,
            file: ShardFile::create(self.storage, self.partition, &path)?,
            numbers: self.storage.writer(&numbers_of(&path))?,
            path,
            waiting: Vec::with_capacity(NUMBER_BYTES),
            key: key.to_owned(),
            number,
        })
    }
}

fn numbers_of(path: &str) -> String {
    format!("{path}.slices")
}

/// A shard that is being written.
struct OpenShard {
    shard: u32,
    path: String,
    file: ShardFile,
    numbers: FileWriter,
    /// Numbers that are yet to be written.
    waiting: Vec<u8>,
    /// The key that is not written yet: an equal one may follow.
    key: String,
    number: u32,
}

impl OpenShard {
    fn add(&mut self, key: &str, number: u32, values: &[Vec<u8>]) -> Result<()> {
        if self.key != key {
            self.append(values)?;
            self.key.clear();
            self.key.push_str(key);
        }
        self.number = number;
        Ok(())
    }

    fn append(&mut self, values: &[Vec<u8>]) -> Result<()> {
        let lost = || Error::internal("a key of a new index has no value").with("number", self.number);
        let value = values.get(self.number as usize).ok_or_else(lost)?;
        self.file.append(self.key.as_bytes(), value)?;
        self.waiting.extend(self.number.to_le_bytes());
        if self.waiting.len() >= NUMBER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.numbers.write_all(&self.waiting).map_err(HFileError::Io)?;
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self, values: &[Vec<u8>]) -> Result<StagedShard> {
        self.append(values)?;
        self.flush()?;
        let Self { shard, path, file, numbers, .. } = self;
        numbers.finish()?;
        let (records, bytes) = file.finish()?;
        Ok(StagedShard { shard, path, bytes, records })
    }
}

impl StagedShard {
    /// Passes the keys that came from these slices to `each`, so many at a time.
    ///
    /// # Errors
    /// `Corrupt` for files that are not as they were written; `Storage`; those of `each`.
    pub(crate) fn keys_of(
        &self,
        storage: &Storage,
        slices: &HashSet<u32>,
        each: &mut dyn FnMut(&StringArray) -> Result<()>,
    ) -> Result<()> {
        let damaged = |what: &str| Error::corrupt(what).with("table", storage.uri()).with("file", &self.path);
        let numbers = storage.read(&numbers_of(&self.path))?;
        let (numbers, _) = numbers.as_chunks::<4>();
        if numbers.len() as u64 != self.records {
            return Err(damaged("a shard of a new index has other keys than it was written with"));
        }
        let mut numbers = numbers.iter().map(|number| u32::from_le_bytes(*number));
        let mut found = StringBuilder::new();
        let mut count = 0;
        let mut read = || {
            let file = HFileReader::open(StoredFile(storage.reader(&self.path, self.bytes)?))?;
            for block in file.data_blocks()? {
                for entry in block?.entries() {
                    if !numbers.next().is_some_and(|number| slices.contains(&number)) {
                        continue;
                    }
                    let key = std::str::from_utf8(entry.key);
                    found.append_value(key.map_err(|e| damaged("a key is no string").caused_by(e))?);
                    count += 1;
                    if count == BATCH_ROWS {
                        count = 0;
                        each(&found.finish())?;
                    }
                }
            }
            each(&found.finish())
        };
        decode("an HFile", &mut read)
    }
}

/// Gives the staged shards of an index with these file ids their names. Returns what the commit says of them.
///
/// # Errors
/// `Storage`.
pub(super) fn publish_shards(
    storage: &Storage,
    partition: &str,
    file_ids: &[String],
    (instant, write_token): (&str, &str),
    staged: &[StagedShard],
) -> Result<Vec<WriteStat>> {
    let threads = if storage.is_remote() { THREADS } else { 1 };
    run_parallel(staged.iter().collect(), threads, |staged| {
        let no_shard = || Error::internal("a staged shard is none of the index").with("shard", staged.shard);
        let file_id = file_ids.get(staged.shard as usize).ok_or_else(no_shard)?;
        let name = base_file_name(file_id, write_token, instant);
        storage.move_file(&staged.path, &format!("{FOLDER}/{partition}/{name}"))?;
        Ok(base_stat(partition, file_id, &name, staged.records, staged.bytes))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
    use arrow::array::UInt32Array;

    use super::*;
    use crate::error::ErrorKind;
    use crate::metadata_table::write::sharded_keys::key_rows;
    use crate::storage::StorageOptions;

    fn written(storage: &Storage, rows: &[(u32, &str, u32)], values: usize) -> Result<Written> {
        let file_ids = ["s-0000-0".to_owned(), "s-0001-0".to_owned()];
        let values: Vec<Vec<u8>> = (0..values).map(|number| vec![u8::try_from(number).unwrap()]).collect();
        let folder = ".hoodie/.temp/1/index/record_index".to_owned();
        let writer =
            ShardWriter { folder, token: "0-0-0", storage, partition: "p", file_ids: &file_ids, values: &values };
        // Batches end within shards and between equal keys.
        writer.write(rows.chunks(2).map(|some| {
            let shards: UInt32Array = some.iter().map(|row| Some(row.0)).collect();
            let keys: StringArray = some.iter().map(|row| Some(row.1)).collect();
            key_rows(shards, &keys, some.iter().map(|row| Some(row.2)).collect())
        }))
    }

    fn keys_of(storage: &Storage, shard: &StagedShard, slices: &[u32]) -> Vec<String> {
        let mut found = Vec::new();
        let mut each = |keys: &StringArray| {
            found.extend(keys.iter().flatten().map(str::to_owned));
            Ok(())
        };
        shard.keys_of(storage, &slices.iter().copied().collect(), &mut each).unwrap();
        found
    }

    #[test]
    fn the_keys_of_slices_are_found_again() {
        let storage = Storage::open("memory://staged_shards/t", &StorageOptions::new()).unwrap();
        let rows = [(0, "a", 1), (0, "b", 0), (0, "b", 2), (0, "c", 1), (1, "d", 0), (UNREAD, "", 7)];
        let Written { shards, unread } = written(&storage, &rows, 3).unwrap();
        assert_eq!(unread, [7]);
        let [first, second] = &shards[..] else { panic!("{shards:?}") };
        assert_eq!((first.shard, first.records, second.shard, second.records), (0, 3, 1, 1));
        assert_eq!(keys_of(&storage, first, &[1]), ["a", "c"]);
        assert_eq!(keys_of(&storage, first, &[2, 0]), ["b"], "of equal keys the last one counts");
        assert!(keys_of(&storage, first, &[0]).is_empty());
        assert_eq!(keys_of(&storage, second, &[0]), ["d"]);
        storage.replace(&numbers_of(&first.path), "1234").unwrap();
        let damaged = first.keys_of(&storage, &HashSet::new(), &mut |_| Ok(())).unwrap_err();
        assert_eq!(damaged.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn keys_that_cannot_be_right_are_errors() {
        let storage = Storage::open("memory://staged_shards_errors/t", &StorageOptions::new()).unwrap();
        for rows in [[(0, "b", 0), (0, "a", 0)], [(0, "a", 9), (0, "b", 0)], [(0, "a", 0), (2, "a", 0)]] {
            assert_eq!(written(&storage, &rows, 1).err().unwrap().kind(), ErrorKind::Internal, "{rows:?}");
        }
    }
}
