//! One block: its header, its checksums, its compression.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic, which says what the block holds |
//! | 4 | bytes after the header, checksums included |
//! | 4 | bytes of the content before compression |
//! | 8 | offset of the previous block of the same kind (not read) |
//! | 1 | checksum type: 0 none, 1 CRC32, 2 CRC32C |
//! | 4 | bytes that one checksum covers |
//! | 4 | bytes of header and compressed content |
//! | … | compressed content |
//! | 4 × n | checksums over header and content; zeros for type 0 |

use bytes::Bytes;

use crate::checksum::{NO_CHECKSUM, verify};
use crate::codec::{Codec, Deflater, Inflater};
use crate::error::{HFileError, Result};
use crate::fields::Fields;

pub(crate) const HEADER_BYTES: usize = 33;
/// Bytes that a checksum covers in files of Hudi and HBase.
const CHUNK_BYTES: usize = 16 << 10;
/// Bytes of one checksum.
const CHECKSUM_BYTES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Data,
    Meta,
    RootIndex,
    InnerIndex,
    LeafIndex,
    FileInfo,
}

impl BlockKind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Data => b"DATABLK*",
            Self::Meta => b"METABLKc",
            Self::RootIndex => b"IDXROOT2",
            Self::InnerIndex => b"IDXINTE2",
            Self::LeafIndex => b"IDXLEAF2",
            Self::FileInfo => b"FILEINF2",
        }
    }

    fn check(self, magic: [u8; 8]) -> Result<()> {
        match &magic {
            found if found == self.magic() => Ok(()),
            b"DATABLKE" => Err(HFileError::unsupported("data block encoding", "other than NONE")),
            _ => Err(HFileError::corrupt(format!("a block of an HFile is not the {self:?} block that it should be"))),
        }
    }
}

/// Reads blocks of a file.
pub(crate) struct BlockReader {
    inflater: Inflater,
    max_bytes: usize,
}

impl BlockReader {
    pub(crate) fn new(codec: Codec, max_bytes: usize) -> Self {
        Self { inflater: Inflater::new(codec), max_bytes }
    }

    /// Check the length of a block before it is read. No content becomes that much longer in its block.
    pub(crate) fn check_length(&self, length: u64, offset: u64) -> Result<()> {
        let limit = self.max_bytes as u64;
        if length / 2 > limit.saturating_add(64 << 10) {
            return Err(HFileError::TooLarge { bytes: length, limit, offset });
        }
        Ok(())
    }

    /// The content of the block that takes all of `block`.
    pub(crate) fn whole(&mut self, block: &Bytes, offset: u64, kind: BlockKind) -> Result<Bytes> {
        let (content, length) = self.first(block, offset, kind)?;
        if length != block.len() {
            return Err(HFileError::corrupt_at("a block of an HFile is not as long as its index says", offset));
        }
        Ok(content)
    }

    /// The content of the block at the beginning of `bytes`, and the length of the block.
    pub(crate) fn first(&mut self, bytes: &Bytes, offset: u64, kind: BlockKind) -> Result<(Bytes, usize)> {
        self.read(bytes, offset, kind).map_err(|e| e.at(offset))
    }

    fn read(&mut self, bytes: &Bytes, offset: u64, kind: BlockKind) -> Result<(Bytes, usize)> {
        let mut fields = Fields::new(bytes);
        kind.check(fields.array()?)?;
        let (on_disk, uncompressed) = (fields.length()?, fields.length()?);
        fields.long()?;
        let [checksum] = fields.array()?;
        let (chunk, covered) = (fields.length()?, fields.length()?);
        fields.bytes(on_disk)?;
        let end = HEADER_BYTES + on_disk;
        let checksums = end.checked_sub(covered).filter(|_| covered >= HEADER_BYTES && chunk > 0);
        let fits = |length: usize| length == 4 * covered.div_ceil(chunk) || (checksum == NO_CHECKSUM && length == 0);
        if !checksums.is_some_and(fits) {
            return Err(HFileError::corrupt("the lengths of a block of an HFile contradict each other"));
        }
        if uncompressed > self.max_bytes {
            let (bytes, limit) = (uncompressed as u64, self.max_bytes as u64);
            return Err(HFileError::TooLarge { bytes, limit, offset });
        }
        let (covered_bytes, sums) = (bytes.slice(..covered), bytes.slice(covered..end));
        verify(checksum, &covered_bytes, chunk, &sums, offset)?;
        let content = self.inflater.inflate(bytes.slice(HEADER_BYTES..covered), uncompressed)?;
        Ok((content, end))
    }
}

/// Append the block with a content to `out`; `previous` is the offset of the previous data block.
pub(crate) fn put_block(
    out: &mut Vec<u8>,
    kind: BlockKind,
    content: &[u8],
    previous: Option<u64>,
    deflater: &mut Deflater,
) -> Result<()> {
    let start = out.len();
    out.resize(start + HEADER_BYTES, 0);
    deflater.deflate(content, out)?;
    let covered = out.len() - start;
    out.resize(out.len() + CHECKSUM_BYTES, 0);
    let on_disk = block_length(covered - HEADER_BYTES + CHECKSUM_BYTES)?;
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(kind.magic());
    header.extend_from_slice(&on_disk.to_be_bytes());
    header.extend_from_slice(&block_length(content.len())?.to_be_bytes());
    header.extend_from_slice(&previous.unwrap_or(u64::MAX).to_be_bytes());
    header.push(NO_CHECKSUM);
    header.extend_from_slice(&chunk_length(covered + CHECKSUM_BYTES).to_be_bytes());
    header.extend_from_slice(&block_length(covered)?.to_be_bytes());
    for (byte, value) in out.iter_mut().skip(start).zip(header) {
        *byte = value;
    }
    Ok(())
}

/// How many bytes a checksum covers in a block of a length: the whole block. The reader of Hudi 1.2.0 ends a data block as
/// many bytes too early as it has checksums, and loses the entries that begin there. No entry is as short as one checksum.
fn chunk_length(block: usize) -> u32 {
    let length = block.max(CHUNK_BYTES).checked_next_power_of_two();
    length.and_then(|length| i32::try_from(length).ok()).unwrap_or(i32::MAX).unsigned_abs()
}

/// A length as a block's header has it; Java reads it with a sign.
pub(crate) fn block_length(length: usize) -> Result<u32> {
    let limit = i32::MAX as u32;
    let fits = u32::try_from(length).ok().filter(|length| *length <= limit);
    fits.ok_or(HFileError::TooLong { what: "block", bytes: length as u64, limit: limit.into() })
}
