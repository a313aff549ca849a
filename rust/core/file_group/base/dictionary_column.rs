//! A column chunk of strings that came with their dictionary: what is encoded are the keys that rows have already.
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

use super::chunk_pages::{ChunkPages, PAGE_ROWS, PageValues, bits_for, levels, put_keys};
use super::constant_column::EncodedChunk;
use super::options::PageFormat;
use super::page_codec::PageContent;
use crate::error::{Error, Result};

/// Longer strings do not stand whole in statistics.
pub(super) const LONGEST_STRING: usize = 256;
/// Number of a row without a text.
const NULL: u32 = u32::MAX;

/// Texts with the keys of the rows that have them.
pub(super) type DictionaryStrings = DictionaryArray<Int32Type>;

/// The chunk of a flat text column with the rows of these arrays; `None` when it has too many or too long strings to be worth
/// a dictionary of at most `dictionary_bytes`.
///
/// # Errors
/// `Schema` when rows without a text are in a column that has to have one.
pub(super) fn dictionary_chunk(
    descriptor: &ColumnDescPtr,
    arrays: &[DictionaryStrings],
    format: PageFormat,
    dictionary_bytes: usize,
) -> Result<Option<EncodedChunk>> {
    if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        return Ok(None);
    }
    // A dictionary without strings is legal, but nothing that other readers meet every day.
    let Some(keyed) = KeyedStrings::of(arrays, dictionary_bytes).filter(|n| !n.strings.is_empty()) else {
        return Ok(None);
    };
    let optional = descriptor.max_def_level() == 1;
    if !optional && keyed.rows.contains(&NULL) {
        return Err(Error::schema("a required column has no value in some row").with("column", descriptor.name()));
    }
    let mut pages = ChunkPages::new(Type::BYTE_ARRAY, format, Encoding::RLE_DICTIONARY, PageContent::Any)?;
    pages.dictionary(keyed.plain()?, keyed.strings.len())?;
    let bits = bits_for(keyed.strings.len());
    for rows in keyed.rows.chunks(PAGE_ROWS) {
        let present = || rows.iter().filter(|key| **key != NULL);
        let nulls = rows.len() - present().count();
        let levels = optional.then(|| levels(rows.len(), nulls, rows.iter().map(|key| *key != NULL)));
        let keys: Cow<'_, [u32]> =
            if nulls == 0 { rows.into() } else { present().copied().collect::<Vec<u32>>().into() };
        let (min, max) = match keyed.ends(rows) {
            Some(ends) => ends,
            None if keys.is_empty() => Default::default(),
            None => return Err(Error::internal("a row has a string that its dictionary does not have")),
        };
        pages.data(PageValues {
            rows: rows.len(),
            nulls,
            levels: levels.transpose()?,
            put: &|body| put_keys(body, bits, &keys),
            ends: (min.into(), max.into()),
        })?;
    }
    let nulls = pages.nulls() as usize;
    pages.check(arrays.iter().map(Array::len).sum(), nulls)?;
    let bound = |text: Option<&&str>| text.map(|text| ByteArray::from(*text));
    let (min, max) = (bound(keyed.ordered.first()), bound(keyed.ordered.last()));
    let statistics = ValueStatistics::new(min, max, None, Some(pages.nulls()), false);
    let statistics = Statistics::ByteArray(statistics.with_backwards_compatible_min_max(false));
    pages.finish(descriptor, Some(statistics)).map(Some)
}

/// The strings of a row group, keyed as they come, and the key of each row.
struct KeyedStrings<'a> {
    strings: Vec<&'a str>,
    rows: Vec<u32>,
    /// The place of each text among all of them in the order of their bytes.
    ranks: Vec<u32>,
    /// The strings in that order.
    ordered: Vec<&'a str>,
}

impl<'a> KeyedStrings<'a> {
    fn of(arrays: &'a [DictionaryStrings], dictionary_bytes: usize) -> Option<Self> {
        let mut keys: HashMap<&str, u32, ahash::RandomState> = HashMap::default();
        let mut strings: Vec<&str> = Vec::new();
        let mut rows = Vec::with_capacity(arrays.iter().map(Array::len).sum());
        let mut bytes = 0;
        // Numbers of the strings of one dictionary, as far as they were met; arrays mostly share one.
        let mut known: Vec<Option<u32>> = Vec::new();
        let mut dictionary: Option<&StringArray> = None;
        for array in arrays {
            let values = array.values().as_string_opt::<i32>()?;
            if !dictionary.is_some_and(|before| std::ptr::eq(before, values)) {
                known.clear();
                known.resize(values.len(), None);
                dictionary = Some(values);
            }
            for key in array.keys() {
                let Some(key) = key.and_then(|key| usize::try_from(key).ok()).filter(|key| values.is_valid(*key))
                else {
                    rows.push(NULL);
                    continue;
                };
                let slot = known.get_mut(key)?;
                let key = match slot {
                    Some(key) => *key,
                    None => {
                        let text = values.value(key);
                        let new = u32::try_from(strings.len()).ok()?;
                        let key = *keys.entry(text).or_insert(new);
                        if key == new {
                            bytes += text.len() + size_of::<u32>();
                            if bytes > dictionary_bytes || text.len() > LONGEST_STRING {
                                return None;
                            }
                            strings.push(text);
                        }
                        *slot.insert(key)
                    }
                };
                rows.push(key);
            }
        }
        let mut order: Vec<(&str, usize)> = strings.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut ranks = vec![0; strings.len()];
        for (rank, (_, key)) in (0..).zip(&order) {
            *ranks.get_mut(*key)? = rank;
        }
        Some(Self { strings, rows, ranks, ordered: order.into_iter().map(|(text, _)| text).collect() })
    }

    /// The strings as a dictionary page has them.
    fn plain(&self) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        for text in &self.strings {
            let length = u32::try_from(text.len()).map_err(|_| Error::schema("a text of more than 4 GiB"))?;
            plain.extend_from_slice(&length.to_le_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        Ok(plain)
    }

    /// Least and greatest text of some rows.
    fn ends(&self, rows: &[u32]) -> Option<(&'a str, &'a str)> {
        let ranks = rows.iter().filter_map(|key| self.ranks.get(*key as usize));
        let (min, max) = ranks.fold((u32::MAX, 0), |(min, max), rank| (min.min(*rank), max.max(*rank)));
        Some((*self.ordered.get(min as usize)?, *self.ordered.get(max as usize)?))
    }
}
