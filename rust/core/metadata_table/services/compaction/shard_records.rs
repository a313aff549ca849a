//! The records of a shard's log files by key, and what becomes of them and those of the base file.
//!
//! Records are merged as they are when the metadata table is read, but they stay in their stored form: one that replaces
//! another is copied byte by byte.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Deserialize;

use super::statistics;
use crate::error::{Error, Result};
use crate::format::avro::datum::{Cursor, DatumSchema, read_datum};
use crate::metadata_table::encode::{FileEntries, RECORD_SCHEMA, files_record};
use crate::metadata_table::files::{Files, combine};
use crate::metadata_table::keys::ALL_PARTITIONS;
use crate::metadata_table::kind::Kind;

/// What log files say of a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Logged {
    /// It is deleted.
    Deleted,
    /// Its record.
    Record(Vec<u8>),
    /// Its files, which are added to those that there are.
    Files(Files),
}

/// The same, and what it means for the base file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedKey {
    last: Logged,
    /// Whether the key was deleted once, so that the base file has nothing to say of it.
    replaces_base: bool,
}

impl LoggedKey {
    /// Whether the base file has nothing to say of it.
    pub(super) fn replaces_base(&self) -> bool {
        self.replaces_base
    }
}

/// Log records by the bytes of their keys.
pub(super) struct ShardRecords {
    kind: Kind,
    schema: DatumSchema,
    by_key: BTreeMap<Vec<u8>, LoggedKey>,
}

impl ShardRecords {
    /// Of a shard of a partition of this kind.
    ///
    /// # Errors
    /// None: the schema of records is Avro.
    pub(super) fn new(kind: Kind) -> Result<Self> {
        Ok(Self { kind, schema: DatumSchema::parse(RECORD_SCHEMA)?, by_key: BTreeMap::new() })
    }

    /// Adds a record that is newer than those before.
    ///
    /// # Errors
    /// `Corrupt` for a value that is none of this kind; `Unsupported` for values that cannot be merged.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let newer = match self.kind {
            Kind::Files => Logged::Files(self.read::<StoredFiles>(value)?.into_files()),
            _ => Logged::Record(value.to_vec()),
        };
        match self.by_key.entry(key.to_vec()) {
            Entry::Vacant(entry) => {
                entry.insert(LoggedKey { last: newer, replaces_base: false });
            }
            Entry::Occupied(mut entry) => {
                let last = &mut entry.get_mut().last;
                *last = match (std::mem::replace(last, Logged::Deleted), newer) {
                    (Logged::Files(old), Logged::Files(new)) => Logged::Files(combine(old, new)),
                    (Logged::Record(old), Logged::Record(new)) => Logged::Record(merge(self.kind, &old, new)?),
                    (_, newer) => newer,
                };
            }
        }
        Ok(())
    }

    /// Deletes a key.
    pub(super) fn delete(&mut self, key: &[u8]) {
        self.by_key.insert(key.to_vec(), LoggedKey { last: Logged::Deleted, replaces_base: true });
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Takes out the first key, if it is before the given one.
    pub(super) fn pop_before(&mut self, key: Option<&[u8]>) -> Option<(Vec<u8>, LoggedKey)> {
        let first = self.by_key.first_entry()?;
        (key.is_none_or(|key| first.key().as_slice() < key)).then(|| first.remove_entry())
    }

    /// Takes out what log files say of a key of the base file.
    pub(super) fn pop(&mut self, key: &[u8]) -> Option<LoggedKey> {
        // Keys before it are out already.
        let first = self.by_key.first_entry()?;
        (first.key().as_slice() == key).then(|| first.remove())
    }

    /// The value that a log file has of a key, which is still to be merged with the base file; `None` if it is deleted.
    pub(super) fn logged_value(&self, key: &[u8], logged: &LoggedKey) -> Option<Vec<u8>> {
        match &logged.last {
            Logged::Deleted => None,
            Logged::Files(files) => Some(encode(key, files)),
            Logged::Record(record) => Some(record.clone()),
        }
    }

    /// The value that the base file of a compaction has of a key: `base` is the one that is there. `None` if the key is
    /// deleted.
    ///
    /// # Errors
    /// Those of [`ShardRecords::add`].
    pub(super) fn value(&self, key: &[u8], logged: LoggedKey, base: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let base = base.filter(|_| !logged.replaces_base);
        match logged.last {
            Logged::Deleted => Ok(None),
            Logged::Files(files) => {
                let before = base.map(|value| self.read::<StoredFiles>(value)).transpose()?;
                Ok(Some(encode(key, &combine(before.map(StoredFiles::into_files).unwrap_or_default(), files))))
            }
            Logged::Record(record) => {
                let merged = match base {
                    Some(base) => merge(self.kind, base, record)?,
                    None => record,
                };
                Ok(if self.is_deleted(&merged)? { None } else { Some(merged) })
            }
        }
    }

    /// Whether a record says that what it is about is gone.
    fn is_deleted(&self, value: &[u8]) -> Result<bool> {
        match self.kind {
            Kind::Files | Kind::RecordIndex => Ok(false),
            Kind::ColumnStats | Kind::PartitionStats => statistics::is_deleted(value),
            Kind::BloomFilters => Ok(self.read::<StoredFilter>(value)?.filter.is_some_and(|one| one.is_deleted)),
            Kind::SecondaryIndex => Ok(self.read::<StoredEntry>(value)?.entry.is_some_and(|one| one.is_deleted)),
        }
    }

    fn read<'v, T: Deserialize<'v>>(&self, value: &'v [u8]) -> Result<T> {
        read_datum(&self.schema, &mut Cursor::new(value))
            .map_err(|e| Error::corrupt("a record of the metadata table is damaged").caused_by(e))
    }
}

/// The newer record of a key, merged with the older one where it does not replace it.
fn merge(kind: Kind, old: &[u8], new: Vec<u8>) -> Result<Vec<u8>> {
    match kind {
        Kind::ColumnStats | Kind::PartitionStats => Ok(statistics::merge(old, &new)?.unwrap_or(new)),
        Kind::Files | Kind::BloomFilters | Kind::RecordIndex | Kind::SecondaryIndex => Ok(new),
    }
}

/// The record of files. Those that are deleted stay in it as such, as in Hudi.
fn encode(key: &[u8], files: &Files) -> Vec<u8> {
    let entries =
        files.iter().map(|(name, (size, is_deleted))| (name.as_str(), u64::try_from(*size).unwrap_or(0), *is_deleted));
    let kind = if key == ALL_PARTITIONS.as_bytes() { FileEntries::Partitions } else { FileEntries::Files };
    files_record(entries, kind)
}

#[derive(Deserialize)]
struct StoredFiles {
    #[serde(rename = "filesystemMetadata")]
    files: Option<BTreeMap<String, StoredFile>>,
}

#[derive(Deserialize)]
struct StoredFile {
    size: i64,
    #[serde(rename = "isDeleted")]
    is_deleted: bool,
}

#[derive(Deserialize)]
struct StoredFilter {
    #[serde(rename = "BloomFilterMetadata")]
    filter: Option<Deletable>,
}

#[derive(Deserialize)]
struct StoredEntry {
    #[serde(rename = "SecondaryIndexMetadata")]
    entry: Option<Deletable>,
}

#[derive(Deserialize)]
struct Deletable {
    #[serde(rename = "isDeleted")]
    is_deleted: bool,
}

impl StoredFiles {
    fn into_files(self) -> Files {
        let entries = self.files.unwrap_or_default();
        entries.into_iter().map(|(name, file)| (name, (file.size, file.is_deleted))).collect()
    }
}
