//! Reading and writing data files piece by piece.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::runtime::{block_on, runtime};
use super::windows::Windows;
use crate::error::{Error, Result};

/// Size of one part of an upload. S3 takes at most 10,000 parts, of at least 5 MiB.
const PART_SIZE: usize = 8 << 20;
/// Parts under way at once.
const PARTS_IN_FLIGHT: usize = 4;

/// A file open for reading at any offset. Clones share the handle, not a position.
#[derive(Clone)]
pub struct FileReader {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Local(Arc<std::fs::File>, u64),
    Remote(Arc<Remote>),
}

/// An object, with what was fetched of it.
struct Remote {
    store: Arc<dyn ObjectStore>,
    key: Path,
    windows: Windows,
}

impl Remote {
    fn read(&self, start: u64, wanted: u64) -> object_store::Result<Bytes> {
        self.windows.read(start, wanted, |range| {
            let length = range.end - range.start;
            let bytes = block_on(self.store.get_range(&self.key, range))?;
            // A store cuts a range that goes beyond the end of the object.
            if bytes.len() as u64 == length { Ok(bytes) } else { Err(self.shorter()) }
        })
    }

    fn shorter(&self) -> object_store::Error {
        let source = format!("it is shorter than the {} bytes of its listing", self.windows.size()).into();
        object_store::Error::Generic { store: "object", source }
    }
}

impl FileReader {
    pub(super) fn local(path: &std::path::Path) -> std::io::Result<Self> {
        let file = std::fs::File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { source: Source::Local(Arc::new(file), size) })
    }

    pub(super) fn remote(store: Arc<dyn ObjectStore>, key: Path, size: u64) -> Self {
        Self { source: Source::Remote(Arc::new(Remote { store, key, windows: Windows::new(size) })) }
    }
}

fn io(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ParquetError {
    let error = Error::storage("reading a data file failed").caused_by(e);
    ParquetError::External(Box::new(error.remedy("Check that the storage can be reached, and read again")))
}

fn fetching(e: object_store::Error) -> ParquetError {
    if !matches!(e, object_store::Error::NotFound { .. }) {
        return io(e);
    }
    let error = Error::not_found("reading: there is no such file");
    ParquetError::External(Box::new(error.remedy("It was listed a moment ago, so it was cleaned since: read again")))
}

fn past_the_end(start: u64, length: u64, size: u64) -> ParquetError {
    ParquetError::EOF(format!("{length} bytes at {start} of a file of {size} bytes"))
}

impl Length for FileReader {
    fn len(&self) -> u64 {
        match &self.source {
            Source::Local(_, size) => *size,
            Source::Remote(remote) => remote.windows.size(),
        }
    }
}

impl ChunkReader for FileReader {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        match &self.source {
            Source::Local(file, _) => {
                let read = LocalRead { file: file.clone(), position: start };
                Ok(Box::new(std::io::BufReader::with_capacity(1 << 16, read)))
            }
            Source::Remote(remote) => {
                Ok(Box::new(RemoteRead { remote: remote.clone(), position: start, wanted: 1, buffer: Bytes::new() }))
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let size = self.len();
        let end = start.checked_add(length as u64).filter(|end| *end <= size);
        end.ok_or_else(|| past_the_end(start, length as u64, size))?;
        let bytes = match &self.source {
            Source::Local(file, _) => {
                let read = LocalRead { file: file.clone(), position: start };
                let mut buffer = Vec::with_capacity(length);
                read.take(length as u64).read_to_end(&mut buffer).map_err(io)?;
                buffer.into()
            }
            Source::Remote(remote) => remote.read(start, length as u64).map_err(fetching)?,
        };
        if bytes.len() < length {
            return Err(past_the_end(start, length as u64, size));
        }
        Ok(bytes.slice(..length))
    }
}

/// Reads from a position of its own: handles of one file share theirs, and columns are read side by side.
struct LocalRead {
    file: Arc<std::fs::File>,
    position: u64,
}

impl Read for LocalRead {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = read_at(&self.file, out, self.position)?;
        self.position += n as u64;
        Ok(n)
    }
}

#[cfg(unix)]
fn read_at(file: &std::fs::File, out: &mut [u8], position: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, position)
}

#[cfg(windows)]
fn read_at(file: &std::fs::File, out: &mut [u8], position: u64) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, out, position)
}

struct RemoteRead {
    remote: Arc<Remote>,
    position: u64,
    wanted: u64,
    buffer: Bytes,
}

impl Read for RemoteRead {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = self.remote.read(self.position, self.wanted).map_err(|e| match e {
                // Readers begin anew when a file was taken away.
                object_store::Error::NotFound { .. } => std::io::Error::new(std::io::ErrorKind::NotFound, e),
                other => std::io::Error::other(other),
            })?;
            self.position += self.buffer.len() as u64;
            // Whoever comes back reads on and on: the header of a page is all in the first piece, nearly always.
            self.wanted = (4 * self.buffer.len() as u64).min(PART_SIZE as u64);
        }
        let n = out.len().min(self.buffer.len());
        self.buffer.split_to(n).copy_to_slice(out.get_mut(..n).unwrap_or_default());
        Ok(n)
    }
}

/// A new file under construction. It does not exist for others before [`FileWriter::finish`].
pub struct FileWriter {
    state: State,
    store: Arc<dyn ObjectStore>,
    key: Path,
    path: String,
    uri: Arc<str>,
    written: u64,
}

enum State {
    /// All of it, small enough for one request.
    Small(Vec<u8>),
    Upload(WriteMultipart),
    Finished,
}

impl FileWriter {
    /// A writer that begins with an upload at once (`eager`), or when the file grows beyond one part.
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        key: Path,
        eager: bool,
        path: &str,
        uri: Arc<str>,
    ) -> object_store::Result<Self> {
        let mut new = Self { state: State::Small(Vec::new()), store, key, path: path.to_owned(), uri, written: 0 };
        if eager {
            new.state = State::Upload(new.begin()?);
        }
        Ok(new)
    }

    fn begin(&self) -> object_store::Result<WriteMultipart> {
        let upload = block_on(self.store.put_multipart(&self.key))?;
        Ok(WriteMultipart::new_with_chunk_size(upload, PART_SIZE))
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Publishes the file; returns its size in bytes.
    pub fn finish(mut self) -> Result<u64> {
        let finished = match std::mem::replace(&mut self.state, State::Finished) {
            State::Small(content) => block_on(self.store.put(&self.key, content.into())).map(|_| ()),
            State::Upload(upload) => block_on(upload.finish()).map(|_| ()),
            State::Finished => Ok(()),
        };
        finished.map_err(|e| {
            Error::storage("finishing a file failed")
                .caused_by(e)
                .with("table", &self.uri)
                .with("file", &self.path)
                .remedy("Check that the storage is writable and has room; nothing was committed")
        })?;
        Ok(self.written)
    }
}

impl Write for FileWriter {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if let State::Small(content) = &mut self.state {
            if content.len() + data.len() <= PART_SIZE {
                content.extend_from_slice(data);
                self.written += data.len() as u64;
                return Ok(data.len());
            }
            let content = std::mem::take(content);
            let mut upload = self.begin().map_err(std::io::Error::other)?;
            let _inside = runtime()?.enter();
            upload.write(&content);
            self.state = State::Upload(upload);
        }
        let State::Upload(upload) = &mut self.state else {
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
        if let State::Upload(upload) = std::mem::replace(&mut self.state, State::Finished) {
            let _ = block_on(upload.abort());
        }
    }
}
