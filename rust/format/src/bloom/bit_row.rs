//! One vector of bits and the hash that says which of them a key sets.

use hoodoo_runtime::error::{Error, Result};

const VERSION: i32 = -1;
const MURMUR: u8 = 1;
pub(super) const SIMPLE_HEADER: usize = 13;
/// No filter that Hudi writes comes near this; a larger number is damage that would cost minutes per key.
const MAX_HASHES: i32 = 1024;
/// Keys hashed side by side: one chain alone waits for its multiplications most of the time.
const LANES: usize = 8;
/// Longest key that is hashed side by side with others.
const LANE_BYTES: usize = 256;

const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

/// One vector of bits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BitRow {
    pub(super) hashes: u32,
    pub(super) bits: u32,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn bits_per_key(fpp: f64) -> f64 {
    -fpp.ln() / (std::f64::consts::LN_2 * std::f64::consts::LN_2)
}

/// Half of the hashes of the smallest filter.
fn quick_hashes(fpp: f64) -> f64 {
    (-fpp.log2() / 2.0).ceil().max(1.0)
}

/// Bits at which that many hashes reach the rate.
pub(super) fn quick_bits_per_key(fpp: f64) -> f64 {
    let hashes = quick_hashes(fpp);
    -hashes / (-fpp.powf(1.0 / hashes)).ln_1p()
}

impl BitRow {
    /// For so many keys, with the fewest bits: as Hudi sizes its filters.
    pub(super) fn sized(entries: usize, fpp: f64) -> Result<Self> {
        let entries = entries.max(1) as f64;
        let bits = (entries * bits_per_key(fpp)).ceil();
        Self::of_size(entries, fpp, bits, std::f64::consts::LN_2 * bits / entries)
    }

    /// For so many keys, with half the hashes: as sure as the smallest filter, for a fifth more bits and half the time.
    pub(super) fn sized_for_speed(entries: usize, fpp: f64) -> Result<Self> {
        let entries = entries.max(1) as f64;
        let hashes = quick_hashes(fpp);
        Self::of_size(entries, fpp, (entries * quick_bits_per_key(fpp)).ceil(), hashes)
    }

    fn of_size(entries: f64, fpp: f64, bits: f64, hashes: f64) -> Result<Self> {
        let usable = fpp > 0.0 && fpp < 1.0 && (1.0..=f64::from(i32::MAX)).contains(&bits);
        if !usable {
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

    pub(super) fn insert(&mut self, key: &[u8]) {
        let mut seed = 0;
        for _ in 0..self.hashes {
            seed = murmur(key, seed);
            self.set(seed.cast_signed().unsigned_abs() % self.bits);
        }
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let mut seed = 0;
        (0..self.hashes).all(|_| {
            seed = murmur(key, seed);
            let position = seed.cast_signed().unsigned_abs() % self.bits;
            self.bytes.get((position >> 3) as usize).is_some_and(|b| b & (1 << (position & 7)) != 0)
        })
    }

    /// Inserts many keys: those of equal length go through the hash side by side.
    pub(super) fn insert_all<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        let mut by_length: Vec<LaneBuffer<'a>> = Vec::new();
        for key in keys {
            // Longer keys than this are rare, and their chains are bound by reading, not by waiting.
            if key.len() > LANE_BYTES {
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
        let mut words = [[0u32; LANES]; LANE_BYTES / 4];
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
                if !len.is_multiple_of(4) {
                    *h = (*h ^ t).wrapping_mul(M);
                }
                *h = finish(*h);
            }
            for h in seeds {
                self.set(remainder.of(h.cast_signed().unsigned_abs()));
            }
        }
    }

    pub(super) fn union(&mut self, other: &Self) {
        for (a, b) in self.bytes.iter_mut().zip(&other.bytes) {
            *a |= b;
        }
    }

    /// What stands before the bits.
    pub(super) fn write_header(&self, out: &mut Vec<u8>) {
        write_header(out, self.hashes, self.bits);
    }

    pub(super) fn read(input: &mut &[u8]) -> Result<Self> {
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
pub(super) struct Remainder {
    d: u32,
    inverse: u64,
}

impl Remainder {
    pub(super) fn by(d: u32) -> Self {
        Self { d, inverse: (u64::MAX / u64::from(d.max(1))).wrapping_add(1) }
    }

    #[inline]
    pub(super) fn of(self, x: u32) -> u32 {
        let low = self.inverse.wrapping_mul(u64::from(x));
        ((u128::from(low) * u128::from(self.d)) >> 64) as u32
    }
}

#[inline]
fn mix(word: [u8; 4]) -> u32 {
    let k = u32::from_le_bytes(word).wrapping_mul(M);
    (k ^ (k >> R)).wrapping_mul(M)
}

/// What the last one to three bytes add: the very last one unshifted, each sign-extended before it is shifted.
#[inline]
pub(super) fn tail(rest: &[u8]) -> u32 {
    rest.iter().rev().zip([0, 8, 16]).fold(0, |h, (b, shift)| h ^ (i32::from(b.cast_signed()) << shift).cast_unsigned())
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

pub(super) fn truncated() -> Error {
    Error::corrupt("a bloom filter ends before its bits do")
}

pub(super) fn write_header(out: &mut Vec<u8>, hashes: u32, bits: u32) {
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&hashes.to_be_bytes());
    out.push(MURMUR);
    out.extend_from_slice(&bits.to_be_bytes());
}

pub(super) fn read_i32(input: &mut &[u8]) -> Result<i32> {
    let (head, rest) = input.split_first_chunk::<4>().ok_or_else(truncated)?;
    *input = rest;
    Ok(i32::from_be_bytes(*head))
}

pub(super) fn read_header(input: &mut &[u8]) -> Result<(u32, u32)> {
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
