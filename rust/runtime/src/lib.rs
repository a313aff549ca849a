//! What every part of hoodoo stands on: its one error type, interrupting a call, and threads with one rule for what panics.

#![warn(missing_docs, unreachable_pub)]

pub mod error;
pub mod interrupt;
pub mod parallel;
pub mod process;
pub mod simulated;
pub mod visible;

pub use error::{Error, ErrorKind, Result};
