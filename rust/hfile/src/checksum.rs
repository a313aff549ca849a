//! Checksums of a block: one for each chunk of it.

use crc_fast::{CrcAlgorithm, checksum};

use crate::error::{HFileError, Result};

/// The checksum type of blocks without checksums.
pub(crate) const NO_CHECKSUM: u8 = 0;

/// Compare the chunks of a block with their checksums.
pub(crate) fn verify(kind: u8, block: &[u8], chunk: usize, checksums: &[u8], offset: u64) -> Result<()> {
    let sum = match kind {
        // A writer without checksums leaves zeros in their place.
        NO_CHECKSUM => |_: &[u8]| 0u32,
        1 => crc32fast::hash,
        2 => crc32c,
        other => return Err(HFileError::unsupported("checksum type", other.to_string())),
    };
    let expected = checksums.chunks_exact(4);
    if block.chunks(chunk).zip(expected).all(|(chunk, expected)| sum(chunk).to_be_bytes() == expected) {
        return Ok(());
    }
    Err(HFileError::ChecksumMismatch { offset })
}

fn crc32c(bytes: &[u8]) -> u32 {
    let [a, b, c, d, ..] = checksum(CrcAlgorithm::Crc32Iscsi, bytes).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
