//! Key range and bloom filter of a file, derived from the footer of an older file where possible.

use std::io::{self, Write};

use arrow::array::{Array, StringArray};
use parquet::file::reader::ChunkReader;

use super::keys::{KeyRange, compare_keys};
use super::options::BaseFileOptions;
use super::reader::BaseFileReader;
use super::{BLOOM_FILTER_KEY, BLOOM_TYPE_KEY};
use hoodoo_format::bloom::{BloomFilter, BloomFilterType, BloomSizing};
use hoodoo_runtime::error::Result;

/// Key range and bloom filter of a file's footer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileKeys {
    /// Minimum and maximum; `None` without rows or without meta columns.
    pub range: Option<KeyRange>,
    /// The bloom filter.
    pub bloom: Option<FooterFilter>,
}

/// A bloom filter for a footer.
#[derive(Debug, Clone, PartialEq)]
pub enum FooterFilter {
    /// As the Base64 string of an older footer.
    Text(String, BloomFilterType),
    /// Decoded; its string may take many MB.
    Filter(BloomFilter),
}

impl FooterFilter {
    /// The layout.
    pub(crate) fn filter_type(&self) -> BloomFilterType {
        match self {
            Self::Text(_, filter_type) => *filter_type,
            Self::Filter(filter) => filter.filter_type(),
        }
    }

    /// Bytes of the Base64 string.
    pub(crate) fn string_len(&self) -> usize {
        match self {
            Self::Text(text, _) => text.len(),
            Self::Filter(filter) => filter.base64_len(),
        }
    }

    /// Writes the Base64 string.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write_string(&self, to: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Text(text, _) => to.write_all(text.as_bytes()),
            Self::Filter(filter) => filter.write_base64(|piece| to.write_all(piece.as_bytes())),
        }
    }
}

impl FileKeys {
    /// Makes both from keys, none of them null.
    ///
    /// # Errors
    /// `InvalidOption` for invalid bloom filter options.
    pub fn of(keys: &[StringArray], options: &BaseFileOptions) -> Result<Self> {
        let range = keys.iter().flat_map(|k| k.iter().flatten()).fold(None, widen);
        let bloom = match (&range, &options.bloom) {
            (Some(_), Some(bloom)) => Some(FooterFilter::Filter(BloomFilter::build(bloom, keys, options.threads)?)),
            _ => None,
        };
        let range = range.map(|(min, max)| KeyRange { min: min.to_owned(), max: max.to_owned() });
        Ok(Self { range, bloom })
    }

    /// Makes both from the footer of an older file and new keys; `None` if the old keys have to be read.
    ///
    /// # Errors
    /// `Corrupt` if the old filter cannot be decoded.
    pub fn grown<R: ChunkReader + 'static>(
        old: &BaseFileReader<R>,
        more: &[StringArray],
        options: &BaseFileOptions,
    ) -> Result<Option<Self>> {
        let Some(range) = old.key_range().filter(KeyRange::is_certain) else { return Ok(None) };
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
            return Ok(Some(Self { range, bloom: Some(FooterFilter::Text(text.to_owned(), wanted.filter_type)) }));
        }
        // A dynamic filter depends on the order of all keys.
        let grown = match (wanted.sizing, old.bloom_filter()?) {
            (BloomSizing::ByRows, Some(filter)) => filter.with_more(more),
            _ => None,
        };
        Ok(grown.map(|filter| Self { range, bloom: Some(FooterFilter::Filter(filter)) }))
    }
}

/// Key ranges and bloom filters of files that are copied as a whole.
#[derive(Debug, Default)]
pub struct TakenKeys {
    rows: u64,
    range: Option<KeyRange>,
    filters: Vec<BloomFilter>,
    /// Characters of the Base64 strings of the filters.
    text: usize,
}

impl TakenKeys {
    /// Reads those of one file; `None` if its footer lacks them, or has a filter of another type or size.
    ///
    /// # Errors
    /// `Corrupt` if the filter cannot be decoded.
    pub fn of<R: ChunkReader + 'static>(old: &BaseFileReader<R>, options: &BaseFileOptions) -> Result<Option<Self>> {
        let rows = old.rows();
        let Some(range) = old.key_range().filter(KeyRange::is_certain) else { return Ok(None) };
        let mut taken = Self { rows, range: Some(range), ..Self::default() };
        if let Some(wanted) = &options.bloom {
            let keys = usize::try_from(rows).unwrap_or(usize::MAX);
            let filter = old.decode_bloom_filter()?.filter(|f| f.is_sized_for(wanted, keys));
            let Some(filter) = filter else { return Ok(None) };
            // Hudi would size the filter by the number of all keys.
            if wanted.sizing != BloomSizing::ByRows || wanted.filter_type != BloomFilterType::DynamicV0 {
                return Ok(None);
            }
            taken.text = wanted.string_len(keys);
            taken.filters.push(filter);
        }
        Ok(Some(taken))
    }

    /// Adds those of another file; `None`, and adds nothing, if one filter cannot hold all keys.
    #[must_use]
    pub fn add(&mut self, other: Self) -> Option<()> {
        if !BloomFilter::can_join(self.filters.iter().chain(&other.filters)) {
            return None;
        }
        self.rows += other.rows;
        self.range = join_ranges(self.range.take(), other.range);
        self.filters.extend(other.filters);
        self.text += other.text;
        Some(())
    }

    /// Rows of the files.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Characters of the Base64 string.
    pub(super) fn string_len(&self) -> usize {
        self.text
    }

    /// Adds the keys of other rows of the file.
    pub(super) fn with(
        self,
        range: Option<KeyRange>,
        filter: Option<BloomFilter>,
    ) -> (Option<KeyRange>, Option<BloomFilter>) {
        let filters: Vec<BloomFilter> = self.filters.into_iter().chain(filter).collect();
        (join_ranges(self.range, range), BloomFilter::joined(filters))
    }
}

fn join_ranges(a: Option<KeyRange>, b: Option<KeyRange>) -> Option<KeyRange> {
    let (Some(a), Some(b)) = (&a, &b) else { return a.or(b) };
    let min = if compare_keys(&b.min, &a.min).is_lt() { &b.min } else { &a.min };
    let max = if compare_keys(&b.max, &a.max).is_gt() { &b.max } else { &a.max };
    Some(KeyRange { min: min.clone(), max: max.clone() })
}

fn widen<'k>(range: Option<(&'k str, &'k str)>, key: &'k str) -> Option<(&'k str, &'k str)> {
    match range {
        None => Some((key, key)),
        Some((min, max)) if compare_keys(key, max).is_gt() => Some((min, key)),
        Some((min, max)) if compare_keys(key, min).is_lt() => Some((key, max)),
        same => same,
    }
}
