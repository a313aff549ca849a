//! Where a reader gets its bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{HFileError, Result};

/// A file that can be read at any position: bytes in memory, or an object in a store.
///
/// Every call may be a request to a store, so a reader makes few of them: it reads blocks that adjoin in one range, and
/// passes ranges that are known at the same time to [`read_ranges`](Self::read_ranges) together.
pub trait ReadAt {
    /// The length of the file in bytes.
    fn size(&self) -> u64;

    /// Read the bytes of a range, which lies within the file.
    ///
    /// # Errors
    /// [`HFileError::Source`] with the error of the storage.
    fn read_at(&self, range: Range<u64>) -> Result<Bytes>;

    /// Read several ranges, which are in ascending order and do not overlap. A source that can read them at the same time
    /// should do so.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.read_at(range.clone())).collect()
    }
}

impl ReadAt for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, range: Range<u64>) -> Result<Bytes> {
        let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        match bounds {
            Some((start, end)) if start <= end && end <= self.len() => Ok(self.slice(start..end)),
            _ => Err(HFileError::corrupt("an HFile is cut off")),
        }
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {
        $(impl<T: ReadAt + ?Sized> ReadAt for $pointer {
            fn size(&self) -> u64 {
                (**self).size()
            }

            fn read_at(&self, range: Range<u64>) -> Result<Bytes> {
                (**self).read_at(range)
            }

            fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
                (**self).read_ranges(ranges)
            }
        })*
    };
}

pointers!(&T, Arc<T>, Box<T>);

/// Reads ranges, and checks that the source returned as many bytes as it was asked for.
pub(crate) fn read_ranges<S: ReadAt + ?Sized>(source: &S, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let found = source.read_ranges(ranges)?;
    let whole = |(range, bytes): (&Range<u64>, &Bytes)| range.end - range.start == bytes.len() as u64;
    if found.len() != ranges.len() || !ranges.iter().zip(&found).all(whole) {
        return Err(HFileError::corrupt("an HFile is shorter than it was"));
    }
    Ok(found)
}

pub(crate) fn read_range<S: ReadAt + ?Sized>(source: &S, range: Range<u64>) -> Result<Bytes> {
    let found = source.read_at(range.clone())?;
    if found.len() as u64 != range.end - range.start {
        return Err(HFileError::corrupt("an HFile is shorter than it was"));
    }
    Ok(found)
}
