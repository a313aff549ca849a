//! Hudi's bloom filters over record keys, as they stand in the footer of a base file.
//!
//! Two layouts, named by the footer key `hoodie_bloom_filter_type_code`; all integers are big-endian, and the text form
//! is base64 with padding.
//!
//! | offset | `SIMPLE` | `DYNAMIC_V0` |
//! | --- | --- | --- |
//! | 0 | int -1 | int -1 |
//! | 4 | int number of hashes | the same |
//! | 8 | byte 1 (murmur) | the same |
//! | 9 | int bits | the same |
//! | 13 | the bits, bit i at byte i/8, mask `1 << (i%8)` | int keys per row, int keys in the last row, int rows |
//! | 25 | | each row: a complete `SIMPLE` structure |
//!
//! The positions of a key are a chain of Murmur2 hashes, each seeded with the one before. The hash differs from the
//! published Murmur2 in its tail: the last one to three bytes are sign-extended.

use std::convert::Infallible;

use arrow::array::{Array, StringArray};
use base64_simd::STANDARD;

use hoodoo_runtime::error::{Error, Result};

mod bit_row;

use bit_row::{BitRow, SIMPLE_HEADER, bits_per_key, quick_bits_per_key, read_header, read_i32, write_header};

const DYNAMIC_HEADER: usize = 25;
/// Keys in one bit vector when a filter is sized by rows: keeps the bit count of the strictest usual rate in an `i32`.
const MAX_KEYS_PER_ROW: usize = 16 << 20;
/// Most rows of a filter that is joined from others: each costs every lookup.
const MAX_JOINED_ROWS: usize = 64;
/// Bytes that become text at once.
const STRING_CHUNK: usize = 3 << 14;

/// Which of Hudi's layouts a filter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BloomFilterType {
    /// One bit vector.
    Simple,
    /// Rows of bit vectors, a new row when the last is full. Hudi's default.
    #[default]
    DynamicV0,
}

impl BloomFilterType {
    /// The name in footers and in `hoodie.bloom.index.filter.type`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::DynamicV0 => "DYNAMIC_V0",
        }
    }

    /// Reads a name, without regard to case.
    pub fn parse(code: &str) -> Result<Self> {
        match code.trim().to_ascii_uppercase().as_str() {
            "SIMPLE" => Ok(Self::Simple),
            "DYNAMIC_V0" => Ok(Self::DynamicV0),
            _ => {
                Err(Error::invalid_option(format!("unknown bloom filter type '{code}'"))
                    .remedy("Use SIMPLE or DYNAMIC_V0"))
            }
        }
    }
}

/// How many bits a filter gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BloomSizing {
    /// By the number of keys that the file really holds.
    #[default]
    ByRows,
    /// As Hudi does, by options alone.
    Configured {
        /// `hoodie.index.bloom.num_entries`: keys that a row is made for.
        entries: u32,
        /// `hoodie.bloom.index.filter.dynamic.max.entries`: no more rows than these keys need.
        max_entries: u32,
    },
}

impl BloomSizing {
    /// Hudi's defaults: rows for 60,000 keys, up to 100,000 keys.
    pub const HUDI: Self = Self::Configured { entries: 60_000, max_entries: 100_000 };
}

/// What kind of filter to build.
#[derive(Debug, Clone, PartialEq)]
pub struct BloomOptions {
    /// `hoodie.bloom.index.filter.type`.
    pub filter_type: BloomFilterType,
    /// `hoodie.index.bloom.fpp`: rate of false positives.
    pub fpp: f64,
    /// How the filter is sized.
    pub sizing: BloomSizing,
}

impl Default for BloomOptions {
    fn default() -> Self {
        Self { filter_type: BloomFilterType::default(), fpp: 1e-9, sizing: BloomSizing::default() }
    }
}

impl BloomOptions {
    /// Bytes that the text form takes for `keys` keys.
    pub fn string_len(&self, keys: usize) -> usize {
        let (rows, per_row, per_key) = match self.sizing {
            BloomSizing::ByRows => {
                let rows = keys.div_ceil(MAX_KEYS_PER_ROW).max(1);
                (rows, if rows == 1 { with_headroom(keys) } else { keys.div_ceil(rows) }, quick_bits_per_key(self.fpp))
            }
            BloomSizing::Configured { entries, max_entries } => {
                let entries = entries.max(1) as usize;
                let most = (max_entries as usize).div_ceil(entries).max(1);
                let rows = if self.filter_type == BloomFilterType::Simple { 1 } else { keys.div_ceil(entries) };
                (rows.clamp(1, most), entries, bits_per_key(self.fpp))
            }
        };
        let bits = (per_row.max(1) as f64 * per_key).max(0.0) as usize;
        (rows * (bits / 8 + SIMPLE_HEADER) + DYNAMIC_HEADER).div_ceil(3) * 4
    }
}

