//! The base files of slices without log files.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::file_group::base::BaseFileReader;
use crate::file_group::{BaseFile, FileSlice};
use crate::format::internal_schema::SchemaHistory;
use crate::storage::{FileReader, Storage};
use crate::table::open_base;

/// Maximum number of files that stay open: the bloom filters in their footers take memory.
const KEPT_OPEN: usize = 64;

/// An open base file.
pub(super) type OpenFile = Arc<BaseFileReader<FileReader>>;

/// Base files by the number of their slice; `None` for a slice with log files.
pub(super) struct BaseFiles<'a> {
    storage: &'a Storage,
    history: Option<&'a SchemaHistory>,
    files: Vec<Option<&'a BaseFile>>,
    open: Vec<Mutex<Option<OpenFile>>>,
}

impl<'a> BaseFiles<'a> {
    pub(super) fn of(storage: &'a Storage, slices: &'a [FileSlice], history: Option<&'a SchemaHistory>) -> Self {
        let files: Vec<Option<&BaseFile>> =
            slices.iter().map(|slice| slice.base.as_ref().filter(|_| slice.logs.is_empty())).collect();
        let kept = if files.len() <= KEPT_OPEN { files.len() } else { 0 };
        Self { storage, history, files, open: (0..kept).map(|_| Mutex::default()).collect() }
    }

    /// The numbers of all slices, when each is a base file and no more.
    pub(super) fn all(&self) -> Option<Vec<usize>> {
        self.files.iter().all(Option::is_some).then(|| (0..self.files.len()).collect())
    }

    pub(super) fn get(&self, number: usize) -> Option<&'a BaseFile> {
        self.files.get(number).copied().flatten()
    }

    /// Adds the file of a slice to an error.
    pub(super) fn named(&self, number: usize, error: Error) -> Error {
        let path = self.get(number).map_or("", |base| &base.path);
        error.with("table", self.storage.uri()).with("file", path)
    }

    /// Opens the file of a slice.
    ///
    /// # Errors
    /// `Corrupt`, `Storage`.
    pub(super) fn open(&self, number: usize) -> Result<OpenFile> {
        let base = self.get(number).ok_or_else(|| Error::schema("a file slice has log files"))?;
        let open = || open_base(self.storage, base, self.history).map(Arc::new).map_err(|e| self.named(number, e));
        let Some(kept) = self.open.get(number) else { return open() };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match kept.take() {
            Some(file) => file,
            None => open()?,
        };
        Ok(kept.insert(file).clone())
    }
}
