//! Entries of some keys or prefixes.

use std::cmp::Ordering;

use crate::entries::{DataBlock, Entry};
use crate::error::{HFileError, Result};
use crate::index::BlockAddress;
use crate::source::ReadAt;

use super::stream::BlockStream;

/// Keys or prefixes in ascending order.
pub(super) struct Wanted<'k, K> {
    keys: &'k [K],
    prefixes: bool,
}

impl<'k, K: AsRef<[u8]>> Wanted<'k, K> {
    pub(super) fn keys(keys: &'k [K]) -> Result<Self> {
        Self::sorted(keys, false)
    }

    pub(super) fn prefixes(keys: &'k [K]) -> Result<Self> {
        Self::sorted(keys, true)
    }

    fn sorted(keys: &'k [K], prefixes: bool) -> Result<Self> {
        let pairs = keys.iter().zip(keys.iter().skip(1));
        match pairs.into_iter().position(|(before, after)| before.as_ref() >= after.as_ref()) {
            Some(before) => Err(HFileError::UnsortedKeys { position: before as u64 + 1 }),
            None => Ok(Self { keys, prefixes }),
        }
    }

    /// The blocks that may have entries of a key or prefix. The key of a block is not greater than its first key, nor
    /// smaller than the last key of the block before it.
    pub(super) fn select(
        &self,
        blocks: &[BlockAddress],
        last_key: Option<&[u8]>,
        index: u64,
    ) -> Result<Vec<BlockAddress>> {
        if !blocks.is_sorted_by(|before, after| before.key <= after.key) {
            return Err(HFileError::UnsortedEntries { offset: index });
        }
        let mut chosen = Vec::new();
        // All blocks before this one are decided.
        let mut decided = 0;
        for key in self.keys.iter().map(AsRef::as_ref) {
            if last_key.is_some_and(|last| key > last) {
                break;
            }
            let after = blocks.partition_point(|block| block.key.as_ref() <= key);
            let ends_with = blocks.get(after..).unwrap_or_default().iter();
            let more = if self.prefixes { ends_with.take_while(|block| block.key.starts_with(key)).count() } else { 0 };
            let first = after.saturating_sub(1).max(decided);
            let end = after + more;
            chosen.extend(blocks.get(first..end).unwrap_or_default().iter().cloned());
            decided = decided.max(end);
        }
        Ok(chosen)
    }
}

/// The entries that a lookup finds, block by block: made by [`HFileReader::get_many`](crate::HFileReader::get_many) and
/// [`HFileReader::prefixes`](crate::HFileReader::prefixes). Blocks without such entries are left out. It ends after the
/// first error.
pub struct Lookup<'r, S, K> {
    blocks: BlockStream<'r, S>,
    wanted: Wanted<'r, K>,
    /// The first key that later entries may have.
    next: usize,
    failed: bool,
}

impl<'r, S: ReadAt, K: AsRef<[u8]>> Lookup<'r, S, K> {
    pub(super) fn new(blocks: BlockStream<'r, S>, wanted: Wanted<'r, K>) -> Self {
        Self { blocks, wanted, next: 0, failed: false }
    }

    fn read(&mut self) -> Result<Option<Matches>> {
        while let Some(next) = self.blocks.next() {
            let (offset, content) = next?;
            let block = DataBlock::new(content, offset)?;
            if !block.is_sorted() {
                return Err(HFileError::UnsortedEntries { offset });
            }
            let found = self.search(&block);
            if !found.is_empty() {
                return Ok(Some(Matches { block, found }));
            }
        }
        Ok(None)
    }

    /// For each entry that is wanted, the number of its key or prefix, and its position in the block.
    fn search(&mut self, block: &DataBlock) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut entries = block.entries();
        loop {
            let position = block.size() - entries.left();
            let Some(entry) = entries.next() else { return found };
            loop {
                let Some(key) = self.wanted.keys.get(self.next) else { return found };
                let key = key.as_ref();
                match entry.key.cmp(key) {
                    Ordering::Less => break,
                    Ordering::Greater if !(self.wanted.prefixes && entry.key.starts_with(key)) => {}
                    _ => {
                        found.push((self.next, position));
                        break;
                    }
                }
                self.next += 1;
            }
        }
    }
}

impl<S: ReadAt, K: AsRef<[u8]>> Iterator for Lookup<'_, S, K> {
    type Item = Result<Matches>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read();
        self.failed = next.is_err();
        next.transpose()
    }
}

/// The entries of one data block that a lookup found.
#[derive(Debug, Clone)]
pub struct Matches {
    block: DataBlock,
    found: Vec<(usize, usize)>,
}

impl Matches {
    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// The entries in their order, each with the number of its key or prefix in the list that the lookup was given.
    pub fn entries(&self) -> impl Iterator<Item = (usize, Entry<'_>)> {
        self.found.iter().filter_map(|(key, position)| Some((*key, self.block.entry_at(*position)?)))
    }
}
