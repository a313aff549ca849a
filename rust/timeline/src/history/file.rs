//! One history file: its row groups, pruned by a range of times, as splits of reading.

// Splits are lists of ranges, most often of one.
#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowFilter, RowSelection,
};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::entry::{FILE_SCHEMA, INSTANT_TIME, LoadMode, TimeRange};
use super::manifest::{HistoryFile, HistoryFolder};
use hoodoo_parquet_pages::checksums::BoundedPages;
use hoodoo_parquet_pages::footer::{decode_footer, footer_bytes};
use hoodoo_parquet_pages::limited_pages::LimitedPages;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::FileReader;
use hoodoo_storage::guard::{Chunks, decode};

/// Footer entry of files whose rows ascend strictly by requested time. Hudi ignores it.
pub(super) const SORTED_KEY: &str = "hoodoo.history.sorted";

/// Bytes of one batch, about.
const BATCH_BYTES: u64 = 4 << 20;
/// Rows of one batch, at most.
const BATCH_ROWS: u64 = 16_384;
/// Bytes (uncompressed) that one thread reads in a go: Hudi's files are a single row group.
const SPLIT_BYTES: u64 = 32 << 20;
/// Pieces of a row group, at most.
const MAX_SPLITS: usize = 1_024;
/// Files beyond this size have a page index worth reading for a range.
const SMALL_FILE: u64 = 256 << 10;

/// A history file with its footer read.
#[derive(Clone)]
pub(super) struct OpenFile {
    pub(super) file: HistoryFile,
    reader: FileReader,
    metadata: ArrowReaderMetadata,
    /// Whether its writer vouches for ascending times.
    pub(super) sorted: bool,
    context: Arc<Context>,
}

struct Context {
    table: String,
    path: String,
}

/// Rows of one row group.
#[derive(Debug, Clone)]
pub(super) struct Split {
    row_group: usize,
    /// Ranges of rows within the row group, ascending.
    ranges: Vec<Range<usize>>,
    /// Whether rows outside of the range of times may be among them.
    filtered: bool,
}

impl OpenFile {
    /// Opens a file; reads the page index when a part of it is wanted.
    pub(super) fn open(folder: &HistoryFolder, file: HistoryFile, range: &TimeRange) -> Result<Self> {
        let part = !range.covers(&file.min, &file.max) && file.size > SMALL_FILE;
        Self::open_with(folder, file, if part { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip })
    }

    /// Opens a file, and reads the page index.
    pub(super) fn open_with_pages(folder: &HistoryFolder, file: HistoryFile) -> Result<Self> {
        Self::open_with(folder, file, PageIndexPolicy::Optional)
    }

    fn open_with(folder: &HistoryFolder, file: HistoryFile, policy: PageIndexPolicy) -> Result<Self> {
        let path = folder.path(&file.name);
        let context = Arc::new(Context { table: folder.storage().uri().to_owned(), path: path.clone() });
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let reader = folder.storage().reader(&path, file.size)?;
        let open = || -> Result<Self> {
            let chunks = Chunks::new(reader.clone());
            let load = || {
                let footer = decode_footer(&footer_bytes(&chunks)?)?;
                let mut reader = ParquetMetaDataReader::new_with_metadata(footer).with_page_index_policy(policy);
                reader.read_page_indexes(&chunks)?;
                ArrowReaderMetadata::try_new(Arc::new(reader.finish()?), options)
            };
            let metadata = load().map_err(|e| chunks.explain_parquet(e))?;
            check_columns(metadata.schema())?;
            let entries = metadata.metadata().file_metadata().key_value_metadata();
            let sorted = entries
                .is_some_and(|all| all.iter().any(|e| e.key == SORTED_KEY && e.value.as_deref() == Some("true")));
            Ok(Self { file, reader: reader.clone(), metadata, sorted, context: context.clone() })
        };
        decode("the footer of a history file", open)
            .map_err(|e| e.with("table", &context.table).with("file", &context.path))
    }

