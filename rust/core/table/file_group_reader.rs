//! The rows of a file slice: its base file, merged with what its log files say.
//!
//! In two steps, which have slightly different rules: the records of the logs with each other, in the order of their
//! blocks; then what is left with the base file, as its rows stream by. New records follow behind. A query that asks for
//! few columns reads these and what merging has to look at, no more.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, UInt32Array, new_null_array,
};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::DELETE_MARK;
use super::HudiTable;
use super::merge_settings::{MergeSettings, OPERATION};
use super::open_files::open_base;
use super::truncated_logs::{SKIP_TRUNCATED, check_headers, check_truncated};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::base::ScanOptions;
use crate::file_group::log::{LogBatch, LogScan};
use crate::format::internal_schema::SchemaHistory;
use crate::format::log::Deletes;
use crate::interrupt;
use crate::merge::{
    BatchMerger, Budget, Chosen, Kept, MergeCounts, MergeRule, MergedRecords, OrderingValues, Records, Step, missing,
    missing_ordering, nullable, ordering_type,
};
use crate::storage::{SpillOptions, Storage, spill};
use crate::timeline::Timeline;

/// Rows of the base file that are merged at once.
const BATCH_ROWS: usize = 32_768;
/// Log records are read in batches of this part of the budget.
const PIECES: usize = 16;

/// Reads slices of one table.
#[derive(Debug)]
pub struct FileGroupReader {
    storage: Storage,
    timeline: Arc<Timeline>,
    settings: MergeSettings,
    /// All columns of the table.
    table: SchemaRef,
    /// The names that columns had, where fields have ids.
    history: Option<SchemaHistory>,
    spill: SpillOptions,
    skips_corrupt_blocks: bool,
}

impl HudiTable {
    /// A reader of slices as a timeline shows them; `columns` are all columns of the data files, `history` is that of
    /// their schema.
    ///
    /// # Errors
    /// Those of [`HudiTable::merge_settings`] and [`HudiTable::spill_options`].
    pub fn file_group_reader(
        &self,
        timeline: Arc<Timeline>,
        columns: SchemaRef,
        history: Option<&SchemaHistory>,
    ) -> Result<FileGroupReader> {
        let settings = self.merge_settings().map_err(|e| e.with("table", self.storage().uri()))?;
        let spill = self.spill_options()?;
        // Slices are read at once by so many threads.
        let spill = SpillOptions { budget: spill.budget / self.threads()?.max(1), ..spill };
        let skips_corrupt_blocks = self.options().flag(SKIP_TRUNCATED, false)?;
        Ok(FileGroupReader {
            storage: self.storage().clone(),
            timeline,
            settings,
            table: columns,
            history: history.cloned(),
            spill,
            skips_corrupt_blocks,
        })
    }
}

impl FileGroupReader {
    /// The same, which reads from another storage.
    pub(super) fn on(&self, storage: Storage) -> Self {
        Self {
            storage,
            timeline: self.timeline.clone(),
            settings: self.settings.clone(),
            table: self.table.clone(),
            history: self.history.clone(),
            spill: self.spill.clone(),
            skips_corrupt_blocks: self.skips_corrupt_blocks,
        }
    }

    /// The rows of a slice, in the wanted columns.
    ///
    /// # Errors
    /// `Corrupt`, `Schema`, `Unsupported`, `Storage`; while streaming too.
    pub fn read(&self, slice: &FileSlice, wanted: &SchemaRef) -> Result<SliceRows> {
        self.rows(slice, self.merged_logs(slice, wanted)?)
    }

    /// The log files of a slice, merged with each other, to be merged into the wanted columns of its base file.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`].
    pub fn merged_logs(&self, slice: &FileSlice, wanted: &SchemaRef) -> Result<MergedLogs> {
        let columns = self.settings.columns(wanted, &self.table);
        let log = self.log_records(slice, &columns)?;
        let merge = BatchMerger::new(log.merged, log.rule, wanted.clone(), log.all_copies);
        Ok(MergedLogs { settings: self.settings.clone(), columns, merge, counts: log.counts })
    }

