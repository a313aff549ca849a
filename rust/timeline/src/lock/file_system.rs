//! A lock file on a local disk, as Hudi's `FileSystemBasedLockProvider` keeps it: `<folder>/lock`, which exists as long
//! as the lock is held.
//!
//! Hudi's file is empty. hoodoo's file has the name of its owner, so that the lock of a killed process can be taken
//! over. The file is recognised by its inode: hoodoo keeps it open, so the inode is not reused. Hudi creates the file
//! in two steps (does it exist? if not, open it), so it may open one that hoodoo created in between. Its checksum file
//! then shows that: [`Lease::verify`] reports the lock as lost and leaves it to Hudi.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::config::LockConfig;
use super::provider::{Attempt, Lease, LockOwner, LockProvider, lost, millis};
use crate::holder::is_known_ended;
use crate::{Clock, META_FOLDER};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::Storage;

/// The provider.
pub(super) struct FileSystemLock {
    file: PathBuf,
    /// Hadoop's checksum of the file; hoodoo writes none.
    checksum: PathBuf,
    expire_ms: i64,
    clock: Arc<dyn Clock>,
}

impl FileSystemLock {
    pub(super) fn new(storage: &Storage, config: &LockConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        if config.folder.is_none() {
            storage.refuse_links(META_FOLDER)?;
        }
        let folder = match &config.folder {
            Some(given) => local_folder(given)?,
            None => storage.local_path(META_FOLDER).ok_or_else(|| {
                Error::unsupported("FileSystemBasedLockProvider is not supported on object stores: it needs a local folder")
                    .with("table", storage.uri())
                    .remedy("Set hoodie.write.lock.provider to org.apache.hudi.client.transaction.lock.StorageBasedLockProvider for every writer of this table")
            })?,
        };
        let (file, checksum) = (folder.join("lock"), folder.join(".lock.crc"));
        Ok(Self { file, checksum, expire_ms: millis(config.expire), clock })
    }

    /// Removes a lock that its owner left behind, if its process ended or it has expired. `Some`: who still holds it.
    fn remove_expired(&self) -> io::Result<Option<LockOwner>> {
        let Some(found) = optional(std::fs::metadata(&self.file))? else { return Ok(None) };
        let age = self.clock.now_ms().saturating_sub(modified_ms(&found));
        let holder = self.holder();
        if (self.expire_ms == 0 || age <= self.expire_ms) && !is_known_ended(&holder) {
            return Ok(Some(owner(&found, &holder, age)));
        }
        // Renamed and checked again before it is deleted: another process may have replaced it by its own since. That
        // one is put back; its owner recognises it by its inode.
        let mut aside = self.file.clone().into_os_string();
        aside.push(format!(".{}", uuid::Uuid::new_v4().simple()));
        let aside = PathBuf::from(aside);
        if optional(std::fs::rename(&self.file, &aside))?.is_none() {
            return Ok(None);
        }
        let moved = std::fs::metadata(&aside)?;
        if identity(&moved) != identity(&found) || modified_ms(&moved) != modified_ms(&found) {
            let back = std::fs::hard_link(&aside, &self.file);
            std::fs::remove_file(&aside)?;
            return back.map(|()| Some(owner(&moved, &self.holder(), 0)));
        }
        std::fs::remove_file(&aside)?;
        optional(std::fs::remove_file(&self.checksum))?;
        tracing::warn!(lock = %self.file.display(), "removed a lock file that is {} s old and whose owner is gone", age / 1000);
        Ok(None)
    }

    /// The owner's name in the file.
    fn holder(&self) -> String {
        let mut said = Vec::new();
        if let Ok(file) = File::open(&self.file) {
            let _ = file.take(200).read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    fn create(&self, owner: &str) -> io::Result<Option<FileLease>> {
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // A checksum file without a lock was left behind; one that appears later shows that Hudi opened the lock file.
        optional(std::fs::remove_file(&self.checksum))?;
        // The file appears with its content, even if this process is killed in between.
        let mut staged = self.file.clone().into_os_string();
        staged.push(format!(".{}", uuid::Uuid::new_v4().simple()));
        let staged = PathBuf::from(staged);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&staged)?;
        file.write_all(owner.as_bytes())?;
        let linked = std::fs::hard_link(&staged, &self.file);
        std::fs::remove_file(&staged)?;
        match linked {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            other => other?,
        }
        let created = file.metadata()?;
        Ok(Some(FileLease {
            path: self.file.clone(),
            checksum: self.checksum.clone(),
            open: Some(file),
            created: identity(&created),
            since: self.clock.now_ms(),
            expire_ms: self.expire_ms,
            clock: self.clock.clone(),
        }))
    }

    fn failed(&self, e: io::Error) -> Error {
        Error::storage("failed to create the lock file")
            .caused_by(e)
            .with("lock", self.file.display())
            .remedy("Check the permissions of the folder, and hoodie.write.lock.filesystem.path")
    }
}

impl LockProvider for FileSystemLock {
    fn try_acquire(&self, owner: &str) -> Result<Attempt> {
        if let Some(holder) = self.remove_expired().map_err(|e| self.failed(e))? {
            return Ok(Attempt::Busy(Some(holder)));
        }
        Ok(match self.create(owner).map_err(|e| self.failed(e))? {
            Some(lease) => Attempt::Acquired(Box::new(lease)),
            None => Attempt::Outrun,
        })
    }

