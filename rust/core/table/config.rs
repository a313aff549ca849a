//! `hoodie.properties`: what a table says about itself.

use super::complete_properties;
use super::merge_config::{self, MergeRequest, PersistedMerge};
use crate::error::{Error, Result};
use crate::format::instant::Layout;
use crate::format::properties::Properties;
use crate::storage::Storage;
use crate::timeline::{META_FOLDER, TimeZone, TimelineConfig};

const FILE: &str = ".hoodie/hoodie.properties";
const BACKUP: &str = ".hoodie/hoodie.properties.backup";
/// Tries while another writer is between deleting the file and writing it anew.
const READ_ATTEMPTS: u32 = 5;

/// Copy-on-write or merge-on-read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableType {
    /// Updates rewrite base files.
    CopyOnWrite,
    /// Updates go to log files first.
    MergeOnRead,
}

impl TableType {
    /// Hudi's name.
    pub fn name(self) -> &'static str {
        match self {
            TableType::CopyOnWrite => "COPY_ON_WRITE",
            TableType::MergeOnRead => "MERGE_ON_READ",
        }
    }
}

/// The table's own configuration.
#[derive(Debug, Clone)]
pub struct TableConfig {
    properties: Properties,
    version: u32,
    table_type: TableType,
    timeline: TimelineConfig,
    /// Whether it was read from the backup, for the file itself was not whole.
    is_of_backup: bool,
}

impl TableConfig {
    /// Reads and checks the configuration of the table in `storage`.
    pub fn load(storage: &Storage) -> Result<Self> {
        let mut last = None;
        let mut before = None;
        for attempt in 0..READ_ATTEMPTS {
            if attempt > 0 {
                crate::interrupt::sleep(std::time::Duration::from_millis(20 << attempt));
            }
            let stored = storage.read_if_exists(FILE)?;
            // Who rewrites it leaves the backup there until the file is whole, so that a second look shows one of both.
            let is_settled = stored.is_some() && stored == before;
            before.clone_from(&stored);
            for path in [FILE, BACKUP] {
                let content = if path == FILE { stored.clone() } else { storage.read_if_exists(path)? };
                match content {
                    None => {}
                    Some(bytes) => match Self::parse(&bytes) {
                        Ok(config) => return Ok(Self { is_of_backup: path == BACKUP, ..config }),
                        // What a newer version wrote will not get better by reading it again.
                        Err(e) if e.kind() == crate::error::ErrorKind::Unsupported => {
                            return Err(e.with("table", storage.uri()));
                        }
                        Err(e) => last = Some(e.with("table", storage.uri()).with("file", path)),
                    },
                }
            }
            if is_settled {
                break;
            }
            if last.is_none() && !storage.exists(FILE)? {
                let listing = storage.list(META_FOLDER)?;
                if listing.files.is_empty() && listing.folders.is_empty() {
                    break;
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::table_not_found("there is no Hudi table here")
                .with("table", storage.uri())
                .remedy("Check the location, or create the table with Table.create or hoodoo.write")
        }))
    }

