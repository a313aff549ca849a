//! Writing the history: files whose times read fast, and the versions that name them.
//!
//! Encodings and codec are ours to choose, Hudi reads them all: times share prefixes with their neighbours
//! (DELTA_BYTE_ARRAY), bodies repeat their Avro schema (zstd over pages of many rows).

use std::collections::HashSet;

use arrow::array::{BooleanArray, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::compactor::{Compacted, CompactionLimits, pick};
use super::entry::{
    ACTION, COMPLETION_TIME, FILE_SCHEMA, HistoryEntry, INSTANT_TIME, LoadMode, METADATA, PLAN, VERSION, to_batch,
};
use super::layout::{GROUP_BYTES, GROUP_ROWS, SCHEMA_ROOT, sorted_mark, with_version};
use super::manifest::{HistoryFile, HistoryFolder, Snapshot};
use super::overlap::Order;
use super::reader::HistoryReader;
use super::splice::{follow_each_other, splice};
use crate::TimelineConfig;
use hoodoo_format::instant::Action;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::{FileWriter, Storage};

/// Name of the rows, as Hudi has it.
/// Rows of a page, at most: what a lookup of one instant decodes.
const PAGE_ROWS: usize = 4_096;

/// Writes the history of one table. Whoever calls it holds the table lock.
pub struct HistoryWriter {
    folder: HistoryFolder,
    reader: HistoryReader,
    /// Not where Hudi upgraded the table from version 6.
    names_are_times: bool,
}

impl HistoryWriter {
    /// A writer; nothing is written yet.
    pub fn new(storage: &Storage, config: &TimelineConfig) -> Self {
        let (folder, reader) = (HistoryFolder::new(storage, config), HistoryReader::new(storage, config));
        Self { folder, reader, names_are_times: !config.was_version_6 }
    }

    /// The same writer with a number of threads for reading.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { reader: self.reader.with_threads(threads), ..self }
    }

    /// Adds instants as a file of level 0 and publishes the version with it. Instants that the history has already, of
    /// an archiving that died before it took them off the active timeline, are not written again.
    ///
    /// # Errors
    /// `Storage`; `Corrupt` when the history there cannot be read.
    pub fn append(&self, entries: &[HistoryEntry]) -> Result<Option<HistoryFile>> {
        self.append_to(&mut self.load()?, entries)
    }

    /// The current version, for the calls that take one. It stays the current one as long as the caller holds the table
    /// lock.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub fn load(&self) -> Result<Snapshot> {
        self.folder.load()
    }

    /// The same as [`HistoryWriter::append`] where the current version is known; it becomes the one that is published.
    ///
    /// # Errors
    /// Those of [`HistoryWriter::append`].
    pub fn append_to(&self, snapshot: &mut Snapshot, entries: &[HistoryEntry]) -> Result<Option<HistoryFile>> {
        let mut new = self.not_there_yet(snapshot, entries)?;
        new.sort_by(|a, b| a.requested.cmp(&b.requested));
        let (Some(first), Some(last)) = (new.first(), new.last()) else { return Ok(None) };
        let name = HistoryFile::name_of(&first.requested, &last.requested, 0);
        if snapshot.files.iter().any(|f| f.name == name) {
            return Err(Error::corrupt("the history has a file of these times with other instants")
                .with("table", self.folder.storage().uri())
                .with("file", name));
        }
        let batch = to_batch(&new)?;
        let file = self.write(&name, |writer| encode(writer, std::iter::once(Ok(batch))))?;
        let next = snapshot.next(&[], Some(file.clone()));
        self.folder.publish(&next)?;
        *snapshot = next;
        Ok(Some(file))
    }

    /// Takes writes out: those that a restore undid. Nobody finds their files any more. Publishes one version, and leaves the
    /// old files to the next compaction. Returns how many writes were taken out.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub fn remove_writes(&self, requested: &HashSet<String>) -> Result<usize> {
        let snapshot = self.load()?;
        let Some(first) = requested.iter().min() else { return Ok(0) };
        let mut next = snapshot.clone();
        let mut removed = 0;
        for file in snapshot.files.iter().filter(|f| !self.names_are_times || f.max >= *first) {
            let alone = Snapshot { files: vec![file.clone()], ..snapshot.clone() };
            let entries = self.reader.read_from(&alone, None, None, LoadMode::Action)?;
            let is_gone = |e: &HistoryEntry| e.action.is_write() && requested.contains(&e.requested);
            let stays: Vec<&str> = entries.iter().filter(|e| !is_gone(e)).map(|e| e.requested.as_str()).collect();
            if stays.len() == entries.len() {
                continue;
            }
            removed += entries.len() - stays.len();
            let added = match (stays.first(), stays.last()) {
                (Some(min), Some(max)) => Some(self.without(&next, file, (min, max), requested)?),
                _ => None,
            };
            next = next.next(std::slice::from_ref(file), added);
        }
        if removed > 0 {
            self.folder.publish(&Snapshot { version: snapshot.version + 1, ..next })?;
        }
        Ok(removed)
    }

    /// Writes a file again without these writes, under a name that no other file has; readers may have the old one open.
    fn without(
        &self,
        snapshot: &Snapshot,
        file: &HistoryFile,
        (min, max): (&str, &str),
        requested: &HashSet<String>,
    ) -> Result<HistoryFile> {
        let is_taken = |name: &String| snapshot.files.iter().any(|f| f.name == *name) || file.name == *name;
        let levels = (file.level..=CompactionLimits::HIGHEST_LEVEL).chain(0..file.level);
        let name = levels.map(|level| HistoryFile::name_of(min, max, level)).find(|name| !is_taken(name));
        let name = name.ok_or_else(|| Error::corrupt("the history has files of these times on all levels"))?;
        let rows = self.reader.rows_of(self.reader.open_with_pages(vec![file.clone()])?)?;
        let keep = |batch: RecordBatch| -> Result<RecordBatch> {
            Ok(filter_record_batch(&batch, &kept_rows(&batch, requested)?)?)
        };
        self.write(&name, |writer| encode(writer, rows.map(|batch| with_version(&keep(batch?)?))))
    }

    fn not_there_yet(&self, snapshot: &Snapshot, entries: &[HistoryEntry]) -> Result<Vec<HistoryEntry>> {
        let since = entries.iter().map(|e| e.requested.as_str()).min();
        let until = entries.iter().map(|e| e.requested.as_str()).max();
        let there = self.reader.read_from(snapshot, since, until, LoadMode::Action)?;
        let known = |e: &&HistoryEntry| {
            let at = there.binary_search_by(|t| t.requested.cmp(&e.requested));
            at.ok().and_then(|at| there.get(at)).is_none_or(|t| t.action != e.action.completed_as())
        };
        Ok(entries.iter().filter(known).cloned().collect())
    }

    /// Merges files level by level, and removes versions that nobody needs any more.
    pub fn compact(&self, limits: &CompactionLimits) -> Result<Compacted> {
        self.compact_from(self.load()?, limits)
    }

    /// The same where the current version is known.
    ///
    /// # Errors
    /// Those of [`HistoryWriter::compact`].
    pub fn compact_from(&self, mut snapshot: Snapshot, limits: &CompactionLimits) -> Result<Compacted> {
        let mut done = Compacted::default();
        for level in 0..CompactionLimits::HIGHEST_LEVEL {
            let chosen = pick(&snapshot.level(level), limits);
            let Some(next) = self.compact_level(&snapshot, &chosen, level + 1)? else { break };
            snapshot = next;
            done.levels += 1;
            done.files += chosen.len();
        }
        done.removed = self.folder.clean(snapshot.version, limits.retained_versions.max(1) + done.levels)?;
        Ok(done)
    }

    fn compact_level(&self, snapshot: &Snapshot, chosen: &[HistoryFile], level: u32) -> Result<Option<Snapshot>> {
        let min = chosen.iter().map(|f| f.min.as_str()).min();
        let max = chosen.iter().map(|f| f.max.as_str()).max();
        let (Some(min), Some(max)) = (min, max) else { return Ok(None) };
        let name = HistoryFile::name_of(min, max, level);
        if snapshot.files.iter().any(|f| f.name == name) {
            // Overwriting a file that readers have open would break them.
            return Ok(None);
        }
        let files = self.reader.open_with_pages(chosen.to_vec())?;
        let file = self.write(&name, |writer| {
            if follow_each_other(&files)? {
                return splice(&files, writer);
            }
            let rows = self.reader.rows_of(files)?;
            encode(writer, rows.map(|batch| with_version(&batch?)))
        })?;
        let next = snapshot.next(chosen, Some(file));
        self.folder.publish(&next)?;
        Ok(Some(next))
    }

    fn write(&self, name: &str, fill: impl FnOnce(ArrowWriter<FileWriter>) -> Result<u64>) -> Result<HistoryFile> {
        let path = self.folder.path(name);
        let storage = self.folder.storage();
        let named = |e: Error| e.with("table", storage.uri()).with("file", &path);
        // Elsewhere the new file replaces it.
        if storage.is_local() && storage.exists(&path)? {
            storage.delete(&path)?;
        }
        let options = ArrowWriterOptions::new()
            .with_properties(properties())
            .with_skip_arrow_metadata(true)
            .with_schema_root(SCHEMA_ROOT.to_owned());
        let writer = || Ok(ArrowWriter::try_new_with_options(storage.writer(&path)?, FILE_SCHEMA.clone(), options)?);
        let size = writer().and_then(fill).map_err(named)?;
        HistoryFile::parse(name, size).ok_or_else(|| {
            Error::corrupt("an instant has a time that cannot be part of a file name").with("name", name)
        })
    }
}

