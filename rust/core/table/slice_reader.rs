//! The rows of a file slice: its base file, merged with what its log files say.
//!
//! In two steps, which have slightly different rules: the records of the logs with each other, in the order of their
//! blocks; then what is left with the base file, as its rows stream by. New records follow behind. A query that asks for
//! few columns reads these and what merging has to look at, no more.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, new_empty_array,
};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::keygen::{KeyGenConfig, KeyGenerator};
use super::{HudiTable, META_COLUMNS};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::file_group::log::{LogBatch, LogScan};
use crate::merge::{Judge, KeyedRows, MergeMode, OrderingValues, Side, Step, Winners, precombine};
use crate::storage::Storage;
use crate::timeline::Timeline;

/// Column that marks a record as a delete.
pub const DELETE_MARK: &str = "_hoodie_is_deleted";
/// Column that says what a record does, in tables that keep it.
const OPERATION: &str = "_hoodie_operation";
/// Rows of the base file that are merged at once.
const BATCH_ROWS: usize = 32_768;
const RECORD_KEY: &str = META_COLUMNS[2];

/// How the records of a table are merged.
#[derive(Debug, Clone)]
pub struct MergeSettings {
    mode: MergeMode,
    ordering: Vec<String>,
    /// A column, and the text in it that makes a record a delete.
    marker: Option<(String, String)>,
    /// Where keys come from when the table keeps no meta columns.
    keys: Option<KeyGenConfig>,
}

impl HudiTable {
    /// How this table's records are merged.
    ///
    /// # Errors
    /// `Unsupported` for merge modes, payload classes and partial updates that are not there.
    pub fn merge_settings(&self) -> Result<MergeSettings> {
        let config = self.config();
        let mode = config.merge_mode()?;
        let ordering = if mode == MergeMode::EventTime { config.ordering_fields() } else { Vec::new() };
        let property = |name: &str| {
            let key = format!("hoodie.record.merge.property.hoodie.payload.delete.{name}");
            config.get(&key).filter(|v| !v.is_empty()).map(str::to_owned)
        };
        let marker = property("field").zip(property("marker"));
        let keys = if config.populates_meta_fields() { None } else { Some(self.key_config()?) };
        Ok(MergeSettings { mode, ordering, marker, keys })
    }
}

impl MergeSettings {
    /// The columns of a table that have to be read to give back `wanted`: these first.
    fn columns(&self, wanted: &Schema, table: &Schema) -> SchemaRef {
        let mut fields: Vec<FieldRef> = wanted.fields().iter().cloned().collect();
        let keys: Vec<&str> = match &self.keys {
            None => vec![RECORD_KEY],
            Some(config) => config.record_key_fields.iter().map(|f| top_level(f)).collect(),
        };
        let marker = self.marker.iter().map(|(field, _)| field.as_str());
        let looked_at = keys.into_iter().chain(self.ordering.iter().map(|f| top_level(f))).chain(marker);
        for name in looked_at.chain([DELETE_MARK, OPERATION]) {
            if let (Ok(field), None) = (table.field_with_name(name), fields.iter().find(|f| f.name() == name)) {
                fields.push(Arc::new(field.clone()));
            }
        }
        Arc::new(Schema::new(fields))
    }

    fn ordering(&self, batch: &RecordBatch) -> Result<OrderingValues> {
        let column = |name: &String| {
            let column = batch.column_by_name(name).cloned();
            column.ok_or_else(|| Error::schema(format!("the ordering column '{name}' is missing")).with("column", name))
        };
        OrderingValues::try_new(self.ordering.iter().map(column).collect::<Result<_>>()?)
    }

    fn keys(&self, batch: &RecordBatch) -> Result<StringArray> {
        match &self.keys {
            Some(config) => KeyGenerator::new(config.clone(), &batch.schema())?.record_keys(batch),
            None => {
                let keys = batch.column_by_name(RECORD_KEY).and_then(|c| c.as_string_opt::<i32>());
                keys.cloned().ok_or_else(|| Error::corrupt("a data file has no record keys"))
            }
        }
    }

