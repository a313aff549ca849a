//! Checksums of the blocks that this project writes.
//!
//! Hudi's blocks have none, and Hudi fails on an entry of the header or footer that it does not know. But it reads as many
//! records as a block says to have, and never what is behind them. So checksums stand there, at the end of the content
//! of blocks of records in Avro's form, of changes and of deletes. (The content of a Parquet block is a Parquet file, whose pages
//! have theirs.)
//!
//! | bytes | field |
//! |---|---|
//! | 8 | `HOODCRC` 0x01 |
//! | 4 | CRC-32 of the kind of the block and of the entries of its header, by their keys |
//! | 4 | CRC-32 of the content before these bytes |

use super::block::{Block, BlockKind, HeaderKey};
use hoodoo_runtime::error::{Error, Result};

const MAGIC: &[u8; 8] = b"HOODCRC\x01";
/// Bytes of all.
pub(super) const LENGTH: usize = MAGIC.len() + 4 + 4;

/// What stands behind a content; nothing where Hudi reads all of it.
pub(super) fn trailer(kind: BlockKind, header: &[(HeaderKey, &str)], content: &[u8]) -> Vec<u8> {
    if !matches!(kind, BlockKind::AvroData | BlockKind::CdcData | BlockKind::Delete) {
        return Vec::new();
    }
    let header = of_header(kind, header.iter().copied()).to_be_bytes();
    [MAGIC.as_slice(), &header, &crc32fast::hash(content).to_be_bytes()].concat()
}

/// The checksum of the content of a block, if these last bytes of the content are checksums.
///
/// # Errors
/// `Corrupt` when kind and header are not those that were written.
pub(super) fn read<'a>(
    kind: BlockKind,
    header: impl Iterator<Item = (HeaderKey, &'a str)>,
    last: &[u8],
) -> Result<Option<u32>> {
    let Some((sums, _)) = last.strip_prefix(MAGIC).and_then(|sums| sums.split_first_chunk::<8>()) else {
        return Ok(None);
    };
    let [a, b, c, d, content @ ..] = *sums;
    if of_header(kind, header) != u32::from_be_bytes([a, b, c, d]) {
        return Err(damaged("the header of a log block"));
    }
    Ok(Some(u32::from_be_bytes(content)))
}

fn of_header<'a>(kind: BlockKind, entries: impl Iterator<Item = (HeaderKey, &'a str)>) -> u32 {
    let mut entries: Vec<(i32, &str)> = entries.map(|(key, text)| (key.number(), text)).collect();
    entries.sort_unstable();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&kind.number().unwrap_or_default().to_be_bytes());
    for (key, text) in entries {
        sum.update(&key.to_be_bytes());
        sum.update(&(text.len() as u64).to_be_bytes());
        sum.update(text.as_bytes());
    }
    sum.finalize()
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("{what} does not match its checksum"))
        .remedy("The file was damaged after it was written: restore it from a copy")
}

/// Holds the content of a block, as it comes, against the checksum of the block.
#[derive(Debug, Clone, Default)]
pub struct ContentChecksum {
    expected: Option<u32>,
    sum: crc32fast::Hasher,
}

impl ContentChecksum {
    /// For the content of a block; does nothing if it has no checksum.
    pub fn of(block: &Block) -> Self {
        Self { expected: block.checksum, sum: crc32fast::Hasher::new() }
    }

    /// The next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        if self.expected.is_some() {
            self.sum.update(bytes);
        }
    }

    /// Called when all bytes were added.
    ///
    /// # Errors
    /// `Corrupt` when they are not those that were written.
    pub fn finish(self) -> Result<()> {
        match self.expected {
            Some(expected) if self.sum.finalize() != expected => Err(damaged("the content of a log block")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use bytes::Bytes;

    use super::*;
    use crate::log::{LogFile, write_block};
    use hoodoo_runtime::error::ErrorKind;

    fn content(file: &[u8]) -> Result<Vec<Bytes>> {
        let file = LogFile::new(Bytes::copy_from_slice(file));
        file.blocks().map(|block| block.and_then(|block| file.content(&block))).collect()
    }

    #[test]
    fn every_wrong_bit_within_the_frame_is_found_or_does_no_harm() {
        for kind in [BlockKind::AvroData, BlockKind::CdcData, BlockKind::Delete] {
            let mut file = Vec::new();
            let header = [(HeaderKey::Schema, "{}"), (HeaderKey::InstantTime, "20260101000000000")];
            write_block(&mut file, kind, &header, b"the content").unwrap();
            assert_eq!(content(&file).unwrap(), ["the content"]);
            let mut found = 0;
            for bit in 14 * 8..(file.len() - 8) * 8 {
                let mut damaged = file.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                match content(&damaged) {
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
                        found += 1;
                    }
                    // A bit of the magic of the checksums, or of the half of a length that nobody looks at.
                    Ok(read) => assert!(read[0].starts_with(b"the content"), "{bit}"),
                }
            }
            assert_eq!(found, (file.len() - 22 - 12) * 8);
        }
    }

    #[test]
    fn only_blocks_with_a_count_of_records_get_checksums() {
        for kind in [BlockKind::Command, BlockKind::ParquetData, BlockKind::HfileData] {
            let mut file = Vec::new();
            write_block(&mut file, kind, &[], b"the content").unwrap();
            assert_eq!(content(&file).unwrap(), ["the content"]);
            assert!(!file.windows(MAGIC.len()).any(|bytes| bytes == MAGIC));
        }
    }
}
