//! What was changed on a local disk and is not durable yet.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk_change::DiskChange;
use super::write_back::WriteBack;
use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::run_parallel;
use hoodoo_runtime::process::Process;

/// Files and folders from which on the whole file system is synced by one call: one by one each would wait for the disk.
const MANY: usize = 16;

/// Changes of one table that a power cut could take back.
pub(super) struct Unsynced {
    process: Process,
    items: Mutex<Items>,
    write_back: WriteBack,
    /// Held during a sync, so that nobody finds nothing left to sync while another one is still at it.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct Items {
    files: HashSet<PathBuf>,
    folders: HashSet<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Unsynced {
    fn default() -> Self {
        Self {
            process: Process::this(),
            items: Mutex::default(),
            write_back: WriteBack::default(),
            syncing: Mutex::default(),
        }
    }
}

impl Unsynced {
    /// Begins to write a file to the disk, of which the sync that counts then finds less left.
    pub(super) fn begin_write_back(&self, file: &File) {
        self.write_back.begin(file);
    }

    /// The content of a file is new.
    pub(super) fn note_file(&self, file: &Path) {
        lock(&self.items).files.insert(file.to_owned());
    }

    /// The names in a folder are new.
    pub(super) fn note_folder(&self, folder: &Path) {
        let mut items = lock(&self.items);
        if !items.folders.contains(folder) {
            items.folders.insert(folder.to_owned());
        }
    }

    /// A file has another name.
    pub(super) fn rename_file(&self, from: &Path, to: &Path) {
        let mut items = lock(&self.items);
        if items.files.remove(from) {
            items.files.insert(to.to_owned());
        }
    }

    /// A file is gone, or durable.
    pub(super) fn forget_file(&self, file: &Path) {
        lock(&self.items).files.remove(file);
    }

    /// Makes everything durable that was noted before.
    pub(super) fn sync(&self, tell: &dyn Fn(DiskChange<'_>)) -> Result<()> {
        // A child that was forked during a sync has no thread that would ever end it.
        let _alone = self.process.is_this().then(|| lock(&self.syncing));
        let Items { files, folders } = std::mem::take(&mut *lock(&self.items));
        let sync = || match files.len() + folders.len() > MANY && cfg!(target_os = "linux") {
            true => sync_file_systems(&files, &folders),
            false => sync_each(&files, &folders),
        };
        if let Err(e) = self.write_back.finish().and_then(|()| sync()) {
            let mut items = lock(&self.items);
            items.files.extend(files);
            items.folders.extend(folders);
            return Err(e);
        }
        files.iter().for_each(|file| tell(DiskChange::SyncedFile(file)));
        folders.iter().for_each(|folder| tell(DiskChange::SyncedFolder(folder)));
        Ok(())
    }
}

type Sync = fn(&Path) -> Result<()>;

/// One after the other each would wait for the disk; together they wait once.
fn sync_each(files: &HashSet<PathBuf>, folders: &HashSet<PathBuf>) -> Result<()> {
    let mut work: Vec<(Sync, &PathBuf)> = Vec::with_capacity(files.len() + folders.len());
    work.extend(files.iter().map(|file| (sync_file as Sync, file)));
    work.extend(folders.iter().map(|folder| (sync_folder as Sync, folder)));
    let threads = work.len();
    let done = interrupt::hold(|| run_parallel(work, threads, |(sync, path)| Ok(sync(path))));
    done.map_err(Error::other)?.into_iter().collect()
}

fn sync_file(file: &Path) -> Result<()> {
    // Windows syncs what is open for writing only.
    present(OpenOptions::new().read(true).write(cfg!(windows)).open(file).and_then(|file| file.sync_data()))
}

fn sync_folder(folder: &Path) -> Result<()> {
    if !cfg!(unix) {
        // Other systems keep names durable by themselves, or cannot be asked to.
        return Ok(());
    }
    match present(File::open(folder).and_then(|folder| folder.sync_all())) {
        // Some network file systems know no syncing of folders.
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}

/// What is gone needs no syncing.
fn present(result: Result<()>) -> Result<()> {
    match result {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Syncs each file system that has one of them.
#[cfg(target_os = "linux")]
fn sync_file_systems(files: &HashSet<PathBuf>, folders: &HashSet<PathBuf>) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let mut done = HashSet::new();
    let folders = folders.iter().map(PathBuf::as_path).chain(files.iter().filter_map(|file| file.parent()));
    for folder in folders {
        let mut sync = || {
            let device = std::fs::metadata(folder)?.dev();
            if !done.contains(&device) {
                rustix::fs::syncfs(File::open(folder)?)?;
                done.insert(device);
            }
            Ok(())
        };
        present(sync())?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn sync_file_systems(_: &HashSet<PathBuf>, _: &HashSet<PathBuf>) -> Result<()> {
    Ok(())
}