/// Which rows are not of these writes.
fn kept_rows(batch: &RecordBatch, requested: &HashSet<String>) -> Result<BooleanArray> {
    let column = |name: &str| {
        let column = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref::<StringArray>());
        column.ok_or_else(|| Error::corrupt(format!("a history file has no column {name}")))
    };
    let (times, actions) = (column(INSTANT_TIME)?, column(ACTION)?);
    let is_write = |name: Option<&str>| name.and_then(Action::parse).is_some_and(Action::is_write);
    let keep = times
        .iter()
        .zip(actions)
        .map(|(time, action)| Some(!(is_write(action) && time.is_some_and(|time| requested.contains(time)))));
    Ok(keep.collect())
}

/// Encodes a file, and says in its footer when its rows ascend.
fn encode(mut writer: ArrowWriter<FileWriter>, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<u64> {
    let (mut order, mut ascending) = (Order::default(), true);
    for batch in batches {
        let batch = batch?;
        ascending = order.goes_on(&batch)? && ascending;
        writer.write(&batch)?;
    }
    if ascending {
        writer.append_key_value_metadata(sorted_mark());
    }
    writer.into_inner()?.finish()
}

fn properties() -> WriterProperties {
    let column = |name: &str| ColumnPath::from(name);
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(column(INSTANT_TIME), EnabledStatistics::Page);
    for time in [INSTANT_TIME, COMPLETION_TIME] {
        properties = properties.set_column_encoding(column(time), Encoding::DELTA_BYTE_ARRAY);
    }
    for repeated in [ACTION, VERSION] {
        properties = properties.set_column_dictionary_enabled(column(repeated), true);
    }
    for body in [METADATA, PLAN] {
        properties = properties.set_column_data_page_size_limit(column(body), 1 << 20);
    }
    properties.build()
}
