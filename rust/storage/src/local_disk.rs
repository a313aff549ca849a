//! Changes to a table on a local disk, all of them: new files, names, deletions, folders.
//!
//! What a power cut leaves of a change that was not synced is up to the file system: a file without its content, or without
//! its name. So every change is noted here, and [`LocalDisk::sync`] makes durable what was noted. It comes before whatever
//! says that something is done: a completed instant, a version of the history. Files that mean nothing after a restart
//! (markers, heartbeats) are not noted.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk_change::DiskChange;
use super::durability::Unsynced;

/// Below these folders nothing has to outlive the machine.
const SCRATCH: [&str; 2] = [".hoodie/.temp", ".hoodie/.heartbeat"];
/// Tries to make a folder that another process removes at the same time.
const FOLDER_ATTEMPTS: u32 = 8;

/// What a job says about tables on local disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalSettings {
    /// Whether changes are synced before they count as done.
    pub sync: bool,
    /// Whether folders that are symbolic links may be written to.
    pub follow_links: bool,
}

impl Default for LocalSettings {
    fn default() -> Self {
        Self { sync: true, follow_links: false }
    }
}

/// Called for every change.
#[doc(hidden)]
pub(crate) type Watch = Arc<dyn Fn(DiskChange<'_>) + Send + Sync>;

/// The folder of one table.
pub(super) struct LocalDisk {
    root: PathBuf,
    settings: LocalSettings,
    unsynced: Unsynced,
    watch: Option<Watch>,
}

impl LocalDisk {
    pub(super) fn new(root: PathBuf, settings: LocalSettings, watch: Option<Watch>) -> Self {
        Self { root, settings, unsynced: Unsynced::default(), watch }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn settings(&self) -> LocalSettings {
        self.settings
    }

    pub(super) fn watch(&self) -> Option<Watch> {
        self.watch.clone()
    }

    fn tell(&self, change: DiskChange<'_>) {
        if let Some(watch) = &self.watch {
            watch(change);
        }
    }

    fn outlives_the_machine(&self, path: &Path) -> bool {
        self.settings.sync && !SCRATCH.iter().any(|folder| path.starts_with(self.root.join(folder)))
    }

    /// The first folder on the way from the table's folder to this one that is a link, if that matters.
    pub(super) fn link_on_the_way(&self, folder: &str) -> Result<Option<PathBuf>> {
        if self.settings.follow_links || folder.is_empty() {
            return Ok(None);
        }
        let mut path = self.root.clone();
        for level in folder.split('/') {
            path.push(level);
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_symlink() => return Ok(Some(path)),
                Ok(_) => {}
                // What is not there yet will be a folder.
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Makes a folder and those above it.
    pub(super) fn make_folder(&self, folder: &Path) -> Result<()> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists()).collect();
        for folder in missing.into_iter().rev() {
            match std::fs::create_dir(folder) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                other => other?,
            }
            self.tell(DiskChange::MadeFolder(folder));
            self.note_names(folder);
        }
        Ok(())
    }

    /// A new file under a name of its own, beside the one that it is to have when it is whole: `<name>#<number>`.
    pub(super) fn begin(&self, name: &Path) -> Result<(File, PathBuf)> {
        let mut number = 1;
        self.in_folder_of(name, || {
            loop {
                let mut unfinished = name.to_owned().into_os_string();
                unfinished.push(format!("#{number}"));
                let unfinished = PathBuf::from(unfinished);
                match OpenOptions::new().write(true).create_new(true).open(&unfinished) {
                    Ok(file) => return Ok((file, unfinished)),
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => number += 1,
                    Err(e) => return Err(e),
                }
            }
        })
    }

    /// Does something to a file, and makes its folder when that turns out to be missing.
    fn in_folder_of<T>(&self, name: &Path, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..FOLDER_ATTEMPTS {
            match (attempt(), name.parent()) {
                (Err(e), Some(folder)) if e.kind() == ErrorKind::NotFound => self.make_folder(folder)?,
                (other, _) => return other,
            }
        }
        attempt()
    }

    /// Writes a whole file beside the name that it is to have.
    pub(super) fn stage(self: &Arc<Self>, name: &Path, content: &[u8]) -> Result<StagedFile> {
        let (mut file, path) = self.begin(name)?;
        let staged = StagedFile { disk: self.clone(), path };
        file.write_all(content)?;
        self.wrote(&staged.path);
        Ok(staged)
    }

    /// Creates a file; fails when it is there.
    pub(super) fn create(self: &Arc<Self>, name: &Path, content: &[u8]) -> Result<()> {
        if !content.is_empty() {
            return self.stage(name, content)?.create(name);
        }
        // One that is empty is whole at once.
        self.in_folder_of(name, || OpenOptions::new().write(true).create_new(true).open(name).map(|_| ()))?;
        self.wrote(name);
        self.note_names(name);
        Ok(())
    }

    /// Writes a file over one that may be there. Its content is durable before it has the name.
    pub(super) fn replace(self: &Arc<Self>, name: &Path, content: &[u8]) -> Result<()> {
        let staged = self.stage(name, content)?;
        if self.outlives_the_machine(name) {
            File::open(&staged.path)?.sync_data()?;
            self.unsynced.forget_file(&staged.path);
            self.tell(DiskChange::SyncedFile(&staged.path));
        }
        self.rename(&staged.path, name)
    }

    /// Begins to write what a file has to the disk, if it is to be synced.
    pub(super) fn begin_write_back(&self, file: &File, name: &Path) {
        if self.outlives_the_machine(name) {
            self.unsynced.begin_write_back(file);
        }
    }

    /// A file has its content.
    pub(super) fn wrote(&self, path: &Path) {
        self.tell(DiskChange::Wrote(path));
        if self.outlives_the_machine(path) {
            self.unsynced.note_file(path);
        }
    }

    /// Gives a whole file its name.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to)?;
        self.tell(DiskChange::Renamed(from, to));
        self.unsynced.rename_file(from, to);
        self.note_names(to);
        Ok(())
    }

    /// Gives a whole file another name, in a folder that is made where it is missing.
    pub(super) fn move_file(&self, from: &Path, to: &Path) -> Result<()> {
        self.in_folder_of(to, || std::fs::rename(from, to))?;
        self.tell(DiskChange::Renamed(from, to));
        self.unsynced.forget_file(from);
        if self.outlives_the_machine(to) {
            // It may come from where nothing has to outlive the machine.
            self.unsynced.note_file(to);
        }
        self.note_names(to);
        Ok(())
    }

    /// Removes a name: of a link the link, never what it points to.
    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path)?;
        self.removed(path);
        Ok(())
    }

    /// A name was removed.
    pub(super) fn removed(&self, path: &Path) {
        self.tell(DiskChange::Removed(path));
        self.unsynced.forget_file(path);
        self.note_names(path);
    }

    /// Removes a folder with all that is in it; of a link, in it or in its place, the link.
    pub(super) fn remove_folder(&self, folder: &Path) -> Result<()> {
        match std::fs::symlink_metadata(folder) {
            Ok(found) if found.is_symlink() => return self.remove(folder),
            _ => std::fs::remove_dir_all(folder)?,
        }
        self.tell(DiskChange::RemovedFolder(folder));
        self.note_names(folder);
        Ok(())
    }

    /// The names in the folder of a file have changed.
    fn note_names(&self, file: &Path) {
        if let Some(folder) = file.parent().filter(|_| self.outlives_the_machine(file)) {
            self.unsynced.note_folder(folder);
        }
    }

    /// Makes durable what was changed since the last time.
    ///
    /// # Errors
    /// Those of the disk; what was changed is synced by the next call then.
    pub(super) fn sync(&self) -> Result<()> {
        self.unsynced.sync(&|change| self.tell(change))
    }
}

/// A file that is whole and waits for its name. Dropped before it has one, it goes.
pub(super) struct StagedFile {
    disk: Arc<LocalDisk>,
    path: PathBuf,
}

impl StagedFile {
    /// Gives the file a name; fails when it is taken.
    pub(super) fn create(self, name: &Path) -> Result<()> {
        // A rename would replace what is there.
        std::fs::hard_link(&self.path, name)?;
        self.disk.tell(DiskChange::Linked(&self.path, name));
        self.disk.unsynced.rename_file(&self.path, name);
        self.disk.note_names(name);
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // It has its name, or nobody wants it.
        let _ = self.disk.remove(&self.path);
    }
}
