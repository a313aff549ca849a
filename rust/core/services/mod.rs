//! Table services: rollback, clean, verify.
pub mod clean;
pub mod rollback;
