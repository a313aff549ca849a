//! Columns that a file holds as dictionaries and numbers of their entries, read as that: the entries once, and of each row
//! its number. Nothing is put in the place of numbers that are only moved about.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBufferBuilder, Decimal128Array, Int32Array, Int64Array, PrimitiveArray, StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field};
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::encodings::rle::RleDecoder;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

use super::column_arrays::is_all_dictionary;
use super::reader::BaseFileReader;
use hoodoo_parquet_pages::encoders::number_column::is_number;
use hoodoo_parquet_pages::limited_pages::LimitedPages;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::guard::{Chunks, decode};

type Pages<R> = SerializedPageReader<LimitedPages<Chunks<R>>>;

impl<R: ChunkReader + 'static> BaseFileReader<R> {
    /// Bytes in the file of the dictionaries of a column, over all row groups. `None` where it cannot be read as numbers:
    /// the file does not have it with this type, it is nested, or some rows stand there with their values.
    pub fn dictionary_bytes(&self, field: &Field) -> Option<u64> {
        if self.schema().field_with_name(field.name()).ok()?.data_type() != field.data_type() {
            return None;
        }
        let of_group = |group: &RowGroupMetaData| {
            let (_, chunk) = chunk_of(group, field)?;
            let bytes = chunk.data_page_offset().checked_sub(chunk.dictionary_page_offset()?)?;
            let known = is_text(field, chunk.column_descr()) || is_number(field.data_type(), &chunk.column_descr_ptr());
            (known && is_all_dictionary(chunk)).then(|| u64::try_from(bytes).ok()).flatten()
        };
        let groups = self.metadata().row_groups();
        // A file without rows says nothing of how its columns would stand in it.
        if groups.is_empty() { None } else { groups.iter().map(of_group).sum() }
    }

    /// The entries of the dictionary that a column has in a row group.
    ///
    /// # Errors
    /// `Corrupt` for a column without a dictionary, or a damaged one; `Unsupported` for days of an old calendar.
    pub fn dictionary(&self, field: &Field, group: usize) -> Result<ArrayRef> {
        decode("a dictionary", || {
            let (mut pages, chunk) = self.pages(field, group)?;
            match pages.get_next_page().map_err(|e| self.source().explain_parquet(e))? {
                Some(Page::DictionaryPage { buf, num_values, .. }) => {
                    entries(&buf, num_values as usize, field.data_type(), chunk.column_descr())
                }
                _ => Err(Error::corrupt("a column chunk has no dictionary")),
            }
        })
        .map_err(|e| e.with("column", field.name()))
    }

    /// The numbers of the rows of a row group, of which a dictionary has so many `entries`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn dictionary_keys(&self, field: &Field, group: usize, entries: usize) -> Result<DictionaryKeyScan<R>> {
        let (pages, chunk) = self.pages(field, group).map_err(|e| e.with("column", field.name()))?;
        Ok(DictionaryKeyScan {
            pages,
            chunks: self.source().clone(),
            column: field.name().clone(),
            optional: chunk.column_descr().max_def_level() > 0,
            entries,
            page: None,
        })
    }

    fn pages(&self, field: &Field, group: usize) -> Result<(Pages<R>, &ColumnChunkMetaData)> {
        let group = self.metadata().row_groups().get(group);
        let group = group.ok_or_else(|| Error::corrupt("a row group of a base file is missing"))?;
        let (leaf, chunk) =
            chunk_of(group, field).ok_or_else(|| Error::corrupt("a column of a base file is missing"))?;
        self.check_calendar([leaf])?;
        let rows = usize::try_from(group.num_rows()).map_err(|_| Error::corrupt("a row group of too many rows"))?;
        let pages = SerializedPageReader::new(Arc::new(self.limited_pages()), chunk, rows, None)
            .map_err(|e| self.source().explain_parquet(e))?;
        Ok((pages, chunk))
    }
}

/// The leaf of a column, and its chunk.
fn chunk_of<'a>(group: &'a RowGroupMetaData, field: &Field) -> Option<(usize, &'a ColumnChunkMetaData)> {
    let is_it = |chunk: &ColumnChunkMetaData| matches!(chunk.column_path().parts(), [name] if name == field.name());
    group.columns().iter().enumerate().find(|(_, chunk)| is_it(chunk))
}

fn is_text(field: &Field, descriptor: &ColumnDescriptor) -> bool {
    let flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
    flat && field.data_type() == &DataType::Utf8 && descriptor.physical_type() == Type::BYTE_ARRAY
}

