//! A column chunk that is encoded, and the error of one that is not.

use std::io::Write;

use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;

use hoodoo_runtime::error::{Error, Result};

/// An encoded chunk: its bytes and metadata.
pub struct EncodedChunk {
    /// Its pages.
    pub bytes: Bytes,
    /// Its metadata, with offsets from the begin of the chunk.
    pub close: ColumnCloseResult,
}

/// An offset as Parquet's metadata has it.
pub(crate) fn offset(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

impl EncodedChunk {
    /// Appends it to the row group.
    pub fn append_to<W: Write + Send>(self, out: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        out.append_column(&self.bytes, self.close).map_err(encode_error)
    }
}

/// Converts an encoding error: one of the sink keeps its kind, any other is a schema error.
pub fn encode_error(error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(io) if io.get_ref().is_some_and(|e| e.is::<Error>()) => match io.into_inner().map(|e| e.downcast()) {
                Some(Ok(own)) => *own,
                _ => Error::storage("failed to write a base file"),
            },
            Ok(io) => Error::storage("failed to write a base file").caused_by(io),
            Err(other) => ParquetError::External(other).into(),
        },
        other => Error::schema("failed to encode rows for a base file").caused_by(other),
    }
}
