//! Data files of one action: each gets a marker first, and becomes visible only when it is complete.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema};

use crate::error::{Error, ErrorKind, Result};
use crate::file_group::join;
use crate::file_group::markers::{MarkerType, create_marker, delete_markers, has_marker, marker_path};
use crate::parallel::{BackgroundTask, both};
use crate::storage::{FileWriter, Storage};
use crate::table::HudiTable;
use crate::timeline::Clock;

/// For how long a marker in an object store need not be checked again: an action with a heartbeat is not rolled back.
const MARKER_HOLDS: Duration = Duration::from_secs(30);

/// A marker that this process created.
struct Marker {
    /// When, by the monotonic clock.
    made: Duration,
    /// The data file that it names.
    file: String,
}

/// Marks, writes and publishes the data files of one action.
pub(crate) struct DataFiles {
    storage: Storage,
    clock: Arc<dyn Clock>,
    instant: String,
    parquet_partition_metadata: bool,
    /// In a task, which may outlive the action: the table whose timeline is checked.
    watched: Option<HudiTable>,
    /// Markers that this process created.
    made: Mutex<BTreeMap<String, Marker>>,
}

impl DataFiles {
    /// The files of an action that this process began.
    pub(crate) fn new(table: &HudiTable, instant: &str) -> Self {
        Self {
            storage: table.storage().clone(),
            clock: table.clock().clone(),
            instant: instant.to_owned(),
            parquet_partition_metadata: table.config().partition_metadata_as_parquet(),
            watched: None,
            made: Mutex::default(),
        }
    }

    /// The files of an action that another process began, and may end meanwhile.
    ///
    /// # Errors
    /// `Conflict` when it is over.
    pub(crate) fn of_task(table: &HudiTable, instant: &str) -> Result<Self> {
        let files = Self { watched: Some(table.clone()), ..Self::new(table, instant) };
        if files.is_under_way()? { Ok(files) } else { Err(files.is_over(None)) }
    }

