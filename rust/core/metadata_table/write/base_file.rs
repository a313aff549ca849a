//! The base file of a shard: an HFile of sorted records.

use std::borrow::Cow;

use hoodoo_hfile::{HFileError, HFileWriter};

use super::log_file::options_of;
use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::metadata_table::FOLDER;
use crate::metadata_table::encode::RECORD_SCHEMA;
use crate::storage::{FileWriter, Storage};

/// The entry of the file info with the schema of the records. Readers of Hudi need no other.
const SCHEMA: &str = "schema";
/// Hudi writes this for a file that no file of its file group is before.
const NO_COMMIT_BEFORE: &str = "null";

/// Writes the base file of a shard. Records come in the order of the bytes of their keys, each key once; only the block that
/// is being filled is in memory. A file that a failed attempt of the same instant left is replaced. Returns `None`, and
/// writes no file, if there are no records.
///
/// # Errors
/// `Storage`; those of `records`.
pub(crate) fn write_base_file<'r>(
    storage: &Storage,
    partition: &str,
    file_id: &str,
    instant: &str,
    write_token: &str,
    records: impl Iterator<Item = Result<(Cow<'r, [u8]>, Cow<'r, [u8]>)>>,
) -> Result<Option<WriteStat>> {
    let mut records = records.peekable();
    if records.peek().is_none() {
        return Ok(None);
    }
    let mut file = NewBaseFile::create(storage, partition, file_id, instant, write_token)?;
    for record in records {
        let (key, value) = record?;
        file.append(&key, &value)?;
    }
    file.finish().map(Some)
}

/// A base file under construction. It does not exist for others before it is finished.
pub(crate) struct NewBaseFile {
    file: ShardFile,
    partition: String,
    file_id: String,
    name: String,
}

impl NewBaseFile {
    /// Begins the base file of a shard; a file that a failed attempt of the same instant left is replaced.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn create(
        storage: &Storage,
        partition: &str,
        file_id: &str,
        instant: &str,
        write_token: &str,
    ) -> Result<Self> {
        let name = base_file_name(file_id, write_token, instant);
        let path = format!("{FOLDER}/{partition}/{name}");
        if storage.is_local() {
            // Hadoop's file system keeps a checksum beside a file, which would not be that of the new one.
            storage.delete(&path)?;
        }
        let file = ShardFile::create(storage, partition, &path)?;
        Ok(Self { file, partition: partition.to_owned(), file_id: file_id.to_owned(), name })
    }

    /// Appends a record, whose key is greater than the one before.
    ///
    /// # Errors
    /// `Storage`; `Internal` for a key that is not greater.
    pub(crate) fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.file.append(key, value)
    }

    /// Publishes the file.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn finish(self) -> Result<WriteStat> {
        let Self { file, partition, file_id, name } = self;
        let (records, bytes) = file.finish()?;
        Ok(base_stat(&partition, &file_id, &name, records, bytes))
    }
}

/// The name of a base file.
pub(super) fn base_file_name(file_id: &str, write_token: &str, instant: &str) -> String {
    format!("{file_id}_{write_token}_{instant}.hfile")
}

/// What a commit says of the first base file of a shard.
pub(super) fn base_stat(partition: &str, file_id: &str, name: &str, records: u64, bytes: u64) -> WriteStat {
    let (records, bytes) = (i64::try_from(records).ok(), i64::try_from(bytes).ok());
    WriteStat {
        file_id: Some(file_id.to_owned()),
        path: Some(format!("{partition}/{name}")),
        prev_commit: Some(NO_COMMIT_BEFORE.to_owned()),
        num_writes: records,
        num_deletes: Some(0),
        num_update_writes: Some(0),
        num_inserts: records,
        num_updates: Some(0),
        total_write_bytes: bytes,
        total_write_errors: Some(0),
        partition_path: Some(partition.to_owned()),
        file_size_in_bytes: bytes,
        ..WriteStat::default()
    }
}

/// The HFile of a shard under construction.
pub(super) struct ShardFile {
    writer: HFileWriter<FileWriter>,
    records: u64,
}

impl ShardFile {
    /// Begins the file of a shard of a partition.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn create(storage: &Storage, partition: &str, path: &str) -> Result<Self> {
        let mut writer = HFileWriter::new(storage.writer(path)?, options_of(partition));
        writer.set_file_info(SCHEMA, RECORD_SCHEMA).map_err(failed)?;
        Ok(Self { writer, records: 0 })
    }

    /// Appends a record, whose key is greater than the one before.
    ///
    /// # Errors
    /// `Storage`; `Internal` for a key that is not greater.
    pub(super) fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer.append(key, value).map_err(failed)?;
        self.records += 1;
        Ok(())
    }

    /// Publishes the file; how many records and bytes it has.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn finish(self) -> Result<(u64, u64)> {
        Ok((self.records, self.writer.finish().map_err(failed)?.finish()?))
    }
}

/// An error of the storage stays what it is; all others are of the records.
fn failed(e: HFileError) -> Error {
    match e {
        HFileError::Io(_) | HFileError::Source(_) => e.into(),
        other => Error::internal("a record of the metadata table cannot be written").caused_by(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use hoodoo_hfile::HFileReader;

    use super::*;
    use crate::error::ErrorKind;
    use crate::storage::StorageOptions;

    type Record = Result<(Cow<'static, [u8]>, Cow<'static, [u8]>)>;

    fn record(key: &'static str, value: &'static str) -> Record {
        Ok((Cow::Borrowed(key.as_bytes()), Cow::Borrowed(value.as_bytes())))
    }

    fn write(storage: &Storage, records: Vec<Record>) -> Result<Option<WriteStat>> {
        write_base_file(storage, "files", "files-0000-0", "001", "0-0-0", records.into_iter())
    }

    #[test]
    fn records_are_in_a_file_with_their_schema() {
        let storage = Storage::open("memory://base_file/t", &StorageOptions::new()).unwrap();
        assert_eq!(write(&storage, Vec::new()).unwrap(), None);
        assert!(storage.list_recursive("").unwrap().is_empty());
        write(&storage, vec![record("z", "of a failed attempt")]).unwrap();
        let stat = write(&storage, vec![record("a", "1"), record("b", "2")]).unwrap().unwrap();
        assert_eq!(stat.path.as_deref(), Some("files/files-0000-0_0-0-0_001.hfile"));
        let files = storage.list_recursive("").unwrap();
        assert_eq!((files.len(), files[0].path.as_str()), (1, ".hoodie/metadata/files/files-0000-0_0-0-0_001.hfile"));
        assert_eq!(stat.file_size_in_bytes, i64::try_from(files[0].size).ok());
        assert_eq!((stat.num_writes, stat.num_inserts), (Some(2), Some(2)));
        let file = HFileReader::open(storage.read(&files[0].path).unwrap()).unwrap();
        assert_eq!(file.file_info(SCHEMA).unwrap().as_ref(), RECORD_SCHEMA.as_bytes());
    }

    #[test]
    fn nothing_is_left_of_a_file_that_cannot_be_written() {
        let storage = Storage::open("memory://base_file_failed/t", &StorageOptions::new()).unwrap();
        let unsorted = write(&storage, vec![record("b", "1"), record("a", "2")]).unwrap_err();
        assert_eq!(unsorted.kind(), ErrorKind::Internal);
        let broken = write(&storage, vec![record("a", "1"), Err(Error::corrupt("x"))]).unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::Corrupt);
        assert!(storage.list_recursive("").unwrap().is_empty());
    }
}