    /// Rows in the file, as its footer says.
    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// The file itself.
    pub(super) fn source(&self) -> &FileReader {
        &self.reader
    }

    /// Its columns, as Parquet has them.
    pub(super) fn parquet_columns(&self) -> &[ColumnDescPtr] {
        self.metadata.metadata().file_metadata().schema_descr().columns()
    }

    /// What its footer says of the row groups.
    pub(super) fn row_groups(&self) -> &[RowGroupMetaData] {
        self.metadata.metadata().row_groups()
    }

    /// The columns of a row group as they are, with their page indexes when the file was opened with them.
    pub(super) fn chunks(&self, row_group: usize) -> Vec<ColumnCloseResult> {
        let Some(group) = self.row_groups().get(row_group) else { return Vec::new() };
        let index = self.metadata.metadata().page_index_for_row_group(row_group);
        let chunk = |(column, chunk): (usize, &ColumnChunkMetaData)| ColumnCloseResult {
            bytes_written: chunk.compressed_size().max(0).cast_unsigned(),
            rows_written: group.num_rows().max(0).cast_unsigned(),
            metadata: chunk.clone(),
            bloom_filter: None,
            column_index: index.column_index(column).cloned(),
            offset_index: index.offset_index(column).cloned(),
        };
        group.columns().iter().enumerate().map(chunk).collect()
    }

    /// The pages of one column of a row group.
    pub(super) fn pages(&self, row_group: usize, column: usize) -> Option<&[PageLocation]> {
        let pages = self.metadata.metadata().page_index()?.offset_index(row_group, column)?;
        Some(pages.page_locations())
    }