    /// For sharing.
    pub(crate) fn arc(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// Requested time of the action.
    pub(crate) fn instant(&self) -> &str {
        &self.instant
    }

    /// Marks a file and begins it.
    ///
    /// # Errors
    /// `Conflict` when another task attempt writes the same file; `Unsupported` behind links; `Storage`.
    pub(crate) fn create(&self, path: &str, kind: MarkerType) -> Result<FileWriter> {
        self.create_after(path, kind, |_| Ok(()))
    }

    /// The same for a partition that may be new.
    ///
    /// # Errors
    /// Those of [`DataFiles::create`].
    pub(crate) fn create_in_partition(&self, partition: &str, path: &str, kind: MarkerType) -> Result<FileWriter> {
        let depth = if partition.is_empty() { 0 } else { partition.split('/').count() };
        let parquet = self.parquet_partition_metadata;
        let name = if parquet { ".hoodie_partition_metadata.parquet" } else { ".hoodie_partition_metadata" };
        let (metadata, instant) = (join(partition, name), self.instant.clone());
        self.create_after(path, kind, move |storage| ensure_partition(storage, &metadata, &instant, depth, parquet))
    }

    fn create_after(
        &self,
        path: &str,
        kind: MarkerType,
        prepare: impl FnOnce(&Storage) -> Result<()> + Send + 'static,
    ) -> Result<FileWriter> {
        let (storage, instant, marked) = (self.storage.clone(), self.instant.clone(), path.to_owned());
        let at_once = storage.is_remote();
        let marker = move || {
            let mark = || create_marker(&storage, &instant, &marked, kind);
            both(at_once, || prepare(&storage), mark).map(|_| ())
        };
        // The file is written meanwhile; it is published after the marker.
        let marker = BackgroundTask::run(at_once, marker);
        let made = Marker { made: self.clock.monotonic(), file: path.to_owned() };
        self.made().insert(marker_path(&self.instant, path, kind), made);
        if at_once {
            return Ok(self.storage.writer(path)?.after(marker));
        }
        marker.wait()??;
        self.storage.writer(path)
    }

    /// Publishes a file that is written, unless the action ended meanwhile. Returns its size in bytes.
    ///
    /// # Errors
    /// `Conflict` when it did; `Storage`.
    pub(crate) fn publish(&self, path: &str, kind: MarkerType, sink: FileWriter) -> Result<u64> {
        // A task that outlived its action must not leave a file behind: the markers are deleted when the action ends.
        // So the marker of this file must still exist.
        if !self.is_marked(path, kind)? {
            return Err(self.is_over(Some(path)));
        }
        let bytes = sink.finish()?;
        if self.watched.is_none() {
            return Ok(bytes);
        }
        // The action, or the attempt of this task, may have just ended. The driver removes unreported files before and
        // after it commits; a file that is published even later is removed here.
        if !has_marker(&self.storage, &self.instant, path, kind)? || !self.is_under_way()? {
            self.storage.delete(path)?;
            if !self.is_under_way()? {
                delete_markers(&self.storage, &self.instant)?;
            }
            return Err(self.is_over(Some(path)));
        }
        Ok(bytes)
    }

    fn is_marked(&self, path: &str, kind: MarkerType) -> Result<bool> {
        let marker = marker_path(&self.instant, path, kind);
        let age = |marker: &Marker| self.clock.monotonic().saturating_sub(marker.made);
        let is_new = || self.made().get(&marker).is_some_and(|marker| age(marker) < MARKER_HOLDS);
        if self.watched.is_none() && self.storage.is_remote() && is_new() {
            return Ok(true);
        }
        has_marker(&self.storage, &self.instant, path, kind)
    }

    /// Paths of the markers that this process created.
    pub(super) fn markers(&self) -> Vec<String> {
        self.made().keys().cloned().collect()
    }

    /// Paths of the data files that this process marked. They may or may not exist.
    pub(super) fn marked(&self) -> Vec<String> {
        self.made().values().map(|marker| marker.file.clone()).collect()
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<String, Marker>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the action is still on the timeline; true outside of tasks.
    fn is_under_way(&self) -> Result<bool> {
        let Some(table) = &self.watched else { return Ok(true) };
        Ok(table.timeline()?.is_pending(&self.instant))
    }

    fn is_over(&self, path: Option<&str>) -> Error {
        let error = Error::conflict("the action was completed or rolled back while one of its tasks was still running")
            .with("table", self.storage.uri())
            .with("instant", &self.instant);
        match path {
            Some(path) => error.with("file", path),
            None => error,
        }
    }
}

/// Writes the metadata file of a partition again.
///
/// # Errors
/// `Storage`.
pub(crate) fn write_partition_metadata(
    storage: &Storage,
    partition: &str,
    instant: &str,
    as_parquet: bool,
) -> Result<()> {
    let depth = if partition.is_empty() { 0 } else { partition.split('/').count() };
    let name = if as_parquet { ".hoodie_partition_metadata.parquet" } else { ".hoodie_partition_metadata" };
    storage.replace(&join(partition, name), partition_metadata(instant, depth, as_parquet)?)
}

fn partition_metadata(instant: &str, depth: usize, as_parquet: bool) -> Result<Vec<u8>> {
    match as_parquet {
        true => parquet_partition_metadata(instant, depth),
        false => Ok(format!("#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n").into_bytes()),
    }
}

/// Makes the partition metadata file when the partition is new.
fn ensure_partition(storage: &Storage, path: &str, instant: &str, depth: usize, parquet: bool) -> Result<()> {
    let found = storage.head(path)?;
    if found.as_ref().is_some_and(|file| file.size > 0) {
        return Ok(());
    }
    let content = partition_metadata(instant, depth, parquet)?;
    if found.is_some() {
        // A power failure while the partition was created.
        return storage.replace(path, content);
    }
    match storage.create(path, content) {
        // Another file of this action has created it.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn parquet_partition_metadata(instant: &str, depth: usize) -> Result<Vec<u8>> {
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::KeyValue;
    let schema = Arc::new(Schema::new(vec![Field::new("dummy", DataType::Utf8, true)]));
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None)?;
    writer.append_key_value_metadata(KeyValue::new("commitTime".into(), instant.to_owned()));
    writer.append_key_value_metadata(KeyValue::new("partitionDepth".into(), depth.to_string()));
    writer.close()?;
    Ok(bytes)
}
