//! Reads an HFile: all of its entries, or those of some keys or prefixes.

mod lookup;
mod open;
mod stream;

use bytes::Bytes;

pub use lookup::{Lookup, Matches};
pub use stream::DataBlocks;

use crate::block::{BlockKind, BlockReader};
use crate::error::Result;
use crate::file_info::FileInfo;
use crate::index::{BlockAddress, Order, node_entries};
use crate::source::{ReadAt, read_range};
use crate::trailer::Trailer;
use lookup::Wanted;
use stream::BlockStream;

/// How an HFile is read. Every method changes one option.
#[derive(Debug, Clone)]
pub struct HFileReaderOptions {
    tail_bytes: u64,
    max_block_bytes: usize,
}

impl Default for HFileReaderOptions {
    fn default() -> Self {
        Self { tail_bytes: 64 << 10, max_block_bytes: 256 << 20 }
    }
}

impl HFileReaderOptions {
    /// How many bytes at the end of the file are read first: 64 KiB. With the load-on-open section among them, opening a
    /// file makes one read, otherwise two.
    #[must_use]
    pub fn tail_bytes(mut self, bytes: u64) -> Self {
        self.tail_bytes = bytes;
        self
    }

    /// The most bytes that one block may take after decompression, and the load-on-open section before it: 256 MiB. Hudi
    /// ends a block at 1 MiB, but a single larger entry has a block of its own.
    #[must_use]
    pub fn max_block_bytes(mut self, bytes: usize) -> Self {
        self.max_block_bytes = bytes;
        self
    }
}

/// An HFile whose trailer, root index and file info are read.
///
/// Lookups use the index, and read and decompress only the blocks that may have the keys. They need entries that are
/// sorted by the bytes of their keys, and equal keys in one block: Hudi and HBase never end a block between them.
///
/// # Example
///
/// ```
/// use bytes::Bytes;
/// use hoodoo_hfile::{HFileReader, HFileWriter, HFileWriterOptions};
///
/// let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default());
/// for (key, value) in [("apple", "red"), ("banana", "yellow"), ("blueberry", "blue")] {
///     writer.append(key.as_bytes(), value.as_bytes())?;
/// }
/// let file = Bytes::from(writer.finish()?);
///
/// let reader = HFileReader::open(file)?;
/// assert_eq!(reader.entry_count(), 3);
/// assert_eq!(reader.get(b"banana")?.as_deref(), Some(b"yellow".as_slice()));
///
/// for block in reader.data_blocks()? {
///     for entry in block?.entries() {
///         println!("{} bytes for {:?}", entry.value.len(), entry.key);
///     }
/// }
/// for block in reader.prefix(b"b")? {
///     for (_, entry) in block?.entries() {
///         assert!(entry.key.starts_with(b"b"));
///     }
/// }
/// # Ok::<(), hoodoo_hfile::HFileError>(())
/// ```
#[derive(Debug)]
pub struct HFileReader<S> {
    source: S,
    trailer: Trailer,
    max_block_bytes: usize,
    root: Vec<BlockAddress>,
    meta: Vec<BlockAddress>,
    info: FileInfo,
    last_key: Option<Bytes>,
}

