//! Writes an HFile as Hudi 1.2 does: data blocks, meta blocks, an index of one level, file info, trailer.

use std::collections::BTreeMap;
use std::io::Write;

use crate::block::{BlockKind, block_length, put_block};
use crate::codec::{Codec, Deflater};
use crate::entries::{ENTRY_OVERHEAD, MAX_ROW_BYTES, put_entry, put_row};
use crate::error::{HFileError, Result};
use crate::file_info::{
    AVERAGE_KEY_LENGTH, AVERAGE_VALUE_LENGTH, CREATE_TIME, KEY_VALUE_VERSION, LAST_KEY, MAX_MEMSTORE_TIMESTAMP,
    file_info_content,
};
use crate::index::{put_data_entry, put_meta_entry};
use crate::trailer::Trailer;

/// Names of the file info that a writer sets itself.
const RESERVED: [&str; 6] =
    [LAST_KEY, AVERAGE_KEY_LENGTH, AVERAGE_VALUE_LENGTH, CREATE_TIME, KEY_VALUE_VERSION, MAX_MEMSTORE_TIMESTAMP];

/// How an HFile is written. Every method changes one option.
#[derive(Debug, Clone)]
pub struct HFileWriterOptions {
    block_bytes: usize,
    codec: Codec,
    create_time: i64,
}

impl Default for HFileWriterOptions {
    fn default() -> Self {
        Self { block_bytes: 1 << 20, codec: Codec::Gzip, create_time: 0 }
    }
}

impl HFileWriterOptions {
    /// The size at which a data block ends, before compression: 1 MiB. An entry that is larger has a block of its own.
    #[must_use]
    pub fn block_bytes(mut self, bytes: usize) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// How blocks are compressed: with gzip.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// The time of the write for the file info, in milliseconds since 1970: 0. Readers of Hudi do not look at it.
    #[must_use]
    pub fn create_time(mut self, milliseconds: i64) -> Self {
        self.create_time = milliseconds;
        self
    }
}

/// Writes the entries of an HFile to a [`Write`], such as a file or a `Vec<u8>`, which need not be buffered.
///
/// Entries come in ascending order of the bytes of their keys, each key once. Of the data, the writer keeps one block in
/// memory. A file without entries is valid and Hudi reads it, but no table of Hudi has one.
///
/// # Example
///
/// ```
/// use hoodoo_hfile::{Codec, HFileReader, HFileWriter, HFileWriterOptions};
///
/// let options = HFileWriterOptions::default().codec(Codec::None).create_time(1_700_000_000_000);
/// let mut writer = HFileWriter::new(Vec::new(), options);
/// writer.append(b"apple", b"red")?;
/// writer.append(b"banana", b"yellow")?;
/// writer.set_file_info("schema", r#"{"type": "record"}"#)?;
/// writer.add_meta_block("bloomFilter", "bytes of any kind")?;
/// let file: Vec<u8> = writer.finish()?;
///
/// let reader = HFileReader::open(bytes::Bytes::from(file))?;
/// assert_eq!(reader.file_info("schema").map(|value| value.as_ref()), Some(br#"{"type": "record"}"#.as_slice()));
/// assert_eq!(reader.meta_block("bloomFilter")?.as_deref(), Some(b"bytes of any kind".as_slice()));
/// # Ok::<(), hoodoo_hfile::HFileError>(())
/// ```
pub struct HFileWriter<W> {
    out: W,
    options: HFileWriterOptions,
    deflater: Deflater,
    /// Bytes that are written.
    offset: u64,
    /// The content of the data block that is being filled, and its first key.
    block: Vec<u8>,
    block_key: Vec<u8>,
    /// A whole block on its way to `out`.
    stored: Vec<u8>,
    last_key: Vec<u8>,
    index: Vec<u8>,
    totals: Totals,
    info: Vec<(String, Vec<u8>)>,
    meta: BTreeMap<String, Vec<u8>>,
}

/// What the trailer and the file info say about the data blocks.
#[derive(Default)]
struct Totals {
    entries: u64,
    key_bytes: u64,
    value_bytes: u64,
    data_bytes: u64,
    blocks: u64,
    first_block: Option<u64>,
    last_block: Option<u64>,
}

impl<W: Write> HFileWriter<W> {
    /// Begin a file.
    pub fn new(out: W, options: HFileWriterOptions) -> Self {
        Self {
            out,
            deflater: Deflater::new(options.codec),
            options,
            offset: 0,
            block: Vec::new(),
            block_key: Vec::new(),
            stored: Vec::new(),
            last_key: Vec::new(),
            index: Vec::new(),
            totals: Totals::default(),
            info: Vec::new(),
            meta: BTreeMap::new(),
        }
    }

    /// Append an entry. After an error of the key or the value, the writer is as it was before.
    ///
    /// # Errors
    /// [`HFileError::UnsortedKeys`] for a key that is not greater than the one before it; [`HFileError::TooLong`] for a
    /// key of more than 32,767 bytes, or a value that does not fit into a block of 2 GiB; [`HFileError::Io`].
    pub fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.totals.entries > 0 && key <= self.last_key.as_slice() {
            return Err(HFileError::UnsortedKeys { position: self.totals.entries });
        }
        check_length("key", key.len(), MAX_ROW_BYTES)?;
        // Even stored without compression, the block of a single entry keeps below 2 GiB.
        check_length("value", value.len(), i32::MAX as usize - (1 << 20))?;
        let size = key.len() + value.len() + ENTRY_OVERHEAD;
        if !self.block.is_empty() && self.block.len() + size > self.options.block_bytes {
            self.end_block()?;
        }
        if self.block.is_empty() {
            self.block_key.clear();
            self.block_key.extend_from_slice(key);
        }
        put_entry(&mut self.block, key, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.totals.entries += 1;
        self.totals.key_bytes += key.len() as u64;
        self.totals.value_bytes += value.len() as u64;
        Ok(())
    }

