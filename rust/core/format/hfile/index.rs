//! The data index: where the data blocks are.
//!
//! The root has an entry for each data block, or for each node of the next level:
//!
//! | bytes | field |
//! |---|---|
//! | 8, 4 | offset of the block; its length with its header |
//! | 1–9 | length of the key, as Hadoop writes it |
//! | … | first key of the block |
//!
//! Behind the entries may be what helps to find the middle of the file. Inner nodes and leaves have other entries:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | count |
//! | 4 × (count + 1) | where each entry begins and the last one ends, from the first one on |
//! | 8, 4, … | each entry: offset of the block, its length, first key |

use bytes::Bytes;

use super::block::{BlockKind, read_block};
use super::fields::Fields;
use super::trailer::Trailer;
use crate::error::{Error, Result};

/// Levels that a file of 2 GiB cannot need.
const MOST_LEVELS: u64 = 16;
/// Bytes of an entry less its key.
const ENTRY_LEAD: usize = 12;

/// A block that an index names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockAddress {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The data blocks in the order of the index.
pub(super) fn data_blocks(file: &Bytes, trailer: &Trailer) -> Result<Vec<BlockAddress>> {
    if !(1..=MOST_LEVELS).contains(&trailer.levels) {
        return Err(Error::corrupt("the index of an HFile has no such depth").with("levels", trailer.levels));
    }
    let (root, _) = read_block(file, trailer.root, BlockKind::RootIndex, trailer.codec)?;
    let mut blocks = root_entries(&root, trailer.root_entries)?;
    check(&blocks, file, trailer)?;
    for level in (1..trailer.levels).rev() {
        let kind = if level == 1 { BlockKind::LeafIndex } else { BlockKind::InnerIndex };
        let mut below = Vec::new();
        for place in &blocks {
            let (node, _) = read_block(file, place.offset, kind, trailer.codec)?;
            node_entries(&node, &mut below).map_err(|e| e.with("block_at", place.offset))?;
        }
        blocks = below;
        check(&blocks, file, trailer)?;
    }
    Ok(blocks)
}

/// Blocks that lie behind each other and before the index: none is read twice.
fn check(blocks: &[BlockAddress], file: &Bytes, trailer: &Trailer) -> Result<()> {
    let mut free = 0;
    for place in blocks {
        let end = place.offset.checked_add(place.length).filter(|end| *end <= trailer.root);
        if place.offset < free || place.length == 0 {
            return Err(
                Error::corrupt("the index of an HFile names blocks that overlap").with("block_at", place.offset)
            );
        }
        free = end.ok_or_else(|| Error::corrupt("the index of an HFile names a block beyond itself"))?;
        // The length in front of the block is the one that is read by.
        let at = usize::try_from(place.offset).unwrap_or(usize::MAX).saturating_add(8);
        let mut header = Fields::new(file.get(at..).unwrap_or_default());
        if u64::from(header.int()?) + 33 != place.length {
            return Err(
                Error::corrupt("a block of an HFile is not as long as its index says").with("block_at", place.offset)
            );
        }
    }
    Ok(())
}

fn root_entries(node: &[u8], count: u64) -> Result<Vec<BlockAddress>> {
    let mut fields = Fields::new(node);
    if count > (node.len() / (ENTRY_LEAD + 1)) as u64 {
        return Err(Error::corrupt("the index of an HFile has more entries than bytes").with("entries", count));
    }
    (0..count)
        .map(|_| {
            let place = BlockAddress { offset: fields.long()?, length: fields.int()?.into() };
            let key = fields.hadoop_length()?;
            fields.bytes(key)?;
            Ok(place)
        })
        .collect()
}

fn node_entries(node: &[u8], blocks: &mut Vec<BlockAddress>) -> Result<()> {
    let mut fields = Fields::new(node);
    let count = fields.length()?;
    if count > fields.left() / (ENTRY_LEAD + 4) {
        return Err(Error::corrupt("an index node of an HFile has more entries than bytes").with("entries", count));
    }
    let mut bounds = Fields::new(fields.bytes(4 * (count + 1))?);
    let mut start = bounds.length()?;
    if start != 0 {
        return Err(Error::corrupt("the entries of an index node of an HFile are not where they should be"));
    }
    for _ in 0..count {
        let end = bounds.length()?;
        let entry = end.checked_sub(start).filter(|length| *length >= ENTRY_LEAD);
        let entry = entry.ok_or_else(|| Error::corrupt("an entry of an index node of an HFile is too short"))?;
        let mut entry = Fields::new(fields.bytes(entry)?);
        blocks.push(BlockAddress { offset: entry.long()?, length: entry.int()?.into() });
        start = end;
    }
    Ok(())
}
