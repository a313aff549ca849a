//! Where a view finds the files of the table: in the metadata table, or in the folders themselves.
//!
//! The metadata table names all files, so that no folder has to be listed. Hudi believes it blindly. Here it is believed as
//! long as it can be read, has every action that is completed on the table, and names the files that commits say they
//! wrote; otherwise the folders are listed, and a warning says why.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config::TableConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::{is_partition_metadata, join};
use crate::metadata_table::{FILES, ListedFiles, MetadataListing, MetadataTable, REBUILD};
use crate::parallel::run_parallel;
use crate::storage::{FileMeta, Storage};
use crate::timeline::{META_FOLDER, Timeline};

/// Partitions of an object store that are listed at a time.
const LISTINGS: usize = 64;

/// The files of a partition.
pub(super) type Files = Arc<Vec<FileMeta>>;

/// Warnings that were given, so that each is given once.
pub(super) type Warned = Arc<Mutex<HashSet<String>>>;

/// What the metadata table is opened with.
pub(super) struct MetadataSource {
    /// The timeline of the table as it is, also where the view is of an earlier state.
    pub(super) timeline: Timeline,
    /// The partitions of the metadata table that may be read.
    pub(super) partitions: Vec<String>,
    /// A look at it after the timeline was loaded, if there was one.
    pub(super) listing: Mutex<Option<MetadataListing>>,
    /// Warnings that were given for this table.
    pub(super) warned: Warned,
}

/// What is known of where the files are.
#[derive(Clone, Default)]
enum Found {
    /// Nobody has asked yet.
    #[default]
    Unknown,
    /// The metadata table has them.
    Metadata(Arc<MetadataFiles>),
    /// The folders are listed.
    Folders,
}

/// The metadata table, and the files that it names.
struct MetadataFiles {
    metadata: Arc<MetadataTable>,
    partitions: Arc<BTreeMap<String, Files>>,
}

/// The files of the table, looked for when asked, and once.
pub(super) struct FileListing {
    storage: Storage,
    source: Option<MetadataSource>,
    found: Mutex<Found>,
    /// Files of partitions that were listed.
    listed: Mutex<HashMap<String, Files>>,
    /// Those of all partitions, once all folders were listed.
    folders: Mutex<Option<Arc<BTreeMap<String, Files>>>>,
    /// What was found since somebody last asked for it.
    new: Mutex<NewlyFound>,
}

/// What was found since somebody last asked for it.
#[derive(Default)]
pub(super) struct NewlyFound {
    /// Partitions whose folders were listed.
    pub(super) partitions: HashSet<String>,
    /// Whether all folders were.
    pub(super) all: bool,
    /// The files of all partitions, if the metadata table has them.
    pub(super) of_metadata: Option<Arc<BTreeMap<String, Files>>>,
}

impl FileListing {
    /// Lists the folders.
    pub(super) fn new(storage: Storage) -> Self {
        let (found, listed, folders, new) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Self { storage, source: None, found, listed, folders, new }
    }

    /// Asks the metadata table, where there is one to ask.
    #[must_use]
    pub(super) fn with_metadata_table(self, source: Option<MetadataSource>) -> Self {
        Self { source, ..self }
    }

