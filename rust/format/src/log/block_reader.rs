//! From block to block.

use std::collections::BTreeMap;
use std::ops::Range;

use parquet::file::reader::ChunkReader;

use super::block::{Block, BlockKind, HeaderKey, HeaderMap};
use super::file::LogFile;
use super::{MAGIC, checksum};
use hoodoo_runtime::error::{Error, Result};

const MAGIC_LENGTH: u64 = MAGIC.len() as u64;
/// Magic and size.
const LEAD: u64 = MAGIC_LENGTH + 8;
/// The number at the end.
const TRAILER: u64 = 8;
/// The least that a size can be: version, kind, two empty maps, the length of no content, trailer.
const SMALLEST: u64 = 4 + 4 + 4 + 8 + 4 + TRAILER;
/// Bytes of a map entry less its text.
const ENTRY_LEAD: u64 = 8;
/// How much is looked through at first for the next block, and at most at a time. It grows in between: otherwise a file full
/// of magics would be read over and over.
const FIRST_STRIDE: u64 = 256;
const LAST_STRIDE: u64 = 1 << 20;

/// The blocks of a file in their order. Ends with the file, or behind the first error.
///
/// Bytes that are no whole block (a writer died within it) come as one block of kind [`BlockKind::Corrupt`], which ends
/// where the next magic stands, as in Hudi. A block whose frame is whole but whose inside makes no sense is an error.
pub struct Blocks<'a, R> {
    file: &'a LogFile<R>,
    offset: u64,
    failed: bool,
}

impl<R: ChunkReader> LogFile<R> {
    /// Walks over its blocks, from the first on.
    pub fn blocks(&self) -> Blocks<'_, R> {
        Blocks { file: self, offset: 0, failed: false }
    }
}

impl<R: ChunkReader> Blocks<'_, R> {
    fn advance(&mut self) -> Result<Option<Block>> {
        let start = self.offset;
        // Fewer bytes than a magic has are the end for Hudi too.
        if self.file.size().saturating_sub(start) < MAGIC_LENGTH {
            return Ok(None);
        }
        // Later blocks begin where the one before them ended: at a magic.
        if start == 0 && &self.file.array::<6>(start)? != MAGIC {
            return Err(Error::corrupt("not a log file: it does not begin with #HUDI#"));
        }
        let block = match self.end_of_block(start)? {
            Some(end) => self.parse(start..end).map_err(|e| e.with("offset", start))?,
            None => self.corrupt(start)?,
        };
        self.offset = block.range.end;
        Ok(Some(block))
    }

    /// Where the block ends, if it is whole: its size stays within the file, the trailer says the same, and another
    /// magic or the end of the file follows.
    fn end_of_block(&self, start: u64) -> Result<Option<u64>> {
        let file_end = self.file.size();
        if file_end.saturating_sub(start) < LEAD {
            return Ok(None);
        }
        let size = length_of(self.file.array(start + MAGIC_LENGTH)?);
        let end = (start + LEAD).checked_add(size);
        let Some(end) = end.filter(|end| size >= SMALLEST && *end <= file_end) else { return Ok(None) };
        if u64::from_be_bytes(self.file.array(end - TRAILER)?) != size + MAGIC_LENGTH {
            return Ok(None);
        }
        let at_end = file_end - end < MAGIC_LENGTH;
        Ok((at_end || &self.file.array::<6>(end)? == MAGIC).then_some(end))
    }

    fn corrupt(&self, start: u64) -> Result<Block> {
        let end = self.next_magic(start + MAGIC_LENGTH)?;
        Ok(Block {
            kind: BlockKind::Corrupt,
            range: start..end,
            header: HeaderMap::new(),
            footer: BTreeMap::new(),
            content: start + MAGIC_LENGTH..end,
            checksum: None,
        })
    }

    /// The next position of a magic, else the end of the file.
    fn next_magic(&self, mut from: u64) -> Result<u64> {
        let file_end = self.file.size();
        let mut stride = FIRST_STRIDE;
        while file_end - from >= MAGIC_LENGTH {
            let bytes = self.file.read(from, stride.min(file_end - from))?;
            stride = (4 * stride).min(LAST_STRIDE);
            if let Some(found) = bytes.windows(MAGIC.len()).position(|w| w == MAGIC) {
                return Ok(from + found as u64);
            }
            // The last bytes may be the first of a magic.
            from += bytes.len() as u64 - (MAGIC_LENGTH - 1);
        }
        Ok(file_end)
    }

    fn parse(&self, range: Range<u64>) -> Result<Block> {
        let mut fields = Fields { file: self.file, offset: range.start + LEAD, end: range.end.saturating_sub(TRAILER) };
        let version = fields.int()?;
        if version != 1 {
            return Err(Error::unsupported("the version of a log block").with("version", version));
        }
        let number = fields.int()?;
        let kind = BlockKind::from_number(number)
            .ok_or_else(|| Error::corrupt("a log block is of no known kind").with("kind", number))?;
        let header = fields.map(HeaderKey::from_number)?;
        let length = fields.length()?;
        let content = fields.skip(length)?;
        let (content, checksum) = self.checksum(kind, &header, content)?;
        let footer = fields.map(|number| number)?;
        if fields.offset != fields.end {
            return Err(Error::corrupt("the parts of a log block do not add up to its size"));
        }
        Ok(Block { kind, range, header, footer, content, checksum })
    }

    /// The content without checksums, and the one that is for it.
    fn checksum(&self, kind: BlockKind, header: &HeaderMap, content: Range<u64>) -> Result<(Range<u64>, Option<u32>)> {
        let Some(end) = content.end.checked_sub(checksum::LENGTH as u64).filter(|end| *end >= content.start) else {
            return Ok((content, None));
        };
        let last = self.file.read(end, checksum::LENGTH as u64)?;
        let header = header.iter().map(|(key, text)| (*key, text.as_str()));
        Ok(match checksum::read(kind, header, &last)? {
            Some(sum) => (content.start..end, Some(sum)),
            None => (content, None),
        })
    }
}

