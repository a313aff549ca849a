//! Deleting files, together with what stands beside them on a local disk.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::runtime::block_on;
use super::{Storage, local};
use crate::error::{Error, Result};

/// Names of files of a folder that have a checksum, and that have an unfinished copy.
#[derive(Default)]
struct Beside {
    checksums: HashSet<String>,
    unfinished: HashSet<String>,
}

impl Storage {
    /// Deletes a file. Returns whether it was there.
    pub fn delete(&self, path: &str) -> Result<bool> {
        self.remove_checksum(path)?;
        self.remove_unfinished_of(path)?;
        self.delete_alone(path)
    }

    fn delete_alone(&self, path: &str) -> Result<bool> {
        let key = self.key(path)?;
        let deleted = match self.local_path(path) {
            Some(file) => std::fs::remove_file(file).map_err(|e| local::as_object_store(e, path)),
            None => block_on(self.store.delete(&key)),
        };
        // Object stores answer "deleted" for an object that never was; a caller that has to know asks first.
        match deleted {
            Ok(()) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(self.error(path, "deleting", e)),
        }
    }

    /// Deletes files of one folder, in any order and several at a time. One that is not there is no error.
    pub fn delete_all(&self, folder: &str, paths: &[&str]) -> Result<()> {
        if !self.is_local() {
            return self.delete_stream(folder, paths);
        }
        let beside = self.beside(folder)?;
        let part = |paths: &[&str]| paths.iter().try_for_each(|path| self.delete_with(path, &beside));
        let (first, second) = paths.split_at(paths.len() / 2);
        // Two at a time: half of the work goes on beside the lock of the folder.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| part(second));
            let mine = part(first);
            let other = other.join().unwrap_or_else(|_| Err(Error::storage("a thread that deleted files died")));
            mine.and(other)
        })
    }

    /// Deletes files of one folder one after the other. One that is not there is no error.
    pub fn delete_in_order(&self, folder: &str, paths: &[&str]) -> Result<()> {
        let beside = self.beside(folder)?;
        paths.iter().try_for_each(|path| self.delete_with(path, &beside))
    }

    fn delete_with(&self, path: &str, beside: &Beside) -> Result<()> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if beside.checksums.contains(name) {
            self.remove_checksum(path)?;
        }
        if beside.unfinished.contains(name) {
            self.remove_unfinished_of(path)?;
        }
        self.delete_alone(path).map(|_| ())
    }

    /// Which files of a folder have others beside them; of many files, one listing is less work than looking for each.
    fn beside(&self, folder: &str) -> Result<Beside> {
        let mut beside = Beside::default();
        let Some(local) = self.local_path(folder) else { return Ok(beside) };
        let failed = |e: std::io::Error| Error::storage("listing failed").caused_by(e).with("folder", local.display());
        let entries = match std::fs::read_dir(&local) {
            Err(e) if is_absence(&e) => return Ok(beside),
            other => other.map_err(failed)?,
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(of) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".crc")) {
                beside.checksums.insert(of.to_owned());
            } else if local::is_unfinished(name)
                && let Some((of, _)) = name.rsplit_once('#')
            {
                beside.unfinished.insert(of.to_owned());
            }
        }
        Ok(beside)
    }

    /// Deletes a folder with all that is in it.
    pub fn delete_folder(&self, folder: &str) -> Result<()> {
        let files = self.list_recursive(folder)?;
        self.delete_stream(folder, &files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>())?;
        if let Some(local) = self.local_path(folder) {
            // What is left are empty folders and files that listings hide.
            match std::fs::remove_dir_all(&local) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::storage("deleting a folder failed").caused_by(e).with("folder", folder));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Many in one request where the storage can, several requests at once where it cannot.
    fn delete_stream(&self, folder: &str, paths: &[&str]) -> Result<()> {
        let keys = paths.iter().map(|path| self.key(path).map(Ok)).collect::<Result<Vec<_>>>()?;
        let deleted = self.store.delete_stream(futures::stream::iter(keys).boxed());
        let gone = |r: &object_store::Result<Path>| !matches!(r, Err(object_store::Error::NotFound { .. }));
        block_on(deleted.filter(|r| std::future::ready(gone(r))).try_for_each(|_| std::future::ready(Ok(()))))
            .map_err(|e| self.error(folder, "deleting", e))
    }

    fn remove_unfinished_of(&self, path: &str) -> Result<()> {
        let Some(local) = self.local_path(path) else { return Ok(()) };
        for number in 1.. {
            let mut unfinished = local.clone().into_os_string();
            unfinished.push(format!("#{number}"));
            match std::fs::remove_file(PathBuf::from(unfinished)) {
                Ok(()) => {}
                // Numbers are given out without gaps.
                Err(e) if is_absence(&e) => break,
                Err(e) => {
                    return Err(Error::storage("removing an unfinished file failed").caused_by(e).with("file", path));
                }
            }
        }
        Ok(())
    }

    /// Removes what killed processes left of files that they were writing into a folder of a local disk: what has that age,
    /// for others may be writing there.
    pub fn remove_unfinished(&self, folder: &str, age: Duration) -> Result<()> {
        let Some(local) = self.local_path(folder) else { return Ok(()) };
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
            if entry.file_name().to_str().is_some_and(local::is_unfinished) && is_old() {
                match std::fs::remove_file(entry.path()) {
                    Err(e) if !is_absence(&e) => return Err(failed(e)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub(super) fn remove_checksum(&self, path: &str) -> Result<()> {
        let Some(local) = self.local_path(path) else { return Ok(()) };
        let (Some(folder), Some(name)) = (local.parent(), local.file_name()) else { return Ok(()) };
        let crc = folder.join(format!(".{}.crc", name.to_string_lossy()));
        match std::fs::remove_file(&crc) {
            Err(e) if !is_absence(&e) => {
                Err(Error::storage("removing a stale checksum file failed").caused_by(e).with("file", crc.display()))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn is_absence(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
