//! Lookups in `column_stats`: what is known of some columns of some files.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};

use super::keys::{column_stats_key, shard_of};
use super::kind::Kind;
use super::{COLUMN_STATS, MetadataTable, raw};
use crate::error::{Error, Result};
use crate::format::log::Wanted;
use crate::parallel::run_parallel;

/// Min or max as it is stored, apart from bytes, whose order is unknown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StoredBound {
    /// Integers, booleans, dates and times.
    Long(i64),
    /// Floating-point numbers.
    Double(f64),
    /// Strings, and decimals as digits.
    String(String),
}

/// Statistics of one column of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnStats {
    /// Hudi's name of the type; `None` where the record says none and has no value to tell it.
    pub(crate) value_type: Option<String>,
    pub(crate) min: Option<StoredBound>,
    pub(crate) max: Option<StoredBound>,
    pub(crate) value_count: Option<i64>,
    pub(crate) null_count: Option<i64>,
    /// Bytes of all values before compression; 0 of log files.
    pub(crate) bytes: Option<i64>,
}

impl MetadataTable {
    /// The statistics of columns in files (partition, name): a list for each column, in the order of the files. Reads only
    /// the blocks that may have them, the shards at the same time.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(crate) fn file_stats(
        &self,
        columns: &[&str],
        files: &[(&str, &str)],
        threads: usize,
    ) -> Result<Vec<Vec<Option<ColumnStats>>>> {
        let mut found: Vec<Vec<Option<ColumnStats>>> = columns.iter().map(|_| vec![None; files.len()]).collect();
        let shards = self.shards(COLUMN_STATS)?;
        let mut asked: HashMap<String, (usize, usize)> = HashMap::new();
        let mut wanted: Vec<Vec<String>> = vec![Vec::new(); shards.len()];
        for (column, name) in columns.iter().enumerate() {
            for (file, (partition, file_name)) in files.iter().enumerate() {
                let key = column_stats_key(name, partition, file_name);
                if let Some(keys) = wanted.get_mut(shard_of(&key, shards.len())) {
                    keys.push(key.clone());
                }
                asked.insert(key, (column, file));
            }
        }
        let work: Vec<_> = shards.iter().zip(wanted).filter(|(_, keys)| !keys.is_empty()).collect();
        let rows = run_parallel(work, threads, |(shard, mut keys)| {
            keys.sort_unstable();
            keys.dedup();
            let mut rows = Vec::new();
            self.each_wanted(Kind::ColumnStats, shard, Wanted::Keys(&keys), &mut |batch| {
                rows.push(batch);
                Ok(())
            })?;
            Ok(rows)
        })?;
        for batch in rows.iter().flatten() {
            each_stats(batch, &mut |key, stats| {
                let slot = asked.get(key).and_then(|(column, file)| found.get_mut(*column)?.get_mut(*file));
                if let Some(slot) = slot {
                    *slot = Some(stats);
                }
            })?;
        }
        Ok(found)
    }
}

fn each_stats(rows: &RecordBatch, each: &mut dyn FnMut(&str, ColumnStats)) -> Result<()> {
    let mistyped = || Error::internal("rows of column_stats have other types");
    let strings = |name: &str| raw::flat(rows, name)?.as_string_opt::<i32>().ok_or_else(mistyped);
    let longs = |name: &str| raw::flat(rows, name)?.as_primitive_opt::<Int64Type>().ok_or_else(mistyped);
    let doubles = |name: &str| raw::flat(rows, name)?.as_primitive_opt::<Float64Type>().ok_or_else(mistyped);
    let (keys, types) = (strings("key")?, strings("value_type")?);
    let (values, nulls, bytes) = (longs("value_count")?, longs("null_count")?, longs("total_uncompressed_size")?);
    let bound = |name: &str| {
        let (long, double) = (longs(&format!("{name}_long"))?, doubles(&format!("{name}_double"))?);
        let string = strings(name)?;
        Ok::<_, Error>(move |row: usize| match (long.is_valid(row), double.is_valid(row), string.is_valid(row)) {
            (true, _, _) => Some(StoredBound::Long(long.value(row))),
            (_, true, _) => Some(StoredBound::Double(double.value(row))),
            (_, _, true) => Some(StoredBound::String(string.value(row).to_owned())),
            _ => None,
        })
    };
    let (min, max) = (bound("min")?, bound("max")?);
    for row in 0..rows.num_rows() {
        let stats = ColumnStats {
            value_type: types.is_valid(row).then(|| types.value(row).to_owned()),
            min: min(row),
            max: max(row),
            value_count: values.is_valid(row).then(|| values.value(row)),
            null_count: nulls.is_valid(row).then(|| nulls.value(row)),
            bytes: bytes.is_valid(row).then(|| bytes.value(row)),
        };
        each(keys.value(row), stats);
    }
    Ok(())
}
