//! The entries of a data block.
//!
//! | bytes | field |
//! |---|---|
//! | 4, 4 | length of the key, length of the value |
//! | 2 + … | length of the row, and the row: what Hudi calls the key |
//! | 1 + …, 8, 1 | the rest of the key: column, time, kind of change; Hudi has one column and one time |
//! | … | value |
//! | 1 | version of the write, 0 |

use bytes::Bytes;

use super::fields::Fields;
use crate::error::{Error, Result};

/// A key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The row, without what HBase has behind it.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// The content of a data block, all of whose entries are whole.
#[derive(Debug, Clone)]
pub struct DataBlock {
    bytes: Bytes,
    count: u64,
}

impl DataBlock {
    pub(super) fn new(bytes: Bytes) -> Result<Self> {
        let mut fields = Fields::new(&bytes);
        let mut count = 0;
        while !fields.is_empty() {
            entry(&mut fields)?;
            count += 1;
        }
        Ok(Self { bytes, count })
    }

    /// How many entries it has.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many bytes its entries take.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The entries in their order.
    pub fn entries(&self) -> Entries<'_> {
        Entries { rest: Fields::new(&self.bytes) }
    }
}

/// The entries of one data block.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: Fields<'a>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        // They were looked at before.
        entry(&mut self.rest).ok()
    }
}

fn entry<'a>(fields: &mut Fields<'a>) -> Result<Entry<'a>> {
    let (key_length, value_length) = (fields.length()?, fields.length()?);
    let mut key = Fields::new(fields.bytes(key_length)?);
    let row = u16::from_be_bytes(key.array()?);
    let row = key.bytes(row.into())?;
    let value = fields.bytes(value_length)?;
    // One byte holds what is no larger than 127; Hudi's reader knows no others.
    match fields.array()? {
        [version] if version <= 127 => Ok(Entry { key: row, value }),
        _ => Err(Error::unsupported("an HFile with numbered versions of its values")),
    }
}
