//! A column chunk of texts that came with their dictionary: what is encoded are the numbers that rows have already.
//!
//! Through the general encoder each text is hashed, compared with the one in the dictionary, and compared with the
//! least and the greatest, row by row. Here that is done once for each text.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, DictionaryArray, StringArray};
use arrow::datatypes::Int32Type;
use hashbrown::HashMap;
use parquet::basic::{Encoding, Type};
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescPtr;

use super::chunk_pages::{ChunkPages, PAGE_ROWS, PageValues, bits_for, levels, put_numbers};
use super::constant_column::EncodedChunk;
use super::options::PageFormat;
use super::page_codec::PageContent;
use crate::error::{Error, Result};

/// Longer texts do not stand whole in statistics.
pub(super) const LONGEST_TEXT: usize = 256;
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
    format: PageFormat,
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
    let mut pages = ChunkPages::new(Type::BYTE_ARRAY, format, Encoding::RLE_DICTIONARY, PageContent::Any)?;
    pages.dictionary(numbered.plain()?, numbered.texts.len())?;
    let bits = bits_for(numbered.texts.len());
    for rows in numbered.rows.chunks(PAGE_ROWS) {
        let present = || rows.iter().filter(|number| **number != NULL);
        let nulls = rows.len() - present().count();
        let levels = optional.then(|| levels(rows.len(), nulls, rows.iter().map(|number| *number != NULL)));
        let numbers: Cow<'_, [u32]> =
            if nulls == 0 { rows.into() } else { present().copied().collect::<Vec<u32>>().into() };
        let (least, most) = match numbered.ends(rows) {
            Some(ends) => ends,
            None if numbers.is_empty() => Default::default(),
            None => return Err(Error::internal("a row has a string that its dictionary does not have")),
        };
        pages.data(PageValues {
            rows: rows.len(),
            nulls,
            levels: levels.transpose()?,
            put: &|body| put_numbers(body, bits, &numbers),
            ends: (least.into(), most.into()),
        })?;
    }
    let nulls = pages.nulls() as usize;
    pages.check(pieces.iter().map(Array::len).sum(), nulls)?;
    let bound = |text: Option<&&str>| text.map(|text| ByteArray::from(*text));
    let (least, most) = (bound(numbered.ordered.first()), bound(numbered.ordered.last()));
    let statistics = ValueStatistics::new(least, most, None, Some(pages.nulls()), false);
    let statistics = Statistics::ByteArray(statistics.with_backwards_compatible_min_max(false));
    pages.finish(descriptor, Some(statistics)).map(Some)
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

    /// The texts as a dictionary page has them.
    fn plain(&self) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        for text in &self.texts {
            let length = u32::try_from(text.len()).map_err(|_| Error::schema("a text of more than 4 GiB"))?;
            plain.extend_from_slice(&length.to_le_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        Ok(plain)
    }

    /// Least and greatest text of some rows.
    fn ends(&self, rows: &[u32]) -> Option<(&'a str, &'a str)> {
        let ranks = rows.iter().filter_map(|number| self.ranks.get(*number as usize));
        let (least, most) = ranks.fold((u32::MAX, 0), |(least, most), rank| (least.min(*rank), most.max(*rank)));
        Some((*self.ordered.get(least as usize)?, *self.ordered.get(most as usize)?))
    }
}
