//! Bytes only, no I/O: properties, instant names, Avro metadata, schemas, bloom filters, log blocks, Parquet pages,
//! Java's numbers; and columns by name.

#![warn(missing_docs, unreachable_pub)]

pub mod avro;
pub mod bloom;
pub mod change_data;
pub mod column_range;
pub mod field_lookup;
pub mod instant;
pub mod internal_schema;
pub mod java;
pub mod json;
pub mod log;
pub mod properties;
