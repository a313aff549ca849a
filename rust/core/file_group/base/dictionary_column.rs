//! A column chunk of texts that came with their dictionary: what is encoded are the numbers that rows have already.
//!
//! Through the general encoder each text is hashed, compared with the one in the dictionary, and compared with the
//! least and the greatest, row by row. Here that is done once for each text.

use arrow::array::{Array, AsArray, DictionaryArray, StringArray};
use arrow::datatypes::Int32Type;
use bytes::Bytes;
use hashbrown::HashMap;
use parquet::basic::{Compression, Encoding, PageType, Type};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::compression::{Codec, CodecOptions, create_codec};
use parquet::data_type::ByteArray;
use parquet::encodings::rle::RleEncoder;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, PageEncodingStats};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::constant_column::{EncodedChunk, offset, run};
use super::row_group::encode_error;
use crate::error::{Error, Result};

/// Rows of a page, as in other columns.
const PAGE_ROWS: usize = 20_000;
/// Longer texts do not stand whole in statistics.
const LONGEST_TEXT: usize = 256;
/// Number of a row without a text.
const NULL: u32 = u32::MAX;

/// Texts with the numbers of the rows that have them.
pub(super) type Texts = DictionaryArray<Int32Type>;

/// The chunk of a flat text column with the rows of these pieces; `None` when it has too many or too long texts to be worth
/// a dictionary of at most `dictionary_bytes`.
///
/// # Errors
/// `Schema` when rows without a text are in a column that has to have one.
pub(super) fn dictionary_chunk(
    descriptor: &ColumnDescPtr,
    pieces: &[Texts],
    codec: Compression,
    dictionary_bytes: usize,
) -> Result<Option<EncodedChunk>> {
    if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        return Ok(None);
    }
    // A dictionary without texts is legal, but nothing that other readers meet every day.
    let Some(numbered) = Numbered::of(pieces, dictionary_bytes).filter(|n| !n.texts.is_empty()) else {
        return Ok(None);
    };
    let optional = descriptor.max_def_level() == 1;
    if !optional && numbered.rows.contains(&NULL) {
        return Err(Error::schema("a required column has no value in some row").with("column", descriptor.name()));
    }
    let mut pages = Pages::new(codec)?;
    pages.dictionary(&numbered)?;
    for rows in numbered.rows.chunks(PAGE_ROWS) {
        pages.data(&numbered, rows, optional)?;
    }
    pages.finish(descriptor, codec, &numbered).map(Some)
}

/// The texts of a row group, numbered as they come, and the number of each row.
struct Numbered<'a> {
    texts: Vec<&'a str>,
    rows: Vec<u32>,
    /// The place of each text among all of them in the order of their bytes.
    ranks: Vec<u32>,
    /// The texts in that order.
    ordered: Vec<&'a str>,
}

impl<'a> Numbered<'a> {
    fn of(pieces: &'a [Texts], dictionary_bytes: usize) -> Option<Self> {
        let mut numbers: HashMap<&str, u32, ahash::RandomState> = HashMap::default();
        let mut texts: Vec<&str> = Vec::new();
        let mut rows = Vec::with_capacity(pieces.iter().map(Array::len).sum());
        let mut bytes = 0;
        // Numbers of the texts of one dictionary, as far as they were met; pieces mostly share one.
        let mut known: Vec<Option<u32>> = Vec::new();
        let mut dictionary: Option<&StringArray> = None;
        for piece in pieces {
            let values = piece.values().as_string_opt::<i32>()?;
            if !dictionary.is_some_and(|before| std::ptr::eq(before, values)) {
                known.clear();
                known.resize(values.len(), None);
                dictionary = Some(values);
            }
            for key in piece.keys() {
                let Some(key) = key.and_then(|key| usize::try_from(key).ok()).filter(|key| values.is_valid(*key))
                else {
                    rows.push(NULL);
                    continue;
                };
                let slot = known.get_mut(key)?;
                let number = match slot {
                    Some(number) => *number,
                    None => {
                        let text = values.value(key);
                        let new = u32::try_from(texts.len()).ok()?;
                        let number = *numbers.entry(text).or_insert(new);
                        if number == new {
                            bytes += text.len() + size_of::<u32>();
                            if bytes > dictionary_bytes || text.len() > LONGEST_TEXT {
                                return None;
                            }
                            texts.push(text);
                        }
                        *slot.insert(number)
                    }
                };
                rows.push(number);
            }
        }
        let mut order: Vec<(&str, usize)> = texts.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut ranks = vec![0; texts.len()];
        for (rank, (_, number)) in (0..).zip(&order) {
            *ranks.get_mut(*number)? = rank;
        }
        Some(Self { texts, rows, ranks, ordered: order.into_iter().map(|(text, _)| text).collect() })
    }

    /// Bits of a number. One at least, as every reader knows runs of one bit.
    fn bits(&self) -> u8 {
        let most = u32::try_from(self.texts.len()).unwrap_or(u32::MAX).saturating_sub(1);
        u8::try_from(u32::BITS - most.leading_zeros()).unwrap_or(32).max(1)
    }

    /// Least and greatest text of some rows.
    fn ends(&self, rows: &[u32]) -> Option<(&'a str, &'a str)> {
        let ranks = rows.iter().filter_map(|number| self.ranks.get(*number as usize));
        let (least, most) = ranks.fold((u32::MAX, 0), |(least, most), rank| (least.min(*rank), most.max(*rank)));
        Some((*self.ordered.get(least as usize)?, *self.ordered.get(most as usize)?))
    }
}

