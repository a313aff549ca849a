//! Writes the pages of a column chunk without the general encoder.

use bytes::Bytes;
use parquet::basic::{BoundaryOrder, Encoding, PageType, Type};
use parquet::column::writer::ColumnCloseResult;
use parquet::encodings::rle::RleEncoder;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, PageEncodingStats};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::encoded_chunk::{EncodedChunk, encode_error, offset};
use super::page_codec::{PageCodec, PageContent};
use super::rle_run::run;
use crate::PageFormat;
use crate::page_header::{PageHeader, PageKind};
use hoodoo_runtime::error::{Error, Result};

/// Maximum rows of a page, as in other columns.
pub const PAGE_ROWS: usize = 20_000;
/// Keys that are passed to the encoder at once.
const KEYS_AT_ONCE: usize = 1024;
/// Bytes of the length of levels.
pub(crate) const LEVEL_BYTES: usize = size_of::<u32>();

/// Writes the pages of a flat column.
pub(crate) struct ChunkPages {
    bytes: Vec<u8>,
    format: PageFormat,
    codec: Option<PageCodec>,
    /// The current page.
    body: Vec<u8>,
    pub(super) dictionary_at: Option<u64>,
    encoding: Encoding,
    locations: Vec<PageLocation>,
    index: ColumnIndexBuilder,
    rows: usize,
    nulls: usize,
    uncompressed: usize,
}

/// The content of a data page.
pub(crate) struct PageValues<'v> {
    pub rows: usize,
    pub nulls: usize,
    /// Definition levels; `None` for a required column.
    pub levels: Option<Vec<u8>>,
    /// Appends the encoded values.
    pub put: &'v dyn Fn(&mut Vec<u8>),
    /// Minimum and maximum, as in statistics.
    pub ends: (Vec<u8>, Vec<u8>),
}

impl ChunkPages {
    /// `encoding` is that of the values in data pages.
    pub(crate) fn new(physical: Type, format: PageFormat, encoding: Encoding, content: PageContent) -> Result<Self> {
        Ok(Self {
            bytes: Vec::new(),
            format,
            codec: PageCodec::get(format.codec, content)?,
            body: Vec::new(),
            dictionary_at: None,
            encoding,
            locations: Vec::new(),
            index: ColumnIndexBuilder::new(physical),
            rows: 0,
            nulls: 0,
            uncompressed: 0,
        })
    }

    /// Writes a page: its offset and its bytes with the header.
    pub(super) fn write(
        &mut self,
        body: &[u8],
        kind: PageKind,
        values: u32,
        encoding: Encoding,
    ) -> Result<(u64, usize)> {
        let stored = match &mut self.codec {
            None => body,
            Some(codec) => codec.compress(body)?,
        };
        let too_large = |_| Error::schema("a page has 2 GiB or more");
        i32::try_from(stored.len()).map_err(too_large)?;
        let uncompressed = i32::try_from(body.len()).map_err(too_large)?.cast_unsigned();
        let header = PageHeader { kind, values, encoding, uncompressed }.encode(stored, self.format.checksums);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(stored);
        self.uncompressed += header.len() + body.len();
        Ok((at as u64, self.bytes.len() - at))
    }

    /// Writes a data page.
    pub(crate) fn data(&mut self, values: PageValues<'_>) -> Result<()> {
        let PageValues { rows, nulls, levels, put, ends } = values;
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        if let Some(levels) = levels {
            body.extend_from_slice(&level_bytes(&levels));
            body.extend_from_slice(&levels);
        }
        put(&mut body);
        let done = self.encoded(rows, nulls, &body, ends);
        self.body = body;
        done
    }

    /// Writes a data page from its bytes: levels with their length, and values.
    pub(crate) fn encoded(
        &mut self,
        rows: usize,
        nulls: usize,
        body: &[u8],
        (least, most): (Vec<u8>, Vec<u8>),
    ) -> Result<()> {
        let num_values = u32::try_from(rows).map_err(|_| Error::schema("a page has more than 4 billion rows"))?;
        let (at, size) = self.write(body, PageKind::Data, num_values, self.encoding)?;
        self.locations.push(PageLocation {
            offset: offset(at),
            compressed_page_size: i32::try_from(size).unwrap_or(i32::MAX),
            first_row_index: i64::try_from(self.rows).unwrap_or(i64::MAX),
        });
        self.index.append(nulls == rows, least, most, i64::try_from(nulls).unwrap_or(i64::MAX), None);
        self.rows += rows;
        self.nulls += nulls;
        Ok(())
    }

    /// Sets the order of the minima and maxima of the pages.
    pub(crate) fn set_order(&mut self, order: BoundaryOrder) {
        self.index.set_boundary_order(order);
    }

    /// Bytes in the file so far.
    pub(crate) fn written(&self) -> usize {
        self.bytes.len()
    }

    /// Number of nulls.
    pub(crate) fn nulls(&self) -> u64 {
        self.nulls as u64
    }

