//! Caches base files that were opened for an index lookup, for the merge that follows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::file_group::BaseFile;
use crate::file_group::base::BaseFileReader;
use crate::format::internal_schema::SchemaHistory;
use crate::storage::{FileReader, Storage};

/// Files that are kept open: each takes a file descriptor.
const MOST: usize = 128;
/// Bytes of a file of an object store up to which what was fetched of it is kept too; of larger ones, only the footer is.
const MOST_BYTES: u64 = 512 << 10;

/// Opens a base file; its columns have the names of the table.
///
/// # Errors
/// `NotFound` when it is gone; `Corrupt`; `Storage`.
pub(crate) fn open_base(
    storage: &Storage,
    base: &BaseFile,
    history: Option<&SchemaHistory>,
) -> Result<BaseFileReader<FileReader>> {
    let names = history.map(|history| history.names_at(&base.instant)).transpose()?.flatten();
    BaseFileReader::open_renamed(storage.reader(&base.path, base.size)?, names.map(AsRef::as_ref))
}

/// Open base files by path.
#[derive(Default)]
pub(crate) struct OpenFiles {
    kept: Mutex<HashMap<String, BaseFileReader<FileReader>>>,
    history: Option<SchemaHistory>,
}

impl OpenFiles {
    /// Of a table whose fields have ids, or not.
    pub(crate) fn new(history: Option<SchemaHistory>) -> Self {
        Self { kept: Mutex::default(), history }
    }

    /// Opens a file, or takes one that was kept.
    ///
    /// # Errors
    /// `NotFound` when it is gone; `Corrupt`; `Storage`.
    pub(crate) fn open(&self, storage: &Storage, base: &BaseFile) -> Result<BaseFileReader<FileReader>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&base.path);
        match kept {
            Some(reader) => Ok(reader),
            None => open_base(storage, base, self.history.as_ref())
                .map_err(|e| e.with("table", storage.uri()).with("file", &base.path)),
        }
    }

    /// Keeps a file open that is going to be read again.
    pub(crate) fn keep(&self, base: &BaseFile, reader: BaseFileReader<FileReader>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST {
            if base.size > MOST_BYTES {
                reader.file().forget();
            }
            kept.insert(base.path.clone(), reader);
        }
    }
}
