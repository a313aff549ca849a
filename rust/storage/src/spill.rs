//! Rows that do not fit into memory, on the local disk.
//!
//! A spilled batch stays a batch: its columns lie in a memory map of a temporary file, which the operating system reads
//! in when they are looked at and drops when it needs the memory. Batches that are needed once, one after the other, are
//! read back instead: so no more than one of them is in memory, by any measure. The file has no name; it is gone with the
//! last batch or with the process, however that ends.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::Schema;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::writer::FileWriter;
use arrow::ipc::{Block, root_as_footer};
use bytes::Bytes;

use super::file_reader::read_at;
use hoodoo_runtime::error::{Error, Result};

/// Bytes at the end of an Arrow file: the length of its footer, and a magic word.
const TRAILER: usize = 10;

/// Where rows are spilled, and when.
#[derive(Debug, Clone)]
pub struct SpillOptions {
    /// Bytes of rows that are kept in memory.
    pub budget: usize,
    /// A folder on a local disk.
    pub folder: PathBuf,
}

/// Puts batches of one schema on the disk; gives them back as batches that take no memory of the process.
///
/// # Errors
/// `Storage` when the folder is not writable or the disk is full.
pub fn spill(folder: &Path, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    let mut writer = SpillWriter::create(folder, &first.schema())?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}

/// Puts batches on the disk one after the other.
pub struct SpillWriter {
    folder: PathBuf,
    writer: FileWriter<BufWriter<File>>,
}

impl SpillWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// `Storage` when the folder is not writable.
    pub fn create(folder: &Path, schema: &Schema) -> Result<Self> {
        let file = tempfile::tempfile_in(folder).map_err(|e| failed(folder, e))?;
        let writer = FileWriter::try_new(BufWriter::with_capacity(1 << 20, file), schema)?;
        Ok(Self { folder: folder.to_owned(), writer })
    }

    /// Puts a batch away.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(|e| failed(&self.folder, e))
    }

    /// Ends the file: its batches, which take no memory of the process.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub fn finish(self) -> Result<Vec<RecordBatch>> {
        let (folder, file) = self.end()?;
        let mapped = map(&file).map_err(|e| failed(&folder, e))?;
        read(&mapped).map_err(|e| failed(&folder, e))
    }

    /// Ends the file: its batches, each of which is read when it is asked for.
    ///
    /// # Errors
    /// `Storage` when the disk is full.
    pub fn finish_to_read_once(self) -> Result<SpilledBatches> {
        let (folder, file) = self.end()?;
        let opened = SpilledBatches::open(file, &folder);
        opened.map_err(|e| failed(&folder, e))
    }

    fn end(self) -> Result<(PathBuf, File)> {
        let folder = self.folder;
        let written = self.writer.into_inner().map_err(|e| failed(&folder, e))?;
        let file = written.into_inner().map_err(|e| failed(&folder, e.into_error()))?;
        Ok((folder, file))
    }
}

/// Batches on the disk, given out one after the other.
pub struct SpilledBatches {
    file: File,
    folder: PathBuf,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl SpilledBatches {
    fn open(file: File, folder: &Path) -> std::result::Result<Self, Failure> {
        let size = file.metadata()?.len();
        let start = size.checked_sub(TRAILER as u64).ok_or("it is too short")?;
        let trailer = read_chunk(&file, start, TRAILER)?;
        let trailer = trailer.as_slice().first_chunk::<TRAILER>().ok_or("it is too short")?;
        let length = read_footer_length(*trailer)?;
        let footer = read_chunk(&file, start.checked_sub(length as u64).ok_or("its footer is too long")?, length)?;
        let footer = root_as_footer(&footer).map_err(|e| e.to_string())?;
        let schema = try_fb_to_schema(footer.schema().ok_or("it has no schema")?)?;
        let decoder = FileDecoder::new(Arc::new(schema), footer.version());
        let blocks: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        Ok(Self { file, folder: folder.to_owned(), decoder, blocks: blocks.into_iter() })
    }

    fn read(&self, block: &Block) -> std::result::Result<RecordBatch, Failure> {
        let length = usize::try_from(block.bodyLength())? + usize::try_from(block.metaDataLength())?;
        let bytes = read_chunk(&self.file, u64::try_from(block.offset())?, length)?;
        Ok(self.decoder.read_record_batch(block, &bytes)?.ok_or("a block holds no rows")?)
    }
}

impl Iterator for SpilledBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next()?;
        Some(self.read(&block).map_err(|e| failed(&self.folder, e)))
    }
}

