//! Compression of blocks. All blocks of a file have the same codec.

use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor, Decompressor};

use crate::error::{HFileError, Result};

/// The most bytes that deflate makes of one byte.
const MAX_RATIO: usize = 1032;

/// How the blocks of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Codec {
    /// Not at all.
    None,
    /// Each block is a gzip stream. This is what Hudi writes.
    #[default]
    Gzip,
}

impl Codec {
    /// The codec with a number in the trailer.
    pub(crate) fn from_number(number: u64) -> Result<Self> {
        let name = match number {
            1 => return Ok(Self::Gzip),
            2 => return Ok(Self::None),
            0 => "LZO",
            3 => "SNAPPY",
            4 => "LZ4",
            5 => "BZIP2",
            6 => "ZSTD",
            _ => return Err(HFileError::unsupported("compression codec", number.to_string())),
        };
        Err(HFileError::unsupported("compression codec", name))
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Gzip => 1,
            Self::None => 2,
        }
    }
}

/// Decompresses one block after the other.
pub(crate) struct Inflater {
    codec: Codec,
    gzip: Decompressor,
}

impl Inflater {
    pub(crate) fn new(codec: Codec) -> Self {
        Self { codec, gzip: Decompressor::new() }
    }

    /// The content of a block, which has `length` bytes.
    pub(crate) fn inflate(&mut self, stored: Bytes, length: usize) -> Result<Bytes> {
        let wrong_length = || HFileError::corrupt("a block of an HFile is not as long as its header says");
        if self.codec == Codec::None {
            return if stored.len() == length { Ok(stored) } else { Err(wrong_length()) };
        }
        if length > stored.len().saturating_mul(MAX_RATIO) {
            return Err(wrong_length());
        }
        let mut content = vec![0; length];
        match self.gzip.gzip_decompress(&stored, &mut content) {
            Ok(found) if found == length => Ok(content.into()),
            Ok(_) | Err(libdeflater::DecompressionError::InsufficientSpace) => Err(wrong_length()),
            Err(libdeflater::DecompressionError::BadData) => {
                Err(HFileError::corrupt("a block of an HFile cannot be decompressed"))
            }
        }
    }
}

/// Compresses one block after the other.
pub(crate) struct Deflater {
    codec: Codec,
    gzip: Compressor,
}

impl Deflater {
    pub(crate) fn new(codec: Codec) -> Self {
        Self { codec, gzip: Compressor::new(CompressionLvl::default()) }
    }

    /// Append the stored form of a content.
    pub(crate) fn deflate(&mut self, content: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        if self.codec == Codec::None {
            stored.extend_from_slice(content);
            return Ok(());
        }
        let start = stored.len();
        stored.resize(start + self.gzip.gzip_compress_bound(content.len()), 0);
        let room = stored.get_mut(start..).unwrap_or_default();
        let length = self.gzip.gzip_compress(content, room);
        let length =
            length.map_err(|_| HFileError::Io(std::io::Error::other("gzip needs more bytes than its bound")))?;
        stored.truncate(start + length);
        Ok(())
    }
}
