//! The entries of a data block.
//!
//! | bytes | field |
//! |---|---|
//! | 4, 4 | length of the key, length of the value |
//! | 2 + … | length of the row, and the row: what Hudi calls the key |
//! | 1 + …, 8, 1 | the rest of the key: column family, timestamp, type; Hudi has one of each |
//! | … | value |
//! | 1 | MVCC version, 0 |

use bytes::Bytes;

use crate::error::{HFileError, Result};

/// Bytes of an entry besides its row and its value.
pub(crate) const ENTRY_OVERHEAD: usize = 21;
/// Bytes of a key besides its row, as they are written.
const KEY_OVERHEAD: usize = 12;
/// The most bytes of a row: Java reads its length with a sign.
pub(crate) const MAX_ROW_BYTES: usize = i16::MAX as usize;
/// The end of each key: no column family, the latest timestamp, the type "put".
const KEY_END: [u8; 10] = [0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4];

/// A key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key: the row of HBase, without the column family, timestamp and type that follow it.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry at the beginning, and the bytes after it.
    #[inline]
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([k0, k1, k2, k3, v0, v1, v2, v3], rest) = bytes.split_first_chunk::<8>()?;
        let key_length = usize::try_from(u32::from_be_bytes([*k0, *k1, *k2, *k3])).ok()?;
        let value_length = usize::try_from(u32::from_be_bytes([*v0, *v1, *v2, *v3])).ok()?;
        let (key, rest) = rest.split_at_checked(key_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        let (version, rest) = rest.split_first()?;
        let (row_length, key) = key.split_first_chunk::<2>()?;
        let key = key.get(..usize::from(u16::from_be_bytes(*row_length)))?;
        // A version of up to 127 takes one byte; Hudi's reader knows no others.
        (*version <= 127).then_some((Self { key, value }, rest))
    }
}

/// Append an entry. The row is no longer than [`MAX_ROW_BYTES`], and the value not longer than a block.
pub(crate) fn put_entry(block: &mut Vec<u8>, row: &[u8], value: &[u8]) {
    let key_length = u32::try_from(row.len() + KEY_OVERHEAD).unwrap_or(u32::MAX);
    let value_length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    block.reserve(row.len() + value.len() + ENTRY_OVERHEAD);
    block.extend_from_slice(&key_length.to_be_bytes());
    block.extend_from_slice(&value_length.to_be_bytes());
    put_row(block, row);
    block.extend_from_slice(&KEY_END);
    block.extend_from_slice(value);
    block.push(0);
}

/// Append the length of a row, and the row: the form of keys in the index and of the last key.
pub(crate) fn put_row(bytes: &mut Vec<u8>, row: &[u8]) {
    bytes.extend_from_slice(&u16::try_from(row.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend_from_slice(row);
}

/// The row of a key; HBase has column family, timestamp and type after it.
pub(crate) fn row_of(key: &Bytes) -> Result<Bytes> {
    let row = key.split_first_chunk::<2>().map(|(length, _)| 2 + usize::from(u16::from_be_bytes(*length)));
    let end = row.filter(|end| *end <= key.len());
    Ok(key.slice(2..end.ok_or_else(|| HFileError::corrupt("a key of an HFile is cut off"))?))
}

/// The content of a data block. All of its entries are whole.
#[derive(Debug, Clone)]
pub struct DataBlock {
    bytes: Bytes,
    count: usize,
    offset: u64,
    sorted: bool,
}

impl DataBlock {
    /// Walks over all entries.
    pub(crate) fn new(bytes: Bytes, offset: u64) -> Result<Self> {
        let (mut rest, mut count, mut sorted) = (bytes.as_ref(), 0, true);
        let mut last: &[u8] = &[];
        while !rest.is_empty() {
            let Some((entry, after)) = Entry::split(rest) else {
                return Err(HFileError::corrupt_at("an entry of an HFile is damaged", offset));
            };
            sorted &= last <= entry.key;
            (last, rest) = (entry.key, after);
            count += 1;
        }
        Ok(Self { bytes, count, offset, sorted })
    }

    /// How many entries the block has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many bytes the entries take.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Where the block is in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the entries are sorted by the bytes of their keys. Hudi writes the blocks of log files in the order of
    /// Java's strings, which differs for characters beyond U+FFFF.
    pub fn is_sorted(&self) -> bool {
        self.sorted
    }

    /// The entries in their order.
    pub fn entries(&self) -> Entries<'_> {
        Entries { rest: &self.bytes }
    }

    /// The entry that begins at a position.
    pub(crate) fn entry_at(&self, position: usize) -> Option<Entry<'_>> {
        Entry::split(self.bytes.get(position..)?).map(|(entry, _)| entry)
    }
}

/// The entries of one data block, made by [`DataBlock::entries`].
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl Entries<'_> {
    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        // The block was walked over before, so it ends only where nothing is left.
        let (entry, rest) = Entry::split(self.rest)?;
        self.rest = rest;
        Some(entry)
    }
}
