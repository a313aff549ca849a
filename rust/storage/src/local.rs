//! Small things on a local disk, done at once: through a runtime's threads each would take many times as long, and a
//! timeline is thousands of small files.

use std::fs::{DirEntry, File};
use std::io::{Error, ErrorKind, Read};
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::listing::{FileMeta, ListedFile, Listing, SideFiles, is_unfinished};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::both;

/// The error as the object store would have it, so that both become the same error of ours.
pub(super) fn as_object_store(e: Error, path: &str) -> object_store::Error {
    let path = path.to_owned();
    match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => object_store::Error::NotFound { path, source: e.into() },
        ErrorKind::AlreadyExists => object_store::Error::AlreadyExists { path, source: e.into() },
        ErrorKind::PermissionDenied => object_store::Error::PermissionDenied { path, source: e.into() },
        _ => object_store::Error::Generic { store: "local", source: e.into() },
    }
}

/// What is no file, such as a pipe or a device: to open one may wait for ever, and to read one never end.
#[derive(Debug)]
struct NotAFile;

impl std::fmt::Display for NotAFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is a pipe, a socket, a device or a folder")
    }
}

impl std::error::Error for NotAFile {}

/// The error of [`regular`], if it is one.
pub(super) fn not_a_file(e: &Error) -> bool {
    e.get_ref().is_some_and(|inner| inner.is::<NotAFile>())
}

/// The same in the form of [`as_object_store`].
pub(super) fn is_not_a_file(e: &object_store::Error) -> bool {
    let object_store::Error::Generic { source, .. } = e else { return false };
    source.downcast_ref::<Error>().is_some_and(not_a_file)
}

/// Opens a file for reading. Does not wait for the writer of a pipe.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let opened = options.open(path).map_err(|e| match std::fs::metadata(path) {
        // A socket cannot be opened.
        Ok(metadata) if !metadata.is_file() => Error::other(NotAFile),
        _ => e,
    })?;
    regular(opened)
}

/// The file, if it is one.
pub(super) fn regular(file: File) -> std::io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(Error::other(NotAFile)) }
}

/// The whole content of a file.
pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut content = Vec::with_capacity(file.metadata().map_or(0, |m| usize::try_from(m.len()).unwrap_or(0)));
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Entries of a folder from which on two threads look at them: a timeline may have thousands.
const MANY: usize = 256;

/// One level of a folder, in no order. Files that are being written are not shown, nor links that lead nowhere.
pub(super) fn list(folder: &Path, below: &str) -> std::io::Result<Listing> {
    let entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    if entries.len() < MANY {
        return look_at(&entries, below);
    }
    let (first, second) = entries.split_at(entries.len() / 2);
    let look = || both(true, || Ok(look_at(first, below)), || Ok(look_at(second, below)));
    let (listing, other) = interrupt::hold(look).map_err(Error::other)?;
    let (mut listing, other) = (listing?, other?);
    listing.files.extend(other.files);
    listing.folders.extend(other.folders);
    Ok(listing)
}

/// All files below a folder, in no order; pipes and devices too, so that opening them is an error. A folder that is not
/// there has none.
pub(super) fn list_recursive(root: &Path, below: &str) -> std::io::Result<Vec<FileMeta>> {
    let mut files = Vec::new();
    let mut folders = vec![below.to_owned()];
    while let Some(folder) = folders.pop() {
        match list(&root.join(&folder), &folder) {
            Ok(found) => {
                files.extend(found.files);
                folders.extend(found.folders);
            }
            // Deleted since.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(files)
}

fn look_at(entries: &[DirEntry], below: &str) -> std::io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in entries {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        // By its name in the open folder, unless that is a link: shorter than the way through all folders.
        let found = match entry.metadata() {
            Ok(link) if link.is_symlink() => std::fs::metadata(entry.path()),
            other => other,
        };
        match found {
            Ok(metadata) if metadata.is_dir() => listing.folders.push(path),
            Ok(_) if is_unfinished(name) => {}
            Ok(metadata) => listing.files.push(file_meta(path, &metadata)?),
            // Deleted since, or a link to nothing.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(listing)
}

/// Files of one level of a folder, in no order, by what the folder itself says of them: links are looked at. Those that
/// are being written are only noted.
pub(super) fn names(folder: &Path, below: &str) -> std::io::Result<(Vec<ListedFile>, SideFiles)> {
    let (mut files, mut side_files) = (Vec::new(), SideFiles::default());
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        side_files.note(name);
        if is_unfinished(name) {
            continue;
        }
        let kind = entry.file_type()?;
        // As in `list`: a link to a file counts, one to a folder or to nothing does not.
        if kind.is_dir() || kind.is_symlink() && !std::fs::metadata(entry.path()).is_ok_and(|m| !m.is_dir()) {
            continue;
        }
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        files.push(ListedFile { path, size: None });
    }
    Ok((files, side_files))
}

/// Size and time of a file; a folder is none.
pub(super) fn head(file: &Path, path: &str) -> std::io::Result<FileMeta> {
    let metadata = std::fs::metadata(file)?;
    if metadata.is_dir() {
        return Err(ErrorKind::NotFound.into());
    }
    file_meta(path.to_owned(), &metadata)
}

fn file_meta(path: String, metadata: &std::fs::Metadata) -> std::io::Result<FileMeta> {
    let since = metadata.modified()?.duration_since(UNIX_EPOCH);
    let modified_ms = since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
    Ok(FileMeta { path, size: metadata.len(), modified_ms })
}