    /// Which records of a log file are deletes.
    fn deleted(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let mut marks: Vec<BooleanArray> = Vec::new();
        if let Some(flags) = batch.column_by_name(DELETE_MARK).and_then(|c| c.as_boolean_opt()) {
            marks.push(flags.iter().map(|flag| Some(flag == Some(true))).collect());
        }
        let mut texts = |name: &str, is_delete: &dyn Fn(&str) -> bool| -> Result<()> {
            let Some(column) = batch.column_by_name(name) else { return Ok(()) };
            let column = arrow_cast::cast(column, &DataType::Utf8)?;
            marks.push(column.as_string::<i32>().iter().map(|text| Some(text.is_some_and(is_delete))).collect());
            Ok(())
        };
        texts(OPERATION, &|operation| matches!(operation, "D" | "-U"))?;
        if let Some((field, marker)) = &self.marker {
            texts(field, &|text| text == marker)?;
        }
        let mut marks = marks.into_iter();
        let first = marks.next();
        marks.try_fold(first, |all, more| match all {
            Some(all) => Ok(Some(arrow::compute::or(&all, &more)?)),
            None => Ok(Some(more)),
        })
    }
}

/// The column of a field, which may lie inside of it.
fn top_level(field: &str) -> &str {
    field.split('.').next().unwrap_or(field)
}

/// Reads slices of one table.
#[derive(Debug)]
pub struct SliceReader {
    storage: Storage,
    timeline: Arc<Timeline>,
    settings: MergeSettings,
    /// All columns of the table.
    table: SchemaRef,
}

impl SliceReader {
    /// A reader; `table` has all columns of the data files.
    pub fn new(storage: Storage, timeline: Arc<Timeline>, settings: MergeSettings, table: SchemaRef) -> Self {
        Self { storage, timeline, settings, table }
    }

    /// The rows of a slice, in the wanted columns.
    ///
    /// # Errors
    /// `Corrupt`, `Schema`, `Unsupported`, `Storage`; while streaming too.
    pub fn read(&self, slice: &FileSlice, wanted: &SchemaRef) -> Result<SliceRows> {
        let columns = self.settings.columns(wanted, &self.table);
        let records = self.log_records(slice, &columns)?;
        let base: Box<dyn Iterator<Item = Result<RecordBatch>>> = match &slice.base {
            Some(base) => {
                let uri = self.storage.uri().to_owned();
                let path = base.path.clone();
                let named = move |e: Error| e.with("table", &uri).with("file", &path);
                let reader = BaseFileReader::open(self.storage.reader(&base.path, base.size)?).map_err(&named)?;
                let scan = reader.scan(&ScanOptions::new(columns.clone()).with_batch_size(BATCH_ROWS));
                Box::new(scan.map_err(&named)?.map(move |batch| batch.map_err(&named)))
            }
            None => Box::new(std::iter::empty()),
        };
        let used = vec![false; records.winners.len()];
        let counts = records.counts;
        let settings = self.settings.clone();
        Ok(SliceRows { settings, wanted: wanted.clone(), records, used, base, counts, ended: false })
    }

