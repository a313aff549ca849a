//! Blocks one after the other, with few reads of the source.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use crate::block::{BlockKind, BlockReader};
use crate::entries::DataBlock;
use crate::error::{HFileError, Result};
use crate::index::BlockAddress;
use crate::source::{ReadAt, read_ranges};

/// So many bytes are read at a time.
const WINDOW_BYTES: u64 = 8 << 20;
/// So many ranges are read at a time.
const WINDOW_RANGES: usize = 32;

/// The contents of blocks, with their offsets. It ends after the first error.
pub(super) struct BlockStream<'r, S> {
    source: &'r S,
    reader: BlockReader,
    kind: BlockKind,
    blocks: std::iter::Peekable<std::vec::IntoIter<BlockAddress>>,
    loaded: VecDeque<(u64, Bytes)>,
    failed: bool,
}

impl<'r, S: ReadAt> BlockStream<'r, S> {
    pub(super) fn new(source: &'r S, reader: BlockReader, blocks: Vec<BlockAddress>, kind: BlockKind) -> Self {
        let blocks = blocks.into_iter().peekable();
        Self { source, reader, kind, blocks, loaded: VecDeque::new(), failed: false }
    }

    fn load(&mut self) -> Result<()> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut members: Vec<(usize, u64, Range<u64>)> = Vec::new();
        let mut total = 0;
        while let Some(block) = self.blocks.next_if(|_| total < WINDOW_BYTES) {
            self.reader.check_length(block.length, block.offset)?;
            total += block.length;
            match ranges.last_mut() {
                Some(range) if range.end == block.offset => range.end = block.end(),
                _ => ranges.push(block.offset..block.end()),
            }
            let start = ranges.last().map_or(0, |range| block.offset - range.start);
            members.push((ranges.len() - 1, block.offset, start..start + block.length));
            if ranges.len() == WINDOW_RANGES {
                break;
            }
        }
        let bytes = read_ranges(self.source, &ranges)?;
        for (range, offset, part) in members {
            let bounds = usize::try_from(part.start).ok().zip(usize::try_from(part.end).ok());
            let found = bytes.get(range).zip(bounds).filter(|(bytes, (_, end))| *end <= bytes.len());
            let (bytes, (start, end)) = found.ok_or_else(|| HFileError::corrupt_at("a block is cut off", offset))?;
            self.loaded.push_back((offset, bytes.slice(start..end)));
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<(u64, Bytes)>> {
        if self.loaded.is_empty() {
            if self.blocks.peek().is_none() {
                return Ok(None);
            }
            self.load()?;
        }
        let Some((offset, bytes)) = self.loaded.pop_front() else { return Ok(None) };
        self.reader.whole(&bytes, offset, self.kind).map(|content| Some((offset, content)))
    }
}

impl<S: ReadAt> Iterator for BlockStream<'_, S> {
    type Item = Result<(u64, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read();
        self.failed = next.is_err();
        next.transpose()
    }
}

/// All data blocks of a file, made by [`HFileReader::data_blocks`](crate::HFileReader::data_blocks).
pub struct DataBlocks<'r, S> {
    blocks: BlockStream<'r, S>,
    left: u64,
    done: bool,
}

impl<'r, S: ReadAt> DataBlocks<'r, S> {
    pub(super) fn new(blocks: BlockStream<'r, S>, entries: u64) -> Self {
        Self { blocks, left: entries, done: false }
    }

    fn read(&mut self) -> Result<Option<DataBlock>> {
        let Some(next) = self.blocks.next() else {
            return if self.left == 0 { Ok(None) } else { Err(miscounted()) };
        };
        let (offset, content) = next?;
        let block = DataBlock::new(content, offset)?;
        self.left = self.left.checked_sub(block.count() as u64).ok_or_else(miscounted)?;
        Ok(Some(block))
    }
}

impl<S: ReadAt> Iterator for DataBlocks<'_, S> {
    type Item = Result<DataBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.read();
        self.done = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

fn miscounted() -> HFileError {
    HFileError::corrupt("an HFile has another number of entries than its trailer says")
}
