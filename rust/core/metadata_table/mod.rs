//! Hudi's metadata table: an index of the table's files, their columns and their keys.
//!
//! It is a merge-on-read table of its own in `.hoodie/metadata`, with its own timeline in `.hoodie/metadata/.hoodie`. Base
//! files are HFiles, log blocks hold HFiles, and all records are of the Avro schema `HoodieMetadataRecord`:
//!
//! | partition | a record for each |
//! |---|---|
//! | `files` | partition of the table: its files with their sizes; and one for the list of partitions |
//! | `column_stats` | column of a file: min, max, counts |
//! | `partition_stats` | column of a partition |
//! | `bloom_filters` | base file |
//! | `record_index` | record key: the file group that has it |
//! | `secondary_index_<name>` | value and record key |
//! | `expr_index_<name>` | as `column_stats` or `bloom_filters`, of a function of a column |
//!
//! A partition is divided into shards: file groups with fixed names, each with the keys of one hash.
//!
//! Log blocks count if their instant is completed in the metadata table and not pending on the table itself: a writer
//! completes an action here first ([`instants`]). Records of one key are merged by the rules of their kind ([`merge`],
//! [`files`]).

mod bloom_filters;
mod bloom_lookup;
#[allow(dead_code)]
pub(crate) mod column_ranges;
mod column_stats;
mod committed;
#[allow(dead_code)]
pub(crate) mod encode;
pub(crate) mod expression_index;
mod file_stats;
mod files;
#[allow(dead_code)]
pub(crate) mod index_definitions;
mod instants;
mod key_lookup;
pub(crate) mod key_shards;
#[allow(dead_code)]
pub(crate) mod keys;
mod kind;
mod lag;
mod listing;
mod lost_files;
mod made_at;
mod merge;
mod open;
mod raw;
mod record_index;
pub(crate) mod record_index_shards;
pub(crate) mod secondary_entries;
mod secondary_index;
mod secondary_lookup;
pub(crate) mod services;
mod slice;
mod stat_value;
pub(crate) mod write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

pub(crate) use file_stats::{ColumnStats, StoredBound};
pub(crate) use files::ListedFiles;
pub use key_lookup::{KeyLocation, look_up_keys};
pub(crate) use key_lookup::{RECORD_INDEX, RecordIndex};
pub(crate) use listing::MetadataListing;
pub(crate) use made_at::made_since;
pub use open::{MetadataTable, PartitionSummary};
pub(crate) use secondary_lookup::look_up_values;

/// Folder of the metadata table below the table's base.
pub(crate) const FOLDER: &str = ".hoodie/metadata";
/// What to do about a metadata table that is damaged or wrong. Readers decide by the table's properties, so that nobody
/// deletes the folder by hand while they still name it.
pub(crate) const REBUILD: &str = "Make it anew with Table.rebuild_metadata_table() or `hoodoo metadata rebuild`. Until then read with \
                                  hoodie.metadata.enable=false";
/// The partition that every metadata table has.
pub(crate) const FILES: &str = "files";
/// The partition with statistics of the columns of files.
pub(crate) const COLUMN_STATS: &str = "column_stats";
/// The partition with bloom filters of base files.
pub(crate) const BLOOM_FILTERS: &str = "bloom_filters";
/// The partition with statistics of the columns of partitions.
pub(crate) const PARTITION_STATS: &str = "partition_stats";

/// The records of a partition of the metadata table.
#[derive(Debug, Clone)]
pub struct MetadataRows {
    /// The columns, which follow from the kind of the partition.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}
