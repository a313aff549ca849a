//! Conditional writes: a file is created when it is not there, or updated when it is as it was read.
//!
//! A store repeats a request whose answer was lost or was a passing failure, and the first one may have done its work:
//! then the answer is "already there" although nobody else was. So whatever is created in an object store carries a
//! mark of its own in the object's metadata, by which the creator knows it again.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, GetOptions, ObjectStore, PutMode, PutOptions, PutResult, UpdateVersion,
};
use serde::{Deserialize, Serialize};

use super::local;
use super::runtime::{block_on, block_on_read};
use super::store::{Storage, nothing_there};
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_runtime::simulated;

/// Name of the metadata entry; valid in every store.
const MARK: &str = "hoodoo";

/// Which state of a file was read or written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    e_tag: Option<String>,
    version: Option<String>,
}

impl FileVersion {
    fn of(result: PutResult) -> Self {
        Self { e_tag: result.e_tag, version: result.version }
    }
}

impl Storage {
    /// Creates a file; fails with `AlreadyExists` when it is there. Atomic: no reader sees half of it.
    pub fn create(&self, path: &str, content: impl Into<Bytes>) -> Result<()> {
        let Some((disk, file)) = self.local_change(path)? else {
            return self.create_versioned(path, content).map(|_| ());
        };
        let failed = |e| self.error(path, "creating", local::as_object_store(e, path));
        disk.create(&file, &content.into()).map_err(failed)
    }

    /// Creates a file in an object store, as [`Storage::create`] does, and gives the version that was created.
    pub fn create_versioned(&self, path: &str, content: impl Into<Bytes>) -> Result<FileVersion> {
        let key = self.key(path)?;
        let mark = simulated::uuid().simple().to_string();
        let attributes = [(Attribute::Metadata(MARK.into()), AttributeValue::from(mark.clone()))];
        // A local disk has no metadata, and repeats nothing either.
        let attributes = if self.is_local() { Attributes::default() } else { Attributes::from_iter(attributes) };
        let options = PutOptions { mode: PutMode::Create, attributes, ..Default::default() };
        match block_on(self.store.put_opts(&key, content.into().into(), options)) {
            Ok(created) => Ok(FileVersion::of(created)),
            Err(e @ object_store::Error::AlreadyExists { .. }) => match self.find_marked(&key, &mark) {
                Ok(Some(ours)) => Ok(ours),
                Ok(None) => Err(self.error(path, "creating", e)),
                // Whose it is remains open, as after any request whose answer is lost.
                Err(e) => Err(self.error(path, "creating", e)),
            },
            Err(e) => Err(self.error(path, "creating", e)),
        }
    }

    /// The object that is there, if it has this mark.
    fn find_marked(&self, key: &Path, mark: &str) -> object_store::Result<Option<FileVersion>> {
        let options = GetOptions { head: true, ..Default::default() };
        let found = match block_on(self.store.get_opts(key, options)) {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let stored = found.attributes.get(&Attribute::Metadata(MARK.into()));
        let is_ours = stored.is_some_and(|stored| stored.as_ref() == mark);
        Ok(is_ours.then_some(FileVersion { e_tag: found.meta.e_tag, version: found.meta.version }))
    }

    /// The content of a file with its version, or `None` when it is not there.
    pub fn read_versioned(&self, path: &str) -> Result<Option<(Bytes, FileVersion)>> {
        let key = self.key(path)?;
        if let Some(Err(e)) = self.local_path(path).map(|file| local::open(&file))
            && local::not_a_file(&e)
        {
            return Err(self.error(path, "reading", local::as_object_store(e, path)));
        }
        let found = block_on_read(async {
            let found = self.store.get_opts(&key, GetOptions::default()).await?;
            let version = FileVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            Ok((found.bytes().await?, version))
        });
        match found {
            Err(e) if nothing_there(&e) => Ok(None),
            other => other.map(Some).map_err(|e| self.error(path, "reading", e)),
        }
    }

    /// Replaces a file that is still as it was read; gives the version that was written.
    ///
    /// # Errors
    /// `Conflict` when the file was changed or deleted meanwhile; `Unsupported` when the store has no conditional
    /// writes. A retryable error leaves open whether the file was written.
    pub fn update(&self, path: &str, content: impl Into<Bytes>, read: &FileVersion) -> Result<FileVersion> {
        let key = self.key(path)?;
        let version = UpdateVersion { e_tag: read.e_tag.clone(), version: read.version.clone() };
        let options = PutOptions { mode: PutMode::Update(version), ..Default::default() };
        let updated = block_on(self.store.put_opts(&key, content.into().into(), options));
        updated.map(FileVersion::of).map_err(|e| {
            let error = self.error(path, "updating", e);
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::AlreadyExists => {
                    Error::conflict("updating: another process changed it meanwhile")
                        .with("table", self.uri())
                        .with("file", path)
                }
                _ => error,
            }
        })
    }
}
