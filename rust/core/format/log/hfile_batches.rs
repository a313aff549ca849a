//! The records of an HFile data block as Arrow batches.
//!
//! The content is an HFile as it is. Keys are record keys; values are Avro data of the schema in the block's header, all of
//! them in the order of their keys. A column by the name of `key` is left empty when it is written, whatever it held, and
//! gets the record key when it is read.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use bytes::Bytes;
use hoodoo_hfile::{DataBlock, HFileReader, ReadAt};

use super::avro_batches::RecordDecoder;
use crate::error::{Error, Result};

/// The column that the keys of the file stand in for.
const KEY_COLUMN: &str = "key";
/// So many bytes of data blocks are decoded at a time.
const GROUP: usize = 8 << 20;

/// Decodes the records of an HFile data block; only those of `columns` that the records have, in the order of the records,
/// as [`avro_batches`](super::avro_batches) does it.
///
/// # Errors
/// `Corrupt` for an HFile that is damaged, or records that are not of the schema; `Unsupported` for HFiles that Hudi does
/// not write.
pub fn hfile_batches(content: Bytes, schema: &str, columns: &[&str], batch_rows: usize) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    each_hfile_batch(content, schema, columns, batch_rows, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(batches)
}

/// The same, batch after batch: no more than some of them are in memory.
///
/// # Errors
/// Those of [`hfile_batches`], and of `each`.
pub(crate) fn each_hfile_batch(
    content: Bytes,
    schema: &str,
    columns: &[&str],
    batch_rows: usize,
    each: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    each_batch_of_hfile(&HFileReader::open(content)?, schema, columns, batch_rows, each)
}

/// The same for an HFile that is open already, such as a base file of the metadata table.
///
/// # Errors
/// Those of [`each_hfile_batch`], and of the source of the file.
pub(crate) fn each_batch_of_hfile<S: ReadAt>(
    file: &HFileReader<S>,
    schema: &str,
    columns: &[&str],
    batch_rows: usize,
    each: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let decoder = RecordDecoder::new(schema, columns, batch_rows)?;
    let (mut group, mut bytes) = (Vec::new(), 0);
    for block in file.data_blocks()? {
        let block = block?;
        bytes += block.size();
        group.push(block);
        if bytes >= GROUP {
            decode(&decoder, &std::mem::take(&mut group), each)?;
            bytes = 0;
        }
    }
    decode(&decoder, &group, each)
}

fn decode(decoder: &RecordDecoder, group: &[DataBlock], each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let values = group.iter().flat_map(|block| block.entries().map(|entry| Ok(entry.value)));
    let count = group.iter().map(DataBlock::count).sum();
    let mut keys = group.iter().flat_map(|block| block.entries().map(|entry| entry.key));
    for batch in decoder.batches(values, count)? {
        let keys: Vec<&[u8]> = keys.by_ref().take(batch.num_rows()).collect();
        each(with_keys(batch, &keys)?)?;
    }
    Ok(())
}

/// Puts the keys where the column for them is empty.
fn with_keys(batch: RecordBatch, keys: &[&[u8]]) -> Result<RecordBatch> {
    let schema = batch.schema();
    let Some((position, _)) = schema.column_with_name(KEY_COLUMN).filter(|(_, f)| *f.data_type() == DataType::Utf8)
    else {
        return Ok(batch);
    };
    let written = batch.column(position).as_string::<i32>();
    if !written.iter().any(|value| value == Some("")) {
        return Ok(batch);
    }
    let filled = written.iter().zip(keys).map(|(value, key)| match value {
        Some("") => std::str::from_utf8(key)
            .map(Some)
            .map_err(|e| Error::corrupt("a key of an HFile is not UTF-8").caused_by(e)),
        value => Ok(value),
    });
    let filled: StringArray = filled.collect::<Result<_>>()?;
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    if let Some(column) = columns.get_mut(position) {
        *column = Arc::new(filled);
    }
    Ok(RecordBatch::try_new(schema, columns)?)
}
