//! Copies row groups of another file, column by column: unchanged column chunks as bytes, changed ones with new values.
//!
//! So an update of a few columns of a wide table costs only these columns. A chunk is copied only if this writer would
//! write the same: the same column, the same codec, from a writer with correct statistics. Pages keep their checksums,
//! so damage is found when the rows are read.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use super::options::{BaseFileOptions, DictionaryUse};
use super::parquet_schema::hudi_parquet_schema;
use super::reader::BaseFileReader;
use super::row_group::{RowGroupEncoder, leaf_count};
use super::sink::{Announced, StandIn};
use super::writer::{BaseFileWriter, column_factory, column_use, properties, repeats};
use hoodoo_parquet_pages::encoders::constant_column::constant_chunk;
use hoodoo_parquet_pages::encoders::encoded_chunk::{EncodedChunk, encode_error};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::parallel::run_parallel;
use hoodoo_storage::CopyFrom;

/// Row groups that exceed the current size by this factor are split instead.
const LARGER: usize = 2;
/// Row groups below the current size by this factor count as fragments.
const SMALLER: usize = 4;

/// The content of a column of a spliced row group.
pub enum SplicedColumn {
    /// The same values as before.
    Same,
    /// One string in all rows.
    Constant(String),
    /// New values.
    Values(Vec<ArrayRef>),
}

/// Which columns of an older file can be copied.
pub struct Splice {
    metadata: Arc<ParquetMetaData>,
    /// For each column of the new file its leaves in the old one, if it has the column.
    stored: Vec<Option<Range<usize>>>,
    /// Whether their chunks can be copied.
    copyable: Vec<bool>,
}

impl Splice {
    /// Compares an older file with the new one. `None` if its row groups are too large or fragmented, and should be
    /// written again.
    ///
    /// # Errors
    /// `Schema` for a schema that cannot be written.
    pub fn new<R: ChunkReader + 'static>(
        source: &BaseFileReader<R>,
        schema: &Schema,
        options: &BaseFileOptions,
    ) -> Result<Option<Self>> {
        let metadata = source.metadata_with_page_index()?;
        if !well_cut(&metadata, options) {
            return Ok(None);
        }
        let descriptor = hudi_parquet_schema(schema, &options.message_name)?;
        let old = metadata.file_metadata().schema_descr();
        let old_leaves = leaves_by_column(old);
        let stored: Vec<Option<Range<usize>>> =
            schema.fields().iter().map(|field| old_leaves.get(field.name().as_str()).cloned()).collect();
        source.check_calendar(stored.iter().flatten().cloned().flatten())?;
        let trusted = metadata.file_metadata().created_by().is_some_and(keeps_sound_statistics);
        let mut next = 0;
        let copyable = schema
            .fields()
            .iter()
            .zip(&stored)
            .map(|(field, leaves)| {
                let new = next..next + leaf_count(field.data_type());
                next = new.end;
                let Some(leaves) = leaves.as_ref().filter(|l| trusted && l.len() == new.len()) else { return false };
                let same = |(a, b): (usize, usize)| descriptor.column(a) == old.column(b);
                new.zip(leaves.clone()).all(same)
                    && metadata.row_groups().iter().all(|group| {
                        leaves.clone().all(|leaf| group.columns().get(leaf).is_some_and(|c| has_codec(c, options)))
                    })
            })
            .collect();
        Ok(Some(Self { metadata, stored, copyable }))
    }

    /// Whether the chunks of a column can be copied.
    pub fn can_copy(&self, column: usize) -> bool {
        self.copyable.get(column).is_some_and(|can| *can)
    }

    fn chunks(&self, column: usize, group: usize) -> Result<Vec<ColumnCloseResult>> {
        let leaves = self.stored.get(column).cloned().flatten().filter(|_| self.can_copy(column));
        let (leaves, row_group) = leaves
            .zip(self.metadata.row_groups().get(group))
            .ok_or_else(|| Error::schema("a column of another file cannot be copied"))?;
        let index = self.metadata.page_index_for_row_group(group);
        leaves
            .map(|leaf| {
                let chunk = row_group.columns().get(leaf).ok_or_else(|| Error::corrupt("a column chunk is missing"))?;
                Ok(ColumnCloseResult {
                    bytes_written: chunk.compressed_size().max(0).cast_unsigned(),
                    rows_written: row_group.num_rows().max(0).cast_unsigned(),
                    metadata: chunk.clone(),
                    bloom_filter: None,
                    column_index: index.column_index(leaf).cloned(),
                    offset_index: index.offset_index(leaf).cloned(),
                })
            })
            .collect()
    }

    /// Whether the old chunks of a column have dictionaries.
    fn has_dictionary(&self, column: usize, group: usize) -> Option<bool> {
        Some(self.stored_chunks(column, group).first()?.dictionary_page_offset().is_some())
    }

    /// The chunks of a column in a row group of the old file; empty if the file does not have the column.
    pub fn stored_chunks(&self, column: usize, group: usize) -> &[ColumnChunkMetaData] {
        let chunks = self.metadata.row_groups().get(group).map(|group| group.columns());
        let leaves = self.stored.get(column).cloned().flatten();
        chunks.zip(leaves).and_then(|(chunks, leaves)| chunks.get(leaves)).unwrap_or_default()
    }
}