    /// Understands the content of `hoodie.properties`.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let properties = Properties::parse(bytes)?;
        complete_properties::check(bytes, &properties)?;
        if let Some(stored) = properties.get_non_empty("hoodie.table.checksum") {
            let computed = checksum(&properties);
            if stored != computed.to_string() {
                return Err(Error::corrupt(format!(
                    "hoodie.properties has checksum {stored}, but {computed} was computed"
                ))
                .remedy("Restore hoodie.properties from a copy"));
            }
        }
        Self::from_properties(properties)
    }

    /// Understands properties that are to become a table's.
    pub fn from_properties(properties: Properties) -> Result<Self> {
        let missing = |key: &str| {
            Error::corrupt(format!("hoodie.properties has no {key}"))
                .remedy("The file is truncated or was edited; restore it from a copy")
        };
        properties.get_non_empty("hoodie.table.name").ok_or_else(|| missing("hoodie.table.name"))?;
        let version =
            properties.get_non_empty("hoodie.table.version").ok_or_else(|| missing("hoodie.table.version"))?;
        let version = match version.trim() {
            "6" => 6,
            "8" => 8,
            "9" => 9,
            other => {
                return Err(Error::unsupported(format!("table version {other} is not supported"))
                    .remedy("hoodoo reads versions 6, 8 and 9; upgrade older tables with Hudi"));
            }
        };
        let table_type = match properties.get("hoodie.table.type").map(str::to_ascii_uppercase).as_deref() {
            Some("COPY_ON_WRITE") => TableType::CopyOnWrite,
            Some("MERGE_ON_READ") => TableType::MergeOnRead,
            Some(other) => return Err(Error::corrupt(format!("unknown table type '{other}'"))),
            None => return Err(missing("hoodie.table.type")),
        };
        let format = properties.get_non_empty("hoodie.table.base.file.format").unwrap_or("PARQUET");
        if !format.eq_ignore_ascii_case("PARQUET") {
            return Err(Error::unsupported(format!("base files of format {format} are not supported")));
        }
        if properties.get_non_empty("hoodie.bootstrap.base.path").is_some() {
            return Err(Error::unsupported("bootstrapped tables are not supported"));
        }
        let timeline = timeline_config(&properties, version)?;
        Ok(Self { properties, version, table_type, timeline, is_of_backup: false })
    }

    /// A property that is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.properties.get_non_empty(key)
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, |v| v.eq_ignore_ascii_case("true"))
    }

    /// All properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Table version: 6, 8 or 9.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Copy-on-write or merge-on-read.
    pub fn table_type(&self) -> TableType {
        self.table_type
    }

    /// Where the timeline is.
    pub fn timeline(&self) -> &TimelineConfig {
        &self.timeline
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.get("hoodie.table.name").unwrap_or_default()
    }

    /// Columns of the record key; empty: keys are generated.
    pub fn record_key_fields(&self) -> Vec<String> {
        list(self.get("hoodie.table.recordkey.fields"))
    }

    /// Partition columns, without the types that a custom key generator gives them.
    pub fn partition_fields(&self) -> Vec<String> {
        let fields = list(self.get("hoodie.table.partition.fields"));
        fields.into_iter().map(|f| f.split(':').next().unwrap_or_default().trim().to_owned()).collect()
    }

    /// Columns that order the records of a key.
    pub fn ordering_fields(&self) -> Vec<String> {
        list(self.get("hoodie.table.ordering.fields").or_else(|| self.get("hoodie.table.precombine.field")))
    }

    /// Whether the five `_hoodie_*` columns are filled.
    pub fn populates_meta_fields(&self) -> bool {
        self.flag("hoodie.populate.meta.fields", true)
    }

    /// Whether partition columns are left out of the data files.
    pub fn drops_partition_columns(&self) -> bool {
        self.flag("hoodie.datasource.write.drop.partition.columns", false)
    }

    /// Whether the partition metadata file is a Parquet file.
    pub fn partition_metadata_as_parquet(&self) -> bool {
        self.flag("hoodie.partition.metafile.use.base.format", false)
    }

    /// Partitions of the metadata table, those under construction included.
    pub fn metadata_partitions(&self) -> Vec<String> {
        let mut all = list(self.get("hoodie.table.metadata.partitions"));
        all.extend(list(self.get("hoodie.table.metadata.partitions.inflight")));
        all
    }

    /// Partitions of the metadata table that readers may use.
    pub(crate) fn complete_metadata_partitions(&self) -> Vec<String> {
        list(self.get("hoodie.table.metadata.partitions"))
    }

    /// How the table says that records of one key are merged.
    pub fn persisted_merge(&self) -> Result<PersistedMerge> {
        PersistedMerge::read(&self.properties, self.version)
    }

    /// What in a job's options contradicts it, if anything does.
    pub fn merge_contradiction(&self, request: MergeRequest<'_>) -> Result<Option<String>> {
        merge_config::contradiction(&self.properties, self.version, request)
    }

    /// Makes the folders and `hoodie.properties` of a new table.
    pub fn create(storage: &Storage, mut properties: Properties, created: &str) -> Result<Self> {
        let sum = checksum(&properties).to_string();
        properties.set("hoodie.table.checksum", sum);
        let config = Self::from_properties(properties)?;
        for folder in [
            config.timeline.folder.as_str(),
            config.timeline.history_folder.as_str(),
            ".hoodie/.temp",
            ".hoodie/.aux",
            ".hoodie/.schema",
        ] {
            storage.create_folder(folder)?;
        }
        let text = config.properties.to_text(&["Properties saved by hoodoo", created]);
        storage.create_durable(FILE, text).map_err(|e| match e.kind() {
            crate::error::ErrorKind::AlreadyExists => Error::invalid_option("there is a Hudi table already")
                .with("table", storage.uri())
                .remedy("Open it with Table(uri), or choose another location"),
            _ => e,
        })?;
        Ok(config)
    }

    /// Whether an update that changes the file now, or was killed within, left only the backup whole.
    pub fn is_of_backup(&self) -> bool {
        self.is_of_backup
    }

    /// Ends an update of `hoodie.properties` that a crash interrupted. The caller holds the table lock.
    pub fn finish_update(storage: &Storage) -> Result<()> {
        if storage.exists(BACKUP)? { recover(storage) } else { Ok(()) }
    }

    /// Changes properties under the protocol that every Hudi reader understands: a copy in the backup first. The
    /// caller holds the table lock.
    pub fn update(storage: &Storage, changes: &[(&str, &str)], now: &str) -> Result<Self> {
        let set = |current: Self| {
            let mut properties = current.properties;
            changes.iter().for_each(|(key, value)| properties.set(*key, *value));
            Ok(properties)
        };
        Self::rewrite(storage, set, now)
    }

    /// The same for any change: makes the new properties of the present ones.
    pub(crate) fn rewrite(
        storage: &Storage,
        change: impl FnOnce(Self) -> Result<Properties>,
        now: &str,
    ) -> Result<Self> {
        recover(storage)?;
        let old = storage.read(FILE)?;
        let current = Self::parse(&old).map_err(|e| e.with("table", storage.uri()).with("file", FILE))?;
        let mut properties = change(current)?;
        let sum = checksum(&properties).to_string();
        // The last line, so that none is missed before it: see `complete_properties`.
        properties.remove("hoodie.table.checksum");
        properties.set("hoodie.table.checksum", sum);
        let config = Self::from_properties(properties)?;
        storage.create_durable(BACKUP, old)?;
        let text = config.properties.to_text(&["Updated by hoodoo", now]);
        storage.replace(FILE, text)?;
        let written = Self::parse(&storage.read(FILE)?)?;
        if written.properties != config.properties {
            return Err(Error::corrupt("hoodie.properties was changed while it was written")
                .with("table", storage.uri())
                .remedy("Its former content is in hoodie.properties.backup"));
        }
        storage.delete(BACKUP)?;
        Ok(config)
    }
}

