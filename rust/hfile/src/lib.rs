//! HFiles as Apache Hudi 1.x writes and reads them: sorted keys with a value each, in compressed blocks with an index.
//!
//! Hudi keeps its metadata table in HFiles (base files and log blocks). The format is HFile version 3 of HBase, without
//! the parts that Hudi does not use. A file is:
//!
//! | part | what |
//! |---|---|
//! | data blocks | the entries; between the blocks, leaves of an index of more than one level |
//! | meta blocks | bytes with a name, such as Hudi's bloom filter |
//! | load-on-open section | root of the data index, meta index, file info |
//! | trailer | the last 4096 bytes, which say where the rest is |
//!
//! [`HFileReader`] reads files of Hudi and of HBase, and fetches only the blocks that it needs from a [`ReadAt`].
//! [`HFileWriter`] writes files that Hudi 1.2 reads.
//!
//! The bytes of a file may be hostile. Nothing panics, each block is read at most once in a call, and no allocation is
//! larger than what deflate makes of the bytes that are there, nor than the limit in [`HFileReaderOptions`].

#![warn(missing_docs)]

mod block;
mod checksum;
mod codec;
mod entries;
mod error;
mod fields;
mod file_info;
mod index;
mod reader;
mod source;
mod trailer;
mod writer;

pub use codec::Codec;
pub use entries::{DataBlock, Entries, Entry};
pub use error::HFileError;
pub use reader::{DataBlocks, HFileReader, HFileReaderOptions, Lookup, Matches};
pub use source::ReadAt;
pub use writer::{HFileWriter, HFileWriterOptions};
