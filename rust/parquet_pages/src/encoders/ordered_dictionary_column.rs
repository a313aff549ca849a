//! A column chunk of dictionary arrays that share one sorted dictionary, which may have far more values than the chunk.
//!
//! The dictionary keys have the order of the values, so no values are hashed or compared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, StringArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, Int32Type, UInt8Type, UInt16Type, UInt32Type,
};
use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescPtr;

use super::chunk_pages::{ChunkPages, PAGE_ROWS, PageOrder, PageValues, bits_for, levels, put_keys};
use super::dictionary_column::LONGEST_STRING;
use super::dictionary_page::put_string;
use super::encoded_chunk::EncodedChunk;
use super::number_column::{NumberValues, number_values};
use super::page_codec::PageContent;
use crate::PageFormat;
use hoodoo_runtime::error::{Error, Result};

/// Marks a value of the dictionary that no row of the chunk has.
const UNUSED: u32 = u32::MAX;
/// From this number of rows on, values that hardly repeat get no dictionary.
const TRIAL_ROWS: usize = 4096;

/// Settings of a column of dictionary arrays.
#[derive(Clone)]
pub struct OrderedDictionarySettings {
    /// The column.
    pub descriptor: ColumnDescPtr,
    /// How its pages are written.
    pub format: PageFormat,
    /// Maximum bytes of a dictionary.
    pub dictionary_bytes: usize,
}

/// Whether columns of this type are dictionary arrays.
pub fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(key, _) if matches!(**key, DataType::UInt8 | DataType::UInt16 | DataType::UInt32))
}

/// Encodes the chunk of these arrays. `None` if they do not share one sorted dictionary, or a dictionary in the file
/// does not pay off.
///
/// # Errors
/// `Schema` for a null in a required column.
pub fn ordered_dictionary_chunk(
    settings: &OrderedDictionarySettings,
    arrays: &[ArrayRef],
) -> Result<Option<EncodedChunk>> {
    match arrays.first().map(|array| array.data_type()) {
        Some(DataType::Dictionary(key, _)) => match key.as_ref() {
            DataType::UInt8 => encode::<UInt8Type>(settings, arrays),
            DataType::UInt16 => encode::<UInt16Type>(settings, arrays),
            DataType::UInt32 => encode::<UInt32Type>(settings, arrays),
            DataType::Int32 => encode::<Int32Type>(settings, arrays),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The values of a dictionary.
enum Entries<'a> {
    Numbers(NumberValues<'a>),
    Strings(&'a StringArray),
}

impl Entries<'_> {
    fn is_ascending(&self) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.is_ascending(),
            Self::Strings(strings) => {
                (1..strings.len()).all(|i| strings.value(i - 1).as_bytes() < strings.value(i).as_bytes())
            }
        }
    }

    /// Whether a dictionary of these values pays off for `rows` rows.
    fn are_worth_it(&self, used: &[usize], rows: usize, most_bytes: usize) -> bool {
        match self {
            Self::Numbers(numbers) => {
                let bytes = used.len() * numbers.width();
                let hardly_repeat = rows >= TRIAL_ROWS && used.len() * 2 > rows;
                let with_keys = bytes + rows * usize::from(bits_for(used.len())) / 8;
                !hardly_repeat && bytes <= most_bytes && with_keys <= rows * numbers.width()
            }
            Self::Strings(strings) => {
                let bytes = used.iter().map(|i| strings.value(*i).len() + size_of::<u32>()).sum::<usize>();
                bytes <= most_bytes && used.iter().all(|i| strings.value(*i).len() <= LONGEST_STRING)
            }
        }
    }

    /// Appends a value in the format of a dictionary page.
    fn put(&self, entry: usize, to: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Numbers(numbers) => {
                numbers.put(entry, to);
                Ok(())
            }
            Self::Strings(strings) => put_string(strings.value(entry), to),
        }
    }

    /// A value in the format of statistics.
    fn bytes(&self, entry: usize) -> Vec<u8> {
        match self {
            Self::Numbers(numbers) => {
                let mut bytes = Vec::new();
                numbers.put(entry, &mut bytes);
                bytes
            }
            Self::Strings(strings) => strings.value(entry).as_bytes().to_vec(),
        }
    }

    fn statistics(&self, min: usize, max: usize, nulls: u64, descriptor: &ColumnDescPtr) -> Statistics {
        match self {
            Self::Numbers(numbers) => numbers.statistics(min, max, nulls, descriptor.sort_order().is_signed()),
            Self::Strings(strings) => {
                let bound = |entry: usize| Some(ByteArray::from(strings.value(entry)));
                let statistics = ValueStatistics::new(bound(min), bound(max), None, Some(nulls), false);
                Statistics::ByteArray(statistics.with_backwards_compatible_min_max(false))
            }
        }
    }
}

