//! How many shards an index of keys has that is built anew.

use std::collections::BTreeMap;

use super::new_shards;
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::base::BaseFileReader;
use crate::metadata_table::record_index_shards::RecordIndexShards;
use crate::parallel::run_parallel;
use crate::table::{HudiTable, Options};

/// Bytes of a record of the index, as Hudi estimates them.
const RECORD_BYTES: u64 = 48;
/// Assumed bytes of a record in a log file.
const LOG_RECORD_BYTES: u64 = 64;

/// As many shards as Hudi would make for an index of the records of these slices.
///
/// # Errors
/// `InvalidOption`; `Corrupt`, with the file; `Storage`.
pub(in crate::transaction) fn shard_count(table: &HudiTable, slices: &[FileSlice]) -> Result<usize> {
    Ok(shards(table, slices, false)?.file_ids().len())
}

/// The shards that Hudi would make for a record index of these slices. In one by partition, each of these data partitions has
/// some.
///
/// # Errors
/// Those of [`shard_count`].
pub(in crate::transaction) fn record_index_shards<'p>(
    table: &HudiTable,
    slices: &[FileSlice],
    is_partitioned: bool,
    partitions: impl IntoIterator<Item = &'p str>,
) -> Result<RecordIndexShards> {
    let mut shards = shards(table, slices, is_partitioned)?;
    if is_partitioned {
        let count = new_shards(table)?;
        partitions.into_iter().for_each(|partition| _ = shards.add_partition(partition, count));
    }
    Ok(shards)
}

/// As many shards as Hudi would make for so many records.
fn shards(table: &HudiTable, slices: &[FileSlice], is_partitioned: bool) -> Result<RecordIndexShards> {
    let sizing = Sizing::from_options(table.options(), is_partitioned)?;
    let counted = match sizing.fixed() {
        Some(_) => vec![0; slices.len()],
        None => run_parallel(slices.iter().collect(), table.threads()?, |slice| records(table, slice))?,
    };
    if !is_partitioned {
        return Ok(RecordIndexShards::global(sizing.shards(counted.iter().sum())));
    }
    let mut by_partition: BTreeMap<&str, u64> = BTreeMap::new();
    for (slice, count) in slices.iter().zip(counted) {
        *by_partition.entry(&slice.partition).or_default() += count;
    }
    let mut shards = RecordIndexShards::partitioned();
    for (partition, count) in by_partition {
        shards.add_partition(partition, sizing.shards(count));
    }
    Ok(shards)
}

/// About how many records a slice has.
fn records(table: &HudiTable, slice: &FileSlice) -> Result<u64> {
    match &slice.base {
        Some(base) => {
            let named = |e: Error| e.with("table", table.storage().uri()).with("file", &base.path);
            let reader = table.storage().reader(&base.path, base.size).and_then(BaseFileReader::open);
            Ok(reader.map_err(named)?.rows())
        }
        None => Ok(slice.logs.iter().map(|log| log.size / LOG_RECORD_BYTES).sum()),
    }
}

/// How many shards an index gets.
struct Sizing {
    min: usize,
    max: usize,
    growth: f64,
    shard_bytes: u64,
}

impl Sizing {
    fn from_options(options: &Options, is_partitioned: bool) -> Result<Self> {
        let (min, max) = match is_partitioned {
            true => (
                options.number("hoodie.metadata.record.level.index.min.filegroup.count", 1usize)?,
                options.number("hoodie.metadata.record.level.index.max.filegroup.count", 10usize)?,
            ),
            false => (
                options.number("hoodie.metadata.global.record.level.index.min.filegroup.count", 10usize)?,
                options.number("hoodie.metadata.global.record.level.index.max.filegroup.count", 10_000usize)?,
            ),
        };
        Ok(Self {
            min,
            max,
            growth: options.number("hoodie.metadata.record.index.growth.factor", 2.0f64)?,
            shard_bytes: options.number("hoodie.metadata.record.index.max.filegroup.size", 1u64 << 30)?,
        })
    }

    /// The number of shards, where it does not depend on the records.
    fn fixed(&self) -> Option<usize> {
        (self.min == self.max && self.min > 0).then_some(self.min)
    }

    fn shards(&self, records: u64) -> usize {
        if let Some(fixed) = self.fixed() {
            return fixed;
        }
        let expected = (records as f64 * self.growth).ceil() as u64;
        let a_shard = (self.shard_bytes / RECORD_BYTES).max(1);
        let estimated = usize::try_from(expected / a_shard).unwrap_or(usize::MAX);
        estimated.max(self.min).min(self.max).max(1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sizing(given: &[(&str, &str)], is_partitioned: bool) -> Sizing {
        let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Sizing::from_options(&Options::new(given).unwrap(), is_partitioned).unwrap()
    }

    #[test]
    fn shards_are_as_many_as_hudi_makes() {
        let global = sizing(&[], false);
        let a_shard = (1u64 << 30) / RECORD_BYTES;
        assert_eq!((global.shards(0), global.shards(5 * a_shard)), (10, 10));
        assert_eq!((global.shards(6 * a_shard), global.shards(u64::MAX / 4)), (12, 10_000));
        let partitioned = sizing(&[], true);
        assert_eq!(
            (partitioned.shards(0), partitioned.shards(2 * a_shard), partitioned.shards(u64::MAX / 4)),
            (1, 4, 10)
        );
        let old = "hoodie.metadata.record.index.min.filegroup.count";
        let fixed =
            sizing(&[(old, "3"), ("hoodie.metadata.global.record.level.index.max.filegroup.count", "3")], false);
        assert_eq!((fixed.shards(0), fixed.shards(u64::MAX / 4)), (3, 3));
    }
}