    /// What the log files of a slice come down to.
    fn log_records(&self, slice: &FileSlice, columns: &SchemaRef) -> Result<LogRecords> {
        let scan = LogScan::open(&self.storage, &slice.logs, |instant| self.timeline.is_committed(instant))?;
        if scan.is_partial() {
            return Err(Error::unsupported("log files with records of some columns only (partial updates)")
                .with("table", self.storage.uri())
                .with("file group", &slice.file_id)
                .remedy("Compact the table with the Hudi that wrote it, then read it"));
        }
        // A record that deletes need have no values, not even where the table asks for one.
        let nullable = |f: &FieldRef| Arc::new(f.as_ref().clone().with_nullable(true));
        let mut fields: Vec<FieldRef> = columns.fields().iter().map(nullable).collect();
        if columns.field_with_name(OPERATION).is_err() {
            // A meta column that the table's schema does not name; records without it have null there.
            fields.push(Arc::new(Field::new(OPERATION, DataType::Utf8, true)));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let mut batches: Vec<(RecordBatch, StringArray)> = Vec::new();
        let mut rest: Vec<(OrderingValues, Option<BooleanArray>, bool)> = Vec::new();
        let mut counts = MergeCounts { log_blocks: scan.blocks() as u64, ..MergeCounts::default() };
        for block in 0..scan.blocks() {
            for batch in scan.read(block, &schema)? {
                match batch {
                    LogBatch::Records(batch) => {
                        rest.push((self.settings.ordering(&batch)?, self.settings.deleted(&batch)?, false));
                        let keys = self.settings.keys(&batch)?;
                        counts.log_records += keys.len() as u64;
                        batches.push((batch, keys));
                    }
                    LogBatch::Deletes(deletes) => {
                        let ordering = if self.settings.ordering.is_empty() {
                            OrderingValues::default()
                        } else {
                            let (values, default) = deletes.ordering_columns(&self.ordering_types(&schema)?)?;
                            OrderingValues::with_default(values, default)?
                        };
                        let deleted = BooleanArray::from(vec![true; deletes.keys.len()]);
                        rest.push((ordering, Some(deleted), true));
                        batches.push((RecordBatch::new_empty(schema.clone()), deletes.keys));
                    }
                }
            }
        }
        let keyed: Vec<KeyedRows<'_>> = batches
            .iter()
            .zip(rest)
            .map(|((_, keys), (ordering, deleted, delete_block))| KeyedRows { keys, ordering, deleted, delete_block })
            .collect();
        let precombined = precombine(&keyed, self.settings.mode, true)?;
        let rows = precombined.rows.clone();
        let winners = Winners::new(&keyed, precombined)?;
        drop(keyed);
        // Only records have columns; deletes are left out of them.
        let mut places: Vec<Option<usize>> = Vec::with_capacity(rows.len());
        let mut kept: Vec<(usize, usize)> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let is_record = !winners.deleted.value(i);
            places.push(is_record.then_some(kept.len()));
            if is_record {
                kept.push((row.batch as usize, row.row as usize));
            }
        }
        let data = interleave_batches(&schema, &batches.iter().map(|(b, _)| b).collect::<Vec<_>>(), &kept)?;
        let all_copies = slice.base.as_ref().is_some_and(|base| scan.has_positions_in(&base.instant));
        Ok(LogRecords { winners, places, data, all_copies, counts })
    }

    fn ordering_types(&self, schema: &Schema) -> Result<Vec<DataType>> {
        let of = |name: &String| {
            let field = schema.field_with_name(name).ok();
            field
                .map(|f| f.data_type().clone())
                .ok_or_else(|| Error::schema(format!("the ordering column '{name}' is missing")).with("column", name))
        };
        self.settings.ordering.iter().map(of).collect()
    }
}

/// What the log files of a slice come down to.
struct LogRecords {
    winners: Winners,
    /// Row in `data` of each winner that is no delete.
    places: Vec<Option<usize>>,
    data: RecordBatch,
    /// Whether each copy of a record in the base file is merged, or the first one and the others stay. Hudi merges by
    /// positions where all blocks have them, and a writer that has them names each copy; else it merges by key, and a
    /// record of a log file is used up by the first row that it meets.
    all_copies: bool,
    counts: MergeCounts,
}

/// What merging met, and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Blocks of log files.
    pub log_blocks: u64,
    /// Records in them, deletes not counted.
    pub log_records: u64,
    /// Rows of the base file in whose place another came.
    pub updated: u64,
    /// Rows of the base file that went.
    pub deleted: u64,
    /// Rows that the base file did not have.
    pub inserted: u64,
}

/// The rows of a slice, as they are merged.
pub struct SliceRows {
    settings: MergeSettings,
    wanted: SchemaRef,
    records: LogRecords,
    /// Records that met a row of the base file.
    used: Vec<bool>,
    base: Box<dyn Iterator<Item = Result<RecordBatch>>>,
    counts: MergeCounts,
    ended: bool,
}

impl Iterator for SliceRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl SliceRows {
    /// What was merged so far.
    pub fn counts(&self) -> MergeCounts {
        self.counts
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.base.next() {
            let merged = self.merge(&batch?)?;
            if merged.num_rows() > 0 {
                return Ok(Some(merged));
            }
        }
        // What is new comes once, behind all others.
        let new: Vec<(usize, usize)> = self
            .used
            .iter_mut()
            .zip(&self.records.places)
            .filter_map(|(used, place)| (!std::mem::replace(used, true)).then_some((0, (*place)?)))
            .collect();
        if new.is_empty() {
            return Ok(None);
        }
        self.counts.inserted += new.len() as u64;
        let data = self.wanted_of(&self.records.data);
        interleave_batches(&self.wanted, &[&data?], &new).map(Some)
    }

