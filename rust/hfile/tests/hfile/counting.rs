//! A file that remembers what is read of it.

use std::cell::RefCell;
use std::ops::Range;

use bytes::Bytes;
use hoodoo_hfile::{HFileError, ReadAt};

pub struct Counting {
    bytes: Bytes,
    /// The ranges of each call.
    calls: RefCell<Vec<Vec<Range<u64>>>>,
}

impl Counting {
    pub fn new(bytes: &[u8]) -> Self {
        Self { bytes: Bytes::copy_from_slice(bytes), calls: RefCell::default() }
    }

    /// The calls since the last time.
    pub fn take(&self) -> Vec<Vec<Range<u64>>> {
        self.calls.take()
    }
}

impl ReadAt for Counting {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_at(&self, range: Range<u64>) -> Result<Bytes, HFileError> {
        self.read_ranges(&[range]).map(|mut found| found.remove(0))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, HFileError> {
        self.calls.borrow_mut().push(ranges.to_vec());
        ranges.iter().map(|range| self.bytes.read_at(range.clone())).collect()
    }
}
