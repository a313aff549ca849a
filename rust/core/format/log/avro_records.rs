//! The records of a data block in Avro's binary form.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | version of the content; records look alike in all of them |
//! | 4 | count of records |
//! | 4 + … | each record: its length, then the datum by the schema of the block's header |

use super::block::{Block, HeaderKey};
use crate::error::{Error, Result};

/// The records of a block as bytes, one by one; ends behind the first error.
#[derive(Debug, Clone)]
pub struct AvroRecords<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> AvroRecords<'a> {
    /// The latest version of the content.
    pub(super) const LATEST_VERSION: u32 = 3;

    /// Opens the content of a data block.
    ///
    /// # Errors
    /// `Corrupt` if there are fewer bytes than that many records take, `Unsupported` for a later version.
    pub fn new(content: &'a [u8]) -> Result<Self> {
        let mut rest = content;
        let version = take_number(&mut rest)?;
        if version > Self::LATEST_VERSION {
            return Err(Error::unsupported("the version of a log block's content").with("version", version));
        }
        let count = take_number(&mut rest)? as usize;
        if count > rest.len() / 4 {
            return Err(Error::corrupt("a log block has fewer bytes than records").with("records", count));
        }
        Ok(Self { rest, left: count })
    }

    /// How many records are left.
    pub(super) fn records_left(&self) -> usize {
        self.left
    }

    /// The schema that the records of a block were written with.
    ///
    /// # Errors
    /// `Corrupt` if the header has none.
    pub fn schema(block: &Block) -> Result<&str> {
        block.header(HeaderKey::Schema).ok_or_else(|| Error::corrupt("a log block with records has no schema"))
    }

    fn record(&mut self) -> Result<&'a [u8]> {
        let length = take_number(&mut self.rest)? as usize;
        let (record, rest) = self.rest.split_at_checked(length).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(record)
    }
}

impl<'a> Iterator for AvroRecords<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = self.record();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

/// A number of four bytes. Read without its sign a negative one is larger than any content.
fn take_number(rest: &mut &[u8]) -> Result<u32> {
    let (number, behind) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
    *rest = behind;
    Ok(u32::from_be_bytes(*number))
}

fn cut_off() -> Error {
    Error::corrupt("a record of a log block is cut off")
}
