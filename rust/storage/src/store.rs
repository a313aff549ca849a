//! The storage of one table: locations, reads, listings.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::reader::ChunkReader;

use super::content_cache::ContentCache;
use super::file_reader::FileReader;
use super::file_tasks::FileTasks;
use super::listing::{FileMeta, ListedFile, Listing, SideFiles};
use super::local;
use super::local_disk::{LocalDisk, LocalSettings};
use super::local_folder::LocalFolder;
use super::location::{Location, StorageOptions};
use super::read_ahead::ReadAhead;
use super::real_folders::RealFolders;
use super::runtime::{block_on_read, is_transient, own_error};
use super::small_files::{LARGEST, SmallFiles};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::interrupt;

/// The storage of one table; cheap to clone.
#[derive(Clone)]
pub struct Storage {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) prefix: Path,
    /// The local disk, when the table lives there.
    pub(super) local: Option<Arc<LocalDisk>>,
    /// Whether other machines write to it too.
    pub(super) remote: bool,
    pub(super) uri: Arc<str>,
    pub(super) kept: Arc<ContentCache>,
    pub(super) small: Arc<SmallFiles>,
    pub(super) real_folders: RealFolders,
    pub(super) ahead: Option<Arc<ReadAhead>>,
    /// Asked before each change in an object store.
    pub(super) before_change: Option<BeforeChange>,
    /// Lists and deletes where there is much of it.
    pub(super) tasks: Option<Arc<dyn FileTasks>>,
}

/// Fails if nothing may be changed any more.
type BeforeChange = Arc<dyn Fn() -> Result<()> + Send + Sync>;

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Storage({})", self.uri)
    }
}

impl Storage {
    /// The storage at a URI or a local path. Nothing is read or created.
    pub fn open(uri: &str, options: &StorageOptions) -> Result<Self> {
        let location = Location::parse(uri, options)?;
        let Location { store, prefix, local, remote, uri, real_folders } = location;
        let local = local.map(|root| Arc::new(LocalDisk::new(root, LocalSettings::default(), None)));
        let (kept, small, ahead) = Default::default();
        let (uri, before_change, tasks) = (uri.into(), None, None);
        Ok(Self { store, prefix, local, remote, uri, kept, small, real_folders, ahead, before_change, tasks })
    }

    /// The storage in a given store, for tests that inject failures.
    pub fn from_store(store: Arc<dyn ObjectStore>, prefix: &str, uri: &str) -> Result<Self> {
        let prefix = Path::parse(prefix).map_err(|e| Error::invalid_option(format!("bad path '{prefix}': {e}")))?;
        Ok(Self {
            store,
            prefix,
            local: None,
            remote: false,
            uri: uri.into(),
            kept: Arc::default(),
            small: Arc::default(),
            real_folders: RealFolders::default(),
            ahead: None,
            before_change: None,
            tasks: None,
        })
    }

    /// The table's location, as Hudi would print it (no trailing slash).
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Whether the table is on a local disk.
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Whether it is an object store, which other machines reach too.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// The same, taken for one that other machines reach: for tests.
    #[must_use]
    pub fn as_remote(self) -> Self {
        Self { remote: true, ..self }
    }

    /// A path as Hudi writes it into plans: with the table's location before it.
    pub fn absolute(&self, path: &str) -> String {
        let base = match &self.local {
            Some(disk) => format!("file:{}", disk.root().display()),
            None => self.uri.to_string(),
        };
        if path.is_empty() { base } else { format!("{base}/{path}") }
    }

    /// The local file of a path, when the table is on a local disk.
    pub fn local_path(&self, path: &str) -> Option<PathBuf> {
        self.local.as_ref().map(|disk| if path.is_empty() { disk.root().to_owned() } else { disk.root().join(path) })
    }

    /// The local file of a path that is to be read. Paths come out of files: none may lead out of the table.
    pub(super) fn local_file(&self, path: &str) -> Result<Option<PathBuf>> {
        if self.is_local() && !path.is_empty() {
            self.key(path)?;
        }
        Ok(self.local_path(path))
    }

