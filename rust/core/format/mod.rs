//! Bytes only, no I/O: properties, instant names, Avro metadata, schemas, bloom filters.

pub mod avro;
pub mod bloom;
pub mod instant;
pub mod properties;
