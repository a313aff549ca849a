//! Checksums of a block: one for each piece of it.

use std::sync::LazyLock;

use crate::error::{Error, Result};

/// Castagnoli's polynomial, its bits in reverse.
const CRC32C: u32 = 0x82f6_3b78;

static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ CRC32C } else { crc >> 1 })
    })
});

/// Holds the pieces of a block against their checksums.
pub(super) fn verify(kind: u8, block: &[u8], piece: usize, checksums: &[u8]) -> Result<()> {
    let sum = match kind {
        0 => return Ok(()),
        1 => crc32fast::hash,
        2 => crc32c,
        other => return Err(Error::unsupported("the checksums of an HFile").with("kind", other)),
    };
    let expected = checksums.chunks_exact(4);
    if block.chunks(piece).zip(expected).all(|(piece, expected)| sum(piece).to_be_bytes() == expected) {
        return Ok(());
    }
    Err(Error::corrupt("a block of an HFile does not have its checksum"))
}

fn crc32c(bytes: &[u8]) -> u32 {
    let table = &*TABLE;
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = (crc ^ u32::from(*byte)).to_le_bytes();
        crc >> 8 ^ table.get(usize::from(low)).copied().unwrap_or_default()
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
