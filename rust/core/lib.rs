//! hoodoo: Apache Hudi tables without the JVM.
//!
//! Built on crates of their own (`hoodoo-timeline`, `hoodoo-file-group`, `hoodoo-merge`, `hoodoo-format`, `hoodoo-storage`,
//! `hoodoo-runtime`), which are here under the names that they have in this crate. Its modules, each of which may use only the ones
//! before it: `sort`, `metadata_table`, `table`, `transaction`, then `write` and `services`, then `client` and `fork`.

#![warn(missing_docs, unreachable_pub)]

pub mod client;
pub mod fork;
pub mod metadata_table;
pub mod services;
mod sort;
pub mod table;
mod timings;
mod transaction;
pub mod write;

pub use hoodoo_runtime::error::{Error, ErrorKind, Result};
#[doc(hidden)]
pub use hoodoo_runtime::simulated;
pub use hoodoo_runtime::{error, interrupt, parallel, visible};
pub use {
    hoodoo_file_group as file_group, hoodoo_format as format, hoodoo_merge as merge, hoodoo_storage as storage,
    hoodoo_timeline as timeline,
};
