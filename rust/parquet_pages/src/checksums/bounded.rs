//! A Parquet file whose pages may be hostile: the library takes memory for as many bytes as the header of a page announces.

use std::io::{Chain, Cursor, Read};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::page_header::sizes;

/// The first numbers of a header take no more.
const HEAD: usize = 18;
/// A page may have so many bytes before compression, or so much for each of those in the file.
const LEAST_LIMIT: u64 = 16 << 20;
const LIMIT_PER_BYTE: u64 = 16;

/// A file that is read only as long as no page announces far more bytes than it takes in the file. For metadata: columns
/// of data may well be a few bytes for millions of rows.
#[derive(Clone)]
pub struct BoundedPages<R>(R);

impl<R> BoundedPages<R> {
    /// Bounds the pages of a file.
    pub fn new(inner: R) -> Self {
        Self(inner)
    }
}

/// Looks at what may be the header of a page.
fn check(head: &[u8]) -> Result<()> {
    match sizes(head) {
        Some((uncompressed, compressed))
            if u64::from(uncompressed) > LEAST_LIMIT.max(LIMIT_PER_BYTE * u64::from(compressed)) =>
        {
            Err(ParquetError::General(format!("a page of {uncompressed} bytes is too large for metadata")))
        }
        _ => Ok(()),
    }
}

impl<R: Length> Length for BoundedPages<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for BoundedPages<R> {
    type T = Chain<Cursor<Vec<u8>>, R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut read = self.0.get_read(start)?;
        let mut head = Vec::with_capacity(HEAD);
        read.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        check(&head)?;
        Ok(Cursor::new(head).chain(read))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.0.get_bytes(start, length)?;
        check(bytes.get(..HEAD.min(bytes.len())).unwrap_or_default())?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;

    use super::*;

    fn file(value: Vec<u8>) -> Bytes {
        let column: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&value, b"x"]));
        let batch = RecordBatch::try_from_iter([("body", column)]).unwrap();
        let zstd = Compression::ZSTD(Default::default());
        let properties = WriterProperties::builder().set_dictionary_enabled(false).set_compression(zstd).build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes.into()
    }

    fn read(file: Bytes) -> std::result::Result<usize, String> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(BoundedPages::new(file)).unwrap().build().unwrap();
        reader.map(|batch| batch.map(|batch| batch.num_rows()).map_err(|e| e.to_string())).sum()
    }

    #[test]
    fn a_page_of_far_more_bytes_than_it_takes_is_refused() {
        assert_eq!(read(file(vec![0; 15 << 20])), Ok(2));
        let random = |i: u32| i.wrapping_mul(0x9e37_79b9).rotate_left(i % 31) as u8;
        assert_eq!(read(file((0..20 << 20).map(random).collect())), Ok(2));
        assert!(read(file(vec![0; 20 << 20])).unwrap_err().contains("too large for metadata"));
    }
}
