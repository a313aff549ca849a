//! The records of a data block as Arrow batches.
//!
//! A block is a list of Avro data with their lengths before them. They are decoded some at a time, so that a large block is
//! never in memory as a whole.

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::file::reader::ChunkReader;

use super::avro_records::cut_off;
use super::decoder_cache::decoder;
use super::{AvroRecords, ContentChecksum};
use hoodoo_runtime::error::{Error, Result};

/// Batches of a block that are decoded at once, unless their records are large, but some records in any case.
const BATCHES_AT_ONCE: usize = 4;
const LEAST_AT_ONCE: usize = 256;

/// Decodes the records of an Avro data block; only those of `columns` that the records have, in the order of the records.
/// Times have the zone `UTC`, symbols of enumerations are strings.
///
/// # Errors
/// `Corrupt` for records that are cut off or are not of the schema, `Unsupported` for a later version of the content and
/// for records that contain themselves.
pub fn avro_batches(content: &[u8], schema: &str, columns: &[&str], batch_rows: usize) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    let (content, checksum) = (Bytes::copy_from_slice(content), ContentChecksum::default());
    each_avro_batch(&content, checksum, schema, columns, BatchSize::of(batch_rows), &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(batches)
}

/// How many records and bytes are decoded at a time.
#[derive(Debug, Clone, Copy)]
pub struct BatchSize {
    /// Most rows of a batch.
    pub rows: usize,
    /// Bytes of the block from which some batches are decoded at once.
    pub bytes: u64,
}

impl BatchSize {
    /// Batches of so many rows, from a few MB at once.
    pub fn of(rows: usize) -> Self {
        Self { rows, bytes: 8 << 20 }
    }
}

/// The same, batch after batch: no more than some of them, and the bytes that they are made of, are in memory.
///
/// # Errors
/// Those of [`avro_batches`], and of `each`.
pub fn each_avro_batch(
    content: &impl ChunkReader,
    mut checksum: ContentChecksum,
    schema: &str,
    columns: &[&str],
    batch_size: BatchSize,
    each: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let decoder = decoder(schema, columns, batch_size.rows)?;
    let size = content.len();
    let read = |start: u64, length: u64| -> Result<Bytes> {
        let length = length.min(size.saturating_sub(start));
        Ok(content.get_bytes(start, usize::try_from(length).map_err(|_| cut_off())?)?)
    };
    let head = read(0, AvroRecords::HEAD as u64)?;
    checksum.add(&head);
    let mut left = AvroRecords::count(&head, size)?;
    let mut at = AvroRecords::HEAD as u64;
    let bytes_each = size / left.max(1) as u64;
    let at_once = usize::try_from(batch_size.bytes / bytes_each.max(1)).unwrap_or(usize::MAX);
    let at_once = at_once.max(LEAST_AT_ONCE).min(BATCHES_AT_ONCE * batch_size.rows.max(1));
    // A little more than those are likely to take.
    let ahead = (at_once as u64).saturating_mul(bytes_each + 4).clamp(64 << 10, (2 * batch_size.bytes).max(64 << 10));
    while left > 0 {
        let mut some = read(at, ahead)?;
        let (mut count, mut bytes) = AvroRecords::whole(&some, left.min(at_once));
        if count == 0 {
            // The next record is larger than all that, or cut off.
            some = read(at, bytes as u64)?;
            (count, bytes) = AvroRecords::whole(&some, 1);
            if count == 0 {
                return Err(cut_off());
            }
        }
        checksum.add(some.get(..bytes).unwrap_or_default());
        for batch in decoder.batches(AvroRecords::some(&some, count), count)? {
            each(batch)?;
        }
        left -= count;
        at += bytes as u64;
    }
    if at < size {
        return Err(Error::corrupt("the records of a log block end before its content").with("left", size - at));
    }
    checksum.finish()
}
