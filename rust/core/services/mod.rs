//! Table services: rollback, clean, verify.