    /// The base file of a slice with its log files merged into it.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`].
    pub fn rows(&self, slice: &FileSlice, logs: MergedLogs) -> Result<SliceRows> {
        let base: Box<dyn Iterator<Item = Result<RecordBatch>>> = match &slice.base {
            Some(base) => {
                let uri = self.storage.uri().to_owned();
                let path = base.path.clone();
                let named = move |e: Error| e.with("table", &uri).with("file", &path);
                let reader = open_base(&self.storage, base, self.history.as_ref()).map_err(&named)?;
                let rows = logs.merge.batch_rows().min(BATCH_ROWS);
                let scan = reader.scan(&ScanOptions::new(logs.columns.clone()).with_batch_size(rows));
                Box::new(scan.map_err(&named)?.map(move |batch| batch.map_err(&named)))
            }
            None => Box::new(std::iter::empty()),
        };
        Ok(SliceRows { logs, base, ended: false })
    }

    /// The names that columns had, where fields have ids.
    pub(crate) fn history(&self) -> Option<&SchemaHistory> {
        self.history.as_ref()
    }

    /// Bytes that reading one slice may take.
    pub fn budget(&self) -> usize {
        self.spill.budget
    }

    /// All columns of the table.
    pub fn columns(&self) -> &SchemaRef {
        &self.table
    }

    /// Gives the key of each row of a slice to `each`.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`].
    pub fn each_key(&self, slice: &FileSlice, each: &mut dyn FnMut(&str)) -> Result<()> {
        let columns = self.settings.columns(&Schema::empty(), &self.table);
        for batch in self.read(slice, &columns)? {
            self.settings.keys(&batch?)?.iter().flatten().for_each(&mut *each);
        }
        Ok(())
    }

    /// Passes the keys of the rows of a slice to `each`, batch after batch.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`]; those of `each`.
    pub fn each_keys(&self, slice: &FileSlice, each: &mut dyn FnMut(&StringArray) -> Result<()>) -> Result<()> {
        let columns = self.settings.columns(&Schema::empty(), &self.table);
        self.read(slice, &columns)?.try_for_each(|batch| each(&self.settings.keys(&batch?)?))
    }

    /// The rows of a slice with their keys; the wanted columns come first.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`]; while streaming too.
    pub(crate) fn keyed_rows(
        &self,
        slice: &FileSlice,
        wanted: &SchemaRef,
    ) -> Result<impl Iterator<Item = Result<(StringArray, RecordBatch)>> + use<>> {
        let columns = self.settings.columns(wanted, &self.table);
        let settings = self.settings.clone();
        let rows = self.read(slice, &columns)?;
        Ok(rows.map(move |batch| batch.and_then(|batch| Ok((settings.keys(&batch)?, batch)))))
    }

