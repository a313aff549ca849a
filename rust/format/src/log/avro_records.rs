//! The records of a data block in Avro's binary form.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | version of the content; records look alike in all of them |
//! | 4 | count of records |
//! | 4 + … | each record: its length, then the datum by the schema of the block's header |

use super::block::{Block, HeaderKey};
use hoodoo_runtime::error::{Error, Result};

/// The records of a block as bytes, one by one; ends behind the first error.
#[derive(Debug, Clone)]
pub struct AvroRecords<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> AvroRecords<'a> {
    /// The latest version of the content.
    pub(super) const LATEST_VERSION: u32 = 3;
    /// Bytes before the first record.
    pub(super) const HEAD: usize = 8;

    /// Opens the content of a data block.
    ///
    /// # Errors
    /// `Corrupt` if there are fewer bytes than that many records take, `Unsupported` for a later version.
    pub fn new(content: &'a [u8]) -> Result<Self> {
        let left = Self::count(content, content.len() as u64)?;
        Ok(Self { rest: content.get(Self::HEAD..).unwrap_or_default(), left })
    }

    /// How many records a content of so many bytes says to have, by its first bytes.
    pub(super) fn count(mut head: &[u8], bytes: u64) -> Result<usize> {
        let version = take_number(&mut head)?;
        if version > Self::LATEST_VERSION {
            return Err(Error::unsupported("the version of a log block's content").with("version", version));
        }
        let count = take_number(&mut head)? as usize;
        if count as u64 > bytes.saturating_sub(Self::HEAD as u64) / 4 {
            return Err(Error::corrupt("a log block has fewer bytes than records").with("records", count));
        }
        Ok(count)
    }

    /// Some records that lie at the beginning of bytes of the content.
    pub(super) fn some(bytes: &'a [u8], count: usize) -> Self {
        Self { rest: bytes, left: count }
    }

    /// How many records, at most so many, lie whole at the beginning of some bytes, and how many bytes they take; when there is
    /// none, how many bytes the first one takes, as far as these bytes say.
    pub(super) fn whole(bytes: &[u8], most: usize) -> (usize, usize) {
        let (mut rest, mut count) = (bytes, 0);
        while count < most {
            let mut behind = rest;
            let Ok(length) = take_number(&mut behind) else { break };
            match behind.get(length as usize..) {
                Some(next) => rest = next,
                None if count == 0 => return (0, (length as usize).saturating_add(4)),
                None => break,
            }
            count += 1;
        }
        (count, bytes.len() - rest.len())
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

pub(super) fn cut_off() -> Error {
    Error::corrupt("a record of a log block is cut off")
}
