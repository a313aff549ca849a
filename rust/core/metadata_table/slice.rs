//! Reads the stored records of a file slice: those of its log files in their order, then those of its base file.

use std::ops::Range;

use arrow::array::RecordBatch;
use bytes::Bytes;
use hoodoo_hfile::{HFileError, HFileReader, ReadAt};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{Error, ErrorKind, Result};
use crate::file_group::log::{LogBatch, LogScan};
use crate::file_group::{BaseFile, FileSlice};
use crate::format::log::{Wanted, each_batch_of_hfile};
use crate::storage::guard::decode;
use crate::storage::{FileReader, Storage};

/// The entry of the file info with the schema of the records.
const SCHEMA: &str = "schema";

/// An HFile of the table's storage.
pub(super) struct StoredFile(pub(super) FileReader);

impl ReadAt for StoredFile {
    fn size(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, range: Range<u64>) -> Result<Bytes, HFileError> {
        let failed = |e: Error| HFileError::Source(Box::new(e));
        let length = usize::try_from(range.end.saturating_sub(range.start))
            .map_err(|e| failed(Error::corrupt("a range of an HFile is too long").caused_by(e)))?;
        self.0.get_bytes(range.start, length).map_err(|e| failed(e.into()))
    }
}

/// Passes the contents of the log blocks to `each`, in the order in which they are merged: deletes, and the records that are
/// wanted. `counts` says which instants count.
///
/// # Errors
/// `Corrupt`, with the file; `Storage`; and those of `each`.
pub(super) fn each_logged(
    storage: &Storage,
    slice: &FileSlice,
    counts: impl Fn(&str) -> bool,
    wanted: Wanted<'_>,
    columns: &[&str],
    each: &mut dyn FnMut(LogBatch) -> Result<()>,
) -> Result<()> {
    let scan = LogScan::open(storage, &slice.logs, counts)?;
    check_logs(storage, &scan)?;
    (0..scan.blocks()).try_for_each(|block| scan.read_as_stored(block, wanted, columns, each)).map_err(damaged)
}

/// Checks that log files have nothing but whole blocks.
///
/// # Errors
/// `Corrupt` for one that has something else.
pub(super) fn check_logs(storage: &Storage, scan: &LogScan) -> Result<()> {
    match scan.truncated_files().next() {
        None => Ok(()),
        Some(file) => Err(Error::corrupt("a log file of the metadata table is empty or has bytes that are no block")
            .with("table", storage.uri())
            .with("file", file)),
    }
}

/// Opens a base file.
///
/// # Errors
/// `Corrupt`; `Unsupported` for HFiles that Hudi does not write; `Storage`.
pub(super) fn open_base(storage: &Storage, base: &BaseFile) -> Result<HFileReader<StoredFile>> {
    Ok(HFileReader::open(StoredFile(storage.reader(&base.path, base.size)?))?)
}

/// Records without a column, or with nulls where Hudi has none, are of a damaged file, not of another table.
fn damaged(e: Error) -> Error {
    match e.kind() {
        ErrorKind::Schema => Error::corrupt("records of the metadata table are not as Hudi writes them").caused_by(e),
        _ => e,
    }
}

/// Passes the records of a base file that are wanted to `each`, so many at a time, and through `convert` before, by several
/// threads.
///
/// # Errors
/// `Corrupt`, with the file; `Unsupported` for HFiles that Hudi does not write; `Storage`; and those of `convert` and `each`.
pub(super) fn each_stored(
    storage: &Storage,
    base: &BaseFile,
    wanted: Wanted<'_>,
    columns: &[&str],
    batch_rows: usize,
    convert: &(dyn Fn(RecordBatch) -> Result<RecordBatch> + Sync),
    each: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let read = || {
        let file = open_base(storage, base)?;
        let schema = file.file_info(SCHEMA).ok_or_else(|| Error::corrupt("an HFile has no schema in its file info"))?;
        let schema = std::str::from_utf8(schema)
            .map_err(|e| Error::corrupt("the schema of an HFile is not UTF-8").caused_by(e))?;
        each_batch_of_hfile(&file, wanted, schema, columns, batch_rows, convert, each)
    };
    decode("an HFile", read).map_err(|e| damaged(e).with("table", storage.uri()).with("file", &base.path))
}
