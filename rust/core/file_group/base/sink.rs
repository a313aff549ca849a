//! What is behind the Parquet writer: the sink of a base file, and a correction of the footer.
//!
//! The Parquet library declares the statistics of floating point columns to be in the total order of IEEE 754, a kind of
//! order that is newer than most readers. Hudi 1.2 takes such statistics for none, and an empty range for the values of
//! the column: its index of column statistics would then leave files out that have rows. The least and greatest values
//! are the same in the order that is defined by the type (NaN is left out of both), so that one is declared instead.

use std::io::{self, Write};

use crate::error::{Error, Result};

/// Thrift's compact form of a column order: a union with an empty struct in it, and its end.
const TYPE_DEFINED: [u8; 3] = [0x1c, 0, 0];
const IEEE_754: [u8; 3] = [0x2c, 0, 0];
/// The end of the footer, its length, and the magic word.
const TRAILER: usize = 1 + 4 + 4;

/// The sink, so that it can be handed back at the end. It holds the last bytes back until then.
pub(super) struct Sink<W> {
    inner: Option<W>,
    columns: usize,
    held: Vec<u8>,
}

impl<W: Write> Sink<W> {
    pub(super) fn new(inner: W, columns: usize) -> Self {
        Self { inner: Some(inner), columns, held: Vec::new() }
    }

    /// Bytes that are held back: those of the column orders, and what is behind them.
    fn tail(&self) -> usize {
        self.columns * TYPE_DEFINED.len() + TRAILER
    }

    /// Writes the corrected footer; the sink itself.
    pub(super) fn finish(&mut self) -> Result<W> {
        let mut held = std::mem::take(&mut self.held);
        declare_type_defined(&mut held, self.columns)?;
        let mut inner = self.inner.take().ok_or_else(|| Error::storage("the sink of a base file is gone"))?;
        inner.write_all(&held).map_err(|e| super::row_group::encode_error(e.into()))?;
        Ok(inner)
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_all(buf).map(|()| buf.len())
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        let tail = self.tail();
        let inner = self.inner.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // Of the bytes so far, the last ones stay.
        let go = (self.held.len() + buf.len()).saturating_sub(tail);
        let old = go.min(self.held.len());
        inner.write_all(self.held.get(..old).unwrap_or_default())?;
        self.held.drain(..old);
        let (now, later) = buf.split_at((go - old).min(buf.len()));
        inner.write_all(now)?;
        self.held.extend_from_slice(later);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Declares the order of each column to be that of its type, in the last bytes of a file.
fn declare_type_defined(tail: &mut [u8], columns: usize) -> Result<()> {
    let unexpected = || Error::schema("the footer of a base file does not end with the orders of its columns");
    let start = tail.len().checked_sub(columns * TYPE_DEFINED.len() + TRAILER).ok_or_else(unexpected)?;
    let orders = tail.get_mut(start..start + columns * TYPE_DEFINED.len()).ok_or_else(unexpected)?;
    for order in orders.chunks_exact_mut(TYPE_DEFINED.len()) {
        if order == IEEE_754 {
            order.copy_from_slice(&TYPE_DEFINED);
        } else if order != TYPE_DEFINED {
            return Err(unexpected());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_last_bytes_are_corrected() {
        let footer = [&[1, 2, 3][..], &TYPE_DEFINED, &IEEE_754, &[0], b"\x0c\0\0\0PAR1"].concat();
        let wanted = [&[1, 2, 3][..], &TYPE_DEFINED, &TYPE_DEFINED, &[0], b"\x0c\0\0\0PAR1"].concat();
        for pieces in 1..footer.len() {
            let mut sink = Sink::new(Vec::new(), 2);
            footer.chunks(pieces).for_each(|piece| sink.write_all(piece).unwrap());
            assert_eq!(sink.finish().unwrap(), wanted);
        }
        let mut other = footer;
        other.insert(4, 9);
        assert!(declare_type_defined(&mut other, 2).is_err());
        assert!(declare_type_defined(&mut [0; 3], 2).is_err());
    }
}