    /// The metadata table, if the files are known from it.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn metadata_table(&self) -> Result<Option<Arc<MetadataTable>>> {
        Ok(self.metadata_files()?.map(|files| files.metadata.clone()))
    }

    /// Whether the files that were found so far are from the metadata table.
    pub(super) fn is_from_metadata_table(&self) -> bool {
        matches!(*lock(&self.found), Found::Metadata(_))
    }

    /// Lists the folders from now on, because the metadata table is wrong. Returns whether it was believed until now.
    pub(super) fn distrust(&self, reason: &str) -> bool {
        let before = std::mem::replace(&mut *lock(&self.found), Found::Folders);
        let was_believed = matches!(before, Found::Metadata(_));
        if was_believed {
            self.warn(reason);
        }
        was_believed
    }

    fn warn(&self, reason: &str) {
        if let Some(source) = &self.source {
            let message =
                format!("the folders of the table are listed, because its metadata table cannot be used: {reason}");
            warn_once(&source.warned, &self.storage, &message);
        }
    }

    fn metadata_files(&self) -> Result<Option<Arc<MetadataFiles>>> {
        let Some(source) = &self.source else { return Ok(None) };
        let mut found = lock(&self.found);
        if matches!(*found, Found::Unknown) {
            *found = match MetadataFiles::read(&self.storage, source) {
                Ok(Some(files)) => {
                    lock(&self.new).of_metadata = Some(files.partitions.clone());
                    Found::Metadata(Arc::new(files))
                }
                Ok(None) => Found::Folders,
                Err(e) if is_about_content(&e) => {
                    self.warn(&e.to_string());
                    Found::Folders
                }
                Err(e) => return Err(e),
            };
        }
        match &*found {
            Found::Metadata(files) => Ok(Some(files.clone())),
            _ => Ok(None),
        }
    }

    /// All partitions with the files in them, found once. A folder is one when it has a partition metadata file.
    pub(super) fn partition_files(&self) -> Result<BTreeMap<String, Files>> {
        if let Some(known) = self.metadata_files()? {
            return Ok(known.partitions.as_ref().clone());
        }
        let mut known = lock(&self.folders);
        let folders = match &*known {
            Some(folders) => folders.clone(),
            None => {
                let folders = known.insert(Arc::new(self.list_folders()?)).clone();
                lock(&self.new).all = true;
                folders
            }
        };
        Ok(folders.as_ref().clone())
    }

    fn list_folders(&self) -> Result<BTreeMap<String, Files>> {
        let mut folders: BTreeMap<String, Vec<FileMeta>> = BTreeMap::new();
        for file in data_files(&self.storage)? {
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            folders.entry(folder.to_owned()).or_default().push(file);
        }
        folders.retain(|_, files| files.iter().any(|f| is_partition_metadata(f.name())));
        Ok(folders.into_iter().map(|(path, files)| (path, Arc::new(files))).collect())
    }

    /// The partition paths.
    pub(super) fn partitions(&self) -> Result<Vec<String>> {
        match self.metadata_files()? {
            Some(known) => Ok(known.partitions.keys().cloned().collect()),
            None => Ok(self.partition_files()?.into_keys().collect()),
        }
    }

    /// The files of a partition, listed once.
    pub(super) fn files_of(&self, partition: &str) -> Result<Files> {
        if let Some(known) = self.metadata_files()? {
            return Ok(known.partitions.get(partition).cloned().unwrap_or_default());
        }
        if let Some(known) = self.known_files_of(partition) {
            return Ok(known);
        }
        let files = Arc::new(self.storage.list(partition)?.files);
        lock(&self.listed).insert(partition.to_owned(), files.clone());
        lock(&self.new).partitions.insert(partition.to_owned());
        Ok(files)
    }

    /// What was found since this was last asked.
    pub(super) fn newly_found(&self) -> NewlyFound {
        std::mem::take(&mut *lock(&self.new))
    }

    /// The folders that were listed until now.
    pub(super) fn listed_folders(&self) -> ListedFolders {
        ListedFolders { all: lock(&self.folders).clone(), some: lock(&self.listed).clone() }
    }

    /// The files of a partition that was listed.
    fn known_files_of(&self, partition: &str) -> Option<Files> {
        let known = lock(&self.folders).as_ref().and_then(|folders| folders.get(partition).cloned());
        known.or_else(|| lock(&self.listed).get(partition).cloned())
    }

    /// Lists partitions beside each other, where each takes a request, so that they are known when they are asked for one
    /// by one; on a local disk only if `together`: because something is done after a listing that is then done once.
    pub(super) fn list_ahead(&self, partitions: &[String], together: bool) -> Result<()> {
        let is_remote = self.storage.is_remote();
        if !(is_remote || together) || partitions.len() < 2 || self.metadata_files()?.is_some() {
            return Ok(());
        }
        let wanted: Vec<&String> = partitions.iter().filter(|p| self.known_files_of(p).is_none()).collect();
        let at_once = if is_remote { LISTINGS } else { 1 };
        run_parallel(wanted, at_once, |partition| self.files_of(partition).map(|_| ())).map(|_| ())
    }
}