/// Puts a backup back in place that a crashed update left. The caller holds the table lock.
fn recover(storage: &Storage) -> Result<()> {
    let main = storage.read_if_exists(FILE)?;
    let Some(backup) = storage.read_if_exists(BACKUP)? else { return Ok(()) };
    let usable = main.is_some_and(|bytes| TableConfig::parse(&bytes).is_ok());
    if !usable && TableConfig::parse(&backup).is_ok() {
        storage.replace(FILE, backup)?;
    }
    storage.delete(BACKUP)?;
    Ok(())
}

/// CRC-32 of `<database>.<table>`.
fn checksum(properties: &Properties) -> u32 {
    let database = properties.get("hoodie.database.name").unwrap_or_default();
    let name = properties.get("hoodie.table.name").unwrap_or_default();
    crc32fast::hash(format!("{database}.{name}").as_bytes())
}

fn timeline_config(properties: &Properties, version: u32) -> Result<TimelineConfig> {
    let layout = match properties.get_non_empty("hoodie.timeline.layout.version") {
        Some("2") => Layout::V2,
        Some("1") => Layout::V1,
        None if version == 6 => Layout::V1,
        None => {
            return Err(Error::corrupt("hoodie.properties has no hoodie.timeline.layout.version")
                .remedy("The file is truncated or was edited; restore it from a copy"));
        }
        Some(other) => return Err(Error::unsupported(format!("timeline layout {other} is not supported"))),
    };
    let part = |key: &str, default: &str| folder_within(key, properties.get_non_empty(key).unwrap_or(default));
    let (folder, history_folder) = match layout {
        Layout::V1 => {
            (META_FOLDER.to_owned(), format!("{META_FOLDER}/{}", part("hoodie.archivelog.folder", "archived")?))
        }
        Layout::V2 => {
            let folder = format!("{META_FOLDER}/{}", part("hoodie.timeline.path", "timeline")?);
            let history = format!("{folder}/{}", part("hoodie.timeline.history.path", "history")?);
            (folder, history)
        }
    };
    let zone = match properties.get_non_empty(complete_properties::ZONE).map(str::trim) {
        Some(zone) if zone.eq_ignore_ascii_case("UTC") => TimeZone::Utc,
        None => TimeZone::Local,
        Some(zone) if zone.eq_ignore_ascii_case("LOCAL") => TimeZone::Local,
        Some(other) => {
            // Times in a zone that nobody means would be before or after those that are there.
            let name = complete_properties::ZONE;
            return Err(Error::unsupported(format!("{name}={other} in hoodie.properties is neither UTC nor LOCAL"))
                .remedy("Set the property to what the writers of the table use"));
        }
    };
    let initial = properties.get_non_empty("hoodie.table.initial.version");
    let was_version_6 = layout == Layout::V1 || initial.is_some_and(|initial| initial.trim() == "6");
    Ok(TimelineConfig { layout, folder, history_folder, zone, was_version_6 })
}

