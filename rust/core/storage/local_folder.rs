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
        Ok(openat(&self.folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
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
        File::open(self.folder.join(name))
    }
}

impl LocalFolder {
    /// The whole content of a file that had `size` bytes when it was listed.
    pub(super) fn read(&self, name: &str, size: usize) -> Result<Vec<u8>> {
        let mut file = self.file(name)?;
        // One byte more than is expected: when it stays empty, that was the end, and nobody has to ask for it.
        let mut content = vec![0; size + 1];
        let mut filled = 0;
        while let Some(rest) = content.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.read(rest) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            if filled == size {
                // Less came than was asked for.
                break;
            }
        }
        content.truncate(filled);
        if filled > size {
            // It grew since.
            file.read_to_end(&mut content)?;
        }
        Ok(content)
    }
}
