//! Reading data files in chunks.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::runtime::{block_on_read, own_error};
use super::small_files::SmallFiles;
use super::windows::Windows;
use hoodoo_runtime::error::Error;
use hoodoo_runtime::interrupt;

/// Bytes that are fetched at once, at most.
const CHUNK_SIZE: u64 = 8 << 20;

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
    /// Where it is kept for others, if it is small, and its path.
    small: Option<(Arc<SmallFiles>, String)>,
}

impl Remote {
    fn read(&self, start: u64, wanted: u64) -> object_store::Result<Bytes> {
        self.windows.read(start, wanted, |range| {
            let length = range.end - range.start;
            let bytes = match &self.small {
                Some((files, path)) if length == self.windows.size() => self.read_small(files, path, range)?,
                _ => block_on_read(self.store.get_range(&self.key, range))?,
            };
            // A store cuts a range that goes beyond the end of the object.
            if bytes.len() as u64 == length { Ok(bytes) } else { Err(self.shorter()) }
        })
    }

    /// Reads all of the file, and keeps it.
    fn read_small(&self, files: &SmallFiles, path: &str, range: Range<u64>) -> object_store::Result<Bytes> {
        let listings = files.listings();
        let options = GetOptions { range: Some(range.into()), ..Default::default() };
        let (tag, content) = block_on_read(async {
            let found = self.store.get_opts(&self.key, options).await?;
            Ok((found.meta.e_tag.clone(), found.bytes().await?))
        })?;
        if content.len() as u64 == self.windows.size() {
            files.put(path, tag.as_deref(), &content, listings);
        }
        Ok(content)
    }

    fn shorter(&self) -> object_store::Error {
        let source = format!("it is shorter than the {} bytes of its listing", self.windows.size()).into();
        object_store::Error::Generic { store: "object", source }
    }
}

impl FileReader {
    pub(super) fn local(path: &std::path::Path) -> std::io::Result<Self> {
        let file = super::local::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { source: Source::Local(Arc::new(file), size) })
    }

    /// Gives up what was fetched of the file; it is fetched again when it is read.
    pub fn forget(&self) {
        if let Source::Remote(remote) = &self.source {
            remote.windows.forget();
        }
    }

    /// `small`: where the files are kept that are small like this one, and its path. `end`: what is known of the end of
    /// the file.
    pub(super) fn remote(
        store: Arc<dyn ObjectStore>,
        key: Path,
        size: u64,
        small: Option<(Arc<SmallFiles>, String)>,
        end: Option<Bytes>,
    ) -> Self {
        let known = end.or_else(|| small.as_ref().and_then(|(files, path)| files.get(path, size)));
        let windows = known.map_or_else(|| Windows::new(size), |end| Windows::with_end(size, end));
        Self { source: Source::Remote(Arc::new(Remote { store, key, windows, small })) }
    }
}

fn io(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ParquetError {
    let error = Error::storage("reading a data file failed").caused_by(e);
    ParquetError::External(Box::new(error.remedy("Check that the storage can be reached, and read again")))
}

fn fetching(e: object_store::Error) -> ParquetError {
    let e = match own_error(e) {
        Ok(own) => return ParquetError::External(Box::new(own)),
        Err(e) => e,
    };
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
        interrupt::check().map_err(|e| ParquetError::External(Box::new(e)))?;
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
        interrupt::check().map_err(|e| ParquetError::External(Box::new(e)))?;
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
pub(super) fn read_at(file: &std::fs::File, out: &mut [u8], position: u64) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, position)
}

#[cfg(windows)]
pub(super) fn read_at(file: &std::fs::File, out: &mut [u8], position: u64) -> std::io::Result<usize> {
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
                other => match own_error(other) {
                    Ok(own) => std::io::Error::other(own),
                    Err(other) => std::io::Error::other(other),
                },
            })?;
            self.position += self.buffer.len() as u64;
            // Whoever comes back reads on and on: the header of a page is all in the first chunk, nearly always.
            self.wanted = (4 * self.buffer.len() as u64).min(CHUNK_SIZE);
        }
        let n = out.len().min(self.buffer.len());
        self.buffer.split_to(n).copy_to_slice(out.get_mut(..n).unwrap_or_default());
        Ok(n)
    }
}
