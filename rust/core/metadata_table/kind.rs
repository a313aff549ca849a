//! The kinds of partitions, by their names.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::expression_index::is_expression_index;
use super::secondary_entries::is_secondary_index;
use super::{bloom_filters, column_stats, record_index, secondary_index};
use crate::error::{Error, Result};
use crate::timeline::TimeZone;

/// What the records of a partition are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Files,
    ColumnStats,
    PartitionStats,
    BloomFilters,
    RecordIndex,
    SecondaryIndex,
}

impl Kind {
    /// The kind of a partition. `is_bloom` tells what an expression index has.
    pub(super) fn of(partition: &str, is_bloom: impl FnOnce() -> Result<bool>) -> Result<Self> {
        Ok(match partition {
            super::FILES => Self::Files,
            "column_stats" => Self::ColumnStats,
            "partition_stats" => Self::PartitionStats,
            "bloom_filters" => Self::BloomFilters,
            "record_index" => Self::RecordIndex,
            name if is_secondary_index(name) => Self::SecondaryIndex,
            name if is_expression_index(name) => match is_bloom()? {
                true => Self::BloomFilters,
                false => Self::ColumnStats,
            },
            other => {
                return Err(Error::unsupported(format!(
                    "the partition '{other}' of the metadata table is not supported"
                )));
            }
        })
    }

    /// The column of a stored record that holds what this kind is about.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Files => "filesystemMetadata",
            Self::ColumnStats | Self::PartitionStats => "ColumnStatsMetadata",
            Self::BloomFilters => "BloomFilterMetadata",
            Self::RecordIndex => "recordIndexMetadata",
            Self::SecondaryIndex => "SecondaryIndexMetadata",
        }
    }

    /// Records that are decoded at a time: bloom filters have up to some hundred kilobytes each.
    pub(super) fn batch_rows(self) -> usize {
        match self {
            Self::BloomFilters => 64,
            _ => 16_384,
        }
    }

    /// The columns of flat rows: `key` first, `is_deleted` last.
    pub(super) fn flat_schema(self) -> SchemaRef {
        match self {
            Self::Files => super::files::flat_schema(),
            Self::ColumnStats | Self::PartitionStats => column_stats::flat_schema(),
            Self::BloomFilters => bloom_filters::flat_schema(),
            Self::RecordIndex => record_index::flat_schema(),
            Self::SecondaryIndex => secondary_index::flat_schema(),
        }
    }

    /// Makes flat rows of stored records, one for one.
    pub(super) fn flatten(self, stored: &RecordBatch, zone: TimeZone) -> Result<RecordBatch> {
        match self {
            Self::Files => Err(Error::internal("records of files are maps, not rows")),
            Self::ColumnStats | Self::PartitionStats => column_stats::flatten(stored),
            Self::BloomFilters => bloom_filters::flatten(stored),
            Self::RecordIndex => record_index::flatten(stored, zone),
            Self::SecondaryIndex => secondary_index::flatten(stored),
        }
    }

    /// Merges two flat rows of one key where the newer one does not replace the older one.
    pub(super) fn combine(self, old: (&RecordBatch, usize), new: (&RecordBatch, usize)) -> Result<Option<RecordBatch>> {
        match self {
            Self::ColumnStats | Self::PartitionStats => column_stats::combine(old, new),
            _ => Ok(None),
        }
    }
}
