//! Builds a string column without allocating each string.

use std::fmt;

use arrow::array::StringArray;
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use crate::error::{Error, Result};

/// Strings, one after the other: write one, then call [`KeyStringBuilder::end`].
pub(super) struct KeyStringBuilder {
    text: String,
    offsets: Vec<i32>,
}

impl KeyStringBuilder {
    /// Reserves memory for `rows` strings of about `width` bytes.
    pub(super) fn new(rows: usize, width: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows.saturating_add(1));
        offsets.push(0);
        Self { text: String::with_capacity(rows.saturating_mul(width)), offsets }
    }

    /// Ends the string of a row.
    pub(super) fn end(&mut self) -> Result<()> {
        let end = i32::try_from(self.text.len()).map_err(|_| {
            Error::schema("the record keys of one batch have more than 2 GiB").remedy("Write smaller batches")
        })?;
        self.offsets.push(end);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<StringArray> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        Ok(StringArray::try_new(offsets, Buffer::from_vec(self.text.into_bytes()), None)?)
    }
}

impl fmt::Write for KeyStringBuilder {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        Ok(())
    }
}

/// Writes a number with at least `width` digits: no sign, no formatting machinery.
pub(super) fn write_digits(out: &mut impl fmt::Write, value: u64, width: usize) -> fmt::Result {
    let mut buffer = [b'0'; 20];
    let mut start = buffer.len();
    let mut left = value;
    while left > 0 {
        start -= 1;
        if let Some(slot) = buffer.get_mut(start) {
            *slot = b'0' + (left % 10) as u8;
        }
        left /= 10;
    }
    start = start.min(buffer.len().saturating_sub(width));
    out.write_str(std::str::from_utf8(buffer.get(start..).unwrap_or_default()).unwrap_or_default())
}
