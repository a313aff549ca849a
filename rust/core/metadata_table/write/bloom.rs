//! The bloom filters of new base files, from their footers.

use std::sync::Arc;

use super::changes::{AddedFile, FileChanges, StoredBloom};
use super::records::base_file;
use crate::error::Result;
use crate::file_group::base::BaseFileReader;
use crate::parallel::run_parallel;
use crate::storage::Storage;

/// Footers of an object store that are read at a time.
const THREADS: usize = 16;

/// The same changes, with the bloom filters of the base files that were added.
///
/// # Errors
/// `Corrupt` for a file that is no Parquet file; `Storage`.
pub(super) fn with_bloom_filters(storage: &Storage, changes: &FileChanges) -> Result<FileChanges> {
    let mut changes = changes.clone();
    let work: Vec<(&str, &mut AddedFile)> = changes
        .partitions
        .iter_mut()
        .flat_map(|(partition, one)| one.added.iter_mut().map(|file| (partition.as_str(), file)))
        .collect();
    let threads = if storage.is_remote() { THREADS } else { 2 };
    run_parallel(work, threads, |(partition, file)| {
        if let Some(base) = base_file(partition, file).filter(|_| file.bloom.is_none()) {
            file.bloom = read_bloom_filter(storage, &base.path, base.size)?;
        }
        Ok(())
    })?;
    Ok(changes)
}

/// The bloom filter of a base file.
///
/// # Errors
/// `Corrupt` for a file that is no Parquet file; `Storage`.
pub(crate) fn read_bloom_filter(storage: &Storage, path: &str, size: u64) -> Result<Option<Arc<StoredBloom>>> {
    let reader = BaseFileReader::open(storage.reader(path, size)?)?;
    let stored = reader.stored_bloom_filter();
    Ok(stored.map(|(filter_type, filter)| {
        Arc::new(StoredBloom { filter_type: filter_type.to_owned(), filter: filter.to_owned() })
    }))
}
