//! Bytes only, no I/O: properties, instant names, Avro metadata, schemas, bloom filters, log files.

pub mod avro;
pub mod bloom;
pub mod instant;
pub mod log;
pub mod properties;
