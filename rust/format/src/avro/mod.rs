//! Avro as Hudi uses it: table schemas, and the records of the timeline.
//!
//! * [`schema`]: Avro schema JSON <-> Arrow schema, the way Hudi and Spark write it.
//! * [`metadata`]: the plans and the commit metadata of the timeline as typed records.
//! * [`container`]: the object container file around one record.
//! * [`datum`]: the binary encoding of one value, between bytes and serde types.
//!
//! Everything here works on bytes in memory and treats them as hostile: what is read is bounded by the input's own
//! length, nesting is limited, and damage is an error of kind `Corrupt`.

pub mod container;
pub mod datum;
pub mod metadata;
pub mod schema;