/// The pages of a chunk in the making.
struct Pages {
    sink: TrackedWrite<Vec<u8>>,
    codec: Option<Box<dyn Codec>>,
    dictionary_at: u64,
    locations: Vec<PageLocation>,
    index: ColumnIndexBuilder,
    rows: usize,
    nulls: usize,
    uncompressed: usize,
    written: usize,
}

impl Pages {
    fn new(codec: Compression) -> Result<Self> {
        Ok(Self {
            sink: TrackedWrite::new(Vec::new()),
            codec: create_codec(codec, &CodecOptions::default()).map_err(encode_error)?,
            dictionary_at: 0,
            locations: Vec::new(),
            index: ColumnIndexBuilder::new(Type::BYTE_ARRAY),
            rows: 0,
            nulls: 0,
            uncompressed: 0,
            written: 0,
        })
    }

    /// Writes a page: its offset and its bytes with the header.
    fn write(&mut self, body: Vec<u8>, page: impl FnOnce(Bytes) -> Page) -> Result<(u64, usize)> {
        let size = body.len();
        let body = match &mut self.codec {
            None => body,
            Some(codec) => {
                let mut compressed = Vec::new();
                codec.compress(&body, &mut compressed).map_err(encode_error)?;
                compressed
            }
        };
        let page = CompressedPage::new(page(body.into()), size);
        let spec = SerializedPageWriter::new(&mut self.sink).write_page(page).map_err(encode_error)?;
        self.uncompressed += spec.uncompressed_size;
        self.written += spec.compressed_size;
        Ok((spec.offset, spec.compressed_size))
    }

    fn dictionary(&mut self, numbered: &Numbered<'_>) -> Result<()> {
        let mut plain = Vec::new();
        for text in &numbered.texts {
            let length = u32::try_from(text.len()).map_err(|_| Error::schema("a text of more than 4 GiB"))?;
            plain.extend_from_slice(&length.to_le_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        let num_values = u32::try_from(numbered.texts.len()).unwrap_or(u32::MAX);
        let page = |buf| Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false };
        (self.dictionary_at, _) = self.write(plain, page)?;
        Ok(())
    }

    fn data(&mut self, numbered: &Numbered<'_>, rows: &[u32], optional: bool) -> Result<()> {
        let num_values = u32::try_from(rows.len()).map_err(|_| Error::schema("a page of more than 4 billion rows"))?;
        let nulls = rows.iter().filter(|number| **number == NULL).count();
        let mut body = Vec::new();
        if optional {
            let levels = if nulls == 0 {
                run(num_values, 1)
            } else {
                let mut encoder = RleEncoder::new(1, RleEncoder::max_buffer_size(1, rows.len()));
                rows.iter().for_each(|number| encoder.put(u64::from(*number != NULL)));
                encoder.consume()
            };
            body.extend_from_slice(&u32::try_from(levels.len()).unwrap_or(u32::MAX).to_le_bytes());
            body.extend_from_slice(&levels);
        }
        let bits = numbered.bits();
        body.push(bits);
        let mut encoder = RleEncoder::new(bits, RleEncoder::max_buffer_size(bits, rows.len()));
        rows.iter().filter(|number| **number != NULL).for_each(|number| encoder.put(u64::from(*number)));
        body.extend_from_slice(&encoder.consume());
        let page = |buf| Page::DataPage {
            buf,
            num_values,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let (at, size) = self.write(body, page)?;
        self.locations.push(PageLocation {
            offset: offset(at),
            compressed_page_size: i32::try_from(size).unwrap_or(i32::MAX),
            first_row_index: i64::try_from(self.rows).unwrap_or(i64::MAX),
        });
        let (least, most) = numbered.ends(rows).unwrap_or_default();
        let null_count = i64::try_from(nulls).unwrap_or(i64::MAX);
        self.index.append(nulls == rows.len(), least.into(), most.into(), null_count, None);
        self.rows += rows.len();
        self.nulls += nulls;
        Ok(())
    }

    fn finish(self, descriptor: &ColumnDescPtr, codec: Compression, numbered: &Numbered<'_>) -> Result<EncodedChunk> {
        let bytes = Bytes::from(self.sink.into_inner().map_err(encode_error)?);
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let pages = i32::try_from(self.locations.len()).unwrap_or(i32::MAX);
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let bound = |text: Option<&&str>| text.map(|text| ByteArray::from(*text));
        let (least, most) = (bound(numbered.ordered.first()), bound(numbered.ordered.last()));
        let nulls = Some(self.nulls as u64);
        let statistics = ValueStatistics::new(least, most, None, nulls, false).with_backwards_compatible_min_max(false);
        let metadata = ColumnChunkMetaData::builder(descriptor.clone())
            .set_compression(codec)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![
                stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, pages),
            ])
            .set_total_compressed_size(count(self.written))
            .set_total_uncompressed_size(count(self.uncompressed))
            .set_num_values(count(self.rows))
            .set_dictionary_page_offset(Some(offset(self.dictionary_at)))
            .set_data_page_offset(self.locations.first().map_or(0, |page| page.offset))
            .set_statistics(Statistics::ByteArray(statistics))
            .build()
            .map_err(encode_error)?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: Some(self.index.build().map_err(encode_error)?),
            offset_index: Some(OffsetIndexMetaData {
                page_locations: self.locations,
                unencoded_byte_array_data_bytes: None,
            }),
        };
        Ok(EncodedChunk { bytes, close })
    }
}