/// The folders of partitions, as they were listed.
#[derive(Clone, Default)]
pub(crate) struct ListedFolders {
    /// Those of all partitions.
    pub(super) all: Option<Arc<BTreeMap<String, Files>>>,
    /// Those of some.
    pub(super) some: HashMap<String, Files>,
}

impl ListedFolders {
    /// The files of a partition; `None` if it was not listed.
    pub(super) fn files_of(&self, partition: &str) -> Option<Files> {
        let of_all = self.all.as_ref().map(|all| all.get(partition).cloned().unwrap_or_default());
        self.some.get(partition).cloned().or(of_all)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_none() && self.some.is_empty()
    }
}

/// All files of a table; Hudi's own folder is left out.
pub(crate) fn data_files(storage: &Storage) -> Result<Vec<FileMeta>> {
    let top = storage.list("")?;
    let mut files = top.files;
    let below: Vec<&String> = top.folders.iter().filter(|f| f.as_str() != META_FOLDER).collect();
    files.extend(storage.list_all_recursive(&below)?);
    Ok(files)
}

impl MetadataFiles {
    /// The files that the metadata table names; `None` if the table has none any more.
    ///
    /// # Errors
    /// `Corrupt` for a metadata table that is damaged or behind the table; `Storage`.
    fn read(storage: &Storage, source: &MetadataSource) -> Result<Option<Self>> {
        let first = match Self::read_once(storage, source) {
            Err(e) if is_about_content(&e) => e,
            done => return done.map(Some),
        };
        // A writer may have dropped it, or compacted and cleaned it meanwhile.
        if !TableConfig::load(storage)?.complete_metadata_partitions().iter().any(|name| name == FILES) {
            return Ok(None);
        }
        match Self::read_once(storage, source) {
            Err(e) if is_about_content(&e) => Err(first),
            done => done.map(Some),
        }
    }

    fn read_once(storage: &Storage, source: &MetadataSource) -> Result<Self> {
        let partitions = source.partitions.clone();
        let metadata = match lock(&source.listing).take() {
            Some(listing) => MetadataTable::of_listing(storage, &source.timeline, listing, partitions),
            None => MetadataTable::open(storage, &source.timeline, partitions)?,
        };
        if let Some(missing) = metadata.first_missing(&source.timeline) {
            return Err(Error::corrupt(format!(
                "the action {missing} is completed on the table, and the metadata table does not have it: some writer does \
                 not keep it up to date"
            )));
        }
        let ListedFiles { partitions, files } = metadata.files()?;
        let mut all: BTreeMap<String, Files> = partitions.into_iter().map(|path| (path, Files::default())).collect();
        for (partition, files) in files {
            let file = |(name, size): (String, u64)| FileMeta { path: join(&partition, &name), size, modified_ms: 0 };
            let files = Arc::new(files.into_iter().map(file).collect());
            all.insert(partition, files);
        }
        Ok(Self { metadata: Arc::new(metadata), partitions: Arc::new(all) })
    }
}

/// Whether an error tells of what is stored, and not of a storage that fails or of a call that was interrupted.
pub(crate) fn is_about_content(e: &Error) -> bool {
    use ErrorKind::{Corrupt, InvalidOption, NotFound, Schema, Unsupported};
    matches!(e.kind(), Corrupt | InvalidOption | NotFound | Schema | Unsupported)
}

/// Gives a warning, unless the same was given before.
pub(super) fn warn_once(warned: &Warned, storage: &Storage, message: &str) {
    if lock(warned).insert(message.to_owned()) {
        tracing::warn!(table = storage.uri(), "{message}. {REBUILD}");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
