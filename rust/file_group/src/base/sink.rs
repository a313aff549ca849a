//! The sink behind the Parquet writer: corrects the footer of a base file, and copies column chunks directly.
//!
//! The Parquet library declares the statistics of floating point columns to be in the IEEE 754 total order, which most
//! readers do not know. Hudi 1.2 ignores such statistics and takes the range of the column for empty: its column stats
//! index would then skip files that have matching rows. Minimum and maximum are the same in the type-defined order
//! (both leave NaN out), so the sink declares that order instead.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::file::reader::{ChunkReader, Length};

use super::footer_checksum::{TAIL, put, start_of_footer};
use hoodoo_runtime::error::{Error, Result};

/// Thrift's compact form of a column order: a union with an empty struct in it, and its end.
const TYPE_DEFINED: [u8; 3] = [0x1c, 0, 0];
const IEEE_754: [u8; 3] = [0x2c, 0, 0];
/// The end of the footer, its length, and the magic word.
const TRAILER: usize = 1 + 4 + 4;

/// The sink, which is returned at the end. The footer is buffered until then.
pub(super) struct Sink<W> {
    inner: Option<W>,
    columns: usize,
    held: Vec<u8>,
    /// Bytes that were written so far.
    received: u64,
    announced: Announced<W>,
    /// Remaining bytes of the current stand-in.
    stand_ins: u64,
    /// Whether the footer has begun, which is buffered.
    in_footer: bool,
}

/// Writes a value.
type WriteValue = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()>>;
/// Writes bytes of another file into a sink.
type Copy<W> = Box<dyn FnOnce(&mut W) -> io::Result<()> + Send>;

/// A footer value that bypasses the Parquet library, which keeps values twice: this one may take many MB.
pub(super) struct LongValue {
    /// Placeholder: a unique string of less than 128 bytes.
    pub(super) place: String,
    /// Its bytes.
    pub(super) length: usize,
    pub(super) write: WriteValue,
}

/// Bytes that the sink copies itself at their offset. The Parquet library would copy them from buffer to buffer in
/// blocks of 8 KiB; so it gets a stand-in of the same length instead.
struct Announcement<W> {
    /// Their offset in the file.
    at: u64,
    length: u64,
    copy: Copy<W>,
}

/// Pending copies of a sink, in the order of the file.
pub(super) struct Announced<W>(Arc<Mutex<VecDeque<Announcement<W>>>>);