/// A bloom filter over record keys.
#[derive(Debug, Clone, PartialEq)]
pub struct BloomFilter {
    filter_type: BloomFilterType,
    rows: Vec<BitRow>,
    keys_per_row: u32,
    keys_in_last_row: u32,
}

impl BloomFilter {
    /// Builds a filter over all non-null keys, on up to `threads` threads.
    ///
    /// # Errors
    /// `InvalidOption` for a rate outside (0, 1) or more keys than a bit vector can be sized for.
    pub fn build(options: &BloomOptions, keys: &[StringArray], threads: usize) -> Result<Self> {
        match options.sizing {
            BloomSizing::ByRows => Self::build_by_rows(options, keys, threads),
            BloomSizing::Configured { entries, max_entries } => {
                Self::build_configured(options, entries.max(1), max_entries, keys)
            }
        }
    }

    fn build_by_rows(options: &BloomOptions, keys: &[StringArray], threads: usize) -> Result<Self> {
        let total: usize = keys.iter().map(|k| k.len() - k.null_count()).sum();
        let row_count = match options.filter_type {
            BloomFilterType::Simple => 1,
            BloomFilterType::DynamicV0 => total.div_ceil(MAX_KEYS_PER_ROW).max(1),
        };
        let per_row = total.div_ceil(row_count).max(1);
        let per_row = if row_count == 1 { with_headroom(per_row) } else { per_row };
        let mut rows = Vec::with_capacity(row_count);
        for row in 0..row_count {
            let empty = BitRow::sized_for_speed(per_row, options.fpp)?;
            rows.push(fill(empty, keys, row * per_row, per_row, threads));
        }
        let last = total.saturating_sub(per_row * (row_count - 1));
        Ok(Self {
            filter_type: options.filter_type,
            rows,
            keys_per_row: u32::try_from(per_row).unwrap_or(u32::MAX),
            keys_in_last_row: u32::try_from(last).unwrap_or(u32::MAX),
        })
    }

    /// Fills rows in the order in which Hudi does, so that the bytes come out the same.
    fn build_configured(options: &BloomOptions, entries: u32, max_entries: u32, keys: &[StringArray]) -> Result<Self> {
        let mut rows = vec![BitRow::sized(entries as usize, options.fpp)?];
        let total: usize = keys.iter().map(|k| k.len() - k.null_count()).sum();
        let per_row = entries as usize;
        if options.filter_type == BloomFilterType::Simple || total <= per_row {
            rows = rows.into_iter().map(|row| fill(row, keys, 0, total, 1)).collect();
            let count = u32::try_from(total).unwrap_or(u32::MAX);
            return Ok(Self { filter_type: options.filter_type, rows, keys_per_row: entries, keys_in_last_row: count });
        }
        let most = (max_entries as usize).div_ceil(per_row).max(1);
        while rows.len() < most.min(total.div_ceil(per_row)) {
            rows.push(BitRow::sized(per_row, options.fpp)?);
        }
        let capacity = rows.len() * per_row;
        for (i, key) in all_keys(keys).enumerate() {
            // Past the last row, keys go round the rows; the first of them counts twice for the first row.
            let row = if i < capacity { i / per_row } else { (i - capacity).saturating_sub(1) % rows.len() };
            if let Some(row) = rows.get_mut(row) {
                row.insert(key);
            }
        }
        let in_last = total - (rows.len() - 1) * per_row;
        Ok(Self {
            filter_type: options.filter_type,
            rows,
            keys_per_row: entries,
            keys_in_last_row: u32::try_from(in_last).unwrap_or(u32::MAX),
        })
    }

