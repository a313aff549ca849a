//! Writing data files in chunks.
//!
//! On a local disk the bytes go straight into the file, in large chunks, from the thread that has them: parts that wait for
//! the threads of a runtime would be copied once more, and would keep memory of their own. Other storages get the parts of
//! an upload.

use std::fs::File;
use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};

use super::local;
use super::local_disk::LocalDisk;
use super::runtime::{block_on, block_on_read, runtime};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::BackgroundTask;

/// Size of one part of an upload. S3 takes at most 10,000 parts, of at least 5 MiB.
const PART_SIZE: usize = 8 << 20;
/// Parts under way at once.
const PARTS_IN_FLIGHT: usize = 4;
/// Bytes of a file for which a disk is asked to find room ahead of them, in the beginning and at most.
const ROOM: std::ops::Range<u64> = 2 << 20..64 << 20;
/// Bytes that go to a disk at once: a file system takes large chunks in less time.
const DISK_CHUNK: usize = 512 << 10;
/// Bytes of a growing file from which on writing them to the disk begins, and of one that has just ended.
const MUCH: u64 = 4 << 20;
const LEFT: u64 = 512 << 10;
/// Bytes that a new file has room for in memory.
const FIRST_CHUNK: usize = 32 << 10;

/// Something to write to that takes bytes from a reader without a detour.
pub trait CopyFrom: Write {
    /// Writes the next `length` bytes of `source`.
    ///
    /// # Errors
    /// Those of both; `UnexpectedEof` when the source has fewer.
    fn copy_from(&mut self, source: &mut dyn Read, length: u64) -> std::io::Result<()> {
        let mut left = source.take(length);
        if std::io::copy(&mut left, self)? == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }
}

impl CopyFrom for Vec<u8> {}

/// A new file under construction. It does not exist for others before [`FileWriter::finish`].
pub struct FileWriter {
    state: State,
    path: String,
    uri: Arc<str>,
    written: u64,
    /// What has to be done before the file appears.
    after: Option<BackgroundTask<Result<()>>>,
}

enum State {
    Local(LocalFile),
    /// All of it, small enough for one request.
    Small(Vec<u8>, Target),
    Upload(WriteMultipart),
    Finished,
}

struct Target {
    store: Arc<dyn ObjectStore>,
    key: Path,
}

impl FileWriter {
    /// A writer for a file of a local disk. It is begun at once: a folder that cannot be written to is found out before
    /// the work.
    pub(super) fn local(disk: Arc<LocalDisk>, file: PathBuf, path: &str, uri: Arc<str>) -> std::io::Result<Self> {
        let state = State::Local(LocalFile::begin(disk, file)?);
        Ok(Self { state, path: path.to_owned(), uri, written: 0, after: None })
    }

    /// A writer that begins with an upload when the file grows beyond one part.
    pub(super) fn remote(store: Arc<dyn ObjectStore>, key: Path, path: &str, uri: Arc<str>) -> Self {
        let state = State::Small(Vec::new(), Target { store, key });
        Self { state, path: path.to_owned(), uri, written: 0, after: None }
    }

