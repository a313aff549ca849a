//! Runs of equal values.

/// A run of the RLE hybrid encoding, for values of at most eight bits.
pub(crate) fn run(length: u32, value: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(6);
    let mut header = u64::from(length) << 1;
    while header >= 0x80 {
        bytes.push((header & 0x7f) as u8 | 0x80);
        header >>= 7;
    }
    bytes.push(header as u8);
    bytes.push(value);
    bytes
}