/// The leaves of each column. If several columns have the same name, the first counts.
fn leaves_by_column(schema: &SchemaDescriptor) -> HashMap<&str, Range<usize>> {
    let mut columns: HashMap<&str, Range<usize>> = HashMap::with_capacity(schema.num_columns());
    for leaf in 0..schema.num_columns() {
        let leaves = columns.entry(schema.get_column_root(leaf).name()).or_insert(leaf..leaf);
        if leaves.end == leaf {
            leaves.end += 1;
        }
    }
    columns
}

fn has_codec(chunk: &ColumnChunkMetaData, options: &BaseFileOptions) -> bool {
    std::mem::discriminant(&chunk.compression()) == std::mem::discriminant(&options.codec)
}

/// Whether the row groups are about as large as those of a new file.
fn well_cut(metadata: &ParquetMetaData, options: &BaseFileOptions) -> bool {
    let groups = metadata.row_groups();
    let rows = |g: &parquet::file::metadata::RowGroupMetaData| usize::try_from(g.num_rows()).unwrap_or(usize::MAX);
    let bytes =
        |g: &parquet::file::metadata::RowGroupMetaData| usize::try_from(g.compressed_size()).unwrap_or(usize::MAX);
    let (most_rows, most_bytes) = (options.row_group_rows.max(1), options.row_group_bytes.max(1));
    let too_large = groups.iter().any(|g| rows(g) > most_rows * LARGER || bytes(g) > most_bytes.saturating_mul(LARGER));
    let before_last = groups.split_last().map_or(groups, |(_, rest)| rest);
    let fragments =
        before_last.iter().filter(|g| rows(g) < most_rows / SMALLER && bytes(g) < most_bytes / SMALLER).count();
    !too_large && fragments * 4 <= before_last.len()
}

/// Whether the writer has correct minima and maxima: hoodoo, and Parquet's Java library since 1.10.
fn keeps_sound_statistics(created_by: &str) -> bool {
    if created_by.starts_with("hoodoo version ") {
        return true;
    }
    let Some(version) = created_by.strip_prefix("parquet-mr version ") else { return false };
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (1, 10)
}

/// A column of the row group that is being written.
enum ColumnSource {
    Same,
    Constant(Box<EncodedChunk>),
    Fresh(Vec<EncodedChunk>),
}