impl<W> Clone for Announced<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W> Announced<W> {
    /// Adds a copy of `length` bytes at this offset, which `copy` writes.
    pub(super) fn push(&self, at: u64, length: u64, copy: impl FnOnce(&mut W) -> io::Result<()> + Send + 'static) {
        self.lock().push_back(Announcement { at, length, copy: Box::new(copy) });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Announcement<W>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the Parquet library copies instead of those bytes.
pub(super) struct StandIn;

impl Length for StandIn {
    fn len(&self) -> u64 {
        u64::MAX
    }
}

impl ChunkReader for StandIn {
    type T = io::Repeat;

    fn get_read(&self, _: u64) -> parquet::errors::Result<Self::T> {
        Ok(io::repeat(0))
    }

    fn get_bytes(&self, _: u64, length: usize) -> parquet::errors::Result<Bytes> {
        Ok(vec![0; length].into())
    }
}

impl<W: Write> Sink<W> {
    pub(super) fn new(inner: W, columns: usize) -> Self {
        let announced = Announced(Arc::default());
        Self { inner: Some(inner), columns, held: Vec::new(), received: 0, announced, stand_ins: 0, in_footer: false }
    }

    /// The pending copies.
    pub(super) fn announced(&self) -> Announced<W> {
        self.announced.clone()
    }

    /// From now on, all bytes belong to the footer.
    pub(super) fn hold_footer(&mut self) {
        self.in_footer = true;
    }

    /// Writes the corrected footer. Returns the sink, and by how many bytes the long value made the file longer.
    pub(super) fn finish(&mut self, long: Option<LongValue>) -> Result<(W, i64)> {
        if self.stand_ins > 0 || !self.announced.lock().is_empty() {
            return Err(Error::schema("a copied column chunk is not at its offset"));
        }
        let mut held = std::mem::take(&mut self.held);
        declare_type_defined(&mut held, self.columns)?;
        let mut inner =
            self.inner.take().ok_or_else(|| Error::storage("the sink of a base file was closed already"))?;
        let failed = |e: io::Error| hoodoo_parquet_pages::encoders::encoded_chunk::encode_error(e.into());
        // The page indexes precede the footer.
        let start = start_of_footer(&held).unwrap_or(held.len());
        let mut sum = crc32fast::Hasher::new();
        let Some(LongValue { place, length, write }) = long else {
            sum.update(held.get(start..held.len().saturating_sub(TAIL)).unwrap_or_default());
            put(&mut held, sum);
            inner.write_all(&held).map_err(failed)?;
            return Ok((inner, 0));
        };
        let (before, after, more) = around(&mut held, &place, length)?;
        let (in_words, mut after) = (thrift_length(length), after.to_vec());
        sum.update(before.get(start..).unwrap_or_default());
        sum.update(&in_words);
        inner.write_all(before).and_then(|()| inner.write_all(&in_words)).map_err(failed)?;
        let mut counted = Counted { to: &mut inner, bytes: 0, sum: &mut sum };
        write(&mut counted).map_err(failed)?;
        if counted.bytes != length {
            return Err(Error::schema("a value of a footer has an unexpected length"));
        }
        sum.update(after.get(..after.len().saturating_sub(TAIL)).unwrap_or_default());
        put(&mut after, sum);
        inner.write_all(&after).map_err(failed)?;
        Ok((inner, more))
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_all(buf).map(|()| buf.len())
    }

    fn write_all(&mut self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let own = self.until_next()?;
            let here = if self.stand_ins > 0 { self.stand_ins } else { own };
            let (now, later) = buf.split_at(usize::try_from(here).unwrap_or(usize::MAX).min(buf.len()));
            if self.stand_ins > 0 {
                self.stand_ins -= now.len() as u64;
            } else {
                self.pass_on(now)?;
            }
            self.received += now.len() as u64;
            buf = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<W: Write> Sink<W> {
    /// Bytes before the next pending copy. At its offset, copies its bytes and expects its stand-in.
    fn until_next(&mut self) -> io::Result<u64> {
        let mut announced = self.announced.lock();
        let Some(next) = announced.front() else { return Ok(u64::MAX) };
        if self.stand_ins > 0 || next.at > self.received {
            return Ok(next.at.saturating_sub(self.received));
        }
        let Some(reached) = announced.pop_front() else { return Ok(u64::MAX) };
        drop(announced);
        if reached.at != self.received {
            return Err(io::Error::other("the offset of a copied column chunk was passed"));
        }
        (reached.copy)(self.inner.as_mut().ok_or(io::ErrorKind::BrokenPipe)?)?;
        self.stand_ins = reached.length;
        Ok(0)
    }

    fn pass_on(&mut self, buf: &[u8]) -> io::Result<()> {
        if self.in_footer {
            self.held.extend_from_slice(buf);
            return Ok(());
        }
        self.inner.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(buf)
    }
}

/// Counts bytes and updates a checksum.
struct Counted<'a, W> {
    to: &'a mut W,
    bytes: usize,
    sum: &'a mut crc32fast::Hasher,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.to.write(buf)?;
        self.bytes += n;
        self.sum.update(buf.get(..n).unwrap_or_default());
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Splits a footer around the value with placeholder `place`. Returns the bytes before its length, those after it with
/// the new length of the footer, and by how many bytes the footer is longer.
fn around<'f>(footer: &'f mut [u8], place: &str, length: usize) -> Result<(&'f [u8], &'f [u8], i64)> {
    let unexpected = || Error::schema("the footer of a base file does not have the placeholder of its bloom filter");
    let mut needle = thrift_length(place.len());
    needle.extend_from_slice(place.as_bytes());
    let at = memchr::memmem::find(footer, &needle).ok_or_else(unexpected)?;
    let size = |bytes: usize| i64::try_from(bytes).map_err(|_| unexpected());
    let more = size(thrift_length(length).len() + length)? - size(needle.len())?;
    let end = footer.len().checked_sub(8).ok_or_else(unexpected)?;
    let stated = footer.get_mut(end..end + 4).and_then(|bytes| <&mut [u8; 4]>::try_from(bytes).ok());
    let stated = stated.ok_or_else(unexpected)?;
    let longer = i32::try_from(i64::from(u32::from_le_bytes(*stated)) + more);
    let longer = longer.map_err(|_| {
        Error::unsupported(format!(
            "a bloom filter of {length} bytes is larger than the footer of a Parquet file may be"
        ))
        .remedy(
            "Use smaller files (hoodie.parquet.max.file.size), or write no bloom filters \
             (hoodie.parquet.bloom.filter.enabled=false)",
        )
    })?;
    *stated = longer.to_le_bytes();
    let (before, rest) = footer.split_at(at);
    Ok((before, rest.get(needle.len()..).ok_or_else(unexpected)?, more))
}

/// A length in Thrift's compact protocol.
fn thrift_length(mut length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5);
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes
}

/// Declares the type-defined order for all columns, in the last bytes of a file.
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
    fn announced_bytes_take_the_place_of_their_stand_ins() {
        for pieces in 1..20 {
            let mut sink = Sink::new(Vec::new(), 0);
            let announced = sink.announced();
            announced.push(3, 4, |to: &mut Vec<u8>| to.write_all(b"COPY"));
            announced.push(7, 2, |to: &mut Vec<u8>| to.write_all(b"TO"));
            b"abc......def".chunks(pieces).for_each(|piece| sink.write_all(piece).unwrap());
            sink.hold_footer();
            sink.write_all(b"the footer").unwrap();
            assert_eq!(sink.finish(None).unwrap().0, b"abcCOPYTOdefthe footer");
        }
        let mut sink = Sink::new(Vec::new(), 0);
        sink.announced().push(3, 4, |_: &mut Vec<u8>| Ok(()));
        sink.write_all(b"0123456").unwrap();
        sink.announced().push(5, 1, |_: &mut Vec<u8>| Ok(()));
        assert!(sink.write_all(b"7").is_err(), "that place was passed");
        let mut sink = Sink::new(Vec::new(), 0);
        sink.announced().push(10, 1, |_: &mut Vec<u8>| Ok(()));
        sink.hold_footer();
        sink.write_all(b"0123456789").unwrap();
        assert!(sink.finish(None).is_err(), "that place was never reached");
    }

    #[test]
    fn a_long_value_comes_to_its_place() {
        let place = "here-it-goes".to_owned();
        for length in [0usize, 5, 127, 128, 300, 20_000] {
            let text = "x".repeat(length);
            let mut footer = b"\x18\x01k".to_vec();
            footer.push(place.len() as u8);
            footer.extend_from_slice(place.as_bytes());
            let stated = footer.len() as u32 + 1;
            footer.extend_from_slice(&[&[0][..], &stated.to_le_bytes(), b"PAR1"].concat());
            let mut sink = Sink::new(Vec::new(), 0);
            sink.hold_footer();
            sink.write_all(&footer).unwrap();
            let value = text.clone();
            let write = Box::new(move |to: &mut dyn Write| to.write_all(value.as_bytes()));
            let long = LongValue { place: place.clone(), length, write };
            let (file, more) = sink.finish(Some(long)).unwrap();
            assert_eq!(file.len() as i64, footer.len() as i64 + more);
            let wanted = [&b"\x18\x01k"[..], &thrift_length(length), text.as_bytes(), &[0]].concat();
            let stated = (wanted.len() as u32).to_le_bytes();
            assert_eq!(file, [&wanted[..], &stated, b"PAR1"].concat());
        }
        let mut sink = Sink::new(Vec::new(), 0);
        sink.hold_footer();
        sink.write_all(b"no such place\0\0\0\0\0PAR1").unwrap();
        let write: WriteValue = Box::new(|_| Ok(()));
        assert!(sink.finish(Some(LongValue { place, length: 50, write })).is_err());
    }

    #[test]
    fn the_last_bytes_are_corrected() {
        let footer = [&[1, 2, 3][..], &TYPE_DEFINED, &IEEE_754, &[0], b"\x0c\0\0\0PAR1"].concat();
        let wanted = [&[1, 2, 3][..], &TYPE_DEFINED, &TYPE_DEFINED, &[0], b"\x0c\0\0\0PAR1"].concat();
        for pieces in 1..footer.len() {
            let mut sink = Sink::new(Vec::new(), 2);
            sink.write_all(b"rows").unwrap();
            sink.hold_footer();
            footer.chunks(pieces).for_each(|piece| sink.write_all(piece).unwrap());
            assert_eq!(sink.finish(None).unwrap(), ([&b"rows"[..], &wanted].concat(), 0));
        }
        let mut other = footer;
        other.insert(4, 9);
        assert!(declare_type_defined(&mut other, 2).is_err());
        assert!(declare_type_defined(&mut [0; 3], 2).is_err());
    }
}
