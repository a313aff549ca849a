//! The shards of an index of keys, a record index or a secondary index, and which of them has a key.

use arrow::array::{Array, StringArray, UInt32Array};
use serde::{Deserialize, Serialize};

use super::RECORD_INDEX;
use super::record_index_shards::{RecordIndexShards, shard_in};
use super::secondary_entries::SecondaryIndex;
use crate::error::{Error, Result};

/// The shards of an index of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeyShards {
    /// Those of the record index, whose keys are record keys.
    Records(RecordIndexShards),
    /// Those of a secondary index, whose keys are entries.
    Values {
        /// The index.
        index: SecondaryIndex,
        /// The file ids of its shards.
        file_ids: Vec<String>,
    },
}

impl KeyShards {
    /// The partition of the metadata table.
    pub(crate) fn partition(&self) -> &str {
        match self {
            Self::Records(_) => RECORD_INDEX,
            Self::Values { index, .. } => &index.partition,
        }
    }

    /// The file ids.
    pub(crate) fn file_ids(&self) -> &[String] {
        match self {
            Self::Records(shards) => shards.file_ids(),
            Self::Values { file_ids, .. } => file_ids,
        }
    }

    /// The shards of keys of a data partition, one for one; `None` if the data partition has no shards.
    ///
    /// # Errors
    /// `Corrupt` for a null.
    pub(crate) fn of_keys(&self, partition: &str, keys: &StringArray) -> Result<Option<UInt32Array>> {
        if keys.null_count() > 0 {
            return Err(Error::corrupt("a record has no key").with("partition", partition));
        }
        let number = |shard: usize| u32::try_from(shard).ok();
        Ok(match self {
            Self::Records(shards) => {
                let Some(group) = shards.of_partition(partition) else { return Ok(None) };
                Some((0..keys.len()).map(|row| number(shard_in(&group, keys.value(row)))).collect())
            }
            Self::Values { index, file_ids } => {
                let count = file_ids.len();
                Some((0..keys.len()).map(|row| number(index.shard_of(keys.value(row), count))).collect())
            }
        })
    }
}
