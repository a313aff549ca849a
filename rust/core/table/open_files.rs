//! Caches base files that were opened for an index lookup, for the merge that follows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::file_group::BaseFile;
use crate::file_group::base::BaseFileReader;
use crate::storage::{FileReader, Storage};

/// Files that are kept open: each takes a file descriptor.
const MOST: usize = 128;
/// Bytes of a file of an object store up to which what was fetched of it is kept too; of larger ones, only the footer is.
const MOST_BYTES: u64 = 512 << 10;

/// Open base files by path.
#[derive(Default)]
pub(crate) struct OpenFiles(Mutex<HashMap<String, BaseFileReader<FileReader>>>);

impl OpenFiles {
    /// Opens a file, or takes one that was kept.
    ///
    /// # Errors
    /// `NotFound` when it is gone; `Corrupt`; `Storage`.
    pub(crate) fn open(&self, storage: &Storage, base: &BaseFile) -> Result<BaseFileReader<FileReader>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&base.path);
        match kept {
            Some(reader) => Ok(reader),
            None => storage
                .reader(&base.path, base.size)
                .and_then(BaseFileReader::open)
                .map_err(|e| e.with("table", storage.uri()).with("file", &base.path)),
        }
    }

    /// Keeps a file open that is going to be read again.
    pub(crate) fn keep(&self, base: &BaseFile, reader: BaseFileReader<FileReader>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST {
            if base.size > MOST_BYTES {
                reader.file().forget();
            }
            kept.insert(base.path.clone(), reader);
        }
    }
}
