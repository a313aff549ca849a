//! What `hoodie.properties` of a new table says.

use arrow::datatypes::Schema;

use super::Options;
use super::change_capture::CHANGE_CAPTURE;
use super::config::{TableConfig, list};
use super::keygen::{KeyGenConfig, KeyGeneratorType, PartitionFieldKind};
use super::merge_config::{MergeRequest, infer};
use super::schema::SchemaChange;
use super::{HudiTable, local_settings};
use crate::error::{Error, Result};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::change_data::{LOGGING_MODE, LoggingMode};
use crate::format::properties::Properties;
use crate::merge::ordering_type;
use crate::storage::Storage;
use crate::timeline::{Clock, TimeZone, format_instant};

/// A table that is to be made.
#[derive(Debug)]
pub struct TableSpec<'a> {
    /// Options of the job that creates it.
    pub options: &'a Options,
    /// Columns, without meta columns.
    pub schema: &'a Schema,
    /// Whether the schema is kept in the table even before the first commit.
    pub keep_schema: bool,
}

/// Settings that are copied as they are given, with the value that Hudi writes when they are not.
const COPIED: [(&str, &str); 5] = [
    ("hoodie.datasource.write.hive_style_partitioning", "false"),
    ("hoodie.datasource.write.partitionpath.urlencode", "false"),
    ("hoodie.datasource.write.drop.partition.columns", "false"),
    ("hoodie.partition.metafile.use.base.format", "false"),
    ("hoodie.populate.meta.fields", "true"),
];

/// Options of the lock that are kept with the table, where Hudi's SQL writers find them too. How long is waited for it is
/// each writer's own.
const KEPT_LOCK_OPTIONS: [&str; 5] = [
    "hoodie.write.lock.provider",
    "hoodie.write.lock.filesystem.path",
    "hoodie.write.lock.filesystem.expire",
    "hoodie.write.lock.storage.validity.timeout.secs",
    "hoodie.write.lock.storage.renew.interval.secs",
];

