//! Record keys and partition paths of rows, as Hudi's key generators make them.
//!
//! Given the table's configuration, a [`KeyGenerator`] takes Arrow batches and returns the two strings that Hudi stores
//! in `_hoodie_record_key` and `_hoodie_partition_path`. Values become strings by the rules of Hudi's Avro writers, the
//! ones that upsert, insert and delete use. (Hudi's row writer, behind `bulk_insert`, differs for timestamps and binary
//! columns, and then does not match its own upserts; it is not followed.)

mod auto_keys;
mod column_strings;
mod config;
mod joda;
mod joda_items;
mod joda_parse;
mod partition_path;
mod record_key;
mod string_builder;
mod timestamp;
mod zone;

#[cfg(test)]
mod tests;

use arrow::array::StringArray;
use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;

pub(crate) use auto_keys::AutoKeys;
pub use config::KeyGenConfig;
pub(crate) use config::{KeyGeneratorType, PartitionField, PartitionFieldKind};
pub(crate) use partition_path::{Partitions, parse_partition_values};

use crate::error::{Error, Result};
use column_strings::{ColumnPath, ColumnStrings};
use partition_path::PartitionColumn;
use record_key::KeyColumn;
use timestamp::TimestampFormat;

/// Keys and partitions of the rows of a batch.
#[derive(Debug, Clone)]
pub struct RowKeys {
    /// The record key of each row.
    pub record_keys: StringArray,
    /// The partition of each row.
    pub partitions: Partitions,
}

/// Makes keys and partition paths for batches of one schema.
#[derive(Debug, Clone)]
pub struct KeyGenerator {
    config: KeyGenConfig,
    key_columns: Vec<ColumnPath>,
    partition_columns: Vec<ColumnPath>,
    timestamp: Option<TimestampFormat>,
}

impl KeyGenerator {
    /// Finds the columns in `schema` and compiles date patterns.
    ///
    /// # Errors
    /// A column that is not there, or a date pattern or time zone that can't be used.
    pub fn new(config: KeyGenConfig, schema: &Schema) -> Result<Self> {
        let key = |name: &String| ColumnPath::resolve(name, schema, "record key");
        let partition = |field: &PartitionField| ColumnPath::resolve(&field.name, schema, "partition");
        let timed = config.partition_fields.iter().any(|f| f.kind == PartitionFieldKind::Timestamp);
        let timestamp = match &config.timestamp {
            Some(settings) if timed => Some(TimestampFormat::new(settings, config.consistent_logical_timestamp)?),
            None if timed => {
                return Err(Error::invalid_option(
                    "a timestamp partition field needs hoodie.keygen.timebased.* options",
                ));
            }
            _ => None,
        };
        Ok(Self {
            key_columns: config.record_key_fields.iter().map(key).collect::<Result<_>>()?,
            partition_columns: config.partition_fields.iter().map(partition).collect::<Result<_>>()?,
            timestamp,
            config,
        })
    }

    /// What it was made from.
    pub fn config(&self) -> &KeyGenConfig {
        &self.config
    }

    /// Record keys and partitions of a batch.
    ///
    /// # Errors
    /// A null or empty key, or a value that can't be formatted; the error names column and row.
    pub fn keys(&self, batch: &RecordBatch) -> Result<RowKeys> {
        Ok(RowKeys { record_keys: self.record_keys(batch)?, partitions: self.partition_paths(batch)? })
    }

    /// Partitions of a batch, and generated record keys.
    ///
    /// # Errors
    /// As [`Self::keys`]; no key is used up then.
    pub fn generated_keys(&self, batch: &RecordBatch, keys: &mut AutoKeys) -> Result<RowKeys> {
        let partitions = self.partition_paths(batch)?;
        Ok(RowKeys { record_keys: keys.next(batch.num_rows())?, partitions })
    }

    /// Record keys of a batch. One text column without nulls is given back as it is, not copied.
    ///
    /// # Errors
    /// As [`Self::keys`]; also when the table has no key fields.
    pub fn record_keys(&self, batch: &RecordBatch) -> Result<StringArray> {
        let mut columns = Vec::with_capacity(self.key_columns.len());
        for path in &self.key_columns {
            let leaf = path.of(batch)?;
            let text = ColumnStrings::new(&leaf.array, path.name(), self.config.consistent_logical_timestamp)?;
            columns.push(KeyColumn { name: path.name(), text, parents: leaf.parents });
        }
        let with_name = match self.config.kind {
            KeyGeneratorType::Complex => self.config.complex_single_key_with_name,
            KeyGeneratorType::GlobalDelete => true,
            _ => false,
        };
        match columns.as_slice() {
            [] => Err(Error::invalid_option("the table has no record key fields, its keys are generated")
                .remedy("Set hoodie.datasource.write.recordkey.field, or insert with generated keys")),
            [one] if !with_name => record_key::single(one, batch.num_rows()),
            several => record_key::composite(several, batch.num_rows()),
        }
    }

    /// Partitions of a batch.
    ///
    /// # Errors
    /// A column that the timestamp rule can't read, or a value that it can't; the error names column and row.
    pub fn partition_paths(&self, batch: &RecordBatch) -> Result<Partitions> {
        let mut columns = Vec::with_capacity(self.partition_columns.len());
        for (path, field) in self.partition_columns.iter().zip(&self.config.partition_fields) {
            let text =
                ColumnStrings::new(&path.of(batch)?.array, path.name(), self.config.consistent_logical_timestamp)?;
            let times = match (&self.timestamp, field.kind) {
                (Some(format), PartitionFieldKind::Timestamp) => Some((format, format.times(&text, path.name())?)),
                _ => None,
            };
            columns.push(PartitionColumn { field, text, times });
        }
        partition_path::partitions(&self.config, &columns, batch.num_rows())
    }
}
