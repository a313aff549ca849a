//! A column chunk in which every row has the same string, encoded in constant time.
//!
//! The general encoder hashes and compares the value once for each row, but the pages have the same few bytes for any
//! number of rows: a dictionary of one value, one run of definition levels, one run of dictionary keys.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescPtr;

use super::dictionary_page::put_string;
use super::encoded_chunk::{EncodedChunk, encode_error, offset};
use super::rle_run::run;
use crate::page_header::{PageHeader, PageKind};
use hoodoo_runtime::error::{Error, Result};

/// Encodes the chunk of a flat string column with `rows` times the same value.
///
/// # Errors
/// `Schema` for a repeated column, or too many rows for a page.
pub fn constant_chunk(descriptor: &ColumnDescPtr, value: &str, rows: usize, checksums: bool) -> Result<EncodedChunk> {
    let count = u32::try_from(rows).map_err(|_| Error::schema("a row group has more than 4 billion rows"))?;
    if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        return Err(Error::schema("a nested column cannot be set to a constant").with("column", descriptor.name()));
    }
    let page = |kind, values, encoding, body: &[u8]| -> Result<Vec<u8>> {
        let uncompressed = i32::try_from(body.len()).map_err(|_| Error::schema("a string has 2 GiB or more"))?;
        let header = PageHeader { kind, values, encoding, uncompressed: uncompressed.cast_unsigned() };
        Ok([&header.encode(body, checksums), body].concat())
    };
    let mut plain = Vec::with_capacity(value.len() + size_of::<u32>());
    put_string(value, &mut plain)?;
    let dictionary = page(PageKind::Dictionary, 1, Encoding::PLAIN, &plain)?;
    let data = data_body(count, descriptor.max_def_level() == 1);
    let data = page(PageKind::Data, count, Encoding::RLE_DICTIONARY, &data)?;
    let (data_at, data_size) = (dictionary.len() as u64, data.len());
    let bytes = Bytes::from([dictionary, data].concat());
    let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let page_stats = |page_type, encoding| PageEncodingStats { page_type, encoding, count: 1 };
    let bound = || Some(ByteArray::from(value));
    let metadata = ColumnChunkMetaData::builder(descriptor.clone())
        .set_compression(Compression::UNCOMPRESSED)
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_page_encoding_stats(vec![
            page_stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN),
            page_stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY),
        ])
        .set_total_compressed_size(size)
        .set_total_uncompressed_size(size)
        .set_num_values(i64::from(count))
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(offset(data_at))
        .set_statistics(Statistics::ByteArray(
            ValueStatistics::new(bound(), bound(), None, Some(0), false).with_backwards_compatible_min_max(false),
        ))
        .build()
        .map_err(encode_error)?;
    let location = PageLocation {
        offset: offset(data_at),
        compressed_page_size: i32::try_from(data_size).unwrap_or(i32::MAX),
        first_row_index: 0,
    };
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: u64::from(count),
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: Some(OffsetIndexMetaData {
            page_locations: vec![location],
            unencoded_byte_array_data_bytes: None,
        }),
    };
    Ok(EncodedChunk { bytes, close })
}

fn data_body(rows: u32, optional: bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(24);
    if optional {
        let levels = run(rows, 1);
        body.extend_from_slice(&(levels.len() as u32).to_le_bytes());
        body.extend_from_slice(&levels);
    }
    // Keys of one bit, although one value needs none: every reader supports runs of one bit.
    body.push(1);
    body.extend_from_slice(&run(rows, 0));
    body
}
