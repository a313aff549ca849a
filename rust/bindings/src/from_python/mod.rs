//! Python values for the core.

mod predicate;

use std::collections::BTreeMap;

pub use predicate::predicate;

/// Options and storage options.
pub type StringMap = BTreeMap<String, String>;
