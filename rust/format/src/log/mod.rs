//! Hudi's log files: what is appended to a file group, and the archive of a version 6 timeline.
//!
//! A file is a sequence of blocks with nothing before, between or after them. Numbers are big-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 6 | `#HUDI#` |
//! | 8 | size: bytes from the next field to the end of the block |
//! | 4 | version of the format, 1 |
//! | 4 | [`BlockKind`] |
//! | 4 + … | header: count of entries; each a key (4), a length (4) and UTF-8 text |
//! | 8 | length of the content |
//! | … | content |
//! | 4 + … | footer, in the form of the header; Hudi leaves it empty |
//! | 8 | size + 6, so that a file can be walked backwards |
//!
//! [`LogFile::blocks`] walks over the blocks without touching their contents; [`LogFile::content`] gets one content;
//! [`AvroRecords`] takes the content of a data block apart. A source is anything that can be read by ranges, bytes in
//! memory among others. All of it may be hostile: each length is held against what is left before anything is read, so
//! nothing that is allocated is larger than the input, and damage is an error of kind `Corrupt` or a block of kind
//! [`BlockKind::Corrupt`], as Hudi has it.

mod avro_batches;
mod avro_records;
mod block;
mod block_reader;
mod checksum;
mod decoder_cache;
mod deletes;
mod file;
mod flat_records;
mod hfile_batches;
mod kryo;
mod ordering_value;
mod record_decoder;
mod write;

#[cfg(test)]
mod tests;

pub use avro_batches::{BatchSize, avro_batches, each_avro_batch};
pub use avro_records::AvroRecords;
pub use block::{Block, BlockKind, HeaderKey};
pub use checksum::ContentChecksum;
pub use deletes::Deletes;
pub use file::{BlockContent, LogFile};
pub use hfile_batches::{Wanted, each_batch_of_hfile, each_hfile_batch, hfile_batches};
pub use ordering_value::OrderingValue;
pub use record_decoder::record_columns;
pub use write::{AvroContent, write_block};

/// What every block begins with.
pub const MAGIC: &[u8; 6] = b"#HUDI#";
