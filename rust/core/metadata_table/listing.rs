//! The metadata table as one look at its files shows it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{FOLDER, REBUILD};
use crate::error::{Error, Result};
use crate::format::instant::Layout;
use crate::format::properties::Properties;
use crate::storage::{FileMeta, Storage, optional};
use crate::timeline::{Timeline, TimelineConfig};

pub(super) const PROPERTIES: &str = ".hoodie/metadata/.hoodie/hoodie.properties";

/// The timeline of the metadata table, and its files.
#[derive(Clone)]
pub(crate) struct MetadataListing {
    timeline: Timeline,
    /// Files by folder. On an object store one request shows them all, the timeline's first; the folders of a disk are
    /// listed when they are needed.
    folders: Option<Arc<HashMap<String, Vec<FileMeta>>>>,
}

impl MetadataListing {
    /// Looks at the properties and the timeline, and on an object store at all files. `table` tells how the timeline of the
    /// table is stored.
    ///
    /// # Errors
    /// `Corrupt` for properties that are missing, damaged or not those of a metadata table; `Unsupported` for other
    /// versions than 8 and 9; `Storage`.
    pub(crate) fn read_all(storage: &Storage, table: &TimelineConfig) -> Result<Self> {
        let read = if storage.is_remote() { Self::read_remote } else { Self::read };
        read(storage, table).map_err(|e| e.with("table", storage.uri()).remedy(REBUILD))
    }

    fn read_remote(storage: &Storage, table: &TimelineConfig) -> Result<Self> {
        let mut folders: HashMap<String, Vec<FileMeta>> = HashMap::new();
        for file in storage.list_recursive(FOLDER)? {
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            match folders.get_mut(folder) {
                Some(files) => files.push(file),
                None => _ = folders.insert(folder.to_owned(), vec![file]),
            }
        }
        let properties = folders.values().flatten().find(|file| file.path == PROPERTIES).ok_or_else(no_properties)?;
        // Another writer may drop the metadata table in between.
        let content = optional(storage.read_listed(PROPERTIES, properties.size))?.ok_or_else(no_properties)?;
        let config = timeline_config(&content, table)?;
        let timeline = Timeline::from_files(config.clone(), folders.remove(&config.folder).unwrap_or_default());
        Ok(Self { timeline, folders: Some(Arc::new(folders)) })
    }

    /// The same, but folders are listed when they are needed: for a look at few of them.
    ///
    /// # Errors
    /// Those of [`MetadataListing::read_all`].
    pub(super) fn read(storage: &Storage, table: &TimelineConfig) -> Result<Self> {
        let content = storage.read_if_exists(PROPERTIES)?.ok_or_else(no_properties)?;
        let timeline = Timeline::load(storage, &timeline_config(&content, table)?)?;
        Ok(Self { timeline, folders: None })
    }

    /// The timeline of the metadata table.
    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The files of a folder.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn files(&self, storage: &Storage, folder: &str) -> Result<Vec<FileMeta>> {
        match &self.folders {
            Some(folders) => Ok(folders.get(folder).cloned().unwrap_or_default()),
            None => Ok(storage.list(folder)?.files),
        }
    }
}

fn no_properties() -> Error {
    Error::corrupt("the metadata table has no hoodie.properties")
}

/// How the timeline of the metadata table is stored, by the content of its properties.
fn timeline_config(content: &[u8], table: &TimelineConfig) -> Result<TimelineConfig> {
    let properties = Properties::parse(content)?;
    let expect = |key: &str, wanted: &[&str]| match properties.get_non_empty(key) {
        Some(value) if wanted.iter().any(|one| one.eq_ignore_ascii_case(value.trim())) => Ok(()),
        Some(value) => {
            Err(Error::corrupt(format!("{key} of the metadata table is '{value}', expected {}", wanted.join(" or "))))
        }
        None => Err(Error::corrupt(format!("hoodie.properties of the metadata table has no {key}"))),
    };
    expect("hoodie.table.type", &["MERGE_ON_READ"])?;
    expect("hoodie.table.base.file.format", &["HFILE"])?;
    expect("hoodie.timeline.layout.version", &["2"])?;
    match properties.get_non_empty("hoodie.table.version").map(str::trim) {
        Some("8" | "9") => {}
        Some(other) => {
            return Err(Error::unsupported(format!("version {other} of the metadata table is not supported")));
        }
        None => return Err(Error::corrupt("hoodie.properties of the metadata table has no hoodie.table.version")),
    }
    check_checksum(&properties)?;
    let part = |key: &str, default: &str| {
        let value = properties.get_non_empty(key).unwrap_or(default).trim_matches('/').to_owned();
        match value.split('/').any(|level| matches!(level, "" | "." | "..")) {
            true => Err(Error::corrupt(format!("{key} of the metadata table is no folder within it: '{value}'"))),
            false => Ok(value),
        }
    };
    let folder = format!("{FOLDER}/.hoodie/{}", part("hoodie.timeline.path", "timeline")?);
    let history_folder = format!("{folder}/{}", part("hoodie.timeline.history.path", "history")?);
    Ok(TimelineConfig { layout: Layout::V2, folder, history_folder, zone: table.zone, was_version_6: false })
}

/// Checks the checksum, which is of the name of the table.
fn check_checksum(properties: &Properties) -> Result<()> {
    let Some(stored) = properties.get_non_empty("hoodie.table.checksum") else { return Ok(()) };
    let database = properties.get("hoodie.database.name").unwrap_or_default();
    let name = properties.get("hoodie.table.name").unwrap_or_default();
    let computed = crc32fast::hash(format!("{database}.{name}").as_bytes()).to_string();
    if stored == computed {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "hoodie.properties of the metadata table has checksum {stored}, but {computed} was computed"
    )))
}