impl TableSpec<'_> {
    /// Creates the table.
    pub fn create(&self, storage: Storage, clock: std::sync::Arc<dyn Clock>) -> Result<HudiTable> {
        let properties = self.properties()?;
        let storage = storage.with_local_settings(local_settings(self.options)?);
        let now = format_instant(clock.now_ms(), TimeZone::Utc);
        if let Some(file) = storage.file_in_place_of_folder() {
            return Err(Error::invalid_option("a table is a folder, and there is a file in its place")
                .with("table", storage.uri())
                .with("file", file.display())
                .remedy("Choose another folder for the new table"));
        }
        let foreign = storage.list("")?;
        if !foreign.files.is_empty() && foreign.folders.iter().all(|f| f != ".hoodie") {
            return Err(Error::invalid_option("the folder holds files, but no Hudi table")
                .with("table", storage.uri())
                .with("file", foreign.files.first().map(|f| f.path.clone()).unwrap_or_default())
                .remedy("Choose an empty folder for a new table"));
        }
        TableConfig::create(&storage, properties, &now)?;
        HudiTable::open_in(storage, self.options.clone(), clock)
    }

    /// The properties, checked against each other and against the columns.
    pub fn properties(&self) -> Result<Properties> {
        let options = self.options;
        let get = |key: &str| options.get(key).map(str::to_owned).filter(|v| !v.is_empty());
        let name = get("hoodie.table.name").ok_or_else(|| {
            Error::invalid_option("the new table has no name").remedy("Set hoodie.table.name, or pass name=")
        })?;
        let version: u32 = options.number("hoodie.table.version", 9)?;
        if !matches!(version, 8 | 9) {
            return Err(Error::unsupported(format!("tables of version {version} cannot be created"))
                .remedy("Use version 9, or 8 with hoodie.write.table.version=8"));
        }
        let table_type = get("hoodie.table.type").unwrap_or_else(|| "COPY_ON_WRITE".into()).to_ascii_uppercase();
        if !matches!(table_type.as_str(), "COPY_ON_WRITE" | "MERGE_ON_READ") {
            return Err(Error::invalid_value("hoodie.table.type", table_type, "COPY_ON_WRITE or MERGE_ON_READ"));
        }
        let schema = SchemaChange::default().apply(None, self.schema)?;
        let keys = KeyGenConfig::from_properties(&get, version)?;
        let ordering = list(get("hoodie.table.ordering.fields").as_deref());
        self.check_columns(&schema, &keys, &ordering)?;
        let request = MergeRequest {
            mode: options.get("hoodie.record.merge.mode"),
            strategy: options.get("hoodie.record.merge.strategy.id"),
            payload: options.get("hoodie.datasource.write.payload.class"),
            has_ordering: !ordering.is_empty(),
        };
        let merge = infer(request, version)?;

        let mut p = Properties::new();
        p.set("hoodie.table.name", &name);
        if let Some(database) = get("hoodie.database.name") {
            p.set("hoodie.database.name", database);
        }
        p.set("hoodie.table.type", table_type);
        p.set("hoodie.table.version", version.to_string());
        p.set("hoodie.table.initial.version", version.to_string());
        p.set("hoodie.timeline.layout.version", "2");
        p.set("hoodie.timeline.path", "timeline");
        p.set("hoodie.timeline.history.path", "history");
        p.set("hoodie.archivelog.folder", "history");
        p.set("hoodie.table.format", "native");
        p.set("hoodie.table.base.file.format", "PARQUET");
        self.set_change_capture(&mut p)?;
        p.set("hoodie.table.multiple.base.file.formats.enable", "false");
        p.set("hoodie.table.timeline.timezone", self.zone()?);
        for (key, default) in COPIED {
            p.set(key, options.flag(key, default == "true")?.to_string());
        }
        if options.flag("hoodie.datasource.write.slash.separated.date.partitioning", false)? {
            p.set("hoodie.datasource.write.slash.separated.date.partitioning", "true");
        }
        set_keys(&mut p, &keys, options);
        if !ordering.is_empty() {
            p.set("hoodie.table.ordering.fields", ordering.join(","));
        }
        // Whoever writes to the table later must take the same lock.
        for key in KEPT_LOCK_OPTIONS {
            if let Some(value) = options.get(key) {
                p.set(key, value);
            }
        }
        for (key, value) in merge_properties(options, version)? {
            p.set(key, value);
        }
        for (key, value) in merge {
            p.set(key, value);
        }
        if self.keep_schema {
            p.set("hoodie.table.create.schema", table_schema_to_avro(&schema, &name, false)?);
        }
        Ok(p)
    }

    fn set_change_capture(&self, p: &mut Properties) -> Result<()> {
        let mode = self.options.get(LOGGING_MODE).map(LoggingMode::parse).transpose()?;
        let enabled = self.options.flag(CHANGE_CAPTURE, false)?;
        p.set(CHANGE_CAPTURE, enabled.to_string());
        if let Some(mode) = mode.or(enabled.then(LoggingMode::default)) {
            p.set(LOGGING_MODE, mode.name());
        }
        let drops = "hoodie.datasource.write.drop.partition.columns";
        if enabled && self.options.flag(drops, false)? {
            return Err(Error::unsupported(format!("change data capture with {drops} is not supported"))
                .remedy(format!("Leave {drops} or {CHANGE_CAPTURE} out")));
        }
        Ok(())
    }

    fn zone(&self) -> Result<&'static str> {
        match self.options.get("hoodie.table.timeline.timezone").map(str::to_ascii_uppercase).as_deref() {
            None | Some("LOCAL") => Ok("LOCAL"),
            Some("UTC") => Ok("UTC"),
            Some(other) => Err(Error::invalid_value("hoodie.table.timeline.timezone", other, "UTC or LOCAL")),
        }
    }

    fn check_columns(&self, schema: &Schema, keys: &KeyGenConfig, ordering: &[String]) -> Result<()> {
        let partition = keys.partition_fields.iter().map(|f| &f.name);
        let wanted = [
            ("record key", keys.record_key_fields.iter().collect::<Vec<_>>()),
            ("partition", partition.collect()),
            ("ordering", ordering.iter().collect()),
        ];
        for (role, names) in wanted {
            for name in names {
                // All of them may be fields of struct columns.
                if ordering_type(schema, name).is_none() {
                    let has: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                    return Err(Error::schema(format!("the {role} column '{name}' is not in the data"))
                        .with("column", name)
                        .with("columns", has.join(","))
                        .remedy("Check the column names in the options"));
                }
            }
        }
        let populate = self.options.flag("hoodie.populate.meta.fields", true)?;
        let virtual_keys =
            matches!(keys.kind, KeyGeneratorType::Simple | KeyGeneratorType::Complex | KeyGeneratorType::NonPartition);
        if !populate && (!virtual_keys || keys.generates_keys()) {
            return Err(Error::invalid_option(
                "a table without meta columns needs a SIMPLE, COMPLEX or NON_PARTITION key generator and a record key",
            )
            .remedy("Set hoodie.populate.meta.fields=true"));
        }
        Ok(())
    }
}

