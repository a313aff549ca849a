//! Pages of Parquet files with checksums, which the Parquet library checks when it reads but does not write.
//!
//! Pages of metadata are also held to a size that metadata can have.
//!
//! A page header has room for the CRC-32 of the bytes behind it, as they are in the file: levels and values, compressed.

mod bounded;
mod column_writer;

pub use bounded::BoundedPages;
pub use column_writer::{ColumnWriter, ColumnWriters};