impl<S: ReadAt> HFileReader<S> {
    /// Read trailer, root index and file info with the default options.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(source: S) -> Result<Self> {
        Self::open_with(source, &HFileReaderOptions::default())
    }

    /// Read trailer, root index and file info.
    ///
    /// # Errors
    /// [`HFileError::Corrupt`] and [`HFileError::ChecksumMismatch`] for damage; [`HFileError::Unsupported`] for other
    /// versions and codecs, encryption and tags; [`HFileError::TooLarge`]; and those of the source.
    pub fn open_with(source: S, options: &HFileReaderOptions) -> Result<Self> {
        open::open(source, options)
    }

    /// How many entries the file has, by its trailer. Reading [all blocks](Self::data_blocks) checks it.
    pub fn entry_count(&self) -> u64 {
        self.trailer.entries
    }

    /// The value of an entry of the file info, such as `schema`.
    pub fn file_info(&self, name: &str) -> Option<&Bytes> {
        self.info.get(name)
    }

    /// Read the content of a meta block, such as `bloomFilter`; `None` if the file has no meta block of this name.
    ///
    /// # Errors
    /// Those of damage, and of the source.
    pub fn meta_block(&self, name: &str) -> Result<Option<Bytes>> {
        let Some(block) = self.meta.iter().find(|block| block.key == name.as_bytes()) else { return Ok(None) };
        let mut reader = self.block_reader();
        reader.check_length(block.length, block.offset)?;
        let bytes = read_range(&self.source, block.offset..block.end())?;
        reader.whole(&bytes, block.offset, BlockKind::Meta).map(Some)
    }

    /// The data blocks in the order of the index. The iterator ends after the first error; at the end it checks that there
    /// are as many entries as the trailer says.
    ///
    /// # Errors
    /// Those of reading an index of more than one level.
    pub fn data_blocks(&self) -> Result<DataBlocks<'_, S>> {
        let blocks = self.find_blocks(None::<&Wanted<'_, Bytes>>)?;
        Ok(DataBlocks::new(self.stream(blocks, BlockKind::Data), self.trailer.entries))
    }

    /// The first value of a key. Several entries of one key, which Hudi does not write, are found with
    /// [`get_many`](Self::get_many).
    ///
    /// Each call reads and decompresses a block: look up several keys with [`get_many`](Self::get_many).
    ///
    /// # Errors
    /// As [`get_many`](Self::get_many).
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let first = self.get_many(&[key])?.next().transpose()?;
        Ok(first.and_then(|found| found.entries().next().map(|(_, entry)| Bytes::copy_from_slice(entry.value))))
    }

    /// Find the entries of keys, which are sorted by their bytes and unique. Each block that may have some of them is read
    /// once, and blocks that adjoin are read together.
    ///
    /// # Errors
    /// [`HFileError::UnsortedKeys`]; [`HFileError::UnsortedEntries`], here or later, for a file whose entries are not
    /// sorted; and those of damage and of the source.
    pub fn get_many<'r, K: AsRef<[u8]>>(&'r self, keys: &'r [K]) -> Result<Lookup<'r, S, K>> {
        self.look_up(Wanted::keys(keys)?)
    }

    /// Find the entries whose keys begin with a prefix.
    ///
    /// # Errors
    /// As [`get_many`](Self::get_many).
    pub fn prefix<'r, K: AsRef<[u8]>>(&'r self, prefix: &'r K) -> Result<Lookup<'r, S, K>> {
        self.prefixes(std::slice::from_ref(prefix))
    }

    /// Find the entries whose keys begin with one of several prefixes, which are sorted by their bytes and unique. An entry
    /// that has several of them is returned once, for the first of them.
    ///
    /// # Errors
    /// As [`get_many`](Self::get_many).
    pub fn prefixes<'r, K: AsRef<[u8]>>(&'r self, prefixes: &'r [K]) -> Result<Lookup<'r, S, K>> {
        self.look_up(Wanted::prefixes(prefixes)?)
    }

    fn look_up<'r, K: AsRef<[u8]>>(&'r self, wanted: Wanted<'r, K>) -> Result<Lookup<'r, S, K>> {
        let blocks = self.find_blocks(Some(&wanted))?;
        Ok(Lookup::new(self.stream(blocks, BlockKind::Data), wanted))
    }

    /// The data blocks that may have what is wanted, or all.
    fn find_blocks<K: AsRef<[u8]>>(&self, wanted: Option<&Wanted<'_, K>>) -> Result<Vec<BlockAddress>> {
        let select = |blocks: &[BlockAddress]| match wanted {
            Some(wanted) => wanted.select(blocks, self.last_key.as_deref(), self.trailer.root),
            None => Ok(blocks.to_vec()),
        };
        let mut blocks = select(&self.root)?;
        for level in (1..self.trailer.levels).rev() {
            let kind = if level == 1 { BlockKind::LeafIndex } else { BlockKind::InnerIndex };
            let mut below = Vec::new();
            let mut order = Order::before(self.trailer.root);
            for node in self.stream(blocks, kind) {
                let (offset, content) = node?;
                node_entries(&content, &mut order, &mut below).map_err(|e| e.at(offset))?;
            }
            blocks = select(&below)?;
        }
        Ok(blocks)
    }

    fn stream(&self, blocks: Vec<BlockAddress>, kind: BlockKind) -> BlockStream<'_, S> {
        BlockStream::new(&self.source, self.block_reader(), blocks, kind)
    }

    fn block_reader(&self) -> BlockReader {
        BlockReader::new(self.trailer.codec, self.max_block_bytes)
    }
}
