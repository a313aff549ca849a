//! Keeps `record_index` in step: keys that are new or are elsewhere now get their location, keys that are gone a delete.
//!
//! | file | does |
//! |---|---|
//! | `key_changes.rs` | collects keys, in the order of shards and keys, on the disk where memory does not hold them |
//! | `shard_logs.rs` | the log files of the shards |
//! | `new_shards.rs` | what the shards of an index begin with that is built anew |

mod key_changes;
mod new_shards;
mod shard_logs;

pub(crate) use key_changes::{KeyChanges, KeyCollector, Location};
pub(in crate::metadata_table) use shard_logs::write_logs;
