//! What a listing of a folder shows.

use std::collections::HashSet;

/// A file as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMeta {
    /// Path relative to the table's base.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Last modification, milliseconds since 1970 (UTC).
    pub modified_ms: i64,
}

/// A file as a listing of names shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path relative to the table's base.
    pub path: String,
    /// Size in bytes, if the listing has it.
    pub size: Option<u64>,
}

impl ListedFile {
    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl From<FileMeta> for ListedFile {
    fn from(file: FileMeta) -> Self {
        Self { path: file.path, size: Some(file.size) }
    }
}

impl FileMeta {
    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// One level of a folder.
#[derive(Debug, Default, Clone)]
pub struct Listing {
    /// Files in it.
    pub files: Vec<FileMeta>,
    /// Paths of the folders in it.
    pub folders: Vec<String>,
}

/// Names of files of a folder of a local disk that have a checksum, and that have an unfinished copy.
#[derive(Debug, Clone, Default)]
pub struct SideFiles {
    pub(super) checksums: HashSet<String>,
    pub(super) unfinished: HashSet<String>,
}

impl SideFiles {
    /// Takes note of a file of the folder, if it belongs to another one.
    pub(super) fn note(&mut self, name: &str) {
        if let Some(of) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".crc")) {
            self.checksums.insert(of.to_owned());
        } else if is_unfinished(name)
            && let Some((of, _)) = name.rsplit_once('#')
        {
            self.unfinished.insert(of.to_owned());
        }
    }
}

/// `name#1`: the object store gives a file its name when it is whole.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
