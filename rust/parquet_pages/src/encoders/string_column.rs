//! A column chunk of strings that hardly repeat, such as keys: plain encoding, without a dictionary.
//!
//! The general encoder copies each string several times. Here it is copied once, from its array to the page.

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use parquet::basic::{BoundaryOrder, Compression, Encoding, Type};
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescPtr;

use super::chunk_pages::{ChunkPages, LEVEL_BYTES, PAGE_ROWS, PageOrder, PageValues, level_bytes, levels};
use super::encoded_chunk::EncodedChunk;
use super::page_codec::PageContent;
use crate::PageFormat;
use hoodoo_runtime::error::{Error, Result};

/// Bytes of a string in the column index, as other writers have.
const INDEX_BYTES: usize = 64;
/// Bytes of the length before each string in a page.
const LENGTH_BYTES: usize = size_of::<u32>();
/// Space before the strings of a page for the levels of a page without nulls, so that the strings need not be moved.
const ROOM: usize = 16;

/// Settings of a column of strings.
#[derive(Clone)]
pub struct PlainStringSettings {
    /// The column.
    pub descriptor: ColumnDescPtr,
    /// How its pages are written.
    pub format: PageFormat,
    /// What they hold, which decides how they are compressed.
    pub content: PageContent,
    /// Maximum bytes of a page, unless one string has more.
    pub page_bytes: usize,
    /// Bytes of a string in statistics; 0: no statistics.
    pub statistics_bytes: usize,
}

/// Whether a column is encoded here: a flat column of strings.
pub fn is_plain_string(data_type: &DataType, descriptor: &ColumnDescPtr) -> bool {
    let flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
    flat && data_type == &DataType::Utf8 && descriptor.physical_type() == Type::BYTE_ARRAY
}

/// The chunk that is being encoded.
pub struct PlainStrings {
    settings: PlainStringSettings,
    pages: ChunkPages,
    page: StringPage,
    ends: Option<(Vec<u8>, Vec<u8>)>,
    order: PageOrder<Vec<u8>>,
    bytes: usize,
}

/// The current page.
struct StringPage {
    rows: usize,
    nulls: usize,
    /// [`ROOM`], then the strings, each after its length.
    plain: Vec<u8>,
    /// Which rows have a value; empty as long as all have.
    present: Vec<bool>,
    /// Offsets in `plain` of the minimum and maximum.
    ends: Option<(usize, usize)>,
}

impl PlainStrings {
    /// A chunk without strings yet.
    ///
    /// # Errors
    /// `Schema` for a codec that the Parquet library has no compressor for.
    pub fn new(settings: PlainStringSettings) -> Result<Self> {
        let pages = ChunkPages::new(Type::BYTE_ARRAY, settings.format, Encoding::PLAIN, settings.content)?;
        Ok(Self { settings, pages, page: StringPage::default(), ends: None, order: PageOrder::default(), bytes: 0 })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `Schema` for a null in a required column, or an array of another type.
    pub fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if nulls.is_some() && self.settings.descriptor.max_def_level() == 0 {
            let what = "a required column has a null";
            return Err(Error::schema(what).with("column", self.settings.descriptor.name()));
        }
        match array.data_type() {
            DataType::Utf8 => self.add_strings(array.as_string_opt::<i32>(), nulls.as_ref()),
            DataType::LargeUtf8 => self.add_strings(array.as_string_opt::<i64>(), nulls.as_ref()),
            DataType::Utf8View => self.add_views(array.as_string_view_opt(), nulls.as_ref()),
            other => {
                let what = format!("a column of strings was passed as {other}");
                Err(Error::schema(what).with("column", self.settings.descriptor.name()))
            }
        }
    }

    fn add_strings<O: OffsetSizeTrait>(
        &mut self,
        array: Option<&GenericStringArray<O>>,
        nulls: Option<&NullBuffer>,
    ) -> Result<()> {
        let array = array.ok_or_else(no_strings)?;
        self.add_each(array.len(), nulls, |row| array.value(row))
    }

    fn add_views(&mut self, array: Option<&StringViewArray>, nulls: Option<&NullBuffer>) -> Result<()> {
        let array = array.ok_or_else(no_strings)?;
        self.add_each(array.len(), nulls, |row| array.value(row))
    }

