//! Numbers and pieces of bytes, none of which reaches beyond the end.

use crate::error::{Error, Result};

/// What is left to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A big-endian number of four bytes. Read without its sign a negative length is larger than any file.
    pub(super) fn int(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// The same of eight bytes.
    pub(super) fn long(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A length of four bytes and as many bytes.
    pub(super) fn length(&mut self) -> Result<usize> {
        usize::try_from(self.int()?).map_err(|_| cut_off())
    }

    /// A number as Protobuf has it: seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::corrupt("a number in an HFile has more than 64 bits"))
    }

    /// A length as Hadoop has it: itself in one byte, or how many bytes it has and those.
    pub(super) fn hadoop_length(&mut self) -> Result<usize> {
        let [first] = self.array()?;
        let length = match first {
            0..=127 => first.into(),
            // -113 to -120: one to eight bytes.
            0x88..=0x8f => {
                let bytes = self.bytes(usize::from(0x90 - first))?;
                bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
            }
            _ => return Err(Error::corrupt("a length in an HFile is negative")),
        };
        usize::try_from(length).map_err(|_| cut_off())
    }
}

fn cut_off() -> Error {
    Error::corrupt("a part of an HFile is cut off")
}