    /// Does something with the file's bytes; an error names the file.
    pub(super) fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        decode("a history file", work)
            .map_err(|e| e.with("table", &self.context.table).with("file", &self.context.path))
    }

    /// Reads a whole row group.
    pub(super) fn read_group(
        &self,
        row_group: usize,
        mode: LoadMode,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let rows = self.row_groups().get(row_group).map_or(0, |g| usize::try_from(g.num_rows()).unwrap_or(0));
        self.read(&Split { row_group, ranges: vec![0..rows], filtered: false }, &TimeRange::all(), mode)
    }

    /// What has to be read for a range of times, in splits for threads.
    pub(super) fn splits(&self, range: &TimeRange, mode: LoadMode) -> Vec<Split> {
        let filtered = !range.covers(&self.file.min, &self.file.max);
        let mut splits = Vec::new();
        for (row_group, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            let ranges = match filtered {
                false => vec![0..rows],
                true if group_is_outside(group, range) => continue,
                true => self.pages_within(row_group, rows, range),
            };
            splits.extend(cut(ranges, self.rows_for(group, mode, SPLIT_BYTES)).into_iter().map(|ranges| Split {
                row_group,
                ranges,
                filtered,
            }));
        }
        splits
    }

    /// Splits with exactly the given rows of the file, which ascend.
    pub(super) fn splits_of_rows(&self, rows: &[usize]) -> Vec<Split> {
        let mut splits: Vec<Split> = Vec::new();
        let mut first = 0;
        let mut rest = rows;
        for (row_group, group) in self.metadata.metadata().row_groups().iter().enumerate() {
            let end = first + usize::try_from(group.num_rows()).unwrap_or(0);
            let (here, later) = rest.split_at(rest.partition_point(|r| *r < end));
            if !here.is_empty() {
                let mut ranges: Vec<Range<usize>> = Vec::new();
                for row in here.iter().map(|r| r - first) {
                    match ranges.last_mut() {
                        Some(last) if last.end == row => last.end += 1,
                        _ => ranges.push(row..row + 1),
                    }
                }
                splits.push(Split { row_group, ranges, filtered: false });
            }
            rest = later;
            first = end;
        }
        splits
    }

    /// The last rows of the file: splits from the end, each with at most `rows` rows.
    pub(super) fn splits_from_end(&self, rows: usize) -> impl Iterator<Item = Split> {
        let groups = self.metadata.metadata().row_groups().iter().enumerate().rev();
        let sizes: Vec<(usize, usize)> = groups.map(|(i, g)| (i, usize::try_from(g.num_rows()).unwrap_or(0))).collect();
        sizes.into_iter().flat_map(move |(row_group, count)| {
            let mut end = count;
            std::iter::from_fn(move || {
                let start = end.saturating_sub(rows.max(1));
                let range = start..end;
                end = start;
                (!range.is_empty()).then(|| Split { row_group, ranges: vec![range], filtered: false })
            })
        })
    }

    /// Reads a split.
    pub(super) fn read(
        &self,
        split: &Split,
        range: &TimeRange,
        mode: LoadMode,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let context = self.context.clone();
        let named = move |e: Error| e.with("table", &context.table).with("file", &context.path);
        let group = self.metadata.metadata().row_groups().get(split.row_group);
        let rows = group.map_or(0, |g| usize::try_from(g.num_rows()).unwrap_or(0));
        let batch_rows = group.map_or(1, |g| self.rows_for(g, mode, BATCH_BYTES).min(BATCH_ROWS as usize));
        let chunks = Chunks::new(BoundedPages::new(self.reader.clone()));
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            LimitedPages::new(chunks.clone(), self.metadata.metadata().clone()),
            self.metadata.clone(),
        );
        let schema = builder.parquet_schema();
        let wanted = ProjectionMask::columns(schema, mode.columns().iter().copied());
        let times = ProjectionMask::columns(schema, [INSTANT_TIME]);
        builder = builder.with_row_groups(vec![split.row_group]).with_projection(wanted).with_batch_size(batch_rows);
        if split.ranges.as_slice() != [0..rows] {
            builder =
                builder.with_row_selection(RowSelection::from_consecutive_ranges(split.ranges.iter().cloned(), rows));
        }
        if split.filtered {
            let range = range.clone();
            let within = ArrowPredicateFn::new(times, move |batch| rows_within(&batch, &range));
            builder = builder.with_row_filter(RowFilter::new(vec![Box::new(within)]));
        }
        let build = || builder.build().map_err(|e| chunks.explain_parquet(e));
        let mut reader = decode("a history file", build).map_err(&named)?;
        let schema = mode.schema();
        let mut missing = if split.filtered { 0 } else { split.ranges.iter().map(Range::len).sum::<usize>() };
        let mut ended = false;
        Ok(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let next = || match reader.next() {
                None if missing > 0 => Err(Error::corrupt("a history file has fewer rows than its footer says")),
                None => Ok(None),
                Some(batch) => in_order_of(&batch.map_err(|e| chunks.explain(e))?, &schema).map(Some),
            };
            let batch = decode("a history file", next).map_err(&named).transpose();
            missing = missing.saturating_sub(batch.iter().flatten().map(RecordBatch::num_rows).sum());
            ended = !matches!(batch, Some(Ok(_)));
            batch
        }))
    }

    /// How many rows of a row group make up about `bytes`, in the columns of a mode.
    fn rows_for(&self, group: &RowGroupMetaData, mode: LoadMode, bytes: u64) -> usize {
        let size: i64 = group
            .columns()
            .iter()
            .filter(|c| mode.columns().contains(&c.column_descr().name()))
            .map(|c| c.uncompressed_size().max(0))
            .fold(0, i64::saturating_add);
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        let each = (size.unsigned_abs() / rows.max(1)).max(1);
        usize::try_from((bytes / each).clamp(64, 1 << 20)).unwrap_or(64)
    }

    /// Rows of the pages of a row group that may hold wanted times; all rows when the file has no page index.
    fn pages_within(&self, row_group: usize, rows: usize, range: &TimeRange) -> Vec<Range<usize>> {
        let all = || vec![0..rows];
        let metadata = self.metadata.metadata();
        let schema = metadata.file_metadata().schema_descr();
        let Some(column) = schema.columns().iter().position(|c| c.name() == INSTANT_TIME) else { return all() };
        let index = metadata.page_index_for_row_group(row_group);
        let (Some(ColumnIndexMetaData::BYTE_ARRAY(pages)), Some(places)) =
            (index.column_index(column), index.page_locations(column))
        else {
            return all();
        };
        let starts: Vec<usize> = places.iter().filter_map(|p| usize::try_from(p.first_row_index).ok()).collect();
        let ascending = starts.windows(2).all(|w| matches!(w, [a, b] if a < b));
        if starts.first() != Some(&0) || !ascending || starts.last().is_some_and(|s| *s >= rows) {
            return all();
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (page, start) in starts.iter().enumerate() {
            let end = starts.get(page + 1).copied().unwrap_or(rows);
            let outside = match (text(pages.min_value(page)), text(pages.max_value(page))) {
                (Some(min), Some(max)) => !range.overlaps(min, max),
                _ => false,
            };
            match ranges.last_mut() {
                _ if outside => {}
                Some(last) if last.end == *start => last.end = end,
                _ => ranges.push(*start..end),
            }
        }
        ranges
    }
}

