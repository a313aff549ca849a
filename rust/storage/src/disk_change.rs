//! Changes of a local disk.

use std::path::Path;

/// A change that was made, for tests that replay them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum DiskChange<'a> {
    /// A file has its content now.
    Wrote(&'a Path),
    /// A file has another name.
    Renamed(&'a Path, &'a Path),
    /// A file has one name more.
    Linked(&'a Path, &'a Path),
    /// A name is gone.
    Removed(&'a Path),
    /// A folder is gone with all that was in it.
    RemovedFolder(&'a Path),
    /// There is a new folder.
    MadeFolder(&'a Path),
    /// The content of a file is durable.
    SyncedFile(&'a Path),
    /// The names in a folder are durable.
    SyncedFolder(&'a Path),
}
