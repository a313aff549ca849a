//! Bytes only, no I/O: properties, instant names, Avro metadata, schemas, bloom filters, log blocks, Parquet pages, HFiles,
//! Java's numbers; and columns by name.

pub mod avro;
pub(crate) mod bloom;
pub(crate) mod field_lookup;
#[allow(unreachable_pub)]
pub mod hfile;
pub mod instant;
pub mod java;
pub(crate) mod json;
pub mod log;
pub(crate) mod parquet;
pub mod properties;