    /// The same file, which does not appear before something else is done.
    #[must_use]
    pub fn after(mut self, work: BackgroundTask<Result<()>>) -> Self {
        self.after = Some(work);
        self
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Publishes the file; returns its size in bytes.
    pub fn finish(mut self) -> Result<u64> {
        interrupt::check()?;
        if let Some(work) = self.after.take() {
            work.wait()??;
        }
        let finished = match std::mem::replace(&mut self.state, State::Finished) {
            State::Local(file) => file.publish().map_err(|e| local::as_object_store(e, &self.path)),
            State::Small(content, to) => block_on(to.store.put(&to.key, content.into())).map(|_| ()),
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
        interrupt::check().map_err(std::io::Error::other)?;
        match &mut self.state {
            State::Local(file) => file.write(data)?,
            State::Small(content, _) if content.len() + data.len() <= PART_SIZE => content.extend_from_slice(data),
            State::Small(content, to) => {
                let upload = block_on(to.store.put_multipart(&to.key)).map_err(std::io::Error::other)?;
                let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_SIZE);
                let _inside = runtime()?.enter();
                upload.write(content);
                upload.write(data);
                self.state = State::Upload(upload);
            }
            State::Upload(upload) => {
                // Waiting here bounds what is in memory when the storage is slower than the encoder.
                let room = poll_fn(|cx| upload.poll_for_capacity(cx, PARTS_IN_FLIGHT));
                block_on_read(room).map_err(std::io::Error::other)?;
                let runtime = runtime()?;
                let _inside = runtime.enter();
                upload.write(data);
            }
            State::Finished => return Err(std::io::Error::other("the file is already finished")),
        }
        self.written += data.len() as u64;
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CopyFrom for FileWriter {
    fn copy_from(&mut self, source: &mut dyn Read, length: u64) -> std::io::Result<()> {
        if let State::Local(file) = &mut self.state {
            file.copy_from(source, length)?;
            self.written += length;
            return Ok(());
        }
        let mut left = length;
        let mut chunk = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(DISK_CHUNK)];
        while left > 0 {
            let next = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            let next = chunk.get_mut(..next).unwrap_or_default();
            source.read_exact(next)?;
            self.write_all(next)?;
            left -= next.len() as u64;
        }
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

/// A file that gets its name when it is whole; until then it has the one that the object store gives to its own, so that
/// what killed processes leave is known as such.
struct LocalFile {
    disk: Arc<LocalDisk>,
    file: File,
    unfinished: Option<PathBuf>,
    name: PathBuf,
    /// A chunk in the making, of which so many bytes are filled; empty before the first.
    chunk: Vec<u8>,
    filled: usize,
    /// Bytes in the file.
    written: u64,
    /// Bytes of which writing to the disk has begun.
    begun: u64,
    /// Bytes that there is room for; none when the file system finds room as it goes.
    room: Option<u64>,
}

impl LocalFile {
    fn begin(disk: Arc<LocalDisk>, name: PathBuf) -> std::io::Result<Self> {
        let (file, unfinished) = disk.begin(&name)?;
        let (unfinished, chunk) = (Some(unfinished), Vec::new());
        Ok(Self { disk, file, unfinished, name, chunk, filled: 0, written: 0, begun: 0, room: Some(0) })
    }

    /// Pieces end where those of the file system do.
    fn write(&mut self, mut data: &[u8]) -> std::io::Result<()> {
        while !data.is_empty() {
            if self.filled == 0 && data.len() >= DISK_CHUNK {
                let (whole, rest) = data.split_at(data.len() - data.len() % DISK_CHUNK);
                self.write_chunk(whole)?;
                data = rest;
                continue;
            }
            let room = self.free_room()?;
            let (now, rest) = data.split_at(data.len().min(room.len()));
            if let Some(room) = room.get_mut(..now.len()) {
                room.copy_from_slice(now);
            }
            self.filled += now.len();
            data = rest;
        }
        Ok(())
    }

    /// Reads straight into the chunk that goes to the disk next.
    fn copy_from(&mut self, source: &mut dyn Read, mut length: u64) -> std::io::Result<()> {
        while length > 0 {
            interrupt::check().map_err(std::io::Error::other)?;
            let room = self.free_room()?;
            let next = usize::try_from(length).unwrap_or(usize::MAX).min(room.len());
            source.read_exact(room.get_mut(..next).unwrap_or_default())?;
            self.filled += next;
            length -= next as u64;
        }
        Ok(())
    }

    /// What is free of the chunk in the making, never nothing: a full one is written first.
    fn free_room(&mut self) -> std::io::Result<&mut [u8]> {
        if self.filled == self.chunk.len() {
            match self.chunk.len() {
                DISK_CHUNK.. => self.write_filled()?,
                // Small files take little memory.
                small => self.chunk.resize((2 * small).clamp(FIRST_CHUNK, DISK_CHUNK), 0),
            }
        }
        Ok(self.chunk.get_mut(self.filled..).unwrap_or_default())
    }

    fn write_filled(&mut self) -> std::io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.write_chunk(chunk.get(..self.filled).unwrap_or_default())?;
        (self.chunk, self.filled) = (chunk, 0);
        Ok(())
    }

    fn write_chunk(&mut self, chunk: &[u8]) -> std::io::Result<()> {
        let end = self.written + chunk.len() as u64;
        self.make_room(end);
        self.file.write_all(chunk)?;
        self.written = end;
        self.write_back(MUCH);
        Ok(())
    }

    /// Begins to write the file to the disk when there is so much of it that is not.
    fn write_back(&mut self, much: u64) {
        if self.written.saturating_sub(self.begun) >= much {
            self.begun = self.written;
            self.disk.begin_write_back(&self.file, &self.name);
        }
    }

    /// Room for many chunks at once costs a file system half of what it costs for each by itself.
    fn make_room(&mut self, end: u64) {
        let Some(room) = self.room.filter(|room| *room < end) else { return };
        let more = room.clamp(ROOM.start, ROOM.end).max(end - room);
        // Where that cannot be done, writing itself finds the room, or says that there is none.
        self.room = allocate(&self.file, room, more).then_some(room + more);
    }

    fn publish(mut self) -> std::io::Result<()> {
        // Without room ahead: this is the end.
        self.file.write_all(self.chunk.get(..self.filled).unwrap_or_default())?;
        if self.room.is_none_or(|room| room > 0) {
            self.file.set_len(self.written + self.filled as u64)?;
        }
        self.written += self.filled as u64;
        self.write_back(LEFT);
        if let Some(unfinished) = &self.unfinished {
            self.disk.wrote(unfinished);
            self.disk.rename(unfinished, &self.name)?;
        }
        self.unfinished = None;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, from: u64, bytes: u64) -> bool {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), from, bytes).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> bool {
    false
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            let _ = self.disk.remove(unfinished);
        }
    }
}
