//! Small files whose age tells that their writer works: written again as they are, and only where they are still there.

use std::fs::OpenOptions;
use std::io::{ErrorKind as IoErrorKind, Read, Seek, Write};
use std::path::Path;

use super::local;
use super::local_disk::LocalDisk;
use super::store::Storage;
use hoodoo_runtime::error::{ErrorKind, Result};

/// Another writer of the file may come between reading and updating it, or its own attempt whose answer was lost.
const ATTEMPTS: u32 = 3;

impl Storage {
    /// Writes a file again that still has this content, so that its age begins anew. Returns whether it has: a file that is
    /// gone, or that another process put in its place meanwhile, stays as it is.
    ///
    /// # Errors
    /// `Storage`, which leaves open whether the file was written. In a store without conditional updates, a file that comes
    /// between reading and writing is replaced.
    pub fn renew(&self, path: &str, content: &[u8]) -> Result<bool> {
        if let Some((disk, file)) = self.local_change(path)? {
            let failed = |e| self.error(path, "renewing", local::as_object_store(e, path));
            return renew_local(disk, &file, content).map_err(failed);
        }
        for _ in 0..ATTEMPTS {
            let Some((found, version)) = self.read_versioned(path)? else { return Ok(false) };
            if found != content {
                return Ok(false);
            }
            match self.update(path, content.to_vec(), &version) {
                Err(e) if e.kind() == ErrorKind::Conflict => {}
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    return self.replace(path, content.to_vec()).map(|()| true);
                }
                updated => return updated.map(|_| true),
            }
        }
        Ok(false)
    }
}

/// Through one handle: where the name has gone to another file meanwhile, the one that was read is written, which nobody
/// sees any more.
fn renew_local(disk: &LocalDisk, path: &Path, content: &[u8]) -> std::io::Result<bool> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(e) if e.kind() == IoErrorKind::NotFound => return Ok(false),
        opened => local::regular(opened?)?,
    };
    let mut found = Vec::new();
    (&mut file).take(content.len() as u64 + 1).read_to_end(&mut found)?;
    if found != content {
        return Ok(false);
    }
    file.rewind()?;
    file.write_all(content)?;
    disk.wrote(path);
    Ok(true)
}
