//! Merging files whose rows follow each other: what is encoded well already is taken over as it is.
//!
//! Bodies are nearly all of a history, and a level's merge changes nothing about them. So their pages are put behind
//! each other as bytes, unless they are so small that fewer and larger ones compress better. Times and actions are
//! encoded anew: their row groups are to be large, and cost little. A row group that is large enough stays as it is.

use std::io::Read;

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder, RowGroupMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedRowGroupWriter;

use super::entry::{FILE_SCHEMA, LoadMode, METADATA, PLAN};
use super::file::OpenFile;
use super::layout::{GROUP_BYTES, GROUP_ROWS, SCHEMA_ROOT, sorted_mark, with_version};
use super::overlap::Order;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::FileWriter;

/// Uncompressed bytes of a page, on the average of a chunk, from which on it is taken over.
const PAGE_BYTES: u64 = 128 << 10;
/// Row groups of this part of the rows or bytes of a full one stay as they are.
const LARGE_PART: usize = 2;

/// One row group of one file.
#[derive(Clone, Copy)]
struct Segment<'a> {
    file: &'a OpenFile,
    group: usize,
    metadata: &'a RowGroupMetaData,
}

impl Segment<'_> {
    fn rows(&self) -> usize {
        usize::try_from(self.metadata.num_rows()).unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        usize::try_from(self.metadata.compressed_size()).unwrap_or(0)
    }
}

/// Whether the files can be merged here: the rows of each ascend, all before those of the next, and each has the
/// columns of a file that is written now.
pub(super) fn follow_each_other(files: &[OpenFile]) -> Result<bool> {
    let converter = ArrowSchemaConverter::new().schema_root(SCHEMA_ROOT);
    let schema = converter.convert(&FILE_SCHEMA)?;
    Ok(files.iter().all(|f| f.sorted && f.parquet_columns() == schema.columns())
        && files.windows(2).all(|w| matches!(w, [a, b] if a.file.max < b.file.min)))
}

/// Writes the rows of files that [`follow_each_other`].
pub(super) fn splice(files: &[OpenFile], writer: ArrowWriter<FileWriter>) -> Result<u64> {
    let (mut out, factory) = writer.into_serialized_writer()?;
    let mut order = Order::default();
    for (number, group) in cut(files).iter().enumerate() {
        match group.as_slice() {
            [only] if is_large(only) => take_over(only, out.next_row_group()?)?,
            segments => join(segments, number, &factory, out.next_row_group()?, &mut order)?,
        }
    }
    out.append_key_value_metadata(sorted_mark());
    out.into_inner()?.finish()
}

fn is_large(segment: &Segment<'_>) -> bool {
    segment.rows() >= GROUP_ROWS / LARGE_PART || segment.bytes() >= GROUP_BYTES / LARGE_PART
}

/// Which row groups become one.
fn cut(files: &[OpenFile]) -> Vec<Vec<Segment<'_>>> {
    let mut groups: Vec<Vec<Segment<'_>>> = Vec::new();
    let (mut rows, mut bytes) = (0usize, 0usize);
    for file in files {
        for (group, metadata) in file.row_groups().iter().enumerate() {
            let segment = Segment { file, group, metadata };
            (rows, bytes) = (rows.saturating_add(segment.rows()), bytes.saturating_add(segment.bytes()));
            match groups.last_mut() {
                Some(last) if rows <= GROUP_ROWS && bytes <= GROUP_BYTES => last.push(segment),
                _ => {
                    (rows, bytes) = (segment.rows(), segment.bytes());
                    groups.push(vec![segment]);
                }
            }
        }
    }
    groups
}

/// A whole row group as it is.
fn take_over(segment: &Segment<'_>, mut out: SerializedRowGroupWriter<'_, FileWriter>) -> Result<()> {
    for close in segment.file.chunks(segment.group) {
        segment.file.guarded(|| Ok(out.append_column(segment.file.source(), close)?))?;
    }
    out.close()?;
    Ok(())
}