/// Values as a dictionary page has them, one behind the other.
fn entries(plain: &[u8], count: usize, data_type: &DataType, descriptor: &ColumnDescriptor) -> Result<ArrayRef> {
    let cut = || Error::corrupt("a dictionary ends too early");
    let fixed = |width: usize| plain.get(..count.checked_mul(width)?).map(|bytes| bytes.chunks_exact(width));
    Ok(match descriptor.physical_type() {
        Type::BYTE_ARRAY => {
            let mut strings: Vec<&str> = Vec::new();
            let mut rest = plain;
            for _ in 0..count {
                let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
                let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
                let no_text = |e| Error::corrupt("a dictionary holds bytes that are no text").caused_by(e);
                strings.push(std::str::from_utf8(text).map_err(no_text)?);
                rest = behind;
            }
            Arc::new(StringArray::from(strings))
        }
        Type::INT32 => {
            let value = |bytes: &[u8]| bytes.try_into().map(i32::from_le_bytes).unwrap_or_default();
            cast(&Int32Array::from_iter_values(fixed(4).ok_or_else(cut)?.map(value)), data_type)?
        }
        Type::INT64 => {
            let value = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or_default();
            cast(&Int64Array::from_iter_values(fixed(8).ok_or_else(cut)?.map(value)), data_type)?
        }
        _ => {
            let width = usize::try_from(descriptor.type_length()).unwrap_or_default().clamp(1, 16);
            // Two's complement, the greatest byte first: the sign goes on in front.
            let value = |bytes: &[u8]| {
                let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
                bytes.iter().fold(sign, |value: i128, byte| value << 8 | i128::from(*byte))
            };
            let values = Decimal128Array::from_iter_values(fixed(width).ok_or_else(cut)?.map(value));
            Arc::new(values.with_data_type(data_type.clone()))
        }
    })
}

/// The numbers of the rows of a column chunk.
pub struct DictionaryKeyScan<R: ChunkReader> {
    pages: Pages<R>,
    chunks: Chunks<R>,
    column: String,
    optional: bool,
    entries: usize,
    page: Option<KeyPage>,
}

/// What is left of a page.
struct KeyPage {
    rows: usize,
    /// Which rows have a value; `None`: all.
    levels: Option<Levels>,
    /// The numbers of those that have; `None` where the page holds something else.
    keys: Option<RleDecoder>,
}

/// Which rows of a page have a value.
enum Levels {
    Runs(RleDecoder),
    /// One bit for each row, the highest of a byte first, as very old writers did; and which row is next.
    Bits(Bytes, usize),
}