    /// The filter over more keys, when it was made with room for them; `None` when it has to be built anew.
    #[must_use]
    pub fn with_more(&self, keys: &[StringArray]) -> Option<Self> {
        let more: usize = keys.iter().map(|k| k.len() - k.null_count()).sum();
        let count = (self.keys_in_last_row as usize).checked_add(more)?;
        let [row] = self.rows.as_slice() else { return None };
        if self.filter_type != BloomFilterType::DynamicV0 || count > self.keys_per_row as usize {
            return None;
        }
        let row = fill(row.clone(), keys, 0, more, 1);
        Some(Self { rows: vec![row], keys_in_last_row: u32::try_from(count).ok()?, ..*self })
    }

    /// Whether these make one filter, with one more beside them: all have rows, and there are not too many of them to be
    /// looked through.
    pub fn can_join<'f>(filters: impl IntoIterator<Item = &'f Self>) -> bool {
        let rows = |f: &Self| (f.filter_type == BloomFilterType::DynamicV0).then_some(f.rows.len());
        filters.into_iter().map(rows).sum::<Option<usize>>().is_some_and(|rows| rows < MAX_JOINED_ROWS)
    }

    /// One filter over the keys of several, which keeps the rows of all: a key is looked for in each of them. `None` when
    /// there are none.
    #[must_use]
    pub fn joined(filters: Vec<Self>) -> Option<Self> {
        // Only the last row may get more keys, by whoever goes on with the filter.
        let last = filters.last()?;
        let (keys_per_row, keys_in_last_row) = (last.keys_per_row, last.keys_in_last_row);
        let rows = filters.into_iter().flat_map(|f| f.rows).collect();
        Some(Self { filter_type: BloomFilterType::DynamicV0, rows, keys_per_row, keys_in_last_row })
    }

    /// Whether the filter has about the size that the options ask for with so many keys: neither far larger, nor so small
    /// that it would answer wrong too often.
    pub fn is_sized_for(&self, options: &BloomOptions, keys: usize) -> bool {
        let bytes = self.rows.iter().map(|r| r.bytes.len() + SIMPLE_HEADER).sum::<usize>() + DYNAMIC_HEADER;
        // Hudi's filters need fewer bits for the same rate, and ours leave room for more keys.
        let (wanted, text) = (options.string_len(keys), bytes.div_ceil(3) * 4);
        self.filter_type == options.filter_type && text * 10 >= wanted * 7 && text * 2 <= wanted * 3
    }

    /// Whether the key may be among those that the filter was built over; `false` is certain.
    pub fn might_contain(&self, key: &str) -> bool {
        self.rows.iter().any(|row| row.contains(key.as_bytes()))
    }

    /// The layout.
    pub fn filter_type(&self) -> BloomFilterType {
        self.filter_type
    }

    /// The binary form.
    #[cfg(test)]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        let put = |chunk: &[u8]| {
            out.extend_from_slice(chunk);
            Ok::<_, Infallible>(())
        };
        match self.chunks_of_bits(put) {
            Ok(()) => out,
            Err(never) => match never {},
        }
    }

    /// The text form that goes into a footer. A joined filter may have many MB: its binary form is not put together before.
    pub fn to_base64(&self) -> String {
        let mut text = String::with_capacity(self.base64_len());
        let put = |chunk: &str| {
            text.push_str(chunk);
            Ok::<_, Infallible>(())
        };
        match self.write_base64(put) {
            Ok(()) => text,
            Err(never) => match never {},
        }
    }

    /// Characters of the text form.
    pub fn base64_len(&self) -> usize {
        self.size().div_ceil(3) * 4
    }

    /// The text form, in chunks.
    ///
    /// # Errors
    /// Those of `put`; nothing is put after one.
    pub fn write_base64<E>(
        &self,
        mut put: impl FnMut(&str) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut text = String::with_capacity(STRING_CHUNK / 3 * 4);
        let mut encode = |bytes: &[u8]| {
            text.clear();
            STANDARD.encode_append(bytes, &mut text);
            put(&text)
        };
        // Three bytes are four characters, and chunks end anywhere.
        let mut begun: Vec<u8> = Vec::with_capacity(3);
        self.chunks_of_bits(|chunk| {
            let missing = if begun.is_empty() { 0 } else { (3 - begun.len()).min(chunk.len()) };
            let (first, rest) = chunk.split_at(missing);
            begun.extend_from_slice(first);
            if begun.len() == 3 {
                encode(&begun)?;
                begun.clear();
            }
            let (whole, last) = rest.split_at(rest.len() - rest.len() % 3);
            whole.chunks(STRING_CHUNK).try_for_each(&mut encode)?;
            begun.extend_from_slice(last);
            Ok(())
        })?;
        encode(&begun)
    }

    /// Bytes of the binary form.
    fn size(&self) -> usize {
        let header = if self.filter_type == BloomFilterType::DynamicV0 { DYNAMIC_HEADER } else { 0 };
        self.rows.iter().map(|r| r.bytes.len() + SIMPLE_HEADER).sum::<usize>() + header
    }

    /// The binary form, in chunks.
    fn chunks_of_bits<E>(
        &self,
        mut put: impl FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut header = Vec::with_capacity(DYNAMIC_HEADER);
        if let (BloomFilterType::DynamicV0, Some(first)) = (self.filter_type, self.rows.first()) {
            write_header(&mut header, first.hashes, first.bits);
            for count in [self.keys_per_row, self.keys_in_last_row, self.rows.len() as u32] {
                header.extend_from_slice(&count.to_be_bytes());
            }
            put(&header)?;
        }
        for row in &self.rows {
            header.clear();
            row.write_header(&mut header);
            put(&header)?;
            put(&row.bytes)?;
        }
        Ok(())
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are too few for what they announce, or announce nonsense.
    pub(crate) fn from_bytes(filter_type: BloomFilterType, mut bytes: &[u8]) -> Result<Self> {
        let input = &mut bytes;
        if filter_type == BloomFilterType::Simple {
            let row = BitRow::read(input)?;
            return Ok(Self { filter_type, rows: vec![row], keys_per_row: 0, keys_in_last_row: 0 });
        }
        read_header(input)?;
        let (keys_per_row, keys_in_last_row, count) = (read_i32(input)?, read_i32(input)?, read_i32(input)?);
        if keys_per_row < 0 || keys_in_last_row < 0 || count < 1 || count as usize > input.len() / SIMPLE_HEADER {
            return Err(Error::corrupt(format!("a bloom filter announces {count} rows of {keys_per_row} keys")));
        }
        let rows = (0..count).map(|_| BitRow::read(input)).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            filter_type,
            rows,
            keys_per_row: keys_per_row.cast_unsigned(),
            keys_in_last_row: keys_in_last_row.cast_unsigned(),
        })
    }

    /// Reads the text form out of a footer.
    ///
    /// # Errors
    /// `Corrupt` when the text is not base64 or its bytes are no filter.
    pub fn from_base64(filter_type: BloomFilterType, text: &str) -> Result<Self> {
        let bytes = STANDARD
            .decode_to_vec(text.trim())
            .map_err(|e| Error::corrupt("the bloom filter of a footer is not base64").caused_by(e))?;
        Self::from_bytes(filter_type, &bytes)
    }
}

