//! The records of an HFile data block as Arrow batches.
//!
//! The content is an HFile as it is. Keys are record keys; values are Avro data of the schema in the block's header, all of
//! them in the order of their keys. A column by the name of `key` is left empty when it is written, whatever it held, and
//! gets the record key when it is read.

use std::iter::once;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::available_parallelism;

use arrow::array::{ArrayRef, AsArray, BinaryBuilder, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use bytes::Bytes;
use hoodoo_hfile::{DataBlock, DataBlocks, HFileReader, Matches, ReadAt};

use super::decoder_cache::decoder;
use super::record_decoder::RecordDecoder;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::parallel::{receive, run_parallel, spawn};
use hoodoo_runtime::simulated;

/// The column that the keys of the file stand in for.
const KEY_COLUMN: &str = "key";
/// So many bytes of data blocks are decoded at a time.
const GROUP: usize = 8 << 20;
/// Bytes of a data block as Hudi writes it.
const HUDIS_BLOCK: usize = 1 << 20;

/// From so many entries on, a file is read by a thread of its own.
const MANY_ENTRIES: u64 = 50_000;

/// Which records of an HFile are wanted.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// All of them.
    All,
    /// Those with one of these keys, which are sorted by their bytes and unique.
    Keys(&'a [String]),
    /// Those whose key begins with one of these strings, which are sorted by their bytes and unique.
    Prefixes(&'a [String]),
}

/// Decodes the records of an HFile data block; only those of `columns` that the records have, in the order of the records,
/// as [`avro_batches`](super::avro_batches) does it.
///
/// # Errors
/// `Corrupt` for an HFile that is damaged, or records that are not of the schema; `Unsupported` for HFiles that Hudi does
/// not write.
pub fn hfile_batches(content: Bytes, schema: &str, columns: &[&str], batch_rows: usize) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    each_hfile_batch(content, Wanted::All, schema, columns, batch_rows, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(batches)
}

/// The same, batch after batch: no more than some of them are in memory.
///
/// # Errors
/// Those of [`hfile_batches`], and of `each`.
pub fn each_hfile_batch(
    content: Bytes,
    wanted: Wanted<'_>,
    schema: &str,
    columns: &[&str],
    batch_rows: usize,
    each: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    each_batch_of_hfile(&HFileReader::open(content)?, wanted, schema, columns, batch_rows, &Ok, each)
}

/// The same for an HFile that is open already, such as a base file of the metadata table. Of some keys, only the blocks
/// that may have them are read. Batches pass through `convert` first, several at a time.
///
/// # Errors
/// Those of [`each_hfile_batch`], of `convert`, and of the source of the file.
pub fn each_batch_of_hfile<S: ReadAt + Sync>(
    file: &HFileReader<S>,
    wanted: Wanted<'_>,
    schema: &str,
    columns: &[&str],
    batch_rows: usize,
    convert: &(dyn Fn(RecordBatch) -> Result<RecordBatch> + Sync),
    each: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let decoder = decoder(schema, columns, batch_rows)?;
    let mut group = Group { decoder: &decoder, batch_rows, blocks: Vec::new(), bytes: 0, convert, each };
    match wanted {
        Wanted::All if file.entry_count() < MANY_ENTRIES || simulated::is_on() => {
            for block in file.data_blocks()? {
                group.add(Block::Whole(block?))?;
            }
        }
        Wanted::All => each_block_ahead(file.data_blocks()?, &mut |block| group.add(Block::Whole(block)))?,
        Wanted::Keys(keys) => {
            for found in file.get_many(keys)? {
                group.add(Block::Some(found?))?;
            }
        }
        Wanted::Prefixes(prefixes) => {
            for found in file.prefixes(prefixes)? {
                group.add(Block::Some(found?))?;
            }
        }
    }
    group.decode()
}

/// Passes blocks to `each`, while the next ones are read and decompressed by another thread: [`GROUP`] bytes ahead, or one
/// larger block.
fn each_block_ahead<S: ReadAt + Sync>(
    blocks: DataBlocks<'_, S>,
    each: &mut dyn FnMut(DataBlock) -> Result<()>,
) -> Result<()> {
    std::thread::scope(|scope| {
        // Nothing waits in it: one group is decoded, and one is read.
        let (sender, receiver) = sync_channel(0);
        spawn(scope, move || {
            let mut ahead = (Vec::new(), 0);
            let end = blocks.map(Some).chain(once(None)).try_for_each(|next| {
                let is_last = next.is_none();
                let (read, bytes) = &mut ahead;
                if let Some(block) = next {
                    *bytes += block.as_ref().map_or(0, DataBlock::size);
                    read.push(block);
                }
                if !is_last && *bytes < GROUP {
                    return Ok(());
                }
                *bytes = 0;
                sender.send((std::mem::take(read), is_last))
            });
            // After an error, nobody waits for the rest.
            drop(end);
        });
        loop {
            let (read, is_last) = receive(&receiver)?;
            for block in read {
                each(block?)?;
            }
            if is_last {
                break;
            }
        }
        Ok(())
    })
}

/// Entries of one data block.
enum Block {
    Whole(DataBlock),
    Some(Matches),
}

impl Block {
    /// Keys and values.
    fn entries(&self) -> Vec<(&[u8], &[u8])> {
        match self {
            Self::Whole(block) => block.entries().map(|entry| (entry.key, entry.value)).collect(),
            Self::Some(found) => found.entries().map(|(_, entry)| (entry.key, entry.value)).collect(),
        }
    }
}

/// Data blocks that are decoded together.
struct Group<'a> {
    decoder: &'a RecordDecoder,
    batch_rows: usize,
    blocks: Vec<Block>,
    bytes: usize,
    convert: &'a (dyn Fn(RecordBatch) -> Result<RecordBatch> + Sync),
    each: &'a mut dyn FnMut(RecordBatch) -> Result<()>,
}

impl Group<'_> {
    fn add(&mut self, block: Block) -> Result<()> {
        self.bytes += match &block {
            Block::Whole(block) => block.size(),
            // The whole block is kept in memory for its entries.
            Block::Some(_) => HUDIS_BLOCK,
        };
        self.blocks.push(block);
        if self.bytes >= GROUP { self.decode() } else { Ok(()) }
    }

    fn decode(&mut self) -> Result<()> {
        self.bytes = 0;
        let blocks = std::mem::take(&mut self.blocks);
        let entries: Vec<(&[u8], &[u8])> = blocks.iter().flat_map(Block::entries).collect();
        let chunks: Vec<_> = entries.chunks(self.batch_rows.max(1)).collect();
        let threads = if chunks.len() > 1 { available_parallelism().map_or(1, usize::from) } else { 1 };
        let decoded = run_parallel(chunks, threads, |chunk| {
            decode(self.decoder, chunk)?.into_iter().map(self.convert).collect::<Result<Vec<_>>>()
        })?;
        decoded.into_iter().flatten().try_for_each(&mut self.each)
    }
}

