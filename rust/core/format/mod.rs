//! Bytes only, no I/O: properties, instant names, Avro metadata, schemas, bloom filters, log blocks, Parquet pages,
//! Java's numbers; and columns by name.

pub mod avro;
pub(crate) mod bloom;
pub mod column_range;
pub(crate) mod field_lookup;
pub mod instant;
pub mod java;
pub(crate) mod json;
pub mod log;
pub(crate) mod page_checksums;
pub mod properties;