    /// Whether the log files of a slice may delete records, as the headers of their blocks tell.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub fn may_delete(&self, slice: &FileSlice) -> Result<bool> {
        if slice.logs.is_empty() {
            return Ok(false);
        }
        let scan = self.log_scan(slice)?;
        let marker = self.settings.marker.as_ref().map(|marker| marker.field.as_str());
        Ok(scan.may_delete(&[DELETE_MARK, OPERATION].into_iter().chain(marker).collect::<Vec<_>>()))
    }

    /// Whether a delete in a log file deletes whatever the base file has.
    pub fn deletes_win(&self) -> bool {
        self.settings.ordering.is_empty() && self.settings.rule.picks().is_some()
    }

    /// Gives each key that the log files of a slice name to `each`, without looking at the base file; and whether they
    /// delete it.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`].
    pub fn each_key_in_logs(&self, slice: &FileSlice, each: &mut dyn FnMut(&str, bool)) -> Result<()> {
        let columns = self.settings.columns(&Schema::empty(), &self.table);
        self.log_records(slice, &columns)?.merged.each_part(&mut |part| {
            (0..part.len()).for_each(|row| each(part.keys.value(row), part.deleted.value(row)));
            Ok(())
        })
    }

    /// What the log files of a slice come down to, in all columns of the table, without looking at the base file.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`].
    pub fn read_logs(&self, slice: &FileSlice) -> Result<LogContents> {
        let columns = self.settings.columns(&self.table, &self.table);
        let log = self.log_records(slice, &columns)?;
        let put_away = |batches: &[RecordBatch]| spill(&self.spill.folder, batches);
        let mut parts = Kept::new(Some(Budget { bytes: self.spill.budget, spill: &put_away }));
        log.merged.each_part(&mut |part| parts.push(part))?;
        Ok(LogContents { parts: parts.into_list(), instants: log.instants, counts: log.counts })
    }

    /// The stored records whose keys are wanted, as merging leaves them: what `find` says of each key, and its row in
    /// the wanted columns. Records that a log file deletes are not stored.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`].
    pub fn find(
        &self,
        slice: &FileSlice,
        wanted: &SchemaRef,
        find: &dyn Fn(&str) -> Option<u32>,
    ) -> Result<(Vec<u32>, RecordBatch)> {
        let columns = self.settings.columns(wanted, &self.table);
        let first: Vec<usize> = (0..wanted.fields().len()).collect();
        let (mut entries, mut kept) = (Vec::new(), Vec::new());
        for batch in self.read(slice, &columns)? {
            let batch = batch?;
            let mut rows = Vec::new();
            for (row, key) in self.settings.keys(&batch)?.iter().enumerate() {
                if let Some(entry) = key.and_then(find) {
                    entries.push(entry);
                    rows.push(row as u32);
                }
            }
            if !rows.is_empty() {
                kept.push(take_record_batch(&batch.project(&first)?, &UInt32Array::from(rows))?);
            }
        }
        Ok((entries, concat_batches(wanted, &kept)?))
    }

    fn log_scan(&self, slice: &FileSlice) -> Result<LogScan> {
        let scan = LogScan::open(&self.storage, &slice.logs, |instant| self.timeline.is_committed(instant))?;
        Ok(scan.with_history(self.history.as_ref()))
    }

    /// What the log files of a slice come down to.
    fn log_records(&self, slice: &FileSlice, columns: &SchemaRef) -> Result<LogRecords> {
        let scan = self.log_scan(slice)?;
        let mut truncated = scan.truncated_files().filter(|_| !self.skips_corrupt_blocks);
        truncated.try_for_each(|path| check_truncated(&self.storage, &self.timeline, path))?;
        check_headers(slice, &scan, &self.timeline).map_err(|e| e.with("table", self.storage.uri()))?;
        let named = |e: Error| e.with("table", self.storage.uri()).with("file group", &slice.file_id);
        if let MergeRule::Missing(id) = &self.settings.rule {
            return Err(named(missing(id)));
        }
        let partial = scan.is_partial();
        let rule = if partial {
            self.settings.rule.with_partial_records().map_err(named)?
        } else {
            self.settings.rule.clone()
        };
        // A record that deletes need have no values, not even where the table asks for one.
        let schema = log_schema(columns);
        let put_away = |batches: &[RecordBatch]| spill(&self.spill.folder, batches);
        let budget = Some(Budget { bytes: self.spill.budget / 2, spill: &put_away });
        let mut kept = Kept::new(budget);
        let mut counts = LogCounts { blocks: scan.blocks() as u64, records: 0 };
        for block in 0..scan.blocks() {
            let present = if partial { scan.columns_of(block)? } else { None };
            scan.read(block, &schema, self.spill.budget / PIECES, &mut |batch| {
                kept.push(match batch {
                    LogBatch::Records(batch) => {
                        counts.records += batch.num_rows() as u64;
                        self.records(batch, present.as_deref())?
                    }
                    LogBatch::Deletes(deletes) => self.deletes(&schema, &deletes)?,
                })
            })?;
        }
        let merged = MergedRecords::new(&schema, kept.into_list(), &rule, Step::Delta, budget).map_err(named)?;
        let all_copies = slice.base.as_ref().is_some_and(|base| scan.has_positions_in(&base.instant));
        Ok(LogRecords { merged, rule, all_copies, instants: scan.instants(), counts })
    }

    /// Records of a data block; `present` names the columns that the block has, when it lacks some on purpose.
    fn records(&self, data: RecordBatch, present: Option<&[String]>) -> Result<Records> {
        let rows = data.num_rows();
        let all = |value: bool| BooleanArray::from(vec![value; rows]);
        let deleted = self.settings.deleted(&data)?;
        let has = |names: &[String], field: &Field| names.iter().any(|name| name == field.name());
        let present = present.map(|names| data.schema().fields().iter().map(|field| all(has(names, field))).collect());
        Ok(Records {
            keys: self.settings.keys(&data)?,
            ordering: self.settings.ordering(&data)?,
            deleted: deleted.unwrap_or_else(|| all(false)),
            delete_block: None,
            present,
            data,
        })
    }

    fn deletes(&self, schema: &SchemaRef, deletes: &Deletes) -> Result<Records> {
        let rows = deletes.keys.len();
        let ordering = if self.settings.ordering.is_empty() {
            OrderingValues::default()
        } else {
            let (values, default) = deletes.ordering_columns(&self.ordering_types(schema)?)?;
            OrderingValues::with_default(values, default)?
        };
        let columns: Vec<ArrayRef> = schema.fields().iter().map(|f| new_null_array(f.data_type(), rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let all = BooleanArray::from(vec![true; rows]);
        Ok(Records {
            keys: deletes.keys.clone(),
            data: RecordBatch::try_new_with_options(schema.clone(), columns, &options)?,
            ordering,
            deleted: all.clone(),
            delete_block: Some(all),
            present: None,
        })
    }

    fn ordering_types(&self, schema: &Schema) -> Result<Vec<DataType>> {
        let of = |name: &String| ordering_type(schema, name).cloned().ok_or_else(|| missing_ordering(name));
        self.settings.ordering.iter().map(of).collect()
    }
}

/// The columns of log records: those of the base file, and what they do.
fn log_schema(columns: &SchemaRef) -> SchemaRef {
    let columns = nullable(columns);
    if columns.field_with_name(OPERATION).is_ok() {
        return columns;
    }
    // A meta column that the table's schema does not name; records without it have null there.
    let operation = Arc::new(Field::new(OPERATION, DataType::Utf8, true));
    Arc::new(Schema::new(columns.fields().iter().cloned().chain([operation]).collect::<Vec<_>>()))
}

/// What the log files of a slice come down to.
struct LogRecords {
    merged: MergedRecords,
    rule: MergeRule,
    /// Whether each copy of a record in the base file is merged, or the first one and the others stay. Hudi merges by
    /// positions where all blocks have them, and a writer that has them names each copy; else it merges by key, and a
    /// record of a log file is used up by the first row that it meets.
    all_copies: bool,
    instants: Vec<String>,
    counts: LogCounts,
}

/// The merged log files of a slice.
pub struct LogContents {
    /// Records, each key once, deletes among them; their first columns are those of the table.
    pub parts: Vec<Records>,
    /// The instants whose blocks were merged, in the order in which they were applied.
    pub instants: Vec<String>,
    /// What was read.
    pub counts: LogCounts,
}

/// What was read of log files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Blocks.
    pub blocks: u64,
    /// Records in them, delete blocks not counted.
    pub records: u64,
}