/// Decodes some entries.
fn decode(decoder: &RecordDecoder, entries: &[(&[u8], &[u8])]) -> Result<Vec<RecordBatch>> {
    let values = entries.iter().map(|(_, value)| Ok(*value));
    let mut keys = entries.iter().map(|(key, _)| *key);
    let filled = |batch: RecordBatch| {
        let keys: Vec<&[u8]> = keys.by_ref().take(batch.num_rows()).collect();
        with_keys(batch, &keys)
    };
    decoder.batches(values, entries.len())?.into_iter().map(filled).collect()
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
    let bytes = keys.iter().map(|key| key.len()).sum::<usize>() + written.value_data().len();
    // Whether they are UTF-8 is looked at once, for all of them.
    let mut filled = BinaryBuilder::with_capacity(keys.len(), bytes);
    for (value, key) in written.iter().zip(keys) {
        filled.append_option(if value == Some("") { Some(*key) } else { value.map(str::as_bytes) });
    }
    let filled = StringArray::try_from_binary(filled.finish())
        .map_err(|e| Error::corrupt("a key of an HFile is not UTF-8").caused_by(e))?;
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    if let Some(column) = columns.get_mut(position) {
        *column = Arc::new(filled);
    }
    Ok(RecordBatch::try_new(schema, columns)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::datatypes::Int64Type;
    use hoodoo_hfile::{HFileWriter, HFileWriterOptions};
    use hoodoo_runtime::error::ErrorKind;

    use super::*;
    use crate::avro::datum::write_long;

    const SCHEMA: &str = r#"{"type":"record","name":"r","fields":[{"name":"key","type":"string"},
        {"name":"of","type":["null",{"type":"record","name":"s","fields":[{"name":"n","type":"long"}]}]}]}"#;

    /// A file of many blocks.
    fn file(entries: u64) -> Bytes {
        let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default().block_bytes(64 << 10));
        for number in 0..i64::try_from(entries).unwrap() {
            let mut value = vec![0, 2];
            write_long(number, &mut value);
            writer.append(format!("{number:09}").as_bytes(), &value).unwrap();
        }
        writer.finish().unwrap().into()
    }

    fn read(content: Bytes) -> Result<Vec<RecordBatch>> {
        hfile_batches(content, SCHEMA, &["key", "of"], 1000)
    }

    #[test]
    fn files_that_are_read_ahead() {
        for entries in [0, 1, MANY_ENTRIES - 1, MANY_ENTRIES, MANY_ENTRIES + 1] {
            let batches = read(file(entries)).unwrap();
            let (mut keys, mut numbers) = (0u64, 0i64);
            for batch in &batches {
                for key in batch.column(0).as_string::<i32>() {
                    assert_eq!(key.unwrap().parse::<u64>().unwrap(), keys);
                    keys += 1;
                }
                for number in batch.column(1).as_struct().column(0).as_primitive::<Int64Type>() {
                    assert_eq!(number.unwrap(), numbers);
                    numbers += 1;
                }
            }
            assert_eq!((keys, u64::try_from(numbers).unwrap()), (entries, entries));
        }
    }

    #[test]
    fn damage_anywhere_in_a_file_that_is_read_ahead() {
        let whole = file(2 * MANY_ENTRIES);
        for part in [1, 10, 50, 80] {
            let mut damaged = whole.to_vec();
            let at = damaged.len() * part / 100;
            damaged[at] ^= 0x10;
            assert_eq!(read(damaged.into()).unwrap_err().kind(), ErrorKind::Corrupt, "{part}");
        }
    }

    #[test]
    fn nobody_waits_for_blocks_that_are_not_wanted() {
        let mut left = 3;
        let failed = each_hfile_batch(file(3 * MANY_ENTRIES), Wanted::All, SCHEMA, &["of"], 1000, &mut |_| {
            left -= 1;
            if left == 0 { Err(Error::conflict("enough")) } else { Ok(()) }
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Conflict);
    }
}