/// Bytes of a file, where arrays may begin.
fn read_chunk(file: &File, start: u64, length: usize) -> std::io::Result<Buffer> {
    let mut bytes = MutableBuffer::from_len_zeroed(length);
    let (mut left, mut at) = (bytes.as_slice_mut(), start);
    while !left.is_empty() {
        match read_at(file, left, at) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => (left, at) = (left.get_mut(n..).unwrap_or_default(), at + n as u64),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(bytes.into())
}

#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<Buffer> {
    // SAFETY: the file has no name, so that no other process can open it to change or to shorten it, and this one keeps
    // no handle but the map.
    let mapped = unsafe { memmap2::Mmap::map(file)? };
    Ok(Buffer::from(Bytes::from_owner(mapped)))
}

fn read(file: &Buffer) -> std::result::Result<Vec<RecordBatch>, Failure> {
    let bytes = file.as_slice();
    let (rest, trailer) = bytes.split_last_chunk::<TRAILER>().ok_or("it is too short")?;
    let start = rest.len().checked_sub(read_footer_length(*trailer)?).ok_or("its footer is too long")?;
    let footer = root_as_footer(rest.get(start..).unwrap_or_default()).map_err(|e| e.to_string())?;
    let schema = try_fb_to_schema(footer.schema().ok_or("it has no schema")?)?;
    let decoder = FileDecoder::new(Arc::new(schema), footer.version());
    let mut batches = Vec::new();
    for block in footer.recordBatches().iter().flatten() {
        let offset = usize::try_from(block.offset())?;
        let length = usize::try_from(block.bodyLength())? + usize::try_from(block.metaDataLength())?;
        if offset.checked_add(length).is_none_or(|end| end > bytes.len()) {
            return Err("a block goes beyond its end".into());
        }
        let batch = decoder.read_record_batch(block, &file.slice_with_length(offset, length))?;
        batches.push(batch.ok_or("a block holds no rows")?);
    }
    Ok(batches)
}

fn failed(folder: &Path, source: impl Into<Failure>) -> Error {
    Error::storage("rows that do not fit into hoodoo.memory.budget could not be spilled to the disk")
        .with("folder", folder.display())
        .caused_by(source)
        .remedy("Make room there, name another folder in hoodoo.spill.folder, or write fewer rows at once")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use hoodoo_runtime::error::ErrorKind;

    #[test]
    fn batches_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let batch = |n: i64| {
            let ints: ArrayRef = Arc::new((0..n).map(|i| (i % 3 > 0).then_some(i)).collect::<Int64Array>());
            let strings: ArrayRef =
                Arc::new((0..n).map(|i| (i % 5 > 0).then(|| format!("t{i}"))).collect::<StringArray>());
            let lists = (0..n).map(|i| (i % 2 == 0).then(|| vec![Some(i), None]));
            let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
            RecordBatch::try_from_iter_with_nullable([("i", ints, true), ("t", strings, true), ("l", lists, true)])
                .unwrap()
        };
        let batches = [batch(1000), batch(0), batch(1000).slice(17, 500)];
        assert_eq!(spill(folder.path(), &batches).unwrap(), batches);
        let mut writer = SpillWriter::create(folder.path(), &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        assert_eq!(writer.finish_to_read_once().unwrap().collect::<Result<Vec<_>>>().unwrap(), batches);
        let none = SpillWriter::create(folder.path(), &batches[0].schema()).unwrap();
        assert_eq!(none.finish_to_read_once().unwrap().count(), 0);
        assert!(spill(folder.path(), &[]).unwrap().is_empty());
        // Nothing is left in the folder.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("i", ints)]).unwrap();
        let refused = spill(Path::new("no/such/folder"), &[batch]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Storage);
        assert!(refused.to_string().contains("hoodoo.spill.folder"), "{refused}");
    }
}
