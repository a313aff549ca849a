//! Numbers and strings of bytes, none of which reaches beyond the end.

use crate::error::{HFileError, Result};

/// The bytes that are left to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A big-endian number of four bytes. Read without its sign, a negative length is larger than any file.
    pub(crate) fn int(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// The same with eight bytes.
    pub(crate) fn long(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A length of four bytes.
    pub(crate) fn length(&mut self) -> Result<usize> {
        usize::try_from(self.int()?).map_err(|_| cut_off())
    }

    /// A number of Protobuf: seven bits a byte, the lowest first.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(HFileError::corrupt("a number in an HFile has more than 64 bits"))
    }

    /// A string of bytes of Protobuf: its length, then the bytes.
    pub(crate) fn string(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.varint()?).map_err(|_| cut_off())?;
        self.bytes(length)
    }

    /// A number of Hadoop that is not negative: one byte, or a byte that says how many bytes follow.
    pub(crate) fn hadoop_length(&mut self) -> Result<usize> {
        let [first] = self.array()?;
        let length = match first {
            0..=127 => first.into(),
            // -113 to -120: one to eight bytes.
            0x88..=0x8f => {
                let bytes = self.bytes(usize::from(0x90 - first))?;
                bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
            }
            _ => return Err(HFileError::corrupt("a length in an HFile is negative")),
        };
        usize::try_from(length).map_err(|_| cut_off())
    }
}

pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

pub(crate) fn put_string(bytes: &mut Vec<u8>, value: &[u8]) {
    put_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

pub(crate) fn put_hadoop_length(bytes: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short @ 0..=127) => bytes.push(short),
        _ => {
            let number = (length as u64).to_be_bytes();
            let digits = number.iter().skip_while(|byte| **byte == 0);
            let start = bytes.len();
            bytes.push(0x90);
            bytes.extend(digits);
            let count = (bytes.len() - start - 1).to_le_bytes()[0];
            if let Some(first) = bytes.get_mut(start) {
                *first -= count;
            }
        }
    }
}

fn cut_off() -> HFileError {
    HFileError::corrupt("a part of an HFile is cut off")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            if let Ok(length) = usize::try_from(value) {
                put_hadoop_length(&mut bytes, length);
            }
            let mut fields = Fields::new(&bytes);
            assert_eq!(fields.varint().unwrap(), value);
            assert_eq!(fields.hadoop_length().unwrap() as u64, value);
            assert!(fields.is_empty());
        }
    }

    #[test]
    fn numbers_of_too_many_bits_are_refused() {
        assert!(Fields::new(&[0xff; 11]).varint().is_err());
        assert!(Fields::new(&[0x87; 11]).hadoop_length().is_err());
        assert!(Fields::new(&[0x8f]).hadoop_length().is_err());
    }
}