    fn name(&self) -> &'static str {
        "FileSystemBasedLockProvider"
    }

    fn path(&self) -> String {
        self.file.display().to_string()
    }

    fn remedy(&self) -> String {
        "Write again. If no writer is running, the lock was left by one that was killed: delete the file, or set \
         hoodie.write.lock.filesystem.expire (minutes). To wait longer, raise \
         hoodie.write.lock.client.num_retries"
            .to_owned()
    }
}

/// The owner of a lock file. Hudi leaves the file empty.
fn owner(file: &Metadata, name: &str, age_ms: i64) -> LockOwner {
    let who = if name.is_empty() { "a writer without a name" } else { name };
    let description = format!("{who}, for {} s", age_ms.max(0) / 1000);
    LockOwner { id: format!("{name} {}", modified_ms(file)), description }
}

struct FileLease {
    path: PathBuf,
    checksum: PathBuf,
    /// Open until the lock is released, so that the inode is not reused.
    open: Option<File>,
    created: Identity,
    since: i64,
    expire_ms: i64,
    clock: Arc<dyn Clock>,
}

impl FileLease {
    fn is_ours(&self) -> io::Result<bool> {
        let found = optional(std::fs::metadata(&self.path))?;
        Ok(found.is_some_and(|found| identity(&found) == self.created) && !self.checksum.try_exists()?)
    }
}

impl Lease for FileLease {
    fn check(&self) -> Result<()> {
        let path = self.path.display().to_string();
        let held = self.clock.now_ms().saturating_sub(self.since);
        if self.expire_ms > 0 && held >= self.expire_ms {
            return Err(lost(format!("it was held for {} s and has expired", held / 1000), &path));
        }
        match self.is_ours() {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost("another process deleted or opened its file", &path)),
            Err(e) => Err(lost("its file cannot be read", &path).caused_by(e)),
        }
    }

    fn verify(&self) -> Result<()> {
        self.check()
    }

    fn release(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let removed = match self.is_ours() {
            Ok(true) => optional(std::fs::remove_file(&self.path)).map(|_| ()),
            Ok(false) => Ok(()),
            Err(e) => Err(e),
        };
        drop(open);
        removed.map_err(|e| {
            Error::lock("failed to delete the lock file")
                .caused_by(e)
                .with("lock", self.path.display())
                .remedy("Delete the file: until then no writer can acquire the lock")
        })
    }
}

/// The folder that `hoodie.write.lock.filesystem.path` names.
fn local_folder(given: &str) -> Result<PathBuf> {
    let path = match given.split_once(":/") {
        None => PathBuf::from(given),
        Some(("file", rest)) => Path::new("/").join(rest.trim_start_matches('/')),
        Some((scheme, _)) => {
            return Err(Error::unsupported(format!(
                "a lock file in '{scheme}' is not supported (hoodie.write.lock.filesystem.path={given})"
            ))
            .remedy("Use a folder on a disk of this machine; for tables in object stores, StorageBasedLockProvider"));
        }
    };
    std::path::absolute(&path).map_err(|e| {
        Error::invalid_option(format!(
            "invalid value '{given}' for hoodie.write.lock.filesystem.path: expected a folder"
        ))
        .caused_by(e)
    })
}

/// Device and inode: they differ between a file and a later one of the same name.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(metadata: &Metadata) -> Identity {
    let created = metadata.created().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    created.map_or((0, 0), |t| (t.as_secs(), u64::from(t.subsec_nanos())))
}

fn modified_ms(metadata: &Metadata) -> i64 {
    let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    modified.map_or(0, millis)
}

/// Turns "not found" into `None`.
fn optional<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
