//! hoodoo: Apache Hudi tables without the JVM.
//!
//! Rooms, each of which may use only the ones above it: `format` and `storage` (nothing of ours), `timeline` and
//! `file_group`, `merge` (only `format`), `table`, then `write` and `services`.

#![warn(missing_docs)]

pub mod error;
pub mod format;
pub mod storage;
pub mod timeline;

pub use error::{Error, ErrorKind, Result};
