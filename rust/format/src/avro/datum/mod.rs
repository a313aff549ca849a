//! The Avro binary encoding of one value, driven by a parsed schema.
//!
//! * `parse.rs`: schema JSON into [`DatumSchema`], a flat list of nodes (named references become plain indices).
//! * `read.rs`: bytes into any serde type. Fields are matched by name: those that the type does not know are skipped,
//!   those that the bytes do not have take the type's serde default.
//! * `measure.rs`: how many bytes a value takes.
//! * `write.rs`: a serde type into bytes; its fields have to come in the order of the schema.

mod measure;
mod parse;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use measure::Measure;
pub use parse::DatumSchema;
pub(crate) use parse::{Node, full_name};
pub use read::{Cursor, read_datum};
pub use write::{write_datum, write_long};

use std::fmt;

/// How deep values may nest. The deepest record of the timeline has about ten levels.
pub(crate) const MAX_DEPTH: usize = 100;

/// What is wrong with a value; becomes an `Error` of the crate once the caller knows which file it is about.
#[derive(Debug)]
pub struct DatumError {
    message: String,
    offset: Option<usize>,
}

impl DatumError {
    /// One about no byte in particular.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), offset: None }
    }

    /// One about the byte at this offset.
    pub fn at(message: impl Into<String>, offset: usize) -> Self {
        Self { message: message.into(), offset: Some(offset) }
    }
}

impl fmt::Display for DatumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset} of the value", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for DatumError {}

impl serde::de::Error for DatumError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}

impl serde::ser::Error for DatumError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}