    /// `text` returns the string of a row.
    fn add_each<'t>(&mut self, rows: usize, nulls: Option<&NullBuffer>, text: impl Fn(usize) -> &'t str) -> Result<()> {
        let mut row = 0;
        while row < rows {
            let end = rows.min(row + (PAGE_ROWS - self.page.rows));
            if nulls.is_some() {
                self.page.present.resize(self.page.rows, true);
            }
            while row < end && self.page.strings().len() < self.settings.page_bytes {
                let valid = nulls.is_none_or(|nulls| nulls.is_valid(row));
                if valid {
                    self.page.put(text(row).as_bytes(), self.settings.statistics_bytes > 0)?;
                } else {
                    self.page.nulls += 1;
                }
                if nulls.is_some() || !self.page.present.is_empty() {
                    self.page.present.push(valid);
                }
                self.page.rows += 1;
                row += 1;
            }
            if self.page.rows == PAGE_ROWS || self.page.strings().len() >= self.settings.page_bytes {
                self.end_page()?;
            }
        }
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        let page = &mut self.page;
        if page.rows == 0 {
            return Ok(());
        }
        let ends = page.ends.map(|(min, max)| (page.text(min).to_vec(), page.text(max).to_vec()));
        let short = |(min, max): &(Vec<u8>, Vec<u8>)| (cut_min(min, INDEX_BYTES).0, cut_max(max, INDEX_BYTES).0);
        let optional = self.settings.descriptor.max_def_level() == 1;
        let levels = if optional { levels(page.rows, page.nulls, page.present.iter().copied())? } else { Vec::new() };
        let ends_of_page = ends.as_ref().map(short).unwrap_or_default();
        let (rows, nulls) = (page.rows, page.nulls);
        match page.with_levels(optional.then_some(&levels[..])) {
            Some(body) => self.pages.encoded(rows, nulls, body, ends_of_page)?,
            None => self.pages.data(PageValues {
                rows,
                nulls,
                levels: Some(levels),
                put: &|body| body.extend_from_slice(page.strings()),
                ends: ends_of_page,
            })?,
        }
        self.bytes += page.strings().len();
        if let Some((min, max)) = &ends {
            match &mut self.ends {
                None => self.ends = Some((min.clone(), max.clone())),
                Some((a, b)) => {
                    if min < a {
                        a.clone_from(min);
                    }
                    if max > b {
                        b.clone_from(max);
                    }
                }
            }
        }
        self.order.add(ends);
        page.clear();
        Ok(())
    }

    /// Approximate bytes of all strings so far in the file.
    pub fn encoded_bytes(&self) -> usize {
        let plain = self.bytes + self.page.strings().len();
        match (self.bytes, self.settings.format.codec) {
            (_, Compression::UNCOMPRESSED) => plain,
            // An upper bound: compression is not known yet.
            (0, _) => plain / 2,
            (done, _) => (plain as u128 * self.pages.written() as u128 / done as u128) as usize,
        }
    }

    /// The encoded chunk.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn finish(mut self) -> Result<EncodedChunk> {
        self.end_page()?;
        let (descriptor, bytes) = (&self.settings.descriptor, self.settings.statistics_bytes);
        let nulls = self.pages.nulls();
        if bytes == 0 {
            return self.pages.finish(descriptor, None);
        }
        self.pages.set_order(if self.ends.is_some() { self.order.found() } else { BoundaryOrder::UNORDERED });
        let (mut min, mut max) = (None, None);
        let mut exact = (true, true);
        if let Some((a, b)) = &self.ends {
            let (a, a_whole) = cut_min(a, bytes);
            let (b, b_whole) = cut_max(b, bytes);
            exact = (a_whole, b_whole);
            min = Some(ByteArray::from(a));
            max = Some(ByteArray::from(b));
        }
        let statistics = ValueStatistics::new(min, max, None, Some(nulls), false)
            .with_backwards_compatible_min_max(false)
            .with_min_is_exact(exact.0)
            .with_max_is_exact(exact.1);
        self.pages.finish(descriptor, Some(Statistics::ByteArray(statistics)))
    }
}

fn no_strings() -> Error {
    Error::internal("an array of strings has an unexpected type")
}

impl Default for StringPage {
    fn default() -> Self {
        Self { rows: 0, nulls: 0, plain: vec![0; ROOM], present: Vec::new(), ends: None }
    }
}

