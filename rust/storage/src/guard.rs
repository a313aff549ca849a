//! Keeps what goes wrong inside the Parquet crate what it is: an error of the storage, a damaged file, a panic.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use arrow::error::ArrowError;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use hoodoo_runtime::error::{Error, Result};

/// Runs a decoder over bytes that may be hostile; a panic becomes a `Corrupt` error.
pub fn decode<T>(what: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|_| Err(Error::corrupt(format!("the decoder panicked while reading {what}"))))
}

/// What the Parquet library says of a page that is not as its checksum says.
const WRONG_CHECKSUM: &str = "CRC checksum mismatch";

fn damaged(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    if error.to_string().contains(WRONG_CHECKSUM) {
        return Error::corrupt("a page of a Parquet file does not match its checksum")
            .remedy("The file was damaged after it was written: restore it from a copy");
    }
    Error::corrupt("a Parquet file could not be decoded").caused_by(error)
}

/// The first error of the storage itself. Readers over Arrow batches keep only its text.
type FirstError = Arc<Mutex<Option<ParquetError>>>;

/// A chunk reader that can be handed out many times and remembers what the storage said.
pub struct Chunks<R> {
    inner: Arc<R>,
    first: FirstError,
}

impl<R> Clone for Chunks<R> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), first: Arc::clone(&self.first) }
    }
}

impl<R> Chunks<R> {
    /// Guards a file.
    pub fn new(inner: R) -> Self {
        Self { inner: Arc::new(inner), first: Arc::default() }
    }

    /// The file itself.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    /// What an error of the Arrow reader really was.
    pub fn explain(&self, error: ArrowError) -> Error {
        let stored = self.first.lock().ok().and_then(|mut e| e.take());
        match (stored, error) {
            (Some(stored), _) => stored.into(),
            (None, error @ ArrowError::ExternalError(_)) => error.into(),
            (None, error) => damaged(error),
        }
    }

    fn keep<T>(&self, result: ParquetResult<T>) -> ParquetResult<T> {
        match result {
            Err(ParquetError::External(source)) => {
                let text = source.to_string();
                if let Ok(mut first) = self.first.lock() {
                    first.get_or_insert(ParquetError::External(source));
                }
                Err(ParquetError::General(text))
            }
            other => other,
        }
    }

    /// What an error of the Parquet crate really was.
    pub fn explain_parquet(&self, error: ParquetError) -> Error {
        match self.first.lock().ok().and_then(|mut e| e.take()) {
            Some(stored) => stored.into(),
            // Not said by the storage: a decompressor, say, that met garbage.
            None => damaged(error),
        }
    }
}

impl<R: Length> Length for Chunks<R> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
}

impl<R: ChunkReader> ChunkReader for Chunks<R> {
    type T = Chunk<R::T>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let inner = self.keep(self.inner.get_read(start))?;
        Ok(Chunk { inner, first: Arc::clone(&self.first) })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // A footer may announce any length; ask for no more than there is.
        if start.saturating_add(length as u64) > self.inner.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} lie beyond the end of the file")));
        }
        self.keep(self.inner.get_bytes(start, length))
    }
}

/// What a [`Chunks`] reads from.
pub struct Chunk<T> {
    inner: T,
    first: FirstError,
}

impl<T: Read> Read for Chunk<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf).inspect_err(|e| {
            if !matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::Interrupted)
                && let Ok(mut first) = self.first.lock()
            {
                first.get_or_insert_with(|| ParquetError::External(Box::new(io::Error::new(e.kind(), e.to_string()))));
            }
        })
    }
}
