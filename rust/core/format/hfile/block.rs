//! One block: its header, its checksums, its compression.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic, which says what it holds |
//! | 4 | bytes behind the header, checksums included |
//! | 4 | bytes of the content before compression |
//! | 8 | offset of the block of the same kind before it (not looked at) |
//! | 1 | kind of checksum: 0 none, 1 CRC32, 2 CRC32C |
//! | 4 | bytes that one checksum is for |
//! | 4 | bytes of header and compressed content |
//! | … | compressed content |
//! | 4 × n | checksums, over header and content; there are bytes for them without any too |

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;

use super::checksum::verify;
use super::fields::Fields;
use super::trailer::Codec;
use crate::error::{Error, Result};

const HEADER_LENGTH: usize = 33;
/// The most that deflate makes of one byte.
const LARGEST_RATIO: usize = 1032;
/// Bytes of a block after decompression: Hudi ends one at 1 MiB, or behind the record that goes beyond it.
const LARGEST_BLOCK: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    Data,
    RootIndex,
    InnerIndex,
    LeafIndex,
}

impl BlockKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Data => b"DATABLK*",
            Self::RootIndex => b"IDXROOT2",
            Self::InnerIndex => b"IDXINTE2",
            Self::LeafIndex => b"IDXLEAF2",
        }
    }
}

/// The content of the block at an offset, and where the block ends.
pub(super) fn read_block(file: &Bytes, offset: u64, kind: BlockKind, codec: Codec) -> Result<(Bytes, u64)> {
    read(file, offset, kind, codec).map_err(|e| e.with("block_at", offset))
}

fn read(file: &Bytes, offset: u64, kind: BlockKind, codec: Codec) -> Result<(Bytes, u64)> {
    let start = usize::try_from(offset).ok().filter(|start| *start <= file.len());
    let start = start.ok_or_else(|| Error::corrupt("a block of an HFile lies beyond its end"))?;
    let block = file.slice(start..);
    let mut fields = Fields::new(&block);
    if &fields.array()? != kind.magic() {
        return Err(Error::corrupt(format!("a block of an HFile is not the {kind:?} that it should be")));
    }
    let (on_disk, uncompressed) = (fields.length()?, fields.length()?);
    fields.long()?;
    let [checksum] = fields.array()?;
    let (per_checksum, checked) = (fields.length()?, fields.length()?);
    fields.bytes(on_disk)?;
    let end = HEADER_LENGTH + on_disk;
    let checksums = end.checked_sub(checked).filter(|_| checked >= HEADER_LENGTH && per_checksum > 0);
    if checksums.is_none_or(|length| length != 4 * checked.div_ceil(per_checksum)) {
        return Err(Error::corrupt("the lengths of a block of an HFile contradict each other"));
    }
    verify(checksum, &block.slice(..checked), per_checksum, &block.slice(checked..end))?;
    let content = block.slice(HEADER_LENGTH..checked);
    let content = match codec {
        Codec::None => content,
        Codec::Gzip => decompress(&content, uncompressed)?,
    };
    if content.len() != uncompressed {
        return Err(Error::corrupt("a block of an HFile is not as long as its header says"));
    }
    Ok((content, offset + end as u64))
}

fn decompress(bytes: &[u8], length: usize) -> Result<Bytes> {
    if length > LARGEST_BLOCK.max(bytes.len()) {
        return Err(Error::corrupt("a block of an HFile is too large").with("bytes", length));
    }
    let mut content = Vec::with_capacity(length.min(LARGEST_RATIO * bytes.len()));
    GzDecoder::new(bytes)
        .take(length as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|e| Error::corrupt("a block of an HFile cannot be decompressed").caused_by(e))?;
    Ok(content.into())
}
