//! HFiles of version 3, as Hudi and HBase write them: sorted keys with a value each. Reading only.
//!
//! | part | what |
//! |---|---|
//! | blocks | data blocks; between them leaves and inner nodes of an index of more than one level; meta blocks (not read) |
//! | root of the data index | at the trailer's "load on open" offset; then meta index and file info (not read) |
//! | trailer | the last 4096 bytes ([`trailer`]) |
//!
//! Each block has a header of its own, with a checksum where HBase wrote it ([`block`]). Which data blocks there are says
//! the index alone ([`index`]); what they hold, [`entries`].
//!
//! All of it may be hostile. Blocks have to lie behind each other and before the trailer, so that none is read twice, and
//! nothing that is allocated is larger than what deflate makes of the bytes that are there.

mod block;
mod checksum;
mod entries;
mod fields;
mod index;
mod trailer;

#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use entries::{DataBlock, Entries, Entry};

use crate::error::{Error, Result};
use block::{BlockKind, read_block};
use index::{BlockAddress, data_blocks};
use trailer::Trailer;

/// An HFile whose index is read.
#[derive(Debug)]
pub struct HFile {
    bytes: Bytes,
    trailer: Trailer,
    blocks: Vec<BlockAddress>,
}

impl HFile {
    /// Reads trailer and data index.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for other versions, codecs than gzip, and encryption.
    pub fn open(bytes: Bytes) -> Result<Self> {
        let trailer = Trailer::read(&bytes)?;
        let blocks = data_blocks(&bytes, &trailer)?;
        Ok(Self { bytes, trailer, blocks })
    }

    /// How many entries it has, by its trailer.
    pub fn entries(&self) -> u64 {
        self.trailer.entries
    }

    /// The data blocks in the order of the index, one by one; ends behind the first error. That all of them together
    /// have as many entries as the trailer says is checked with the last.
    pub fn data_blocks(&self) -> impl Iterator<Item = Result<DataBlock>> + '_ {
        let mut left = self.trailer.entries;
        let mut blocks = self.blocks.iter();
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let next = match blocks.next() {
                Some(place) => self.data_block(*place).and_then(|block| {
                    left = left.checked_sub(block.count()).ok_or_else(miscounted)?;
                    Ok(Some(block))
                }),
                None if left > 0 => Err(miscounted()),
                None => Ok(None),
            };
            failed = !matches!(next, Ok(Some(_)));
            next.transpose()
        })
    }

    fn data_block(&self, place: BlockAddress) -> Result<DataBlock> {
        let (bytes, _) = read_block(&self.bytes, place.offset, BlockKind::Data, self.trailer.codec)?;
        DataBlock::new(bytes).map_err(|e| e.with("block_at", place.offset))
    }
}

fn miscounted() -> Error {
    Error::corrupt("an HFile has another number of entries than its trailer says")
}
