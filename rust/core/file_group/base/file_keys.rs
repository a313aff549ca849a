//! What a footer says of the record keys of its file, made from the footer of an older file where that is enough.

use arrow::array::{Array, StringArray};
use parquet::file::reader::ChunkReader;

use super::keys::{KeyRange, compare_keys};
use super::options::BaseFileOptions;
use super::reader::BaseFileReader;
use super::{BLOOM_FILTER_KEY, BLOOM_TYPE_KEY};
use crate::error::Result;
use crate::format::bloom::{BloomFilter, BloomFilterType, BloomSizing};

/// The record keys of a file, as its footer states them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileKeys {
    /// Least and greatest; `None` without rows or without meta columns.
    pub range: Option<KeyRange>,
    /// The bloom filter in its text form, with its layout.
    pub bloom: Option<(String, BloomFilterType)>,
}

impl FileKeys {
    /// Over these keys, none of them null.
    ///
    /// # Errors
    /// `InvalidOption` for bloom filter options that cannot be met.
    pub fn of(keys: &[StringArray], options: &BaseFileOptions) -> Result<Self> {
        let range = keys.iter().flat_map(|k| k.iter().flatten()).fold(None, widen);
        let bloom = match (&range, &options.bloom) {
            (Some(_), Some(bloom)) => {
                let filter = BloomFilter::build(bloom, keys, options.threads)?;
                Some((filter.to_base64(), filter.filter_type()))
            }
            _ => None,
        };
        let range = range.map(|(min, max)| KeyRange { min: min.to_owned(), max: max.to_owned() });
        Ok(Self { range, bloom })
    }

    /// Over the keys of an older file and some more, without reading the old ones; `None` when they have to be read.
    ///
    /// # Errors
    /// `Corrupt` when the old filter cannot be decoded.
    pub fn grown<R: ChunkReader + 'static>(
        old: &BaseFileReader<R>,
        more: &[StringArray],
        options: &BaseFileOptions,
    ) -> Result<Option<Self>> {
        let Some(range) = old.key_range() else { return Ok(None) };
        let ends = more.iter().flat_map(|k| k.iter().flatten());
        let (min, max) = ends.fold((range.min.as_str(), range.max.as_str()), |(min, max), key| {
            if compare_keys(key, max).is_gt() {
                (min, key)
            } else if compare_keys(key, min).is_lt() {
                (key, max)
            } else {
                (min, max)
            }
        });
        let range = Some(KeyRange { min: min.to_owned(), max: max.to_owned() });
        let Some(wanted) = &options.bloom else { return Ok(Some(Self { range, bloom: None })) };
        let stated = old.footer(BLOOM_TYPE_KEY).and_then(|code| BloomFilterType::parse(code).ok());
        let Some(text) = old.footer(BLOOM_FILTER_KEY).filter(|_| stated == Some(wanted.filter_type)) else {
            return Ok(None);
        };
        if more.iter().all(|k| k.is_empty()) {
            return Ok(Some(Self { range, bloom: Some((text.to_owned(), wanted.filter_type)) }));
        }
        // Sized by options, a filter overflows in an order of its own, which only all the keys can tell.
        let grown = match (wanted.sizing, old.bloom_filter()?) {
            (BloomSizing::ByRows, Some(filter)) => filter.with_more(more),
            _ => None,
        };
        Ok(grown.map(|filter| Self { range, bloom: Some((filter.to_base64(), filter.filter_type())) }))
    }
}

fn widen<'k>(range: Option<(&'k str, &'k str)>, key: &'k str) -> Option<(&'k str, &'k str)> {
    match range {
        None => Some((key, key)),
        Some((min, max)) if compare_keys(key, max).is_gt() => Some((min, key)),
        Some((min, max)) if compare_keys(key, min).is_lt() => Some((key, max)),
        same => same,
    }
}