/// A folder that a property names within another one. It may not lead out of that one: files are listed and deleted there.
fn folder_within(key: &str, value: &str) -> Result<String> {
    let folder = value.trim_end_matches('/');
    let odd = |level: &str| matches!(level, "" | "." | "..") || level.contains(|c: char| c.is_ascii_control());
    if folder.split('/').any(odd) {
        return Err(Error::unsupported(format!("{key}={value} in hoodie.properties leads out of its folder"))
            .remedy("Restore hoodie.properties from a copy, or name a folder below the table's own"));
    }
    Ok(folder.to_owned())
}

/// A comma list.
pub(super) fn list(value: Option<&str>) -> Vec<String> {
    value.unwrap_or_default().split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;
    use crate::storage::StorageOptions;

    fn properties() -> Properties {
        let mut p = Properties::new();
        for (k, v) in [
            ("hoodie.table.name", "t"),
            ("hoodie.table.type", "COPY_ON_WRITE"),
            ("hoodie.table.version", "9"),
            ("hoodie.table.initial.version", "9"),
            ("hoodie.timeline.layout.version", "2"),
            ("hoodie.timeline.path", "timeline"),
            ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
        ] {
            p.set(k, v);
        }
        p
    }

    fn storage(name: &str) -> Storage {
        Storage::open(&format!("memory://{name}/t"), &StorageOptions::new()).unwrap()
    }

    #[test]
    fn checksum_is_of_the_name() {
        let mut p = Properties::new();
        p.set("hoodie.table.name", "t");
        assert_eq!(checksum(&p), 498_511_606);
        p.set("hoodie.table.name", "t_metadata");
        assert_eq!(checksum(&p), 3_339_867_397);
    }

    #[test]
    fn created_once_and_updated() {
        let s = storage("config-1");
        assert_eq!(TableConfig::load(&s).unwrap_err().kind(), ErrorKind::TableNotFound);
        TableConfig::create(&s, properties(), "now").unwrap();
        assert_eq!(TableConfig::create(&s, properties(), "now").unwrap_err().kind(), ErrorKind::InvalidOption);
        TableConfig::update(&s, &[("a.b", "c")], "now").unwrap();
        let c = TableConfig::load(&s).unwrap();
        assert_eq!((c.get("a.b"), c.version(), s.exists(BACKUP).unwrap()), (Some("c"), 9, false));
    }

    #[test]
    fn a_crash_between_delete_and_write_leaves_the_backup() {
        let s = storage("config-2");
        TableConfig::create(&s, properties(), "now").unwrap();
        let text = s.read(FILE).unwrap();
        s.create(BACKUP, text).unwrap();
        s.delete(FILE).unwrap();
        assert_eq!(TableConfig::load(&s).unwrap().name(), "t");
        TableConfig::update(&s, &[("x", "y")], "now").unwrap();
        assert!(s.exists(FILE).unwrap() && !s.exists(BACKUP).unwrap());
    }

    #[test]
    fn a_truncated_file_is_corrupt() {
        let s = storage("config-3");
        s.create(FILE, "hoodie.table.name=t\nhoodie.table.ver").unwrap();
        assert_eq!(TableConfig::load(&s).unwrap_err().kind(), ErrorKind::Corrupt);
        s.replace(FILE, "hoodie.table.name=t\nhoodie.table.version=12\n").unwrap();
        assert_eq!(TableConfig::load(&s).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