/// One row group from several.
fn join(
    segments: &[Segment<'_>],
    number: usize,
    factory: &ArrowRowGroupWriterFactory,
    mut out: SerializedRowGroupWriter<'_, FileWriter>,
    order: &mut Order,
) -> Result<()> {
    let fields = FILE_SCHEMA.fields();
    let mut joined: Vec<Option<(Bytes, ColumnCloseResult)>> = Vec::new();
    for (column, field) in fields.iter().enumerate() {
        let body = field.name() == METADATA || field.name() == PLAN;
        joined.push(if body { join_pages(segments, column)? } else { None });
    }
    let is_joined = |name: &str| fields.iter().zip(&joined).any(|(f, j)| f.name() == name && j.is_some());
    let mode = match (is_joined(METADATA), is_joined(PLAN)) {
        (true, true) => LoadMode::Action,
        (true, false) => LoadMode::Plan,
        (false, true) => LoadMode::Metadata,
        (false, false) => LoadMode::Full,
    };
    let mut writers = factory.create_column_writers(number)?;
    for segment in segments {
        for batch in segment.file.read_group(segment.group, mode)? {
            let batch = with_version(&batch?)?;
            if !order.goes_on(&batch)? {
                return Err(Error::corrupt("the times of a history file do not ascend as its footer says")
                    .with("file", &segment.file.file.name));
            }
            encode(&batch, &mut writers)?;
        }
    }
    for (writer, joined) in writers.into_iter().zip(joined) {
        match joined {
            Some((bytes, close)) => out.append_column(&bytes, close)?,
            None => writer.close()?.append_to_row_group(&mut out)?,
        }
    }
    out.close()?;
    Ok(())
}

/// Encodes those columns of a file that the batch has.
fn encode(batch: &RecordBatch, writers: &mut [ArrowColumnWriter]) -> Result<()> {
    for (field, writer) in FILE_SCHEMA.fields().iter().zip(writers) {
        let Some(array) = batch.column_by_name(field.name()) else { continue };
        for leaf in compute_leaves(field, array)? {
            writer.write(&leaf)?;
        }
    }
    Ok(())
}

/// The pages of one column of all segments behind each other; `None` when they are better encoded anew.
fn join_pages(segments: &[Segment<'_>], column: usize) -> Result<Option<(Bytes, ColumnCloseResult)>> {
    let chunks: Vec<&ColumnChunkMetaData> = segments.iter().filter_map(|s| s.metadata.columns().get(column)).collect();
    let Some(first) = chunks.first().filter(|_| chunks.len() == segments.len()) else { return Ok(None) };
    let (mut index, mut bytes) = (OffsetIndexBuilder::new(), Vec::new());
    let (mut rows, mut uncompressed) = (0i64, 0i64);
    for (segment, chunk) in segments.iter().zip(&chunks) {
        let same = chunk.compression_codec() == first.compression_codec()
            && chunk.encodings_mask() == first.encodings_mask()
            && chunk.dictionary_page_offset().is_none()
            && chunk.num_values() == segment.metadata.num_rows();
        let Some(pages) = pages_of(segment, column, chunk).filter(|_| same) else { return Ok(None) };
        let end_rows = segment.metadata.num_rows();
        let starts = pages.iter().map(|p| p.first_row_index);
        let ends = starts.clone().skip(1).chain([end_rows]);
        for (page, (start, end)) in pages.iter().zip(starts.zip(ends)) {
            let moved = page.offset.saturating_sub(chunk.data_page_offset());
            index.append_offset_and_size(moved.saturating_add(bytes.len() as i64), page.compressed_page_size);
            index.append_row_count(end.saturating_sub(start));
        }
        let length = u64::try_from(chunk.compressed_size()).unwrap_or(0);
        let start = u64::try_from(chunk.data_page_offset()).unwrap_or(0);
        let before = bytes.len() as u64;
        segment.file.guarded(|| {
            let read = segment.file.source().get_read(start)?.take(length).read_to_end(&mut bytes);
            read.map_err(|e| ParquetError::from(e).into())
        })?;
        if bytes.len() as u64 - before != length {
            return Err(Error::corrupt("a history file ends within its pages").with("file", &segment.file.file.name));
        }
        rows = rows.saturating_add(end_rows);
        uncompressed = uncompressed.saturating_add(chunk.uncompressed_size());
    }
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let metadata = ColumnChunkMetaData::builder(first.column_descr_ptr())
        .set_compression_codec(first.compression_codec())
        .set_encodings_mask(*first.encodings_mask())
        .set_num_values(rows)
        .set_total_compressed_size(length)
        .set_total_uncompressed_size(uncompressed)
        .set_data_page_offset(0)
        .build()?;
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows.max(0).cast_unsigned(),
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: Some(index.build()),
    };
    Ok(Some((Bytes::from(bytes), close)))
}

/// The pages of a chunk, when they are large and lie as they should.
fn pages_of<'a>(segment: &Segment<'a>, column: usize, chunk: &ColumnChunkMetaData) -> Option<&'a [PageLocation]> {
    let pages = segment.file.pages(segment.group, column)?;
    let count = u64::try_from(pages.len()).ok().filter(|n| *n > 0)?;
    if u64::try_from(chunk.uncompressed_size()).ok()? / count < PAGE_BYTES {
        return None;
    }
    let mut next = (chunk.data_page_offset(), -1);
    for page in pages {
        let begins = if next.1 < 0 { page.first_row_index == 0 } else { page.first_row_index > next.1 };
        if page.offset != next.0 || !begins || page.compressed_page_size <= 0 {
            return None;
        }
        next = (page.offset.checked_add(i64::from(page.compressed_page_size))?, page.first_row_index);
    }
    let whole = chunk.data_page_offset().checked_add(chunk.compressed_size())? == next.0;
    (whole && next.1 < segment.metadata.num_rows()).then_some(pages)
}
