//! Making and replacing files, and what goes with it on a local disk: no change behind a link, none that a power cut could
//! take back unnoticed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStoreExt;

use super::deletion::remove_checksum;
use super::file_writer::FileWriter;
use super::local;
use super::local_disk::{LocalDisk, LocalSettings, StagedFile, Watch};
use super::runtime::block_on;
use super::store::Storage;
use hoodoo_runtime::error::{Error, Result};

/// A file that waits for its name. Dropped before it has one, it is as if it had never been.
pub struct Staged(State);

enum State {
    Local(StagedFile),
    Remote(Bytes),
}

impl Storage {
    /// The same storage with settings for local disks.
    #[must_use]
    pub fn with_local_settings(&self, settings: LocalSettings) -> Self {
        match &self.local {
            Some(disk) if disk.settings() != settings => {
                let disk = LocalDisk::new(disk.root().to_owned(), settings, disk.watch());
                Self { local: Some(Arc::new(disk)), ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// The same storage; in an object store each change fails if this does: whoever holds a lock may lose it while the
    /// process stands still.
    #[must_use]
    pub fn checked(&self, before_change: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self { before_change: Some(Arc::new(before_change)), ..self.clone() }
    }

    pub(super) fn check_change(&self) -> Result<()> {
        self.before_change.as_ref().map_or(Ok(()), |check| check())
    }

    /// The same storage, which reports every change to a local disk.
    #[doc(hidden)]
    #[must_use]
    pub fn watched(&self, watch: Watch) -> Self {
        let watched = |disk: &Arc<LocalDisk>| LocalDisk::new(disk.root().to_owned(), disk.settings(), Some(watch));
        Self { local: self.local.as_ref().map(watched).map(Arc::new), ..self.clone() }
    }

    /// The local file of a path that is to be made, replaced or deleted: also its folder must be the table's own.
    pub(super) fn local_change(&self, path: &str) -> Result<Option<(&Arc<LocalDisk>, PathBuf)>> {
        let Some(disk) = &self.local else { return self.check_change().map(|()| None) };
        self.refuse_links(path.rsplit_once('/').map_or("", |(folder, _)| folder))?;
        Ok(self.local_file(path)?.map(|file| (disk, file)))
    }

    /// Refuses a folder that is a symbolic link on a local disk, or is reached through one: what is behind it need not
    /// belong to the table.
    ///
    /// # Errors
    /// `Unsupported` naming the link, unless [`LocalSettings::follow_links`] allows it.
    pub fn refuse_links(&self, folder: &str) -> Result<()> {
        let Some(disk) = &self.local else { return Ok(()) };
        self.local_file(folder)?;
        let link = disk.link_on_the_way(folder);
        match link.map_err(|e| self.error(folder, "looking up", local::as_object_store(e, folder)))? {
            None => Ok(()),
            Some(link) => Err(Error::unsupported("a folder of the table is a symbolic link; nothing is written or deleted behind it")
                .with("table", &self.uri)
                .with("link", link.display())
                .remedy("Put the folder itself there, or set hoodoo.storage.follow.links=true if what is behind the link belongs to this table alone")),
        }
    }

    /// Writes a file, replacing one that is there. Atomic: a reader sees the old or the new content.
    pub fn replace(&self, path: &str, content: impl Into<Bytes>) -> Result<()> {
        let Some((disk, file)) = self.local_change(path)? else {
            let put = block_on(self.store.put(&self.key(path)?, content.into().into()));
            return put.map(|_| ()).map_err(|e| self.error(path, "writing", e));
        };
        remove_checksum(disk, &file)?;
        let failed = |e| self.error(path, "writing", local::as_object_store(e, path));
        disk.replace(&file, &content.into()).map_err(failed)?;
        // Hadoop could have written it once more between the two lines above.
        remove_checksum(disk, &file)
    }

    /// A file on a local disk that is where the folder of the table or one above it would be.
    pub fn file_in_place_of_folder(&self) -> Option<PathBuf> {
        let root = self.local_path("")?;
        root.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir()).map(Path::to_path_buf)
    }

    /// Makes an empty folder where the storage knows folders; elsewhere nothing.
    pub fn create_folder(&self, folder: &str) -> Result<()> {
        self.refuse_links(folder)?;
        match self.local_change(folder)? {
            Some((disk, local)) => disk.make_folder(&local).map_err(|e| {
                Error::storage("creating a folder failed")
                    .caused_by(e)
                    .with("folder", local.display())
                    .remedy("Check the permissions of the parent folder and the room on the disk")
            }),
            None => Ok(()),
        }
    }

    /// Starts a new file that becomes visible, whole, when it is finished.
    pub fn writer(&self, path: &str) -> Result<FileWriter> {
        match self.local_change(path)? {
            Some((disk, file)) => FileWriter::local(disk.clone(), file, path, self.uri.clone())
                .map_err(|e| self.error(path, "starting a new file", local::as_object_store(e, path))),
            None => Ok(FileWriter::remote(self.store.clone(), self.key(path)?, path, self.uri.clone())),
        }
    }

    /// Gives a whole file another name; a file of that name is replaced. An object store copies it, and the caller deletes
    /// what it has moved.
    ///
    /// # Errors
    /// `NotFound` if there is no such file; `Storage`.
    pub fn move_file(&self, from: &str, to: &str) -> Result<()> {
        match (self.local_change(from)?, self.local_change(to)?) {
            (Some((disk, from_file)), Some((_, to_file))) => disk
                .move_file(&from_file, &to_file)
                .map_err(|e| self.error(from, "moving", local::as_object_store(e, from))),
            _ => {
                block_on(self.store.copy(&self.key(from)?, &self.key(to)?)).map_err(|e| self.error(from, "copying", e))
            }
        }
    }

    /// Writes a file that is to be created later; `beside` is a path in the folder that it is to be in.
    pub fn stage(&self, beside: &str, content: impl Into<Bytes>) -> Result<Staged> {
        let Some((disk, file)) = self.local_change(beside)? else { return Ok(Staged(State::Remote(content.into()))) };
        let staged = disk.stage(&file, &content.into());
        let staged = staged.map_err(|e| self.error(beside, "writing", local::as_object_store(e, beside)))?;
        Ok(Staged(State::Local(staged)))
    }

    /// Creates a file that was staged; fails with `AlreadyExists` when it is there. It is durable then, with all that was
    /// changed before.
    pub fn publish(&self, staged: Staged, path: &str) -> Result<()> {
        let staged = match staged.0 {
            State::Remote(content) => return self.create(path, content),
            State::Local(staged) => staged,
        };
        // Nothing may be seen after a power cut that stands on what is gone.
        self.sync()?;
        if let Some((_, file)) = self.local_change(path)? {
            staged.create(&file).map_err(|e| self.error(path, "creating", local::as_object_store(e, path)))?;
        }
        self.sync()
    }

    /// Creates a file that is durable when this returns; fails with `AlreadyExists` when it is there.
    pub fn create_durable(&self, path: &str, content: impl Into<Bytes>) -> Result<()> {
        let staged = self.stage(path, content)?;
        self.publish(staged, path)
    }

    /// Makes durable what was changed on a local disk. A power cut takes nothing of it back afterwards.
    pub fn sync(&self) -> Result<()> {
        match &self.local {
            Some(disk) => disk.sync().map_err(|e| self.error("", "syncing", local::as_object_store(e, ""))),
            None => Ok(()),
        }
    }
}
