//! A log file as bytes that are read by ranges.

use std::io::{Read, Take};
use std::ops::Range;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::block::Block;
use super::checksum::ContentChecksum;
use hoodoo_runtime::error::{Error, Result};

/// A log file.
pub struct LogFile<R> {
    source: R,
}

impl<R: ChunkReader> LogFile<R> {
    /// A file in a source; nothing is read yet.
    pub fn new(source: R) -> Self {
        Self { source }
    }

    /// Where it is read from.
    pub fn source(&self) -> &R {
        &self.source
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.source.len()
    }

    /// The whole content of a block.
    ///
    /// # Errors
    /// `Corrupt` when it does not match its checksum; the block is not one of this file; or reading fails.
    pub fn content(&self, block: &Block) -> Result<Bytes> {
        let content = self.read(block.content.start, block.content.end.saturating_sub(block.content.start))?;
        let mut sum = ContentChecksum::of(block);
        sum.add(&content);
        sum.finish()?;
        Ok(content)
    }

    /// Bytes from an offset on: all of them or an error.
    pub(super) fn read(&self, start: u64, length: u64) -> Result<Bytes> {
        let damaged = || Error::corrupt("a log file is cut off").with("offset", start).with("wanted", length);
        if start.checked_add(length).is_none_or(|end| end > self.size()) {
            return Err(damaged());
        }
        let wanted = usize::try_from(length).map_err(|_| damaged())?;
        let bytes = self.source.get_bytes(start, wanted)?;
        if bytes.len() == wanted { Ok(bytes) } else { Err(damaged()) }
    }

    pub(super) fn array<const N: usize>(&self, start: u64) -> Result<[u8; N]> {
        let bytes = self.read(start, N as u64)?;
        bytes.as_ref().try_into().map_err(|_| Error::corrupt("a log file is cut off").with("offset", start))
    }
}

impl<R: ChunkReader + Clone> LogFile<R> {
    /// The content of a block, of which nothing is read yet.
    pub fn content_reader(&self, block: &Block) -> BlockContent<R> {
        BlockContent { source: self.source.clone(), range: block.content.clone() }
    }
}

/// The content of a block, to be read in parts: blocks may be larger than memory.
pub struct BlockContent<R> {
    source: R,
    range: Range<u64>,
}

impl<R: ChunkReader> BlockContent<R> {
    fn within(&self, start: u64, length: u64) -> parquet::errors::Result<u64> {
        let end = start.checked_add(length).filter(|end| *end <= self.len());
        end.and_then(|_| self.range.start.checked_add(start)).ok_or_else(|| {
            ParquetError::EOF(format!("{length} bytes at {start} of the {} bytes of a log block", self.len()))
        })
    }
}

impl<R: ChunkReader> Length for BlockContent<R> {
    fn len(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }
}

impl<R: ChunkReader> ChunkReader for BlockContent<R> {
    type T = Take<R::T>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let at = self.within(start, 0)?;
        Ok(self.source.get_read(at)?.take(self.len().saturating_sub(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.source.get_bytes(self.within(start, length as u64)?, length)
    }
}
