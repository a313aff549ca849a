//! A log file as bytes that are read by ranges.

use bytes::Bytes;
use parquet::file::reader::ChunkReader;

use super::{Block, Blocks};
use crate::error::{Error, Result};

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

    /// Walks over its blocks, from the first on.
    pub fn blocks(&self) -> Blocks<'_, R> {
        Blocks::new(self)
    }

    /// The content of a block.
    ///
    /// # Errors
    /// The block is not one of this file; or reading fails.
    pub fn content(&self, block: &Block) -> Result<Bytes> {
        self.read(block.content.start, block.content.end.saturating_sub(block.content.start))
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