    fn merge(&mut self, base: &RecordBatch) -> Result<RecordBatch> {
        let winners = &self.records.winners;
        let keys = self.settings.keys(base)?;
        let mut met: Vec<(usize, usize)> = Vec::new();
        for row in 0..keys.len() {
            if let Some(record) = winners.find(keys.value(row))
                && let Some(used) = self.used.get_mut(record).filter(|used| self.records.all_copies || !**used)
            {
                *used = true;
                met.push((row, record));
            }
        }
        let base_data = self.wanted_of(base)?;
        if met.is_empty() {
            return Ok(base_data);
        }
        let ordering = self.settings.ordering(base)?;
        let old = Side { ordering: &ordering, deleted: None };
        let new = Side { ordering: &winners.ordering, deleted: Some(&winners.deleted) };
        let judge = Judge::new(self.settings.mode, Step::Final, old, new)?;
        let mut picks: Vec<(usize, usize)> = Vec::with_capacity(base.num_rows());
        let mut next = 0;
        for (row, record) in met {
            picks.extend((next..row).map(|r| (0, r)));
            next = row + 1;
            if !judge.new_wins(row, record) {
                picks.push((0, row));
            } else if let Some(place) = self.records.places.get(record).copied().flatten() {
                picks.push((1, place));
                self.counts.updated += 1;
            } else {
                self.counts.deleted += 1;
            }
        }
        picks.extend((next..base.num_rows()).map(|r| (0, r)));
        let new_data = self.wanted_of(&self.records.data)?;
        interleave_batches(&self.wanted, &[&base_data, &new_data], &picks)
    }

    /// The wanted columns of a batch, which come first in it.
    fn wanted_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        Ok(batch.project(&(0..self.wanted.fields().len()).collect::<Vec<_>>())?)
    }
}

/// Rows of several batches, each named by batch and row, as one.
fn interleave_batches(schema: &SchemaRef, batches: &[&RecordBatch], rows: &[(usize, usize)]) -> Result<RecordBatch> {
    let column = |(at, field): (usize, &Arc<Field>)| -> Result<ArrayRef> {
        if rows.is_empty() {
            return Ok(new_empty_array(field.data_type()));
        }
        let parts: Vec<&dyn Array> = batches.iter().filter_map(|b| b.columns().get(at)).map(AsRef::as_ref).collect();
        Ok(interleave(&parts, rows)?)
    };
    let columns = schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
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
    use crate::storage::{FileMeta, StorageOptions};
    use crate::table::with_meta_columns;
    use crate::timeline::{TimeZone, TimelineConfig};
    use arrow::array::Int64Array;

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

    fn merged(name: &str, base: &[(&str, i64, &str)], log: Vec<u8>) -> (Vec<(String, String)>, MergeCounts) {
        let storage = Storage::open(&format!("memory://slice-{name}/t"), &StorageOptions::new()).unwrap();
        let slice = slice(&storage, &rows(base), log);
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
        };
        let done =
            ["t/1_1.commit", "t/2_3.deltacommit"].map(|path| FileMeta { path: path.into(), size: 1, modified_ms: 0 });
        let timeline = Arc::new(Timeline::from_files(config, done.to_vec()));
        let settings =
            MergeSettings { mode: MergeMode::EventTime, ordering: vec!["ts".into()], marker: None, keys: None };
        let all = with_meta_columns(&data());
        let reader = SliceReader::new(storage, timeline, settings, all.clone());
        let wanted = Arc::new(all.project(&[2, 6]).unwrap());
        let mut read = reader.read(&slice, &wanted).unwrap();
        let mut out = Vec::new();
        for batch in &mut read {
            let batch = batch.unwrap();
            assert_eq!(batch.schema(), wanted);
            let text = |i: usize| batch.column(i).as_string::<i32>().clone();
            out.extend((0..batch.num_rows()).map(|r| (text(0).value(r).to_owned(), text(1).value(r).to_owned())));
        }
        (out, read.counts())
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
        let expected = MergeCounts { log_blocks: 1, log_records: 3, updated: 1, deleted: 0, inserted: 1 };
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
