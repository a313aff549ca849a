//! How a base file is written.

use std::sync::Arc;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};

use hoodoo_format::bloom::BloomOptions;
use hoodoo_parquet_pages::PageFormat;
use hoodoo_runtime::error::{Error, Result};

/// Where dictionary encoding is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DictionaryUse {
    /// In columns whose first rows repeat values.
    #[default]
    Auto,
    /// In every column but the record key and the sequence number, which never repeat.
    Always,
    /// Nowhere.
    Never,
}

/// How a base file is written. The defaults differ from Hudi's; every reader supports both.
#[derive(Debug, Clone)]
pub struct BaseFileOptions {
    /// The table's Avro schema with the meta columns, for the footer.
    pub avro_schema: Option<String>,
    /// Name of the Parquet message: `<namespace>.<record>` of the Avro schema.
    pub message_name: String,
    /// Compression of the pages.
    pub codec: Compression,
    /// Whether the header of each page has a checksum, which readers check.
    pub page_checksums: bool,
    /// Maximum rows of a row group.
    pub row_group_rows: usize,
    /// Maximum encoded bytes of a row group.
    pub row_group_bytes: usize,
    /// Bytes of an uncompressed page.
    pub page_bytes: usize,
    /// Dictionary encoding.
    pub dictionary: DictionaryUse,
    /// The bloom filter over record keys; `None` writes none.
    pub bloom: Option<BloomOptions>,
    /// Number of threads that encode columns.
    pub threads: usize,
    /// Columns that the rows are sorted by (ascending, nulls first), for the footer.
    pub sorted_by: Vec<String>,
    /// Columns whose ranges the metadata table keeps; `None` if it keeps none.
    pub indexed_columns: Option<Arc<[String]>>,
}

impl Default for BaseFileOptions {
    /// Row groups of 131,072 rows: a tenth or so of a 120 MiB file of ordinary rows, so statistics and whole row groups
    /// can be skipped or copied, while the footer stays under a hundredth of the file and each column chunk is still
    /// hundreds of kilobytes. The byte limit keeps row groups of wide rows, and with them memory, as small.
    fn default() -> Self {
        Self {
            avro_schema: None,
            message_name: "hoodie_record".to_owned(),
            codec: Compression::ZSTD(ZstdLevel::default()),
            page_checksums: true,
            row_group_rows: 131_072,
            row_group_bytes: 32 << 20,
            page_bytes: 1 << 20,
            dictionary: DictionaryUse::Auto,
            bloom: Some(BloomOptions::default()),
            threads: 1,
            sorted_by: Vec::new(),
            indexed_columns: None,
        }
    }
}

impl BaseFileOptions {
    pub(super) fn page_format(&self) -> PageFormat {
        PageFormat { codec: self.codec, checksums: self.page_checksums }
    }
}

/// Reads a value of `hoodie.parquet.compression.codec`.
///
/// # Errors
/// `InvalidOption` for an unknown name, `Unsupported` for LZO.
pub fn parse_codec(name: &str) -> Result<Compression> {
    match name.trim().to_ascii_uppercase().as_str() {
        "ZSTD" => Ok(Compression::ZSTD(ZstdLevel::default())),
        "GZIP" => Ok(Compression::GZIP(GzipLevel::default())),
        "SNAPPY" => Ok(Compression::SNAPPY),
        "" | "UNCOMPRESSED" | "NONE" => Ok(Compression::UNCOMPRESSED),
        "LZ4_RAW" => Ok(Compression::LZ4_RAW),
        "LZ4" => Ok(Compression::LZ4),
        "BROTLI" => Ok(Compression::BROTLI(BrotliLevel::default())),
        "LZO" => {
            Err(Error::unsupported("the Parquet codec LZO is not supported").remedy("Choose ZSTD, GZIP or SNAPPY"))
        }
        _ => Err(Error::invalid_option(format!("unknown Parquet codec '{name}' in hoodie.parquet.compression.codec"))
            .remedy("Choose ZSTD, GZIP, SNAPPY, LZ4_RAW, BROTLI or UNCOMPRESSED")),
    }
}