impl<W: CopyFrom + Send> BaseFileWriter<W> {
    /// Appends a row group of `rows` rows made from row group `group` of an older file. `column` returns the content of
    /// each column, by its index in this file. It is called once for each column, on up to `threads` threads; one is
    /// enough if all columns stay the same.
    ///
    /// The record keys of spliced rows are not read: pass them to [`BaseFileWriter::set_keys`].
    ///
    /// # Errors
    /// Those of `column`; `Schema` if an unchanged column cannot be copied.
    pub fn splice_row_group<R: ChunkReader + 'static>(
        &mut self,
        source: &BaseFileReader<R>,
        splice: &Splice,
        group: usize,
        rows: usize,
        threads: usize,
        column: &(dyn Fn(usize) -> Result<SplicedColumn> + Sync),
    ) -> Result<()> {
        self.end_row_group()?;
        let fields = self.schema.fields().clone();
        let mut first_leaf = 0;
        let work: Vec<(usize, usize)> = fields
            .iter()
            .enumerate()
            .map(|(i, field)| {
                let at = first_leaf;
                first_leaf += leaf_count(field.data_type());
                (i, at)
            })
            .collect();
        let (options, descriptor) = (&self.options, &self.descriptor);
        let arrays = run_parallel(work, threads, |(i, leaf)| {
            let field = fields.get(i).ok_or_else(|| Error::schema("a column that the file does not have"))?;
            Ok(match column(i)? {
                SplicedColumn::Same => ColumnSource::Same,
                SplicedColumn::Constant(value) => ColumnSource::Constant(Box::new(constant_chunk(
                    &descriptor.column(leaf),
                    &value,
                    rows,
                    options.page_checksums,
                )?)),
                SplicedColumn::Values(values) if values.iter().map(|v| v.len()).sum::<usize>() == rows => {
                    ColumnSource::Fresh(encode_column(options, field, splice.has_dictionary(i, group), &values)?)
                }
                SplicedColumn::Values(_) => {
                    let what = "the columns of a row group differ in length";
                    return Err(Error::schema(what).with("column", field.name()));
                }
            })
        })?;
        let mut at = self.file.bytes_written() as u64;
        let announced = self.file.inner_mut().announced();
        let mut out = self.file.next_row_group().map_err(encode_error)?;
        for (i, array) in arrays.into_iter().enumerate() {
            match array {
                ColumnSource::Same => {
                    for close in splice.chunks(i, group)? {
                        let length = length_of(&close);
                        copy_to(&announced, at, source, &close)?;
                        out.append_column(&StandIn, close).map_err(|e| encode_error(e).with("column", i))?;
                        at += length;
                    }
                }
                ColumnSource::Constant(chunk) => {
                    at += length_of(&chunk.close);
                    out.append_column(&chunk.bytes, chunk.close).map_err(encode_error)?;
                }
                ColumnSource::Fresh(chunks) => {
                    for chunk in chunks {
                        at += length_of(&chunk.close);
                        chunk.append_to(&mut out)?;
                    }
                }
            }
        }
        out.close().map_err(encode_error)?;
        self.groups += 1;
        self.rows += rows as u64;
        self.spliced = true;
        Ok(())
    }
}

/// Bytes that a column chunk takes in a file.
fn length_of(chunk: &ColumnCloseResult) -> u64 {
    chunk.metadata.compressed_size().max(0).cast_unsigned()
}

/// Schedules the copy of a chunk of another file.
fn copy_to<W: CopyFrom, R: ChunkReader + 'static>(
    announced: &Announced<W>,
    at: u64,
    source: &BaseFileReader<R>,
    chunk: &ColumnCloseResult,
) -> Result<()> {
    let start = chunk.metadata.dictionary_page_offset().unwrap_or_else(|| chunk.metadata.data_page_offset());
    let start = u64::try_from(start).map_err(|_| Error::corrupt("a column chunk begins before its file"))?;
    let (length, chunks) = (length_of(chunk), source.source().clone());
    announced.push(at, length, move |sink: &mut W| {
        let mut read = chunks.get_read(start).map_err(std::io::Error::other)?;
        sink.copy_from(&mut read, length)
    });
    Ok(())
}

/// `dictionary`: whether the column had one before, if the old file has the column.
fn encode_column(
    options: &BaseFileOptions,
    field: &FieldRef,
    dictionary: Option<bool>,
    values: &[ArrayRef],
) -> Result<Vec<EncodedChunk>> {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let descriptor = hudi_parquet_schema(&schema, &options.message_name)?;
    let properties = column_properties(options, field, dictionary, values)?;
    let factory = column_factory(&descriptor, &schema, properties.clone(), options.page_checksums)?;
    let how = |column| Ok(column_use(&schema, &descriptor, options, &properties, values, (column, column)));
    let mut encoder = RowGroupEncoder::new(&schema, &factory, 0, &how)?;
    encoder.encode_arrays(values)?;
    Ok(encoder.close(1)?.into_iter().flat_map(|(_, chunks)| chunks).collect())
}

/// A column without a dictionary before gets none again: sampling it again is not worth its cost.
fn column_properties(
    options: &BaseFileOptions,
    field: &FieldRef,
    dictionary: Option<bool>,
    values: &[ArrayRef],
) -> Result<WriterProperties> {
    let builder = properties(options);
    if options.dictionary != DictionaryUse::Auto || field.data_type().is_nested() {
        return Ok(builder.build());
    }
    let dictionary = match dictionary {
        Some(known) => known,
        None => repeats(values)?,
    };
    if dictionary {
        return Ok(builder.build());
    }
    let path = ColumnPath::new(vec![field.name().clone()]);
    Ok(builder.set_column_dictionary_enabled(path, false).build())
}
