//! hoodoo: Apache Hudi tables without the JVM.
//!
//! Modules, each of which may use only the ones above it: `format`, `storage` and `parallel` (nothing of ours), `timeline`,
//! `file_group` and `sort`, `merge` (only `format`), `metadata_table`, `table`, then `write` and `services`, then `client` and `fork`.

#![warn(missing_docs, unreachable_pub)]

pub mod client;
pub mod error;
pub mod file_group;
pub mod fork;
pub mod format;
pub mod interrupt;
pub mod merge;
pub mod metadata_table;
pub mod parallel;
mod process;
pub mod services;
mod sort;
pub mod storage;
pub mod table;
pub mod timeline;
mod timings;
mod transaction;
pub mod write;

pub use error::{Error, ErrorKind, Result};