/// A length of eight bytes, of which Hudi looks at the lower four: blocks are smaller than 2 GiB, and damage in the others
/// does no harm. (A negative number of four bytes is too long for a block, and its trailer cannot agree.)
fn length_of([_, _, _, _, low @ ..]: [u8; 8]) -> u64 {
    u64::from(u32::from_be_bytes(low))
}

impl<R: ChunkReader> Iterator for Blocks<'_, R> {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}

/// The fields of one block, none of which reaches beyond its end.
struct Fields<'a, R> {
    file: &'a LogFile<R>,
    offset: u64,
    end: u64,
}

impl<R: ChunkReader> Fields<'_, R> {
    /// Passes over bytes and says where they lie.
    fn skip(&mut self, length: u64) -> Result<Range<u64>> {
        let start = self.offset;
        let end = start.checked_add(length).filter(|end| *end <= self.end);
        self.offset = end.ok_or_else(|| {
            Error::corrupt("a part of a log block reaches beyond its end").with("part_at", start).with("length", length)
        })?;
        Ok(start..self.offset)
    }

    fn int(&mut self) -> Result<i32> {
        let at = self.skip(4)?;
        Ok(i32::from_be_bytes(self.file.array(at.start)?))
    }

    fn length(&mut self) -> Result<u64> {
        let at = self.skip(8)?;
        Ok(length_of(self.file.array(at.start)?))
    }

    fn map<K: Ord>(&mut self, key_of: fn(i32) -> K) -> Result<BTreeMap<K, String>> {
        let count = self.int()?.cast_unsigned();
        if u64::from(count) > (self.end - self.offset) / ENTRY_LEAD {
            return Err(Error::corrupt("a map of a log block has more entries than bytes").with("entries", count));
        }
        let mut map = BTreeMap::new();
        for _ in 0..count {
            let key = key_of(self.int()?);
            let length = self.int()?.cast_unsigned();
            let at = self.skip(u64::from(length))?;
            let bytes = self.file.read(at.start, u64::from(length))?;
            let text = std::str::from_utf8(&bytes)
                .map_err(|e| Error::corrupt("a map of a log block is not UTF-8").caused_by(e))?;
            map.insert(key, text.to_owned());
        }
        Ok(map)
    }
}
