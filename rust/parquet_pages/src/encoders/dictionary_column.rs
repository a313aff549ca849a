//! A column chunk of strings in dictionary arrays: encodes the dictionary keys that rows have already.
//!
//! The general encoder hashes and compares each string, row by row. Here that is done once for each distinct string.

use std::borrow::Cow;

use arrow::array::{Array, AsArray, DictionaryArray, StringArray};
use arrow::datatypes::Int32Type;
use hashbrown::HashMap;
use parquet::basic::{Encoding, Type};
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescPtr;

use super::chunk_pages::{ChunkPages, PAGE_ROWS, PageValues, bits_for, levels, put_keys};
use super::dictionary_page::put_string;
use super::encoded_chunk::EncodedChunk;
use super::page_codec::PageContent;
use crate::PageFormat;
use hoodoo_runtime::error::{Error, Result};

/// Longer strings are truncated in statistics.
pub(crate) const LONGEST_STRING: usize = 256;
/// Key of a null.
const NULL: u32 = u32::MAX;

/// Strings with dictionary keys.
pub type DictionaryStrings = DictionaryArray<Int32Type>;

/// Encodes the chunk of a flat string column; `None` if its strings are too many or too long for a dictionary of at
/// most `dictionary_bytes`.
///
/// # Errors
/// `Schema` for a null in a required column.
pub fn dictionary_chunk(
    descriptor: &ColumnDescPtr,
    arrays: &[DictionaryStrings],
    format: PageFormat,
    dictionary_bytes: usize,
) -> Result<Option<EncodedChunk>> {
    if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        return Ok(None);
    }
    // An empty dictionary is legal, but rare, so other readers may not support it.
    let Some(keyed) = KeyedStrings::of(arrays, dictionary_bytes).filter(|n| !n.strings.is_empty()) else {
        return Ok(None);
    };
    let optional = descriptor.max_def_level() == 1;
    if !optional && keyed.rows.contains(&NULL) {
        return Err(Error::schema("a required column has a null").with("column", descriptor.name()));
    }
    let mut pages = ChunkPages::new(Type::BYTE_ARRAY, format, Encoding::RLE_DICTIONARY, PageContent::Any)?;
    pages.dictionary(&keyed.plain()?, keyed.strings.len())?;
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
            None => return Err(Error::internal("a row has a dictionary key without a value")),
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

/// The distinct strings of a row group, and the dictionary key of each row.
struct KeyedStrings<'a> {
    strings: Vec<&'a str>,
    rows: Vec<u32>,
    /// The rank of each string in byte order.
    ranks: Vec<u32>,
    /// The strings in byte order.
    ordered: Vec<&'a str>,
}

impl<'a> KeyedStrings<'a> {
    fn of(arrays: &'a [DictionaryStrings], dictionary_bytes: usize) -> Option<Self> {
        let mut keys: HashMap<&str, u32, ahash::RandomState> = HashMap::default();
        let mut strings: Vec<&str> = Vec::new();
        let mut rows = Vec::with_capacity(arrays.iter().map(Array::len).sum());
        let mut bytes = 0;
        // Keys of the strings of one input dictionary; arrays mostly share one.
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

    /// The strings in the format of a dictionary page.
    fn plain(&self) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        self.strings.iter().try_for_each(|string| put_string(string, &mut plain))?;
        Ok(plain)
    }

    /// Minimum and maximum of some rows.
    fn ends(&self, rows: &[u32]) -> Option<(&'a str, &'a str)> {
        let ranks = rows.iter().filter_map(|key| self.ranks.get(*key as usize));
        let (min, max) = ranks.fold((u32::MAX, 0), |(min, max), rank| (min.min(*rank), max.max(*rank)));
        Some((*self.ordered.get(min as usize)?, *self.ordered.get(max as usize)?))
    }
}
