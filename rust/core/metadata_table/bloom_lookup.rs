//! Lookups in `bloom_filters`: which base files may have some keys.

use std::collections::HashMap;

use arrow::array::{AsArray, RecordBatch};

use super::keys::{bloom_key, shard_of};
use super::kind::Kind;
use super::{BLOOM_FILTERS, MetadataTable, raw};
use crate::error::{Error, Result};
use crate::format::bloom::{BloomFilter, BloomFilterType};
use crate::format::log::Wanted;
use crate::parallel::run_parallel;

impl MetadataTable {
    /// Whether each of the base files (partition, name) may have what is looked for: `may_hold` says so of the number of a
    /// file and its filter. A file without a filter may have it. Reads only the blocks that may have their filters, the
    /// shards at the same time; few filters are in memory at a time.
    ///
    /// # Errors
    /// `InvalidOption` without this index; `Corrupt`, with the file; `Storage`.
    pub(crate) fn ask_bloom_filters(
        &self,
        files: &[(&str, &str)],
        threads: usize,
        may_hold: &(dyn Fn(usize, &BloomFilter) -> bool + Sync),
    ) -> Result<Vec<bool>> {
        let shards = self.shards(BLOOM_FILTERS)?;
        let mut asked: HashMap<String, usize> = HashMap::with_capacity(files.len());
        let mut wanted: Vec<Vec<String>> = vec![Vec::new(); shards.len()];
        for (file, (partition, name)) in files.iter().enumerate() {
            let key = bloom_key(partition, name);
            if let Some(keys) = wanted.get_mut(shard_of(&key, shards.len())) {
                keys.push(key.clone());
            }
            asked.insert(key, file);
        }
        let work: Vec<_> = shards.iter().zip(wanted).filter(|(_, keys)| !keys.is_empty()).collect();
        let ruled_out = run_parallel(work, threads, |(shard, mut keys)| {
            keys.sort_unstable();
            keys.dedup();
            let mut ruled_out = Vec::new();
            self.each_wanted(Kind::BloomFilters, shard, Wanted::Keys(&keys), &mut |rows| {
                each_filter(&rows, &mut |key, filter| {
                    let file = asked.get(key).copied().filter(|file| !may_hold(*file, filter));
                    ruled_out.extend(file);
                })
            })?;
            Ok(ruled_out)
        })?;
        let mut may = vec![true; files.len()];
        for file in ruled_out.into_iter().flatten() {
            if let Some(may) = may.get_mut(file) {
                *may = false;
            }
        }
        Ok(may)
    }
}

/// Decodes the filters of rows, one after the other.
fn each_filter(rows: &RecordBatch, each: &mut dyn FnMut(&str, &BloomFilter)) -> Result<()> {
    let mistyped = || Error::internal("rows of bloom_filters have other types");
    let strings = |name: &str| raw::flat(rows, name)?.as_string_opt::<i32>().ok_or_else(mistyped);
    let (keys, types) = (strings("key")?, strings("type")?);
    let filters = raw::flat(rows, "filter")?.as_binary_opt::<i32>().ok_or_else(mistyped)?;
    for row in 0..rows.num_rows() {
        let key = keys.value(row);
        let decoded = BloomFilterType::parse(types.value(row)).and_then(|filter_type| {
            let text = std::str::from_utf8(filters.value(row))
                .map_err(|e| Error::corrupt("a bloom filter is not base64").caused_by(e))?;
            BloomFilter::from_base64(filter_type, text)
        });
        let damaged = |e: Error| Error::corrupt("a bloom filter of the metadata table is damaged").caused_by(e);
        each(key, &decoded.map_err(|e| damaged(e).with("key", key))?);
    }
    Ok(())
}
