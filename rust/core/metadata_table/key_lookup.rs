//! Lookups in `record_index`: which file groups have some keys.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};

use super::keys::shard_of;
use super::kind::Kind;
use super::{MetadataTable, raw};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::format::log::Wanted;
use crate::parallel::run_parallel;

/// The partition with the file group of each record key.
pub(crate) const RECORD_INDEX: &str = "record_index";
/// Begin of the names of its shards.
const SHARD: &str = "record-index-";

/// Where a record is, by the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLocation {
    /// The number of the key in the list of those that were looked up.
    pub key: usize,
    /// The partition, `""` in a table without partitions.
    pub partition: Arc<str>,
    /// The file group.
    pub file_id: Arc<str>,
    /// The instant that put the record there.
    pub instant: Arc<str>,
}

/// Where the records of some keys are, by number of the key. Keys that the index does not have are left out: none of the
/// table's records has them. In an index by partition a key may be in several partitions.
///
/// Each shard reads its log files and the blocks of its base file that may have its keys, once; the shards are read at the
/// same time.
///
/// # Errors
/// `InvalidOption` without this index; `Corrupt`, with the file; `Storage`.
pub fn look_up_keys(metadata: &MetadataTable, keys: &StringArray, threads: usize) -> Result<Vec<KeyLocation>> {
    let shards = metadata.shards(RECORD_INDEX)?;
    let mut numbers: HashMap<&str, Vec<usize>> = HashMap::with_capacity(keys.len());
    for (number, key) in keys.iter().enumerate() {
        if let Some(key) = key {
            numbers.entry(key).or_default().push(number);
        }
    }
    let mut work = Vec::new();
    for group in shard_groups(&shards)?.into_values() {
        let mut wanted: Vec<Vec<String>> = vec![Vec::new(); group.len()];
        for key in numbers.keys() {
            if let Some(keys) = wanted.get_mut(shard_of(key, group.len())) {
                keys.push((*key).to_owned());
            }
        }
        work.extend(group.into_iter().zip(wanted).filter(|(_, keys)| !keys.is_empty()));
    }
    let found = run_parallel(work, threads, |(shard, mut keys)| {
        keys.sort_unstable();
        let mut rows = Vec::new();
        metadata.each_wanted(Kind::RecordIndex, shard, Wanted::Keys(&keys), &mut |batch| {
            rows.push(batch);
            Ok(())
        })?;
        Ok(rows)
    })?;
    let mut locations = Locations { numbers, names: HashMap::new(), found: Vec::new() };
    found.iter().flatten().try_for_each(|rows| locations.add(rows))?;
    locations.found.sort_by_key(|location| location.key);
    Ok(locations.found)
}

/// The shards in their order: one group of them, or one for each data partition.
fn shard_groups(shards: &[FileSlice]) -> Result<BTreeMap<&str, Vec<&FileSlice>>> {
    let mut groups: BTreeMap<&str, BTreeMap<usize, &FileSlice>> = BTreeMap::new();
    for shard in shards {
        let odd = || {
            Error::corrupt("a file group of the record index does not have a name that Hudi gives it")
                .with("file group", &shard.file_id)
        };
        let name = shard.file_id.strip_prefix(SHARD).and_then(|name| name.strip_suffix("-0")).ok_or_else(odd)?;
        let (group, number) = name.rsplit_once('-').unwrap_or(("", name));
        let number = number.parse().map_err(|_| odd())?;
        groups.entry(group).or_default().insert(number, shard);
    }
    // A shard that is missing would have the keys of another's number looked for in the wrong one.
    if groups.values().any(|group| group.keys().copied().ne(0..group.len())) {
        return Err(Error::corrupt("a file group of the record index is missing"));
    }
    Ok(groups.into_iter().map(|(name, group)| (name, group.into_values().collect())).collect())
}

struct Locations<'k> {
    numbers: HashMap<&'k str, Vec<usize>>,
    /// Names that were met, each kept once.
    names: HashMap<String, Arc<str>>,
    found: Vec<KeyLocation>,
}

impl Locations<'_> {
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let mistyped = || Error::internal("rows of the record index have other types");
        let strings = |name: &str| raw::flat(rows, name)?.as_string_opt::<i32>().ok_or_else(mistyped);
        let (keys, partitions) = (strings("key")?, strings("partition")?);
        let (file_ids, instants) = (strings("file_id")?, strings("instant_time")?);
        for row in 0..rows.num_rows() {
            let Some(numbers) = self.numbers.get(keys.value(row)).cloned() else { continue };
            let text =
                |column: &StringArray| if column.is_valid(row) { column.value(row).to_owned() } else { String::new() };
            let partition = Some(text(partitions)).filter(|partition| partition != ".").unwrap_or_default();
            let partition = self.name(partition);
            let (file_id, instant) = (self.name(text(file_ids)), self.name(text(instants)));
            self.found.extend(numbers.into_iter().map(|key| KeyLocation {
                key,
                partition: partition.clone(),
                file_id: file_id.clone(),
                instant: instant.clone(),
            }));
        }
        Ok(())
    }

    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(&name) {
            return known.clone();
        }
        let kept: Arc<str> = name.as_str().into();
        self.names.insert(name, kept.clone());
        kept
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shard(file_id: &str) -> FileSlice {
        FileSlice {
            partition: String::new(),
            file_id: file_id.to_owned(),
            base_instant: String::new(),
            base: None,
            logs: Vec::new(),
        }
    }

    #[test]
    fn shards_are_of_the_table_or_of_a_partition() {
        let all = [shard("record-index-0001-0"), shard("record-index-0000-0")];
        let groups = shard_groups(&all).unwrap();
        let ids: Vec<&str> = groups.values().flatten().map(|shard| shard.file_id.as_str()).collect();
        assert_eq!(ids, ["record-index-0000-0", "record-index-0001-0"]);
        let by_partition =
            [shard("record-index-p%2Da-0000-0"), shard("record-index-p%2Da-0001-0"), shard("record-index-b-0000-0")];
        let groups = shard_groups(&by_partition).unwrap();
        assert_eq!(
            groups.into_iter().map(|(name, group)| (name, group.len())).collect::<Vec<_>>(),
            [("b", 1), ("p%2Da", 2)]
        );
    }

    #[test]
    fn a_shard_that_is_missing_is_no_answer() {
        for names in [["record-index-0000-0", "record-index-0002-0"], ["record-index-0001-0", "record-index-0002-0"]] {
            assert!(shard_groups(&names.map(shard)).is_err());
        }
        assert!(shard_groups(&[shard("other-0000-0")]).is_err());
    }
}