    /// Set an entry of the file info, such as `schema`. A second value of a name replaces the first.
    ///
    /// # Errors
    /// [`HFileError::ReservedName`] for what the writer sets itself.
    pub fn set_file_info(&mut self, name: &str, value: impl Into<Vec<u8>>) -> Result<()> {
        if RESERVED.contains(&name) {
            return Err(HFileError::ReservedName(name.to_owned()));
        }
        self.put_file_info(name, value.into());
        Ok(())
    }

    /// Add a meta block, such as `bloomFilter`. A second block of a name replaces the first.
    ///
    /// # Errors
    /// [`HFileError::TooLong`] for a content that does not fit into a block of 2 GiB.
    pub fn add_meta_block(&mut self, name: &str, content: impl Into<Vec<u8>>) -> Result<()> {
        let content = content.into();
        check_length("meta block", content.len(), i32::MAX as usize - (1 << 20))?;
        self.meta.insert(name.to_owned(), content);
        Ok(())
    }

    /// How many bytes are written: without the data block that is being filled, and without index and trailer.
    pub fn written(&self) -> u64 {
        self.offset
    }

    /// Write the rest of the file, and return what it was written to.
    ///
    /// # Errors
    /// [`HFileError::Io`]; [`HFileError::TooLong`] for an index or a file info that does not fit into a block of 2 GiB.
    pub fn finish(mut self) -> Result<W> {
        self.end_block()?;
        let mut meta_index = Vec::new();
        let meta = std::mem::take(&mut self.meta);
        for (name, content) in &meta {
            let (offset, length) = self.write_block(BlockKind::Meta, content, None)?;
            put_meta_entry(&mut meta_index, offset, length, name);
        }
        let index = std::mem::take(&mut self.index);
        let (root, _) = self.write_block(BlockKind::RootIndex, &index, None)?;
        self.write_block(BlockKind::RootIndex, &meta_index, None)?;
        self.describe();
        let info = file_info_content(&self.info);
        let (file_info, _) = self.write_block(BlockKind::FileInfo, &info, None)?;
        let trailer = Trailer {
            file_info,
            root,
            data_bytes: self.totals.data_bytes,
            root_entries: self.totals.blocks,
            meta_entries: meta.len() as u64,
            entries: self.totals.entries,
            levels: 1,
            first_data_block: self.totals.first_block,
            last_data_block: self.totals.last_block,
            codec: self.options.codec,
        };
        self.out.write_all(&trailer.write())?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Put what the writer knows into the file info, as Hudi does.
    fn describe(&mut self) {
        let average = |total: u64| {
            let average = total.checked_div(self.totals.entries).unwrap_or_default();
            i32::try_from(average).unwrap_or(i32::MAX).to_be_bytes().to_vec()
        };
        let (key, value) = (average(self.totals.key_bytes), average(self.totals.value_bytes));
        if self.totals.entries > 0 {
            let mut last = Vec::new();
            put_row(&mut last, &self.last_key);
            self.put_file_info(LAST_KEY, last);
        }
        self.put_file_info(AVERAGE_VALUE_LENGTH, value);
        self.put_file_info(AVERAGE_KEY_LENGTH, key);
        self.put_file_info(KEY_VALUE_VERSION, 1i32.to_be_bytes().to_vec());
        self.put_file_info(MAX_MEMSTORE_TIMESTAMP, 0i64.to_be_bytes().to_vec());
        self.put_file_info(CREATE_TIME, self.options.create_time.to_be_bytes().to_vec());
    }

    fn put_file_info(&mut self, name: &str, value: Vec<u8>) {
        match self.info.iter_mut().find(|(found, _)| found == name) {
            Some((_, found)) => *found = value,
            None => self.info.push((name.to_owned(), value)),
        }
    }

    /// Write the data block that is being filled.
    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let (offset, length) = self.write_block(BlockKind::Data, &block, self.totals.last_block)?;
        put_data_entry(&mut self.index, offset, length, &self.block_key);
        self.totals.blocks += 1;
        self.totals.data_bytes += block.len() as u64;
        self.totals.first_block.get_or_insert(offset);
        self.totals.last_block = Some(offset);
        self.block = block;
        self.block.clear();
        Ok(())
    }

    /// Write a block; its offset, and its length with its header.
    fn write_block(&mut self, kind: BlockKind, content: &[u8], previous: Option<u64>) -> Result<(u64, u32)> {
        self.stored.clear();
        put_block(&mut self.stored, kind, content, previous, &mut self.deflater)?;
        let (offset, length) = (self.offset, block_length(self.stored.len())?);
        self.out.write_all(&self.stored)?;
        self.offset += u64::from(length);
        Ok((offset, length))
    }
}

fn check_length(what: &'static str, bytes: usize, limit: usize) -> Result<()> {
    if bytes > limit {
        return Err(HFileError::TooLong { what, bytes: bytes as u64, limit: limit as u64 });
    }
    Ok(())
}
