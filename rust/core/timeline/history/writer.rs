//! Writing the history: files whose times read fast, and the versions that name them.
//!
//! Encodings and codec are ours to choose, Hudi reads them all: times share prefixes with their neighbours
//! (DELTA_BYTE_ARRAY), bodies repeat their Avro schema (zstd over pages of many rows).

use std::sync::Arc;

use arrow::array::{Array, Int32Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::compactor::{Compacted, CompactionLimits, pick};
use super::entry::{
    ACTION, COMPLETION_TIME, FILE_SCHEMA, HistoryEntry, INSTANT_TIME, LoadMode, METADATA, PLAN, TimeRange, VERSION,
    texts, to_batch,
};
use super::file::SORTED_KEY;
use super::manifest::{HistoryFile, HistoryFolder, Snapshot};
use super::overlap::ascends;
use super::reader::HistoryReader;
use crate::error::{Error, Result};
use crate::storage::{FileWriter, Storage};
use crate::timeline::TimelineConfig;

/// Rows of a row group, at most: what one thread reads at a time.
const GROUP_ROWS: usize = 100_000;
/// Bytes of a row group, at most.
const GROUP_BYTES: usize = 32 << 20;
/// Rows of a page, at most: what a lookup of one instant decodes.
const PAGE_ROWS: usize = 4_096;

/// Writes the history of one table. Whoever calls it holds the table lock.
pub struct HistoryWriter {
    folder: HistoryFolder,
    reader: HistoryReader,
}

impl HistoryWriter {
    /// A writer; nothing is written yet.
    pub fn new(storage: &Storage, config: &TimelineConfig) -> Self {
        Self { folder: HistoryFolder::new(storage, config), reader: HistoryReader::new(storage, config) }
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
        let mut new = self.not_there_yet(entries)?;
        new.sort_by(|a, b| a.requested.cmp(&b.requested));
        let (Some(first), Some(last)) = (new.first(), new.last()) else { return Ok(None) };
        let name = HistoryFile::name_of(&first.requested, &last.requested, 0);
        let snapshot = self.folder.load()?;
        if snapshot.files.iter().any(|f| f.name == name) {
            return Err(Error::corrupt("the history has a file of these times with other instants")
                .with("table", self.folder.storage().uri())
                .with("file", name));
        }
        let batch = to_batch(&new)?;
        let file = self.write(&name, std::iter::once(Ok(batch)))?;
        self.folder.publish(&snapshot.next(&[], Some(file.clone())))?;
        Ok(Some(file))
    }

    fn not_there_yet(&self, entries: &[HistoryEntry]) -> Result<Vec<HistoryEntry>> {
        let since = entries.iter().map(|e| e.requested.as_str()).min();
        let until = entries.iter().map(|e| e.requested.as_str()).max();
        let there = self.reader.read(since, until, LoadMode::Action)?;
        let known = |e: &&HistoryEntry| {
            let at = there.binary_search_by(|t| t.requested.cmp(&e.requested));
            at.ok().and_then(|at| there.get(at)).is_none_or(|t| t.action != e.action.completed_as())
        };
        Ok(entries.iter().filter(known).cloned().collect())
    }

    /// Merges files level by level, and removes versions that nobody needs any more.
    pub fn compact(&self, limits: &CompactionLimits) -> Result<Compacted> {
        let mut done = Compacted::default();
        let mut snapshot = self.folder.load()?;
        for level in 0..CompactionLimits::HIGHEST_LEVEL {
            let chosen = pick(&snapshot.level(level), limits);
            let Some(next) = self.compact_level(&snapshot, &chosen, level + 1)? else { break };
            snapshot = next;
            done.levels += 1;
            done.files += chosen.len();
        }
        done.removed = self.folder.clean(limits.retained_versions.max(1) + done.levels)?;
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
        let rows = self.reader.open_files(chosen.to_vec(), &TimeRange::all(), LoadMode::Full)?;
        let rows = rows.map(|batch| with_version(&batch?));
        let file = self.write(&name, rows)?;
        let next = snapshot.next(chosen, Some(file));
        self.folder.publish(&next)?;
        Ok(Some(next))
    }

    fn write(&self, name: &str, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<HistoryFile> {
        let path = self.folder.path(name);
        let storage = self.folder.storage();
        let named = |e: Error| e.with("table", storage.uri()).with("file", &path);
        if storage.exists(&path)? {
            storage.delete(&path)?;
        }
        let mut writer = HistoryFileWriter::new(storage.writer(&path)?).map_err(named)?;
        for batch in batches {
            writer.write(&batch?).map_err(named)?;
        }
        let size = writer.finish().map_err(named)?;
        HistoryFile::parse(name, size).ok_or_else(|| {
            Error::corrupt("an instant has a time that cannot be part of a file name").with("name", name)
        })
    }
}

fn with_version(batch: &RecordBatch) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(Int32Array::from(vec![1; batch.num_rows()])));
    Ok(RecordBatch::try_new(FILE_SCHEMA.clone(), columns)?)
}

/// Encodes one history file.
struct HistoryFileWriter {
    writer: ArrowWriter<FileWriter>,
    last: Option<String>,
    ascending: bool,
}

impl HistoryFileWriter {
    fn new(file: FileWriter) -> Result<Self> {
        let options = ArrowWriterOptions::new()
            .with_properties(properties())
            .with_skip_arrow_metadata(true)
            .with_schema_root("org.apache.hudi.avro.model.HoodieLSMTimelineInstant".to_owned());
        let writer = ArrowWriter::try_new_with_options(file, FILE_SCHEMA.clone(), options)?;
        Ok(Self { writer, last: None, ascending: true })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let times = texts(batch, INSTANT_TIME)?;
        self.ascending = self.ascending && ascends(self.last.as_deref(), times);
        if !times.is_empty() {
            self.last = Some(times.value(times.len() - 1).to_owned());
        }
        self.writer.write(batch)?;
        Ok(())
    }

    fn finish(mut self) -> Result<u64> {
        if self.ascending {
            self.writer.append_key_value_metadata(KeyValue::new(SORTED_KEY.to_owned(), "true".to_owned()));
        }
        self.writer.into_inner()?.finish()
    }
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