    /// The location of a path in the store. Every call begins here, so this is where an interrupted one ends.
    pub(super) fn key(&self, path: &str) -> Result<Path> {
        interrupt::check()?;
        let whole = match (self.prefix.as_ref(), path) {
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}/{path}"),
        };
        Path::parse(&whole).map_err(|e| {
            Error::corrupt(format!("{path:?} is not a path in this table"))
                .caused_by(e)
                .with("table", &self.uri)
                .remedy("If a file of the table names it, find out who wrote that file before you go on")
        })
    }

    pub(super) fn relative(&self, key: &Path) -> String {
        let key = key.as_ref();
        let prefix = self.prefix.as_ref();
        key.strip_prefix(prefix).unwrap_or(key).trim_start_matches('/').to_owned()
    }

    pub(super) fn error(&self, path: &str, doing: &str, e: object_store::Error) -> Error {
        let e = match own_error(e) {
            Ok(own) => return own,
            Err(e) => e,
        };
        let error = match &e {
            e if local::is_not_a_file(e) => not_a_file(),
            e if no_such_bucket(e) => Error::storage("there is no such bucket or container")
                .remedy("Create it, or check the location, and the endpoint and region in storage_options"),
            object_store::Error::NotFound { .. } => Error::not_found(format!("{doing}: there is no such file")),
            object_store::Error::AlreadyExists { .. } => Error::already_exists(format!("{doing}: it is already there")),
            object_store::Error::Precondition { .. } => {
                Error::conflict(format!("{doing}: another process changed it meanwhile"))
            }
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                Error::storage(format!("{doing}: not allowed"))
                    .remedy("Check the permissions of the folder, or the credentials in storage_options")
            }
            object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } => {
                Error::unsupported(format!("{doing}: this storage cannot do it"))
            }
            _ if self.is_local() => Error::storage(format!("{doing} failed"))
                .remedy("Check that the storage can be reached, is writable and has room"),
            _ => Error::storage(format!("{doing} failed")).remedy(
                "Check that the storage can be reached and written to, and the endpoint, the region and the credentials \
                 in storage_options or in the environment",
            ),
        };
        let error = if is_transient(&e) { error.transient() } else { error };
        let error = error.with("table", &self.uri);
        let error = if path.is_empty() { error } else { error.with("file", path) };
        match e {
            object_store::Error::NotFound { .. } | object_store::Error::AlreadyExists { .. } => error,
            other => error.caused_by(other),
        }
    }

    /// The whole content of a file.
    pub fn read(&self, path: &str) -> Result<Bytes> {
        let key = self.key(path)?;
        let content = match self.local_path(path) {
            Some(file) => local::read(&file).map(Bytes::from).map_err(|e| local::as_object_store(e, path)),
            None => block_on_read(async { self.store.get(&key).await?.bytes().await }),
        };
        content.map_err(|e| self.error(path, "reading", e))
    }

    /// The whole contents of files of one folder, in their order.
    pub fn read_all(&self, folder: &str, paths: &[&str]) -> Result<Vec<Bytes>> {
        let Some(local) = self.local_file(folder)? else { return self.fetch_all(paths) };
        let failed = |e: std::io::Error, path: &str| self.error(path, "reading", local::as_object_store(e, path));
        let open = LocalFolder::open(&local).map_err(|e| failed(e, folder))?;
        let mut buffer = Vec::new();
        let mut read = |path: &&str| {
            interrupt::check()?;
            let name = path.rsplit('/').next().unwrap_or(path);
            open.read(name, &mut buffer).map_err(|e| failed(e, path))?;
            Ok(Bytes::copy_from_slice(&buffer))
        };
        paths.iter().map(&mut read).collect()
    }

    /// The whole content of a file, or `None` when it is not there.
    pub fn read_if_exists(&self, path: &str) -> Result<Option<Bytes>> {
        optional(self.read(path))
    }

    /// Size and time of a file, or `None` when it is not there.
    pub fn head(&self, path: &str) -> Result<Option<FileMeta>> {
        let key = self.key(path)?;
        if let Some(file) = self.local_path(path) {
            let found = local::head(&file, path).map_err(|e| local::as_object_store(e, path));
            return optional(found.map_err(|e| self.error(path, "looking up", e)));
        }
        let found = block_on_read(self.store.head(&key)).map_err(|e| self.error(path, "looking up", e));
        Ok(optional(found)?.map(|meta| FileMeta {
            path: path.to_owned(),
            size: meta.size,
            modified_ms: meta.last_modified.timestamp_millis(),
        }))
    }

    /// Whether the file is there.
    pub fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.head(path)?.is_some())
    }

    /// One level of a folder, sorted by path. A folder that is not there is empty.
    pub fn list(&self, folder: &str) -> Result<Listing> {
        let key = if folder.is_empty() && self.prefix.as_ref().is_empty() { None } else { Some(self.key(folder)?) };
        let found = match self.local_path(folder) {
            Some(local) => local::list(&local, folder).map_err(|e| local::as_object_store(e, folder)),
            None => block_on_read(self.store.list_with_delimiter(key.as_ref())).map(|found| Listing {
                files: self.file_metas(&found.objects),
                folders: found.common_prefixes.iter().map(|p| self.relative(p)).collect(),
            }),
        };
        let mut listing = match found {
            Err(e) if nothing_there(&e) => return Ok(Listing::default()),
            other => other.map_err(|e| self.error(folder, "listing", e))?,
        };
        listing.files.sort_by(|a, b| a.path.cmp(&b.path));
        listing.folders.sort();
        Ok(listing)
    }

    /// The files of one level of a folder, sorted by path, without asking a disk for more than their names. A folder that
    /// is not there is empty. With them comes what a deletion of them has to know of the folder.
    pub fn list_names(&self, folder: &str) -> Result<(Vec<ListedFile>, SideFiles)> {
        let Some(local) = self.local_file(folder)? else {
            let files = self.list(folder)?.files.into_iter().map(ListedFile::from).collect();
            return Ok((files, SideFiles::default()));
        };
        let found = local::names(&local, folder).map_err(|e| local::as_object_store(e, folder));
        let (mut files, side_files) = match found {
            Err(e) if nothing_there(&e) => return Ok(Default::default()),
            other => other.map_err(|e| self.error(folder, "listing", e))?,
        };
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((files, side_files))
    }

    /// Whether a file is there and has nothing in it.
    pub fn is_empty(&self, file: &ListedFile) -> Result<bool> {
        Ok(match file.size {
            Some(size) => size == 0,
            None => self.head(&file.path)?.is_some_and(|found| found.size == 0),
        })
    }

    /// Whether there is any file below a folder. Looks at the first entry only.
    pub fn has_files(&self, folder: &str) -> Result<bool> {
        let key = self.key(folder)?;
        let first = block_on_read(async { self.store.list(Some(&key)).try_next().await });
        match first {
            Err(e) if nothing_there(&e) => Ok(false),
            other => Ok(other.map_err(|e| self.error(folder, "listing", e))?.is_some()),
        }
    }

    pub(super) fn file_metas(&self, objects: &[object_store::ObjectMeta]) -> Vec<FileMeta> {
        let files: Vec<FileMeta> = objects
            .iter()
            .map(|object| FileMeta {
                path: self.relative(&object.location),
                size: object.size,
                modified_ms: object.last_modified.timestamp_millis(),
            })
            .collect();
        self.small.listed(files.iter().map(|file| file.path.as_str()).zip(objects));
        files
    }

    /// The content of a file that a listing shows with this size.
    pub fn read_listed(&self, path: &str, size: u64) -> Result<Bytes> {
        let length = usize::try_from(size).map_err(|_| Error::storage("the file is too large").with("file", path))?;
        self.reader(path, size)?
            .get_bytes(0, length)
            .map_err(|e| Error::from(e).with("table", &self.uri).with("file", path))
    }

    /// Opens a file for random reading. `size` is the size from a listing.
    pub fn reader(&self, path: &str, size: u64) -> Result<FileReader> {
        match self.local_file(path)? {
            Some(local) => FileReader::local(&local).map_err(|e| {
                let error = match e.kind() {
                    std::io::ErrorKind::NotFound => Error::not_found("reading: there is no such file"),
                    _ if local::not_a_file(&e) => not_a_file().caused_by(e),
                    _ => Error::storage("opening a file failed").caused_by(e),
                };
                error.with("table", &self.uri).with("file", path)
            }),
            None => {
                let small = (self.is_remote() && size <= LARGEST).then(|| (self.small.clone(), path.to_owned()));
                Ok(FileReader::remote(self.store.clone(), self.key(path)?, size, small, self.fetched_ahead(path)))
            }
        }
    }
}

/// A bucket that is missing is answered like an object that is, and is no empty table.
fn no_such_bucket(e: &object_store::Error) -> bool {
    let text = match e {
        object_store::Error::NotFound { source, .. } | object_store::Error::Generic { source, .. } => {
            source.to_string()
        }
        _ => return false,
    };
    text.contains("<Code>NoSuchBucket</Code>") || text.contains("<Code>ContainerNotFound</Code>")
}

fn not_a_file() -> Error {
    Error::corrupt("not a regular file")
        .remedy("Somebody made a pipe, a socket, a device or a folder of that name: remove it, and restore the file")
}

pub(super) fn nothing_there(e: &object_store::Error) -> bool {
    matches!(e, object_store::Error::NotFound { .. }) && !no_such_bucket(e)
}

/// Turns "not found" into `None`.
pub fn optional<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == hoodoo_runtime::error::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
