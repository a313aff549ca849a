//! Bytes only, no I/O: properties, instant names, Avro metadata, schemas, bloom filters, log blocks, Java's numbers.

pub mod avro;
pub mod bloom;
pub mod instant;
pub mod java;
pub mod log;
pub mod properties;
