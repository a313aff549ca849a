//! A folder of a local disk that stays open while many of its files are touched: each is found by its name alone, and not
//! by the way through all folders above.

use std::fs::File;
use std::io::{Read, Result};
use std::path::Path;

/// An open folder.
pub(super) struct LocalFolder {
    #[cfg(unix)]
    folder: std::os::fd::OwnedFd,
    #[cfg(not(unix))]
    folder: std::path::PathBuf,
}

#[cfg(unix)]
impl LocalFolder {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: open(folder, flags, Mode::empty())? })
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, name, rustix::fs::AtFlags::empty())?)
    }

    fn file(&self, name: &str) -> Result<File> {
        use rustix::fs::{Mode, OFlags, openat};
        // Without waiting, should it be a pipe.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        super::local::regular(openat(&self.folder, name, flags, Mode::empty())?.into())
    }
}

#[cfg(not(unix))]
impl LocalFolder {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        Ok(Self { folder: folder.to_owned() })
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }

    fn file(&self, name: &str) -> Result<File> {
        super::local::open(&self.folder.join(name))
    }
}

impl LocalFolder {
    /// The whole content of a file into a buffer that may have held another one.
    pub(super) fn read(&self, name: &str, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.clear();
        // Most are smaller. A file by itself would ask for its size and its position first.
        buffer.reserve(16 << 10);
        self.file(name)?.take(u64::MAX).read_to_end(buffer).map(|_| ())
    }
}