/// What is kept of the settings of merging that have no meaning but for the table.
fn merge_properties(options: &Options, version: u32) -> Result<Vec<(String, String)>> {
    const PREFIX: &str = "hoodie.record.merge.property.";
    let mut out = Vec::new();
    let (field, marker) = (options.get("hoodie.payload.delete.field"), options.get("hoodie.payload.delete.marker"));
    match (field, marker) {
        (Some(field), Some(marker)) => {
            out.push((format!("{PREFIX}hoodie.payload.delete.field"), field.to_owned()));
            out.push((format!("{PREFIX}hoodie.payload.delete.marker"), marker.to_owned()));
        }
        (None, None) => {}
        _ => {
            return Err(Error::invalid_option("a custom delete marker needs a column and a value")
                .remedy("Set both hoodie.payload.delete.field and hoodie.payload.delete.marker"));
        }
    }
    // Hudi reads these from the table, but does not put them there; whoever gives them wants them to count.
    for (key, value) in options.given() {
        let is_mode = key == "hoodie.table.partial.update.mode";
        if is_mode && version < 9 {
            return Err(Error::invalid_option("hoodie.table.partial.update.mode needs a table of version 9")
                .remedy("Leave it out, or create the table with hoodie.write.table.version=9"));
        }
        if is_mode || key.starts_with(PREFIX) {
            out.push((key.clone(), value.clone()));
        }
    }
    Ok(out)
}

/// The class by which Hudi's syncs take values from partition paths (`HoodieTableConfig.PARTITION_VALUE_EXTRACTOR_CLASS`,
/// inferred as `HoodieSyncConfig.META_SYNC_PARTITION_EXTRACTOR_CLASS` is).
fn extractor(keys: &KeyGenConfig, options: &Options) -> String {
    if let Some(given) = options.get("hoodie.datasource.hive_sync.partition_extractor_class") {
        return given.to_owned();
    }
    let has_one = keys.partition_fields.len() == 1;
    let name = match keys.partition_fields.len() {
        _ if keys.slash_separated_date && has_one => "SlashEncodedDayPartitionValueExtractor",
        1 if keys.hive_style => "HiveStylePartitionValueExtractor",
        1 => "SinglePartPartitionValueExtractor",
        0 if options.get("hoodie.table.partition.fields").is_some() => "NonPartitionedExtractor",
        _ => "MultiPartKeysValueExtractor",
    };
    format!("org.apache.hudi.hive.{name}")
}

fn set_keys(p: &mut Properties, keys: &KeyGenConfig, options: &Options) {
    if !keys.generates_keys() {
        p.set("hoodie.table.recordkey.fields", keys.record_key_fields.join(","));
    }
    let typed = keys.kind == KeyGeneratorType::Custom;
    let partition: Vec<String> = keys
        .partition_fields
        .iter()
        .map(|f| match (typed, f.kind) {
            (false, _) => f.name.clone(),
            (true, PartitionFieldKind::Simple) => format!("{}:SIMPLE", f.name),
            (true, PartitionFieldKind::Timestamp) => format!("{}:TIMESTAMP", f.name),
        })
        .collect();
    if !partition.is_empty() || keys.kind == KeyGeneratorType::NonPartition {
        p.set("hoodie.table.partition.fields", partition.join(","));
    }
    // A table with generated keys keeps the generator that its partitions need.
    let kind = match keys.kind {
        KeyGeneratorType::AutoRecord => KeyGeneratorType::infer(&[], &partition.join(",")),
        other => other,
    };
    p.set("hoodie.table.keygenerator.type", kind.name());
    p.set("hoodie.table.partition_extractor_class", extractor(keys, options));
    // As Hudi does: tables with a custom generator leave these to the writers.
    for (key, value) in options.given().iter().filter(|_| !typed) {
        let timebased = key.strip_prefix("hoodie.keygen.timebased.");
        let old = key.strip_prefix("hoodie.deltastreamer.keygen.timebased.");
        if let Some(rest) = timebased.or(old) {
            p.set(format!("hoodie.keygen.timebased.{rest}"), value);
        }
    }
}
