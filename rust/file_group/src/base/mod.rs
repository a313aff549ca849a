//! Base files: Parquet files that hold the records of a file group as of one commit.
//!
//! On disk: five meta columns first, then the table's columns in the order of its schema; pages of format version 1;
//! lists in three levels (`list`/`element`), maps as `key_value`, decimals as the shortest fixed bytes; and in the
//! footer, as key-value pairs, the Avro schema, the minimum and maximum record key and a bloom filter of the keys.
//!
//! Reads and writes bytes through generic traits, without storage and paths.

pub(crate) mod file_keys;
pub mod keys;
pub mod options;
pub mod parquet_schema;
pub mod predicate;
pub mod reader;
pub mod splice;
pub mod writer;

mod bounds;
mod calendar;
mod changed_types;
mod dictionary_keys;
mod evolution;
mod footer_checksum;
pub use calendar::{FIRST_DAY, FIRST_SECOND, has_old_calendar};
pub use evolution::evolve;
mod column_arrays;
mod pruning;
mod renamed;
mod row_group;
mod sink;
mod slice_pruning;

pub use column_arrays::{
    COLUMN_BATCH_ROWS, GroupColumns, fills_up, is_all_dictionary, read_bytes, read_column_batches, same_values,
};
pub use dictionary_keys::DictionaryKeyScan;
pub use file_keys::{FileKeys, TakenKeys};
pub use keys::KeyRange;
pub use options::BaseFileOptions;
pub use options::{DictionaryUse, parse_codec};
pub use predicate::Predicate;
pub use pruning::Bounds;
pub use reader::{BaseFileReader, ScanOptions};
pub use reader::{BaseFileScan, RowGroupInfo};
pub use slice_pruning::{KeptStatistics, matching_slices};
pub use splice::{Splice, SplicedColumn};
pub use writer::BaseFileWriter;

/// Takes the locks of the process, for a fork.
pub fn hold_locks(held: &mut Vec<Box<dyn std::any::Any>>) {
    held.push(Box::new(hoodoo_parquet_pages::encoders::page_codec::hold_lock()));
}

/// Footer key of the Avro schema, meta columns included.
pub(crate) const AVRO_SCHEMA_KEY: &str = "parquet.avro.schema";
/// Footer key that Avro writers set to `avro`.
pub(crate) const MODEL_NAME_KEY: &str = "writer.model.name";
/// Footer key of the bloom filter.
pub(crate) const BLOOM_FILTER_KEY: &str = "org.apache.hudi.bloomfilter";
/// Footer key of the bloom filter in files of very old writers.
pub(crate) const OLD_BLOOM_FILTER_KEY: &str = "com.uber.hoodie.bloomfilter";
/// Footer key of the bloom filter's layout.
pub(crate) const BLOOM_TYPE_KEY: &str = "hoodie_bloom_filter_type_code";
/// Footer key of the minimum record key.
pub(crate) const MIN_KEY: &str = "hoodie_min_record_key";
/// Footer key of the maximum record key.
pub(crate) const MAX_KEY: &str = "hoodie_max_record_key";
/// Footer key of the columns that the rows are sorted by, one a line.
pub(crate) const SORTED_BY_KEY: &str = "hoodoo.sorted.by";
/// The meta column that holds the record key.
pub const RECORD_KEY_COLUMN: &str = "_hoodie_record_key";

#[cfg(test)]
mod tests;