impl<R: ChunkReader + 'static> DictionaryKeyScan<R> {
    /// Reads the next rows. Returns for each row the entry of `mapping` at its dictionary key, or null.
    ///
    /// # Errors
    /// `Corrupt` for a damaged page, or if the chunk has fewer rows.
    pub fn next<K: ArrowPrimitiveType>(&mut self, rows: usize, mapping: &[K::Native]) -> Result<PrimitiveArray<K>> {
        decode("a page of a base file", || self.read(rows, mapping)).map_err(|e| e.with("column", &self.column))
    }

    fn read<K: ArrowPrimitiveType>(&mut self, rows: usize, mapping: &[K::Native]) -> Result<PrimitiveArray<K>> {
        let mut values: Vec<K::Native> = Vec::with_capacity(rows);
        let mut valid: Option<BooleanBufferBuilder> = None;
        let (mut present, mut keys): (Vec<u8>, Vec<u32>) = (Vec::new(), Vec::new());
        while values.len() < rows {
            let Some(page) = self.page.as_mut().filter(|page| page.rows > 0) else {
                self.page = self.next_page()?;
                if self.page.is_none() {
                    return Err(Error::corrupt("a column of a base file is shorter than others"));
                }
                continue;
            };
            let count = (rows - values.len()).min(page.rows);
            page.rows -= count;
            present.clear();
            if let Some(levels) = &mut page.levels {
                present.resize(count, 0);
                levels.read(&mut present)?;
            }
            let with_value = present.iter().filter(|level| **level == 1).count();
            let all = page.levels.is_none() || with_value == count;
            keys.clear();
            keys.resize(if all { count } else { with_value }, 0);
            read_keys(page.keys.as_mut(), &mut keys)?;
            if keys.iter().max().is_some_and(|most| *most as usize >= self.entries.min(mapping.len())) {
                return Err(Error::corrupt("a row has a dictionary key without a value"));
            }
            let mut found = keys.iter().map(|key| mapping.get(*key as usize).copied().unwrap_or_default());
            if all {
                if let Some(valid) = &mut valid {
                    valid.append_n(count, true);
                }
                values.extend(found);
                continue;
            }
            let valid = valid.get_or_insert_with(|| {
                let mut before = BooleanBufferBuilder::new(rows);
                before.append_n(values.len(), true);
                before
            });
            for level in &present {
                valid.append(*level == 1);
                values.push(if *level == 1 { found.next().unwrap_or_default() } else { K::Native::default() });
            }
        }
        Ok(PrimitiveArray::new(values.into(), valid.map(|mut valid| NullBuffer::new(valid.finish()))))
    }

    /// `None` behind the last page.
    fn next_page(&mut self) -> Result<Option<KeyPage>> {
        while let Some(page) = self.pages.get_next_page().map_err(|e| self.chunks.explain_parquet(e))? {
            let page = match page {
                Page::DictionaryPage { .. } => continue,
                Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                    let rows = num_values as usize;
                    let (levels, values) = match (self.optional, def_level_encoding) {
                        (false, _) => (None, buf),
                        (true, Encoding::RLE) => {
                            let length = buf.first_chunk::<4>().ok_or_else(cut)?;
                            let end = (u32::from_le_bytes(*length) as usize).checked_add(4).ok_or_else(cut)?;
                            let (levels, values) = split(&buf, 4, end)?;
                            (Some(Levels::Runs(runs(1, levels)?)), values)
                        }
                        (true, _) => {
                            let (levels, values) = split(&buf, 0, rows.div_ceil(8))?;
                            (Some(Levels::Bits(levels, 0)), values)
                        }
                    };
                    KeyPage { rows, levels, keys: keys_of(encoding, values)? }
                }
                Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                    let start = rep_levels_byte_len as usize;
                    let end = start.checked_add(def_levels_byte_len as usize).ok_or_else(cut)?;
                    let (levels, values) = split(&buf, start, end)?;
                    let levels = self.optional.then(|| runs(1, levels).map(Levels::Runs)).transpose()?;
                    KeyPage { rows: num_values as usize, levels, keys: keys_of(encoding, values)? }
                }
            };
            if page.rows > 0 {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }
}

fn cut() -> Error {
    Error::corrupt("a page ends too early")
}

/// A part of a page, and what comes behind it.
fn split(page: &Bytes, start: usize, end: usize) -> Result<(Bytes, Bytes)> {
    if start > end || end > page.len() {
        return Err(cut());
    }
    Ok((page.slice(start..end), page.slice(end..)))
}

fn runs(bits: u8, data: Bytes) -> Result<RleDecoder> {
    let mut decoder = RleDecoder::new(bits);
    decoder.set_data(data).map_err(damaged)?;
    Ok(decoder)
}

fn damaged(e: ParquetError) -> Error {
    Error::corrupt("dictionary keys of a page cannot be read").caused_by(e)
}

/// The numbers of a page: `None` where it holds values, which is right where all rows are null.
fn keys_of(encoding: Encoding, values: Bytes) -> Result<Option<RleDecoder>> {
    if !matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY) {
        return Ok(None);
    }
    match values.first() {
        None => Ok(None),
        Some(bits) if *bits > 32 => Err(Error::corrupt(format!("dictionary keys of {bits} bits"))),
        Some(bits) => runs(*bits, values.slice(1..)).map(Some),
    }
}

fn read_keys(decoder: Option<&mut RleDecoder>, keys: &mut [u32]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let lacks =
        || Error::corrupt("a page has no dictionary keys, although the footer says that it is dictionary-encoded");
    match decoder.ok_or_else(lacks)?.get_batch(keys).map_err(damaged)? {
        read if read == keys.len() => Ok(()),
        _ => Err(cut()),
    }
}

impl Levels {
    fn read(&mut self, present: &mut [u8]) -> Result<()> {
        match self {
            Self::Runs(decoder) => match decoder.get_batch(present).map_err(damaged)? {
                read if read == present.len() => Ok(()),
                _ => Err(cut()),
            },
            Self::Bits(bytes, next) => {
                for level in present {
                    *level = bytes.get(*next / 8).map_or(0, |byte| byte >> (7 - *next % 8) & 1);
                    *next += 1;
                }
                Ok(())
            }
        }
    }
}