fn encode<K: ArrowDictionaryKeyType>(
    settings: &OrderedDictionarySettings,
    arrays: &[ArrayRef],
) -> Result<Option<EncodedChunk>> {
    let descriptor = &settings.descriptor;
    let Some(arrays) = arrays.iter().map(|p| p.as_dictionary_opt::<K>()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let Some(entries) = shared_dictionary(&arrays, descriptor) else { return Ok(None) };
    let optional = descriptor.max_def_level() == 1;
    let nulls: usize = arrays.iter().map(|array| array.null_count()).sum();
    if !optional && nulls > 0 {
        return Err(Error::schema("a required column has a null").with("column", descriptor.name()));
    }
    let rows: usize = arrays.iter().map(|array| array.len()).sum();
    let (used, local) = used_values(&arrays);
    let (Some(min), Some(max)) = (used.first(), used.last()) else { return Ok(None) };
    if !entries.are_worth_it(&used, rows - nulls, settings.dictionary_bytes) {
        return Ok(None);
    }
    let mut pages =
        ChunkPages::new(descriptor.physical_type(), settings.format, Encoding::RLE_DICTIONARY, PageContent::Any)?;
    let mut plain = Vec::new();
    used.iter().try_for_each(|entry| entries.put(*entry, &mut plain))?;
    pages.dictionary(&plain, used.len())?;
    let mut order = PageOrder::default();
    let mut page = PageKeys::default();
    for array in arrays {
        let mut at = 0;
        while at < array.len() {
            let count = (PAGE_ROWS - page.rows).min(array.len() - at);
            page.add(array, at, count, &local);
            at += count;
            if page.rows == PAGE_ROWS {
                std::mem::take(&mut page).encode(&mut pages, &mut order, &entries, &used, optional)?;
            }
        }
    }
    if page.rows > 0 {
        page.encode(&mut pages, &mut order, &entries, &used, optional)?;
    }
    pages.check(rows, nulls)?;
    pages.set_order(order.found());
    let statistics = entries.statistics(*min, *max, pages.nulls(), descriptor);
    pages.finish(descriptor, Some(statistics)).map(Some)
}

/// The values of the dictionary that these arrays share. `None` if they share none, or it is not sorted.
fn shared_dictionary<'a, K: ArrowDictionaryKeyType>(
    arrays: &[&'a DictionaryArray<K>],
    descriptor: &ColumnDescPtr,
) -> Option<Entries<'a>> {
    let values = arrays.first()?.values();
    let entries = match values.data_type() {
        DataType::Utf8 => values.as_string_opt::<i32>().map(Entries::Strings),
        _ => number_values(values, descriptor).map(Entries::Numbers),
    };
    let is_shared = arrays.iter().all(|array| Arc::ptr_eq(array.values(), values));
    entries.filter(|entries| is_shared && values.null_count() == 0 && entries.is_ascending())
}

/// The values that occur in these arrays, and for each value of their dictionary its key among those, or [`UNUSED`].
fn used_values<K: ArrowDictionaryKeyType>(arrays: &[&DictionaryArray<K>]) -> (Vec<usize>, Vec<u32>) {
    let mut local = vec![UNUSED; arrays.first().map_or(0, |array| array.values().len())];
    arrays.iter().for_each(|array| mark(array, &mut local));
    let mut used = Vec::new();
    for (entry, local) in local.iter_mut().enumerate().filter(|(_, local)| **local != UNUSED) {
        *local = used.len() as u32;
        used.push(entry);
    }
    (used, local)
}

/// Marks the values that occur in an array.
fn mark<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>, local: &mut [u32]) {
    let mut note = |key: K::Native| {
        if let Some(local) = local.get_mut(key.as_usize()) {
            *local = 0;
        }
    };
    match array.keys().nulls().filter(|nulls| nulls.null_count() > 0) {
        None => array.keys().values().iter().for_each(|key| note(*key)),
        Some(_) => array.keys().iter().flatten().for_each(note),
    }
}

/// Rows of the current page.
#[derive(Default)]
struct PageKeys {
    rows: usize,
    /// Keys in the chunk's dictionary of the rows that are not null.
    keys: Vec<u32>,
    /// Which rows have a value; empty as long as all have.
    present: Vec<bool>,
}

impl PageKeys {
    fn add<K: ArrowDictionaryKeyType>(&mut self, array: &DictionaryArray<K>, at: usize, count: usize, local: &[u32]) {
        let keys = array.keys().values().get(at..at + count).unwrap_or_default();
        // Each value was marked before.
        let local_key = |key: &K::Native| local.get(key.as_usize()).copied().unwrap_or_default();
        match array.keys().nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                self.keys.extend(keys.iter().map(local_key));
                if !self.present.is_empty() {
                    self.present.resize(self.rows + count, true);
                }
            }
            Some(nulls) => {
                let nulls: NullBuffer = nulls.slice(at, count);
                self.present.resize(self.rows, true);
                self.present.extend(nulls.iter());
                self.keys.extend(keys.iter().zip(&nulls).filter(|(_, valid)| *valid).map(|(key, _)| local_key(key)));
            }
        }
        self.rows += count;
    }

    /// Writes the page. `used`: the entry of each key.
    fn encode(
        self,
        pages: &mut ChunkPages,
        order: &mut PageOrder<usize>,
        entries: &Entries<'_>,
        used: &[usize],
        optional: bool,
    ) -> Result<()> {
        let Self { rows, keys, present } = self;
        let nulls = rows - keys.len();
        let ends = keys.iter().min().zip(keys.iter().max()).map(|(min, max)| (*min as usize, *max as usize));
        order.add(ends);
        let bytes = |key: usize| {
            let entry = used
                .get(key)
                .ok_or_else(|| Error::internal(format!("a row has dictionary key {key} of {} values", used.len())))?;
            Ok::<_, Error>(entries.bytes(*entry))
        };
        let ends = match ends {
            Some((min, max)) => (bytes(min)?, bytes(max)?),
            None => Default::default(),
        };
        pages.data(PageValues {
            rows,
            nulls,
            levels: if optional { Some(levels(rows, nulls, present.iter().copied())?) } else { None },
            put: &|body| put_keys(body, bits_for(used.len()), &keys),
            ends,
        })
    }
}
