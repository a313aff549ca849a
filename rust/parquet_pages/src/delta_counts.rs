//! How many lengths a page of delta-encoded strings announces: the Parquet library takes memory for all of them at once, before
//! it looks at the first.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

/// A page may hold so many strings, however few bytes they take.
const ALWAYS: u64 = 1 << 24;

/// Whether the strings of a page with this encoding, as its header says it, have their lengths in front.
pub(crate) fn has_lengths(encoding: i64) -> bool {
    const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
    const DELTA_BYTE_ARRAY: i64 = 7;
    matches!(encoding, DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY)
}

/// Refuses the page at `start`, with its header of `length` bytes altogether, if it announces more strings than it can hold.
/// A page that cannot be read is left to the reader.
pub(crate) fn check<R: ChunkReader>(inner: &R, chunk: &ColumnChunkMetaData, start: u64, length: u64) -> Result<()> {
    let Some(page) = page_at(inner, chunk, start, length) else { return Ok(()) };
    match too_many(&page, chunk) {
        Some(count) => Err(ParquetError::General(format!(
            "a page of {} values in {} bytes announces {count} strings",
            page.num_values(),
            page.buffer().len()
        ))),
        None => Ok(()),
    }
}

fn page_at<R: ChunkReader>(inner: &R, chunk: &ColumnChunkMetaData, start: u64, length: u64) -> Option<Page> {
    /// The same file, behind a pointer.
    struct Shared<'r, R>(&'r R);
    impl<R: ChunkReader> parquet::file::reader::Length for Shared<'_, R> {
        fn len(&self) -> u64 {
            self.0.len()
        }
    }
    impl<R: ChunkReader> ChunkReader for Shared<'_, R> {
        type T = R::T;

        fn get_read(&self, start: u64) -> Result<R::T> {
            self.0.get_read(start)
        }

        fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
            self.0.get_bytes(start, length)
        }
    }
    let alone = chunk.clone().into_builder().set_dictionary_page_offset(None);
    let alone = alone.set_data_page_offset(i64::try_from(start).ok()?);
    let alone = alone.set_total_compressed_size(i64::try_from(length).ok()?).build().ok()?;
    let rows = usize::try_from(chunk.num_values()).ok()?;
    SerializedPageReader::new(Arc::new(Shared(inner)), &alone, rows, None).ok()?.get_next_page().ok()?
}

/// The strings that a page announces, if it cannot hold that many.
fn too_many(page: &Page, chunk: &ColumnChunkMetaData) -> Option<u64> {
    let values = values_of(page, chunk)?;
    let most = u64::from(page.num_values()).min(ALWAYS.max(values.len() as u64));
    let mut block = Block { bytes: values, at: 0 };
    let lengths = block.header()?;
    if lengths.count > most {
        return Some(lengths.count);
    }
    if page.encoding() != Encoding::DELTA_BYTE_ARRAY {
        return None;
    }
    // The lengths of what each string shares with the one before, then those of the rest.
    block.skip(&lengths)?;
    let rest = block.header()?.count;
    (rest > most || rest != lengths.count).then_some(rest)
}

/// The bytes behind the levels.
fn values_of<'p>(page: &'p Page, chunk: &ColumnChunkMetaData) -> Option<&'p [u8]> {
    match page {
        Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
            let column = chunk.column_descr();
            let rep = (column.max_rep_level(), *rep_level_encoding);
            let def = (column.max_def_level(), *def_level_encoding);
            let behind_rep = behind_levels(buf, rep, *num_values)?;
            behind_levels(behind_rep, def, *num_values)
        }
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            buf.get((*def_levels_byte_len as usize).checked_add(*rep_levels_byte_len as usize)?..)
        }
        Page::DictionaryPage { .. } => None,
    }
}

fn behind_levels(bytes: &[u8], (max, encoding): (i16, Encoding), values: u32) -> Option<&[u8]> {
    if max == 0 {
        return Some(bytes);
    }
    if encoding == Encoding::RLE {
        let length = u32::from_le_bytes(bytes.first_chunk().copied()?) as usize;
        return bytes.get(length.checked_add(4)?..);
    }
    let bits = u64::from(16 - max.cast_unsigned().leading_zeros());
    bytes.get(usize::try_from((bits * u64::from(values)).div_ceil(8)).ok()?..)
}

/// Numbers by `DELTA_BINARY_PACKED`.
struct Block<'b> {
    bytes: &'b [u8],
    at: usize,
}

struct Header {
    /// Numbers in a miniblock.
    miniblock: u64,
    /// Miniblocks in a block.
    miniblocks: usize,
    /// Numbers altogether.
    count: u64,
}

impl Block<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn header(&mut self) -> Option<Header> {
        let (size, miniblocks, count) = (self.varint()?, self.varint()?, self.varint()?);
        self.varint()?;
        Some(Header { miniblock: size.checked_div(miniblocks)?, miniblocks: usize::try_from(miniblocks).ok()?, count })
    }

    /// Goes to what is behind the numbers.
    fn skip(&mut self, header: &Header) -> Option<()> {
        // The first one is in the header.
        let mut left = header.count.saturating_sub(1);
        if left > 0 && header.miniblock == 0 {
            return None;
        }
        while left > 0 {
            self.varint()?;
            let widths = self.bytes.get(self.at..self.at.checked_add(header.miniblocks)?)?;
            self.at += header.miniblocks;
            for width in widths {
                // Behind the last number, widths mean nothing.
                if left > 0 {
                    let bytes = u64::from(*width).checked_mul(header.miniblock)? / 8;
                    self.at = self.at.checked_add(usize::try_from(bytes).ok()?)?;
                    left = left.saturating_sub(header.miniblock);
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    /// A file of strings, some of them null.
    fn file(encoding: Encoding, version: WriterVersion, rows: usize) -> Bytes {
        let strings = (0..rows).map(|n| (n % 7 != 0).then(|| format!("key {:05}", n * 37 % 1000)));
        let column: ArrayRef = Arc::new(strings.collect::<StringArray>());
        let batch = RecordBatch::try_from_iter_with_nullable([("s", column, true)]).unwrap();
        let properties = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(encoding);
        let mut writer =
            ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.set_writer_version(version).build()))
                .unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap().into()
    }

    #[test]
    fn strings_of_good_pages() {
        for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                for rows in [1, 2, 8, 129, 300, 50_000] {
                    let file = SerializedFileReader::new(file(encoding, version, rows)).unwrap();
                    let group = file.get_row_group(0).unwrap();
                    let chunk = group.metadata().column(0).clone();
                    let mut pages = group.get_column_page_reader(0).unwrap();
                    while let Some(page) = pages.get_next_page().unwrap() {
                        assert_eq!(page.encoding(), encoding);
                        assert_eq!(too_many(&page, &chunk), None, "{encoding} {version:?} {rows}");
                        let values = values_of(&page, &chunk).unwrap();
                        let mut block = Block { bytes: values, at: 0 };
                        let lengths = block.header().unwrap();
                        let nulls = rows.div_ceil(7);
                        if rows < 10_000 {
                            assert_eq!(lengths.count as usize, rows - nulls);
                        }
                        block.skip(&lengths).unwrap();
                        if encoding == Encoding::DELTA_BYTE_ARRAY {
                            assert_eq!(block.header().unwrap().count, lengths.count);
                        }
                    }
                }
            }
        }
    }
}