    /// Checks that the pages have all rows and values of a chunk.
    ///
    /// # Errors
    /// `Internal` if they do not.
    pub(crate) fn check(&self, rows: usize, nulls: usize) -> Result<()> {
        if self.rows == rows && self.nulls == nulls {
            return Ok(());
        }
        Err(Error::internal(format!(
            "the pages of a column have {} rows and {} nulls, the column has {rows} and {nulls}",
            self.rows, self.nulls
        )))
    }

    /// Ends the chunk; without statistics it has no column index.
    pub(crate) fn finish(mut self, descriptor: &ColumnDescPtr, statistics: Option<Statistics>) -> Result<EncodedChunk> {
        if let Some(codec) = self.codec.take() {
            codec.put_back();
        }
        let bytes = Bytes::from(self.bytes);
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let pages = i32::try_from(self.locations.len()).unwrap_or(i32::MAX);
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let mut encodings = vec![Encoding::PLAIN, Encoding::RLE];
        let mut page_stats = Vec::new();
        if self.dictionary_at.is_some() {
            encodings.push(self.encoding);
            page_stats.push(stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1));
        }
        page_stats.push(stats(PageType::DATA_PAGE, self.encoding, pages));
        let metadata = ColumnChunkMetaData::builder(descriptor.clone())
            .set_compression(self.format.codec)
            .set_encodings(encodings)
            .set_page_encoding_stats(page_stats)
            .set_total_compressed_size(count(bytes.len()))
            .set_total_uncompressed_size(count(self.uncompressed))
            .set_num_values(count(self.rows))
            .set_dictionary_page_offset(self.dictionary_at.map(offset))
            .set_data_page_offset(self.locations.first().map_or(0, |page| page.offset));
        let with_index = statistics.is_some();
        let metadata = match statistics {
            Some(statistics) => metadata.set_statistics(statistics),
            None => metadata,
        };
        let metadata = metadata.build().map_err(encode_error)?;
        let index = if with_index { Some(self.index.build().map_err(encode_error)?) } else { None };
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: index,
            offset_index: Some(OffsetIndexMetaData {
                page_locations: self.locations,
                unencoded_byte_array_data_bytes: None,
            }),
        };
        Ok(EncodedChunk { bytes, close })
    }
}

/// The length that precedes levels in a page.
pub(crate) fn level_bytes(levels: &[u8]) -> [u8; LEVEL_BYTES] {
    u32::try_from(levels.len()).unwrap_or(u32::MAX).to_le_bytes()
}

/// Encodes definition levels. `present` is used only if there are nulls.
pub fn levels(rows: usize, nulls: usize, present: impl Iterator<Item = bool>) -> Result<Vec<u8>> {
    if nulls == 0 {
        let rows = u32::try_from(rows).map_err(|_| Error::schema("a page has more than 4 billion rows"))?;
        return Ok(run(rows, 1));
    }
    let mut encoder = RleEncoder::new(1, RleEncoder::max_buffer_size(1, rows));
    present.for_each(|present| encoder.put(u64::from(present)));
    Ok(encoder.consume())
}

/// Appends dictionary keys of `bits` bits each.
pub(crate) fn put_keys(body: &mut Vec<u8>, bits: u8, keys: &[u32]) {
    body.push(bits);
    let mut encoder = RleEncoder::new(bits, RleEncoder::max_buffer_size(bits, keys.len()));
    let mut group = [0u64; KEYS_AT_ONCE];
    for keys in keys.chunks(KEYS_AT_ONCE) {
        group.iter_mut().zip(keys).for_each(|(to, from)| *to = u64::from(*from));
        // A chunk is never longer than the group.
        encoder.put_batch(group.get(..keys.len()).unwrap_or_default());
    }
    body.extend_from_slice(&encoder.consume());
}

/// Finds the order of minima and maxima of pages.
pub(crate) struct PageOrder<T> {
    last: Option<(T, T)>,
    ascending: bool,
    descending: bool,
}

impl<T> Default for PageOrder<T> {
    fn default() -> Self {
        Self { last: None, ascending: true, descending: true }
    }
}

impl<T: Ord> PageOrder<T> {
    pub(crate) fn add(&mut self, ends: Option<(T, T)>) {
        let Some((least, most)) = ends else { return };
        if let Some((before_least, before_most)) = &self.last {
            self.ascending &= *before_least <= least && *before_most <= most;
            self.descending &= *before_least >= least && *before_most >= most;
        }
        self.last = Some((least, most));
    }

    pub(crate) fn found(&self) -> BoundaryOrder {
        match (self.ascending, self.descending) {
            (true, _) => BoundaryOrder::ASCENDING,
            (false, true) => BoundaryOrder::DESCENDING,
            (false, false) => BoundaryOrder::UNORDERED,
        }
    }
}

/// Bit width of dictionary keys for a number of entries. At least one, because every reader supports runs of one bit.
pub fn bits_for(entries: usize) -> u8 {
    let most = u32::try_from(entries).unwrap_or(u32::MAX).saturating_sub(1);
    u8::try_from(u32::BITS - most.leading_zeros()).unwrap_or(32).max(1)
}
