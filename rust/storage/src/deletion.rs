//! Deleting files, together with what stands beside them on a local disk.

use std::path::{Path as LocalPath, PathBuf};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::listing::{SideFiles, is_unfinished};
use super::local;
use super::local_disk::LocalDisk;
use super::local_folder::LocalFolder;
use super::runtime::block_on;
use super::store::Storage;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::both;

impl Storage {
    /// Deletes a file. Returns whether it was there.
    pub fn delete(&self, path: &str) -> Result<bool> {
        let Some((disk, file)) = self.local_change(path)? else { return self.delete_alone(path) };
        remove_checksum(disk, &file)?;
        remove_unfinished_of(disk, &file)?;
        match disk.remove(&file) {
            Err(e) if is_absence(&e) => Ok(false),
            Err(e) => Err(self.error(path, "deleting", local::as_object_store(e, path))),
            Ok(()) => Ok(true),
        }
    }

    /// Deletes files; many by one request where the storage can. One that is not there is no error.
    pub fn delete_all(&self, paths: &[impl AsRef<str>]) -> Result<()> {
        if self.is_local() {
            return paths.iter().try_for_each(|path| self.delete(path.as_ref()).map(|_| ()));
        }
        self.delete_stream("", &paths.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    fn delete_alone(&self, path: &str) -> Result<bool> {
        let deleted = block_on(self.store.delete(&self.key(path)?));
        // Object stores answer "deleted" for an object that never was; a caller that has to know asks first.
        match deleted {
            Ok(()) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(self.error(path, "deleting", e)),
        }
    }

    /// Deletes files of one folder: the first ones in any order, then the groups of the last ones one after the other. One
    /// that is not there is no error. What stands beside them goes with them: of many files, one listing is less work than
    /// looking for each.
    pub fn delete_in_order(
        &self,
        folder: &str,
        first: &[&str],
        last: &[Vec<&str>],
        side_files: &SideFiles,
    ) -> Result<()> {
        self.refuse_links(folder)?;
        let Some((disk, local)) = self.local_change(folder)? else {
            self.delete_stream(folder, first)?;
            return last.iter().try_for_each(|group| self.delete_stream(folder, group));
        };
        let open = match LocalFolder::open(&local) {
            Err(e) if is_absence(&e) => return Ok(()),
            other => other.map_err(|e| self.error(folder, "deleting", local::as_object_store(e, folder)))?,
        };
        let delete = |path: &&str| self.delete_with(disk, path, &open, side_files);
        // Two at a time: half of the work goes on beside the lock of the folder.
        let (mine, others) = first.split_at(first.len() / 2);
        both(true, || mine.iter().try_for_each(delete), || others.iter().try_for_each(delete))?;
        // A power cut must not bring the first ones back without the last ones.
        self.sync()?;
        last.iter().flatten().try_for_each(delete)
    }

    fn delete_with(&self, disk: &LocalDisk, path: &str, folder: &LocalFolder, side_files: &SideFiles) -> Result<()> {
        interrupt::check()?;
        let (name, file) = (path.rsplit('/').next().unwrap_or(path), disk.root().join(path));
        if side_files.checksums.contains(name) {
            remove_checksum(disk, &file)?;
        }
        if side_files.unfinished.contains(name) {
            remove_unfinished_of(disk, &file)?;
        }
        match folder.remove(name) {
            Err(e) if is_absence(&e) => Ok(()),
            Err(e) => Err(self.error(path, "deleting", local::as_object_store(e, path))),
            Ok(()) => {
                disk.removed(&file);
                Ok(())
            }
        }
    }

    /// Deletes a folder with all that is in it; of a link, in it or in its place, the link alone.
    pub fn delete_folder(&self, folder: &str) -> Result<()> {
        let Some((disk, local)) = self.local_change(folder)? else {
            let files = self.list_recursive(folder)?;
            let paths: Vec<_> = files.iter().map(|f| f.path.as_str()).collect();
            self.delete_stream(folder, &paths)?;
            return self.delete_emptied_folder(folder, &paths);
        };
        match disk.remove_folder(&local) {
            Err(e) if !is_absence(&e) => {
                Err(Error::storage("deleting a folder failed").caused_by(e).with("folder", folder))
            }
            _ => Ok(()),
        }
    }

    /// Many in one request where the storage can, several requests at once where it cannot.
    fn delete_stream(&self, folder: &str, paths: &[&str]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        self.check_change()?;
        let keys = paths.iter().map(|path| self.key(path).map(Ok)).collect::<Result<Vec<_>>>()?;
        let deleted = self.store.delete_stream(futures::stream::iter(keys).boxed());
        let gone = |r: &object_store::Result<Path>| !matches!(r, Err(object_store::Error::NotFound { .. }));
        block_on(deleted.filter(|r| std::future::ready(gone(r))).try_for_each(|_| std::future::ready(Ok(()))))
            .map_err(|e| self.error(folder, "deleting", e))
    }

    /// Removes what killed processes left of files that they were writing into a folder of a local disk: what has that age,
    /// for others may be writing there.
    pub fn remove_unfinished(&self, folder: &str, age: Duration) -> Result<()> {
        self.refuse_links(folder)?;
        let Some((disk, local)) = self.local_change(folder)? else { return Ok(()) };
        let failed = |e: std::io::Error| {
            Error::storage("removing unfinished files failed").caused_by(e).with("folder", local.display())
        };
        let entries = match std::fs::read_dir(&local) {
            Err(e) if is_absence(&e) => return Ok(()),
            other => other.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let is_old = || {
                let modified = entry.metadata().and_then(|m| m.modified());
                modified.is_ok_and(|at| at.elapsed().unwrap_or_default() >= age)
            };
            if entry.file_name().to_str().is_some_and(is_unfinished) && is_old() {
                match disk.remove(&entry.path()) {
                    Err(e) if !is_absence(&e) => return Err(failed(e)),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Removes the checksum that Hadoop keeps beside a file.
pub(super) fn remove_checksum(disk: &LocalDisk, file: &LocalPath) -> Result<()> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Ok(()) };
    let crc = folder.join(format!(".{}.crc", name.to_string_lossy()));
    match disk.remove(&crc) {
        Err(e) if !is_absence(&e) => {
            Err(Error::storage("removing a stale checksum file failed").caused_by(e).with("file", crc.display()))
        }
        _ => Ok(()),
    }
}

/// Removes what is left of tries to write a file.
fn remove_unfinished_of(disk: &LocalDisk, file: &LocalPath) -> Result<()> {
    for number in 1.. {
        let mut unfinished = file.to_owned().into_os_string();
        unfinished.push(format!("#{number}"));
        match disk.remove(&PathBuf::from(unfinished)) {
            Ok(()) => {}
            // Numbers are given out without gaps.
            Err(e) if is_absence(&e) => break,
            Err(e) => {
                return Err(Error::storage("removing an unfinished file failed")
                    .caused_by(e)
                    .with("file", file.display()));
            }
        }
    }
    Ok(())
}

pub(super) fn is_absence(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
