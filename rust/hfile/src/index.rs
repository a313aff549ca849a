//! The data index, which says where the data blocks are, and the meta index, which has the form of a root.
//!
//! The root has an entry for each data block, or for each node of the next level:
//!
//! | bytes | field |
//! |---|---|
//! | 8, 4 | offset of the block; its length with its header |
//! | 1–9 | length of the key, as Hadoop writes it |
//! | … | first key of the block, or one between the last key of the block before it and its first key |
//!
//! After the entries HBase may write where the middle of the file is. Inner nodes and leaves have another form:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | count |
//! | 4 × (count + 1) | where each entry begins and the last one ends, from the first one on |
//! | 8, 4, … | each entry: offset of the block, its length, first key |

use bytes::Bytes;

use crate::block::HEADER_BYTES;
use crate::entries::{put_row, row_of};
use crate::error::{HFileError, Result};
use crate::fields::{Fields, put_hadoop_length};

/// Levels that no file needs.
pub(crate) const MAX_LEVELS: u64 = 16;
/// Bytes of an entry of a node without its key.
const ENTRY_LEAD: usize = 12;

/// A block that an index names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockAddress {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// No key of the block is smaller, and no key of the blocks before it is greater.
    pub(crate) key: Bytes,
}

impl BlockAddress {
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The address with the row of its key.
    fn with_row(self) -> Result<Self> {
        Ok(Self { key: row_of(&self.key)?, ..self })
    }
}

/// The entries of the root of a data index; their keys are rows.
pub(crate) fn root_entries(content: &Bytes, count: u64, before: u64) -> Result<Vec<BlockAddress>> {
    addresses(content, count, before, BlockAddress::with_row)
}

/// The entries of a meta index; their keys are names.
pub(crate) fn meta_entries(content: &Bytes, count: u64, before: u64) -> Result<Vec<BlockAddress>> {
    addresses(content, count, before, Ok)
}

fn addresses(
    content: &Bytes,
    count: u64,
    before: u64,
    with_key: fn(BlockAddress) -> Result<BlockAddress>,
) -> Result<Vec<BlockAddress>> {
    let mut fields = Fields::new(content);
    let mut order = Order::before(before);
    let mut found = Vec::new();
    for _ in 0..count {
        if fields.is_empty() {
            return Err(HFileError::corrupt("the index of an HFile has fewer entries than its trailer says"));
        }
        let (offset, length) = (fields.long()?, fields.int()?.into());
        let key = fields.hadoop_length()?;
        let key = content.slice_ref(fields.bytes(key)?);
        let block = with_key(BlockAddress { offset, length, key })?;
        order.check(&block)?;
        found.push(block);
    }
    Ok(found)
}

/// Append the entries of an inner node or a leaf.
pub(crate) fn node_entries(content: &Bytes, order: &mut Order, found: &mut Vec<BlockAddress>) -> Result<()> {
    let mut fields = Fields::new(content);
    let count = fields.length()?;
    if count > fields.left() / (ENTRY_LEAD + 4) {
        return Err(HFileError::corrupt("an index node of an HFile has more entries than bytes"));
    }
    let mut bounds = Fields::new(fields.bytes(4 * (count + 1))?);
    let mut start = bounds.length()?;
    if start != 0 {
        return Err(HFileError::corrupt("the entries of an index node of an HFile are not where they should be"));
    }
    for _ in 0..count {
        let end = bounds.length()?;
        let length = end.checked_sub(start).filter(|length| *length >= ENTRY_LEAD);
        let length = length.ok_or_else(|| HFileError::corrupt("an entry of an index node of an HFile is too short"))?;
        let mut entry = Fields::new(fields.bytes(length)?);
        let (offset, length) = (entry.long()?, entry.int()?.into());
        let key = content.slice_ref(entry.bytes(entry.left())?);
        let block = BlockAddress { offset, length, key }.with_row()?;
        order.check(&block)?;
        found.push(block);
        start = end;
    }
    Ok(())
}

/// Checks that blocks lie one after the other and before the root, so that none is read twice, and that there are no more
/// of them than fit into the file.
#[derive(Debug)]
pub(crate) struct Order {
    root: u64,
    free: u64,
}

impl Order {
    pub(crate) fn before(root: u64) -> Self {
        Self { root, free: 0 }
    }

    pub(crate) fn check(&mut self, block: &BlockAddress) -> Result<()> {
        if block.offset < self.free || block.length < HEADER_BYTES as u64 {
            return Err(HFileError::corrupt_at("the index of an HFile names blocks that overlap", block.offset));
        }
        self.free = block.end();
        if self.free > self.root {
            return Err(HFileError::corrupt_at("the index of an HFile names a block after itself", block.offset));
        }
        Ok(())
    }
}

/// Append an entry of a root whose key is a row.
pub(crate) fn put_data_entry(content: &mut Vec<u8>, offset: u64, length: u32, row: &[u8]) {
    put_lead(content, offset, length, row.len() + 2);
    put_row(content, row);
}

/// Append an entry of a meta index.
pub(crate) fn put_meta_entry(content: &mut Vec<u8>, offset: u64, length: u32, name: &str) {
    put_lead(content, offset, length, name.len());
    content.extend_from_slice(name.as_bytes());
}

fn put_lead(content: &mut Vec<u8>, offset: u64, length: u32, key_length: usize) {
    content.extend_from_slice(&offset.to_be_bytes());
    content.extend_from_slice(&length.to_be_bytes());
    put_hadoop_length(content, key_length);
}