/// Cuts ranges of rows into splits of about `rows` rows.
fn cut(ranges: Vec<Range<usize>>, rows: usize) -> Vec<Vec<Range<usize>>> {
    // A footer may announce any number of rows.
    let all: usize = ranges.iter().map(Range::len).fold(0, usize::saturating_add);
    let rows = rows.max(all / MAX_SPLITS).max(1);
    let mut splits: Vec<Vec<Range<usize>>> = Vec::new();
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            // A rest of less than half a piece goes along.
            let end = if range.end - start < rows + rows / 2 { range.end } else { start + rows };
            splits.push(vec![start..end]);
            start = end;
        }
    }
    splits
}

fn group_is_outside(group: &RowGroupMetaData, range: &TimeRange) -> bool {
    let column = group.columns().iter().find(|c| c.column_descr().name() == INSTANT_TIME);
    let Some(Statistics::ByteArray(statistics)) = column.and_then(|c| c.statistics()) else { return false };
    match (text(statistics.min_bytes_opt()), text(statistics.max_bytes_opt())) {
        (Some(min), Some(max)) => !range.overlaps(min, max),
        _ => false,
    }
}

fn text(bytes: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(bytes?).ok()
}

fn rows_within(batch: &RecordBatch, range: &TimeRange) -> std::result::Result<BooleanArray, ArrowError> {
    let times = batch.column(0).as_any().downcast_ref::<StringArray>();
    let times = times.ok_or_else(|| ArrowError::SchemaError("times are no text".to_owned()))?;
    Ok((0..times.len()).map(|row| Some(times.is_valid(row) && range.contains(times.value(row)))).collect())
}

/// Files are written by Hudi and by others: a column may be elsewhere, or of another type.
fn check_columns(schema: &SchemaRef) -> Result<()> {
    for field in FILE_SCHEMA.fields().iter().take(5) {
        let found = schema.field_with_name(field.name()).ok().map(|f| f.data_type());
        if found != Some(field.data_type()) {
            let found = found.map_or_else(|| "is missing".to_owned(), |t| format!("is {t}"));
            return Err(Error::corrupt(format!("column {} of a history file {found}", field.name())));
        }
    }
    Ok(())
}

fn in_order_of(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let column = batch.column_by_name(field.name());
        let column = column.ok_or_else(|| Error::corrupt(format!("a history file has no column {}", field.name())))?;
        columns.push(column.clone());
    }
    if columns.first().is_some_and(|times| times.null_count() > 0 && times.data_type() == &DataType::Utf8) {
        return Err(Error::corrupt("a history file holds an instant without a time"));
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
