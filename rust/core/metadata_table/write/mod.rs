//! Keeps the metadata table in step with the table.
//!
//! Each action of the table is committed here first, under the same requested time, as a delta commit of its own, and on
//! the table next, all under the table lock. While the action is pending on the table, readers pass over what it wrote
//! here. So a crash in between is harmless, as long as the action's instant does not leave the table's timeline before its
//! delta commit has left this one ([`remove_instants`]).
//!
//! | file | does |
//! |---|---|
//! | `changes.rs` | what an action did to the files of the table |
//! | `records.rs` | records and deletes for each partition |
//! | `record_index` | the keys whose location changed |
//! | `expression_index.rs` | the ranges of expression indexes |
//! | `secondary_index.rs` | the entries of secondary indexes that came and went |
//! | `sharded_keys.rs`, `shard_logs.rs` | such keys by shard, and the log files of the shards |
//! | `staged_shards.rs` | the base files of shards, written ahead of the table lock |
//! | `partition_stats.rs` | the ranges of partitions |
//! | `bloom.rs` | the bloom filters of new base files |
//! | `log_file.rs` | the log file of a shard |
//! | `base_file.rs` | the base file of a shard |
//! | `commit.rs` | the delta commit |
//! | `initialize.rs` | makes a metadata table, and partitions of it |
//! | `create.rs` | which partitions a new one has, and what they begin with |
//! | `removal.rs` | takes a delta commit back |

#[allow(dead_code)]
pub(crate) mod base_file;
mod bloom;
mod changes;
mod commit;
mod create;
mod expression_index;
mod initialize;
pub(super) mod log_file;
mod partition_stats;
pub(crate) mod record_index;
mod records;
mod removal;
pub(crate) mod secondary_index;
mod shard_logs;
pub(crate) mod sharded_keys;
pub(crate) mod staged_shards;

pub(crate) use bloom::read_bloom_filter;
pub(crate) use changes::{AddedFile, FileChanges, KeyWrites, StoredBloom};
pub(crate) use commit::{MetadataWriter, record_index_shards, secondary_index_shards};
pub(crate) use create::{IndexedTable, NewPartition, add, create};
pub(crate) use expression_index::{ExpressionChanges, FunctionRanges, expression_update};
pub(crate) use initialize::{MadeBy, initialize_by_key, initialize_keys};
pub(crate) use records::Indexed;
pub(super) use removal::remove_from;
pub(crate) use removal::remove_instants;
pub(crate) use sharded_keys::KeyChanges;

/// The partitions that are kept up to date. Others are taken out, so that no reader believes them.
pub(crate) const MAINTAINED: [&str; 5] =
    [super::FILES, super::COLUMN_STATS, super::BLOOM_FILTERS, super::RECORD_INDEX, super::PARTITION_STATS];