/// What the log files of a slice come down to, before it is merged into the base file.
pub struct MergedLogs {
    /// How records are merged.
    pub settings: MergeSettings,
    /// The columns of the base file that have to be read: those that are wanted come first.
    pub columns: SchemaRef,
    /// Merges the records into those of the base file.
    pub merge: BatchMerger,
    /// What the log files held.
    pub counts: LogCounts,
}

/// What became of some rows of a slice.
pub(crate) enum SliceMerge<'m> {
    /// Rows of the base file met records of log files.
    Stored {
        /// The rows.
        rows: &'m RecordBatch,
        /// What became of them.
        chosen: &'m Chosen,
        /// The columns of the records among which they were chosen.
        newer: &'m [&'m [ArrayRef]],
    },
    /// Rows that were not there before.
    New(&'m RecordBatch),
}

/// The rows of a slice, as they are merged.
pub struct SliceRows {
    logs: MergedLogs,
    base: Box<dyn Iterator<Item = Result<RecordBatch>>>,
    ended: bool,
}

impl Iterator for SliceRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_merged(&mut |_| Ok(())).transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl SliceRows {
    /// What was merged so far.
    pub fn merged(&self) -> MergeCounts {
        self.logs.merge.counts()
    }

    /// What the log files held.
    pub fn counts(&self) -> LogCounts {
        self.logs.counts
    }

