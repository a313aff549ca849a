//! Reading the history: only the files whose range of times is wanted, only the columns that are wanted.

use std::collections::BTreeMap;

use arrow::array::{Array, BinaryArray, RecordBatch, StringArray};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;

use super::archive_v1::{self, Bodies};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Layout};
use crate::storage::{Storage, optional};
use crate::timeline::TimelineConfig;

/// Which columns are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMode {
    /// Requested and completion times, and the action.
    Action,
    /// These, and the metadata of the completed instant.
    Metadata,
    /// All columns.
    Full,
}

impl LoadMode {
    fn columns(self) -> &'static [&'static str] {
        match self {
            LoadMode::Action => &["instantTime", "completionTime", "action"],
            LoadMode::Metadata => &["instantTime", "completionTime", "action", "metadata"],
            LoadMode::Full => &["instantTime", "completionTime", "action", "metadata", "plan"],
        }
    }
}

/// One archived instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Requested time.
    pub requested: String,
    /// Completion time.
    pub completed: String,
    /// Action, as it completed.
    pub action: Action,
    /// Body of the completed instant.
    pub metadata: Option<Vec<u8>>,
    /// Body of the plan.
    pub plan: Option<Vec<u8>>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    #[serde(default)]
    files: Vec<ManifestFile>,
}

#[derive(Debug, Deserialize)]
struct ManifestFile {
    #[serde(rename = "fileName")]
    name: String,
    #[serde(rename = "fileLen", default)]
    length: u64,
}

/// Reads the history of one table.
pub struct HistoryReader<'a> {
    storage: &'a Storage,
    config: &'a TimelineConfig,
}

impl<'a> HistoryReader<'a> {
    /// A reader; nothing is read yet.
    pub fn new(storage: &'a Storage, config: &'a TimelineConfig) -> Self {
        Self { storage, config }
    }

    /// Archived instants with `since <= requested <= until`, by requested time, each once.
    pub fn read(&self, since: Option<&str>, until: Option<&str>, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
        if self.config.layout == Layout::V1 {
            let bodies = Bodies { metadata: mode != LoadMode::Action, plan: mode == LoadMode::Full };
            return archive_v1::read(self.storage, &self.config.history_folder, since, until, bodies);
        }
        // A compaction of the history may remove files between the manifest and the read: then read the new manifest.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.read_once(since, until, mode) {
                Err(e) if e.kind() == ErrorKind::NotFound && attempts < 4 => continue,
                other => return other,
            }
        }
    }

    fn read_once(&self, since: Option<&str>, until: Option<&str>, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
        let mut entries: BTreeMap<String, HistoryEntry> = BTreeMap::new();
        let wanted = |t: &str| since.is_none_or(|s| t >= s) && until.is_none_or(|u| t <= u);
        for file in self.manifest()?.files {
            let (min, max) = name_range(&file.name).ok_or_else(|| {
                Error::corrupt("a history manifest names a file of no known form").with("file", &file.name)
            })?;
            if since.is_some_and(|s| max < s) || until.is_some_and(|u| min > u) {
                continue;
            }
            let path = format!("{}/{}", self.config.history_folder, file.name);
            for entry in self.read_file(&path, file.length, mode)? {
                if wanted(&entry.requested) {
                    // A crash while archiving can leave an instant in two files; they are equal.
                    entries.entry(entry.requested.clone()).or_insert(entry);
                }
            }
        }
        Ok(entries.into_values().collect())
    }

    fn manifest(&self) -> Result<Manifest> {
        let folder = &self.config.history_folder;
        let version = optional(self.storage.read(&format!("{folder}/_version_")))?;
        let current = version.and_then(|b| std::str::from_utf8(&b).ok().and_then(|s| s.trim().parse::<u64>().ok()));
        if let Some(n) = current
            && let Some(manifest) = self.read_manifest(n)?
        {
            return Ok(manifest);
        }
        // The version file is rewritten by delete and create; in the gap the newest manifest counts.
        let listed = self.storage.list(folder)?.files;
        let newest = listed.iter().filter_map(|f| f.name().strip_prefix("manifest_")?.parse::<u64>().ok()).max();
        match newest {
            Some(n) => Ok(self.read_manifest(n)?.unwrap_or(Manifest { files: Vec::new() })),
            None => Ok(Manifest { files: Vec::new() }),
        }
    }

    fn read_manifest(&self, n: u64) -> Result<Option<Manifest>> {
        let path = format!("{}/manifest_{n}", self.config.history_folder);
        let Some(bytes) = optional(self.storage.read(&path))? else { return Ok(None) };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Some(Manifest { files: Vec::new() }));
        }
        let manifest = serde_json::from_slice(&bytes);
        manifest
            .map(Some)
            .map_err(|e| Error::corrupt("a history manifest is not valid JSON").caused_by(e).with("file", path))
    }

    fn read_file(&self, path: &str, length: u64, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
        let named = |e: Error| e.with("table", self.storage.uri()).with("file", path);
        let file = self.storage.reader(path, length)?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| named(e.into()))?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), mode.columns().iter().copied());
        let reader = builder.with_projection(mask).build().map_err(|e| named(e.into()))?;
        let mut out = Vec::new();
        for batch in reader {
            let batch = batch.map_err(|e| named(e.into()))?;
            decode(&batch, &mut out).map_err(named)?;
        }
        Ok(out)
    }
}

/// Smallest and largest requested time of a history file, from its name.
fn name_range(name: &str) -> Option<(&str, &str)> {
    let (times, level) = name.strip_suffix(".parquet")?.rsplit_once('_')?;
    let (min, max) = times.split_once('_')?;
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    (digits(min) && digits(max) && digits(level)).then_some((min, max))
}

fn decode(batch: &RecordBatch, out: &mut Vec<HistoryEntry>) -> Result<()> {
    let missing = |name: &str| Error::corrupt(format!("a history file has no usable column {name}"));
    let text = |name: &'static str| -> Result<&StringArray> {
        batch.column_by_name(name).and_then(|c| c.as_any().downcast_ref()).ok_or_else(|| missing(name))
    };
    let bytes = |name: &'static str| -> Option<&BinaryArray> {
        batch.column_by_name(name).and_then(|c| c.as_any().downcast_ref())
    };
    let (requested, completed, action) = (text("instantTime")?, text("completionTime")?, text("action")?);
    let (metadata, plan) = (bytes("metadata"), bytes("plan"));
    let body =
        |column: Option<&BinaryArray>, row: usize| column.filter(|c| c.is_valid(row)).map(|c| c.value(row).to_vec());
    for row in 0..batch.num_rows() {
        if requested.is_null(row) {
            return Err(Error::corrupt("a history file holds an instant without a time"));
        }
        let name = action.value(row);
        let action = Action::parse(name)
            .ok_or_else(|| Error::corrupt(format!("a history file holds the unknown action '{name}'")))?;
        out.push(HistoryEntry {
            requested: requested.value(row).to_owned(),
            completed: completed.value(row).to_owned(),
            action,
            metadata: body(metadata, row),
            plan: body(plan, row),
        });
    }
    Ok(())
}
