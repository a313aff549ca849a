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

use arrow::array::{Array, StringArray};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Error, Result};

const VERSION: i32 = -1;
const MURMUR: u8 = 1;
const SIMPLE_HEADER: usize = 13;
const DYNAMIC_HEADER: usize = 25;
/// No filter that Hudi writes comes near this; a larger number is damage that would cost minutes per key.
const MAX_HASHES: i32 = 1024;
/// Keys in one bit vector when a filter is sized by rows: keeps the bit count of the strictest usual rate in an `i32`.
const MAX_KEYS_PER_ROW: usize = 16 << 20;
/// Keys hashed side by side: one chain alone waits for its multiplications most of the time.
const LANES: usize = 8;

const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

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
    pub fn text_len(&self, keys: usize) -> usize {
        let (rows, per_row, per_key) = match self.sizing {
            BloomSizing::ByRows => {
                let rows = keys.div_ceil(MAX_KEYS_PER_ROW).max(1);
                (rows, keys.div_ceil(rows), quick_bits_per_key(self.fpp))
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

/// One vector of bits.
#[derive(Debug, Clone, PartialEq)]
struct BitRow {
    hashes: u32,
    bits: u32,
    bytes: Vec<u8>,
}

/// A bloom filter over record keys.
#[derive(Debug, Clone, PartialEq)]
pub struct BloomFilter {
    filter_type: BloomFilterType,
    rows: Vec<BitRow>,
    keys_per_row: u32,
    keys_in_last_row: u32,
}

fn bits_per_key(fpp: f64) -> f64 {
    -fpp.ln() / (std::f64::consts::LN_2 * std::f64::consts::LN_2)
}

/// Half of the hashes of the smallest filter.
fn quick_hashes(fpp: f64) -> f64 {
    (-fpp.log2() / 2.0).ceil().max(1.0)
}

/// Bits at which that many hashes reach the rate.
fn quick_bits_per_key(fpp: f64) -> f64 {
    let hashes = quick_hashes(fpp);
    -hashes / (-fpp.powf(1.0 / hashes)).ln_1p()
}

impl BitRow {
    /// For so many keys, with the fewest bits: as Hudi sizes its filters.
    fn sized(entries: usize, fpp: f64) -> Result<Self> {
        let entries = entries.max(1) as f64;
        let bits = (entries * bits_per_key(fpp)).ceil();
        Self::of_size(entries, fpp, bits, std::f64::consts::LN_2 * bits / entries)
    }

    /// For so many keys, with half the hashes: as sure as the smallest filter, for a fifth more bits and half the time.
    fn sized_for_speed(entries: usize, fpp: f64) -> Result<Self> {
        let entries = entries.max(1) as f64;
        let hashes = quick_hashes(fpp);
        Self::of_size(entries, fpp, (entries * quick_bits_per_key(fpp)).ceil(), hashes)
    }

    fn of_size(entries: f64, fpp: f64, bits: f64, hashes: f64) -> Result<Self> {
        if !(fpp > 0.0 && fpp < 1.0) || !(1.0..=f64::from(i32::MAX)).contains(&bits) {
            return Err(Error::invalid_option(format!("no bloom filter for {entries} keys at a rate of {fpp}"))
                .remedy("Set hoodie.index.bloom.fpp between 0 and 1 and fewer hoodie.index.bloom.num_entries"));
        }
        let hashes = hashes.ceil().clamp(1.0, f64::from(MAX_HASHES));
        let bits = bits as u32;
        Ok(Self { hashes: hashes as u32, bits, bytes: vec![0; bits.div_ceil(8) as usize] })
    }

    #[inline]
    fn set(&mut self, position: u32) {
        if let Some(byte) = self.bytes.get_mut((position >> 3) as usize) {
            *byte |= 1 << (position & 7);
        }
    }

    fn insert(&mut self, key: &[u8]) {
        let mut seed = 0;
        for _ in 0..self.hashes {
            seed = murmur(key, seed);
            self.set(seed.cast_signed().unsigned_abs() % self.bits);
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        let mut seed = 0;
        (0..self.hashes).all(|_| {
            seed = murmur(key, seed);
            let position = seed.cast_signed().unsigned_abs() % self.bits;
            self.bytes.get((position >> 3) as usize).is_some_and(|b| b & (1 << (position & 7)) != 0)
        })
    }

    /// Inserts many keys: those of equal length go through the hash side by side.
    fn insert_all<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        let mut by_length: Vec<LaneBuffer<'a>> = Vec::new();
        for key in keys {
            // Longer keys than this are rare, and their chains are bound by reading, not by waiting.
            if key.len() > 256 {
                self.insert(key);
                continue;
            }
            if by_length.len() <= key.len() {
                by_length.resize(key.len() + 1, LaneBuffer::default());
            }
            let Some(buffer) = by_length.get_mut(key.len()) else { continue };
            if let Some(lane) = buffer.lanes.get_mut(buffer.filled) {
                *lane = key;
            }
            buffer.filled += 1;
            if buffer.filled == LANES {
                buffer.filled = 0;
                self.insert_lanes(&buffer.lanes);
            }
        }
        for buffer in by_length {
            for key in buffer.lanes.iter().take(buffer.filled) {
                self.insert(key);
            }
        }
    }

    /// All keys have the same length.
    fn insert_lanes(&mut self, keys: &[&[u8]; LANES]) {
        let len = keys.first().map_or(0, |k| k.len());
        // What a word of the key adds does not depend on the seed, so it is worked out once for the whole chain.
        let mut words = [[0u32; LANES]; 64];
        let mut tails = [0u32; LANES];
        for (lane, key) in keys.iter().enumerate() {
            let (chunks, rest) = key.as_chunks::<4>();
            for (word, chunk) in words.iter_mut().zip(chunks) {
                if let Some(slot) = word.get_mut(lane) {
                    *slot = mix(*chunk);
                }
            }
            if let Some(slot) = tails.get_mut(lane) {
                *slot = tail(rest);
            }
        }
        let words = words.get(..len / 4).unwrap_or_default();
        let remainder = Remainder::by(self.bits);
        let mut seeds = [0u32; LANES];
        for _ in 0..self.hashes {
            for h in &mut seeds {
                *h ^= len as u32;
            }
            for word in words {
                for (h, w) in seeds.iter_mut().zip(word) {
                    *h = h.wrapping_mul(M) ^ w;
                }
            }
            for (h, t) in seeds.iter_mut().zip(&tails) {
                if len % 4 != 0 {
                    *h = (*h ^ t).wrapping_mul(M);
                }
                *h = finish(*h);
            }
            for h in seeds {
                self.set(remainder.of(h.cast_signed().unsigned_abs()));
            }
        }
    }

    fn union(&mut self, other: &Self) {
        for (a, b) in self.bytes.iter_mut().zip(&other.bytes) {
            *a |= b;
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_header(out, self.hashes, self.bits);
        out.extend_from_slice(&self.bytes);
    }

    fn read(input: &mut &[u8]) -> Result<Self> {
        let (hashes, bits) = read_header(input)?;
        let len = bits.div_ceil(8) as usize;
        let (bytes, rest) = input.split_at_checked(len).ok_or_else(truncated)?;
        *input = rest;
        Ok(Self { hashes, bits, bytes: bytes.to_vec() })
    }
}

#[derive(Clone, Default)]
struct LaneBuffer<'a> {
    lanes: [&'a [u8]; LANES],
    filled: usize,
}

/// `x % d` for one `d` and many `x`, by multiplication.
#[derive(Clone, Copy)]
struct Remainder {
    d: u32,
    inverse: u64,
}

impl Remainder {
    fn by(d: u32) -> Self {
        Self { d, inverse: (u64::MAX / u64::from(d.max(1))).wrapping_add(1) }
    }

    #[inline]
    fn of(self, x: u32) -> u32 {
        let low = self.inverse.wrapping_mul(u64::from(x));
        ((u128::from(low) * u128::from(self.d)) >> 64) as u32
    }
}

#[inline]
fn mix(word: [u8; 4]) -> u32 {
    let k = u32::from_le_bytes(word).wrapping_mul(M);
    (k ^ (k >> R)).wrapping_mul(M)
}

/// What the last one to three bytes add, each sign-extended before it is shifted.
#[inline]
fn tail(rest: &[u8]) -> u32 {
    rest.iter().enumerate().fold(0, |h, (i, b)| h ^ (i32::from(b.cast_signed()) << (8 * i)).cast_unsigned())
}

#[inline]
fn finish(mut h: u32) -> u32 {
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

fn murmur(key: &[u8], seed: u32) -> u32 {
    let mut h = seed ^ key.len() as u32;
    let (chunks, rest) = key.as_chunks::<4>();
    for chunk in chunks {
        h = h.wrapping_mul(M) ^ mix(*chunk);
    }
    if !rest.is_empty() {
        h = (h ^ tail(rest)).wrapping_mul(M);
    }
    finish(h)
}

fn truncated() -> Error {
    Error::corrupt("a bloom filter ends before its bits do")
}

fn write_header(out: &mut Vec<u8>, hashes: u32, bits: u32) {
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&hashes.to_be_bytes());
    out.push(MURMUR);
    out.extend_from_slice(&bits.to_be_bytes());
}

fn read_i32(input: &mut &[u8]) -> Result<i32> {
    let (head, rest) = input.split_first_chunk::<4>().ok_or_else(truncated)?;
    *input = rest;
    Ok(i32::from_be_bytes(*head))
}

fn read_header(input: &mut &[u8]) -> Result<(u32, u32)> {
    let version = read_i32(input)?;
    let hashes = read_i32(input)?;
    let (hash_type, rest) = input.split_first().ok_or_else(truncated)?;
    *input = rest;
    let bits = read_i32(input)?;
    if version != VERSION || *hash_type != MURMUR {
        return Err(Error::corrupt(format!("a bloom filter of version {version} with hash {hash_type} is not known")));
    }
    if !(1..=MAX_HASHES).contains(&hashes) || bits < 1 {
        return Err(Error::corrupt(format!("a bloom filter with {hashes} hashes and {bits} bits makes no sense")));
    }
    Ok((hashes.cast_unsigned(), bits.cast_unsigned()))
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
        let mut rows = Vec::with_capacity(row_count);
        for row in 0..row_count {
            let empty = BitRow::sized_for_speed(per_row, options.fpp)?;
            rows.push(fill(empty, keys, row * per_row, per_row, threads));
        }
        let last = total - per_row.min(total) * (row_count - 1);
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

    /// Whether the key may be among those that the filter was built over; `false` is certain.
    pub fn might_contain(&self, key: &str) -> bool {
        self.rows.iter().any(|row| row.contains(key.as_bytes()))
    }

    /// The layout.
    pub fn filter_type(&self) -> BloomFilterType {
        self.filter_type
    }

    /// The binary form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size: usize = self.rows.iter().map(|r| r.bytes.len() + SIMPLE_HEADER).sum();
        let mut out = Vec::with_capacity(size + DYNAMIC_HEADER);
        if let (BloomFilterType::DynamicV0, Some(first)) = (self.filter_type, self.rows.first()) {
            write_header(&mut out, first.hashes, first.bits);
            for count in [self.keys_per_row, self.keys_in_last_row, self.rows.len() as u32] {
                out.extend_from_slice(&count.to_be_bytes());
            }
        }
        for row in &self.rows {
            row.write(&mut out);
        }
        out
    }

    /// The text form that goes into a footer.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.to_bytes())
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are too few for what they announce, or announce nonsense.
    pub fn from_bytes(filter_type: BloomFilterType, mut bytes: &[u8]) -> Result<Self> {
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
            .decode(text.trim())
            .map_err(|e| Error::corrupt("the bloom filter of a footer is not base64").caused_by(e))?;
        Self::from_bytes(filter_type, &bytes)
    }
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
#[path = "bloom_tests.rs"]
mod tests;