    /// The next rows; `observe` is told what became of the stored ones.
    ///
    /// # Errors
    /// Those of [`FileGroupReader::read`]; those of `observe`.
    pub(crate) fn next_merged(
        &mut self,
        observe: &mut dyn FnMut(SliceMerge<'_>) -> Result<()>,
    ) -> Result<Option<RecordBatch>> {
        let MergedLogs { settings, merge, .. } = &mut self.logs;
        for batch in self.base.by_ref() {
            interrupt::check()?;
            let batch = batch?;
            let keys = settings.keys(&batch)?;
            let mut observe =
                |chosen: &Chosen, newer: &[&[ArrayRef]]| observe(SliceMerge::Stored { rows: &batch, chosen, newer });
            let merged = merge.merge(&batch, &keys, &|batch| settings.ordering(batch), &mut observe)?;
            if merged.num_rows() > 0 {
                return Ok(Some(merged));
            }
        }
        // What is new comes behind all others.
        let new = merge.next_new()?;
        if let Some(new) = &new {
            observe(SliceMerge::New(new))?;
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
    use crate::file_group::{BaseFile, LogFile};
    use crate::format::avro::schema::{avro_to_arrow_schema, table_schema_to_avro};
    use crate::format::instant::Layout;
    use crate::format::log::{AvroContent, BlockKind, HeaderKey, write_block};
    use crate::merge::MergeMode;
    use crate::storage::{FileMeta, StorageOptions};
    use crate::table::with_meta_columns;
    use crate::timeline::{TimeZone, TimelineConfig};
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::FieldRef;

    fn data() -> Schema {
        Schema::new(vec![Field::new("ts", DataType::Int64, true), Field::new("val", DataType::Utf8, true)])
    }

    /// Rows of (key, ordering value, value), with all meta columns.
    fn rows(given: &[(&str, i64, &str)]) -> RecordBatch {
        let text = |value: &dyn Fn(&(&str, i64, &str)) -> String| -> ArrayRef {
            Arc::new(given.iter().map(|row| Some(value(row))).collect::<StringArray>())
        };
        let key = text(&|r| r.0.to_owned());
        let ts: ArrayRef = Arc::new(given.iter().map(|r| Some(r.1)).collect::<Int64Array>());
        let meta = || text(&|_| "1".to_owned());
        let columns = vec![meta(), meta(), key, meta(), meta(), ts, text(&|r| r.2.to_owned())];
        RecordBatch::try_new(with_meta_columns(&data()), columns).unwrap()
    }

    fn slice(storage: &Storage, base: &RecordBatch, log: Vec<u8>) -> FileSlice {
        let file = |path: &str, size: u64| FileMeta { path: path.to_owned(), size, modified_ms: 0 };
        let path = "f_0-0-0_1.parquet";
        let sink = storage.writer(path).unwrap();
        let mut writer = BaseFileWriter::try_new(sink, base.schema(), BaseFileOptions::default()).unwrap();
        writer.write(base).unwrap();
        let size = writer.finish().unwrap().0.finish().unwrap();
        let log_path = ".f_2.log.1_0-0-0";
        let log_file = LogFile::parse(&file(log_path, log.len() as u64)).unwrap();
        storage.create(log_path, log).unwrap();
        FileSlice {
            partition: String::new(),
            file_id: "f".into(),
            base_instant: "1".into(),
            base: BaseFile::parse(&file(path, size)),
            logs: vec![log_file],
        }
    }

    /// The same whether log records are kept in memory or spilled.
    fn merged(name: &str, base: &[(&str, i64, &str)], log: Vec<u8>) -> (Vec<(String, String)>, MergeCounts) {
        let kept = merged_within(usize::MAX, name, base, log.clone());
        assert_eq!(merged_within(0, name, base, log), kept);
        kept
    }

    fn merged_within(
        budget: usize,
        name: &str,
        base: &[(&str, i64, &str)],
        log: Vec<u8>,
    ) -> (Vec<(String, String)>, MergeCounts) {
        let storage = Storage::open(&format!("memory://slice-{name}-{budget}/t"), &StorageOptions::new()).unwrap();
        let slice = slice(&storage, &rows(base), log);
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let done =
            ["t/1_1.commit", "t/2_3.deltacommit"].map(|path| FileMeta { path: path.into(), size: 1, modified_ms: 0 });
        let timeline = Arc::new(Timeline::from_files(config, done.to_vec()));
        let rule = MergeRule::Pick(MergeMode::EventTime);
        let settings = MergeSettings { rule, ordering: vec!["ts".into()], marker: None, keys: None };
        let all = with_meta_columns(&data());
        let spill = SpillOptions { budget, folder: std::env::temp_dir() };
        let reader = FileGroupReader {
            storage,
            timeline,
            settings,
            table: all.clone(),
            history: None,
            spill,
            skips_corrupt_blocks: false,
        };
        let wanted = Arc::new(all.project(&[2, 6]).unwrap());
        let mut read = reader.read(&slice, &wanted).unwrap();
        let mut out = Vec::new();
        for batch in &mut read {
            let batch = batch.unwrap();
            assert_eq!(batch.schema(), wanted);
            let text = |i: usize| batch.column(i).as_string::<i32>().clone();
            out.extend((0..batch.num_rows()).map(|r| (text(0).value(r).to_owned(), text(1).value(r).to_owned())));
        }
        assert_eq!(read.counts().blocks, 1);
        (out, read.merged())
    }

    fn block(schema: &str, batch: &RecordBatch) -> Vec<u8> {
        let mut content = AvroContent::new(schema);
        content.append(batch).unwrap();
        let mut log = Vec::new();
        let header = [(HeaderKey::InstantTime, "2"), (HeaderKey::Schema, schema)];
        write_block(&mut log, BlockKind::AvroData, &header, content.bytes()).unwrap();
        log
    }

    fn pairs(given: &[(&str, &str)]) -> Vec<(String, String)> {
        given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn rows_are_replaced_in_their_place_and_new_ones_follow() {
        let avro = table_schema_to_avro(&data(), "t", true).unwrap();
        let log = block(&avro, &rows(&[("new", 1, "n"), ("b", 2, "later"), ("c", 0, "stale")]));
        let (read, counts) = merged("plain", &[("a", 1, "1"), ("b", 1, "1"), ("c", 1, "1")], log);
        assert_eq!(read, pairs(&[("a", "1"), ("b", "later"), ("c", "1"), ("new", "n")]));
        let expected = MergeCounts { updated: 1, deleted: 0, inserted: 1 };
        assert_eq!(counts, expected);
    }

    #[test]
    fn the_first_of_several_copies_is_merged() {
        let avro = table_schema_to_avro(&data(), "t", true).unwrap();
        let log = block(&avro, &rows(&[("a", 2, "later")]));
        let (read, _) = merged("copies", &[("a", 1, "1"), ("b", 1, "1"), ("a", 1, "copy")], log);
        assert_eq!(read, pairs(&[("a", "later"), ("b", "1"), ("a", "copy")]));
    }

    /// Deletes as records that say so in a column which the table's schema does not have.
    #[test]
    fn operations_of_records_are_looked_at() {
        let mut fields: Vec<FieldRef> = data().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(OPERATION, DataType::Utf8, true)));
        let avro = table_schema_to_avro(&Schema::new(fields), "t", true).unwrap();
        let schema = Arc::new(avro_to_arrow_schema(&avro).unwrap());
        let records = rows(&[("a", 2, ""), ("b", 2, "later"), ("c", 2, "")]);
        let operations: ArrayRef = Arc::new(StringArray::from(vec!["D", "U", "-U"]));
        let columns = records.columns().iter().cloned().chain([operations]).collect();
        let log = block(&avro, &RecordBatch::try_new(schema, columns).unwrap());
        let (read, counts) = merged("operations", &[("a", 1, "1"), ("b", 1, "1"), ("c", 1, "1")], log);
        assert_eq!(read, pairs(&[("b", "later")]));
        assert_eq!(counts.deleted, 2);
    }
}