/// Room for a sixteenth more keys, so that the filter of a file that grows need not be built anew each time.
fn with_headroom(keys: usize) -> usize {
    keys + keys / 16
}

fn all_keys(keys: &[StringArray]) -> impl Iterator<Item = &[u8]> {
    keys.iter().flat_map(|array| array.iter().flatten().map(str::as_bytes))
}

/// Puts `count` keys from number `skip` on into a row, each thread into a copy of its own.
fn fill(mut row: BitRow, keys: &[StringArray], skip: usize, count: usize, threads: usize) -> BitRow {
    // A thread and its copy of the bits pay off only for many keys.
    let threads = threads.clamp(1, count.div_ceil(65_536).max(1));
    if threads == 1 {
        row.insert_all(all_keys(keys).skip(skip).take(count));
        return row;
    }
    let share = count.div_ceil(threads);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|t| {
                let mut own = row.clone();
                let take = count.saturating_sub(t * share).min(share);
                scope.spawn(move || {
                    own.insert_all(all_keys(keys).skip(skip + t * share).take(take));
                    own
                })
            })
            .collect();
        row.insert_all(all_keys(keys).skip(skip).take(share.min(count)));
        for (t, other) in others.into_iter().enumerate() {
            match other.join() {
                Ok(other) => row.union(&other),
                // Unreachable in practice; the share is simply done here.
                Err(_) => row.insert_all(all_keys(keys).skip(skip + (t + 1) * share).take(share)),
            }
        }
    });
    row
}

#[cfg(test)]
mod tests;
