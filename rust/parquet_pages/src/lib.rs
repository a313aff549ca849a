//! Pages of Parquet files: encoders that take Arrow values column by column, and the checksums of pages.

#![warn(missing_docs, unreachable_pub)]

pub mod checksums;
mod delta_counts;
pub mod encoders;
pub mod footer;
pub mod limited_pages;
mod page_header;
mod thrift;

use parquet::basic::Compression;

/// How pages are written.
#[derive(Debug, Clone, Copy)]
pub struct PageFormat {
    /// Their compression.
    pub codec: Compression,
    /// Whether the header of each page has a checksum.
    pub checksums: bool,
}