impl StringPage {
    /// The strings, each after its length.
    fn strings(&self) -> &[u8] {
        self.plain.get(ROOM..).unwrap_or_default()
    }

    /// The page as it is in a file; `None` if there is no space for its levels.
    fn with_levels(&mut self, levels: Option<&[u8]>) -> Option<&[u8]> {
        let Some(levels) = levels else { return self.plain.get(ROOM..) };
        let values_at = ROOM.checked_sub(levels.len())?;
        let start = values_at.checked_sub(LEVEL_BYTES)?;
        self.plain.get_mut(start..values_at)?.copy_from_slice(&level_bytes(levels));
        self.plain.get_mut(values_at..ROOM)?.copy_from_slice(levels);
        self.plain.get(start..)
    }

    fn put(&mut self, text: &[u8], with_ends: bool) -> Result<()> {
        let length = u32::try_from(text.len()).map_err(|_| Error::schema("a string has more than 4 GiB"))?;
        let at = self.plain.len();
        if with_ends {
            self.ends = Some(match self.ends {
                None => (at, at),
                Some((min, max)) if text < self.text(min) => (at, max),
                Some((min, max)) if text > self.text(max) => (min, at),
                Some(ends) => ends,
            });
        }
        self.plain.extend_from_slice(&length.to_le_bytes());
        self.plain.extend_from_slice(text);
        Ok(())
    }

    /// The string at this offset.
    fn text(&self, at: usize) -> &[u8] {
        let Some((length, rest)) = self.plain.get(at..).and_then(|rest| rest.split_first_chunk::<LENGTH_BYTES>())
        else {
            return &[];
        };
        rest.get(..u32::from_le_bytes(*length) as usize).unwrap_or_default()
    }

    /// Clears it, but keeps its memory.
    fn clear(&mut self) {
        self.plain.truncate(ROOM);
        self.present.clear();
        (self.rows, self.nulls, self.ends) = (0, 0, None);
    }
}

/// Truncates a minimum to at most `max_bytes`; also returns whether it is exact.
fn cut_min(text: &[u8], most_bytes: usize) -> (Vec<u8>, bool) {
    match prefix(text, most_bytes) {
        None => (text.to_vec(), true),
        Some(prefix) => (prefix.as_bytes().to_vec(), false),
    }
}

/// Truncates a maximum and rounds it up; also returns whether it is exact.
fn cut_max(text: &[u8], most_bytes: usize) -> (Vec<u8>, bool) {
    let Some(prefix) = prefix(text, most_bytes) else { return (text.to_vec(), true) };
    let next = |c: char| char::from_u32(c as u32 + 1).or((c == '\u{d7ff}').then_some('\u{e000}'));
    let greater = prefix.char_indices().rev().find_map(|(at, c)| {
        let mut greater = prefix.get(..at)?.to_owned();
        greater.push(next(c)?);
        Some(greater)
    });
    match greater {
        Some(greater) => (greater.into_bytes(), false),
        None => (text.to_vec(), true),
    }
}

/// The longest prefix of whole characters, if the string is longer.
fn prefix(text: &[u8], most_bytes: usize) -> Option<&str> {
    if text.len() <= most_bytes {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let end = (0..=most_bytes).rev().find(|end| text.is_char_boundary(*end))?;
    text.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_to_what_is_not_greater_and_not_smaller() {
        let min = |text: &str, bytes| String::from_utf8(cut_min(text.as_bytes(), bytes).0).unwrap_or_default();
        let max = |text: &str, bytes| String::from_utf8(cut_max(text.as_bytes(), bytes).0).unwrap_or_default();
        assert_eq!((min("abc", 3), max("abc", 3)), ("abc".to_owned(), "abc".to_owned()));
        assert_eq!((min("abcd", 3), max("abcd", 3)), ("abc".to_owned(), "abd".to_owned()));
        // Characters stay whole, and what has no next one is left out.
        assert_eq!((min("aäb", 2), max("aäb", 2)), ("a".to_owned(), "b".to_owned()));
        assert_eq!(max("a\u{10ffff}b", 5), "b");
        assert_eq!(max("\u{d7ff}b", 3), "\u{e000}");
        let highest = "\u{10ffff}\u{10ffff}";
        assert_eq!((max(highest, 4), cut_max(highest.as_bytes(), 4).1), (highest.to_owned(), true));
        assert!(!cut_min("abcd".as_bytes(), 3).1);
    }
}
