//! Reading and writing data files piece by piece.

use std::future::poll_fn;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, WriteMultipart};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::runtime::{block_on, runtime};
use crate::error::{Error, Result};

/// Bytes fetched at once from a remote store when a reader goes on sequentially.
const READ_AHEAD: u64 = 4 << 20;
/// Size of one part of an upload. S3 takes at most 10,000 parts, of at least 5 MiB.
const PART_SIZE: usize = 8 << 20;
/// Parts under way at once.
const PARTS_IN_FLIGHT: usize = 4;

/// A file open for reading at any offset.
pub struct FileReader {
    source: Source,
}

enum Source {
    Local(std::fs::File, u64),
    Remote { store: Arc<dyn ObjectStore>, key: Path, size: u64 },
}

impl FileReader {
    pub(super) fn local(path: &std::path::Path) -> std::io::Result<Self> {
        let file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { source: Source::Local(file, size) })
    }

    pub(super) fn remote(store: Arc<dyn ObjectStore>, key: Path, size: u64) -> Self {
        Self { source: Source::Remote { store, key, size } }
    }
}

fn io(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ParquetError {
    ParquetError::External(Box::new(Error::storage("reading a data file failed").caused_by(e)))
}

fn past_the_end(start: u64, length: u64, size: u64) -> ParquetError {
    ParquetError::EOF(format!("{length} bytes at {start} of a file of {size} bytes"))
}

impl Length for FileReader {
    fn len(&self) -> u64 {
        match &self.source {
            Source::Local(_, size) | Source::Remote { size, .. } => *size,
        }
    }
}

impl ChunkReader for FileReader {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        match &self.source {
            Source::Local(file, _) => {
                let mut file = file.try_clone().map_err(io)?;
                file.seek(SeekFrom::Start(start)).map_err(io)?;
                Ok(Box::new(std::io::BufReader::with_capacity(1 << 16, file)))
            }
            Source::Remote { store, key, size } => Ok(Box::new(RemoteRead {
                store: store.clone(),
                key: key.clone(),
                position: start,
                size: *size,
                buffer: Bytes::new(),
            })),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let size = self.len();
        let end = start.checked_add(length as u64).filter(|end| *end <= size);
        let end = end.ok_or_else(|| past_the_end(start, length as u64, size))?;
        match &self.source {
            Source::Local(file, _) => {
                let mut file = file.try_clone().map_err(io)?;
                file.seek(SeekFrom::Start(start)).map_err(io)?;
                let mut buffer = Vec::with_capacity(length);
                file.take(length as u64).read_to_end(&mut buffer).map_err(io)?;
                if buffer.len() != length {
                    return Err(past_the_end(start, length as u64, size));
                }
                Ok(buffer.into())
            }
            Source::Remote { store, key, .. } => block_on(store.get_range(key, start..end)).map_err(io),
        }
    }
}

struct RemoteRead {
    store: Arc<dyn ObjectStore>,
    key: Path,
    position: u64,
    size: u64,
    buffer: Bytes,
}

impl Read for RemoteRead {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.buffer.is_empty() {
            let end = (self.position + READ_AHEAD).min(self.size);
            if self.position >= end {
                return Ok(0);
            }
            self.buffer =
                block_on(self.store.get_range(&self.key, self.position..end)).map_err(std::io::Error::other)?;
            self.position = end;
        }
        let n = out.len().min(self.buffer.len());
        self.buffer.split_to(n).copy_to_slice(out.get_mut(..n).unwrap_or_default());
        Ok(n)
    }
}

/// A new file under construction. It does not exist for others before [`FileWriter::finish`].
pub struct FileWriter {
    upload: Option<WriteMultipart>,
    path: String,
    uri: Arc<str>,
    written: u64,
}

impl FileWriter {
    pub(super) fn new(upload: Box<dyn MultipartUpload>, path: &str, uri: Arc<str>) -> Self {
        let upload = WriteMultipart::new_with_chunk_size(upload, PART_SIZE);
        Self { upload: Some(upload), path: path.to_owned(), uri, written: 0 }
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Publishes the file; returns its size in bytes.
    pub fn finish(mut self) -> Result<u64> {
        if let Some(upload) = self.upload.take() {
            block_on(upload.finish()).map_err(|e| {
                Error::storage("finishing a file failed")
                    .caused_by(e)
                    .with("table", &self.uri)
                    .with("file", &self.path)
                    .remedy("Check that the storage is writable and has room; nothing was committed")
            })?;
        }
        Ok(self.written)
    }
}

impl Write for FileWriter {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let Some(upload) = self.upload.as_mut() else {
            return Err(std::io::Error::other("the file is already finished"));
        };
        let runtime = runtime()?;
        // Waiting here bounds what is in memory when the storage is slower than the encoder.
        runtime.block_on(poll_fn(|cx| upload.poll_for_capacity(cx, PARTS_IN_FLIGHT))).map_err(std::io::Error::other)?;
        let _inside = runtime.enter();
        upload.write(data);
        self.written += data.len() as u64;
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        // An error on the way out: take the parts back; what cannot be taken back was never visible.
        if let Some(upload) = self.upload.take() {
            let _ = block_on(upload.abort());
        }
    }
}
