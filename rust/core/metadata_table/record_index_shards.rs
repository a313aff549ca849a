//! The shards of `record_index`: those of the whole table, or of each data partition.
//!
//! | layout | file id of shard i | a key is unique in |
//! |---|---|---|
//! | global | `record-index-000i-0` | the table |
//! | partitioned | `record-index-<escaped data partition>-000i-0` | a data partition |
//!
//! A key is in the shard that its hash says, of as many as there are, so that none of them may be missing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::keys::shard_of;
use crate::error::{Error, Result};

/// Begin of the file ids.
const PREFIX: &str = "record-index-";
/// End of the file ids.
const SUFFIX: &str = "-0";
/// Name of the only group of shards in the global layout, which no data partition can have.
const WHOLE_TABLE: &str = "";

/// The shards of a record index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordIndexShards {
    is_partitioned: bool,
    file_ids: Vec<String>,
    /// Which of them a group has: by escaped data partition, or that of the whole table.
    groups: BTreeMap<String, Range<usize>>,
}

impl RecordIndexShards {
    /// An index without shards: those of data partitions are added one by one.
    pub(crate) fn partitioned() -> Self {
        Self { is_partitioned: true, file_ids: Vec::new(), groups: BTreeMap::new() }
    }

    /// Shards of the whole table.
    pub(crate) fn global(count: usize) -> Self {
        let mut shards = Self { is_partitioned: false, file_ids: Vec::new(), groups: BTreeMap::new() };
        shards.add(WHOLE_TABLE.to_owned(), count);
        shards
    }

    /// Those with these file ids, in any order.
    ///
    /// # Errors
    /// `Corrupt` for a file id that Hudi does not give, and if one is missing.
    pub(crate) fn of_file_ids<'a>(file_ids: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut found: BTreeMap<(&str, usize), &str> = BTreeMap::new();
        let (mut of_table, mut of_partitions) = (false, false);
        for file_id in file_ids {
            let odd = || {
                Error::corrupt("a file group of the record index does not have a name that Hudi gives it")
                    .with("file group", file_id)
            };
            let name = file_id.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX)).ok_or_else(odd)?;
            let (group, number) = match name.rsplit_once('-') {
                Some((group, number)) => (group, number),
                None => (WHOLE_TABLE, name),
            };
            of_partitions |= name.contains('-');
            of_table |= !name.contains('-');
            found.insert((group, number.parse().map_err(|_| odd())?), file_id);
        }
        if of_table && of_partitions {
            return Err(Error::corrupt("the record index has shards of the table and shards of partitions"));
        }
        let mut shards = Self { is_partitioned: of_partitions, file_ids: Vec::new(), groups: BTreeMap::new() };
        for ((group, number), file_id) in found {
            let at = shards.file_ids.len();
            let range = shards.groups.entry(group.to_owned()).or_insert(at..at);
            // A shard that is missing would have the keys of another's number looked for in the wrong one.
            if number != range.len() {
                return Err(Error::corrupt("a file group of the record index is missing").with("before", file_id));
            }
            range.end = at + 1;
            shards.file_ids.push(file_id.to_owned());
        }
        Ok(shards)
    }

    /// Whether each data partition has shards of its own.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.is_partitioned
    }

    /// The file ids.
    pub(crate) fn file_ids(&self) -> &[String] {
        &self.file_ids
    }

    /// The shards that may have keys of a data partition; `None` if it has none yet.
    pub(crate) fn of_partition(&self, partition: &str) -> Option<Range<usize>> {
        let group = if self.is_partitioned { escaped(partition) } else { WHOLE_TABLE.to_owned() };
        self.groups.get(&group).cloned()
    }

    /// The groups of shards among which a key is in one.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        self.groups.values().cloned()
    }

    /// Gives a data partition its shards, if it has none. Returns them.
    pub(crate) fn add_partition(&mut self, partition: &str, count: usize) -> Range<usize> {
        match self.of_partition(partition) {
            Some(known) => known,
            None => self.add(escaped(partition), count),
        }
    }

    fn add(&mut self, group: String, count: usize) -> Range<usize> {
        let first = self.file_ids.len();
        let name = if self.is_partitioned { format!("{group}-") } else { String::new() };
        self.file_ids.extend((0..count.max(1)).map(|number| format!("{PREFIX}{name}{number:04}{SUFFIX}")));
        let range = first..self.file_ids.len();
        self.groups.insert(group, range.clone());
        range
    }
}

/// Which shard of a group has a key.
pub(crate) fn shard_in(group: &Range<usize>, key: &str) -> usize {
    group.start + shard_of(key, group.len())
}

/// Whether a file id is that of a shard of a data partition.
pub(super) fn is_of_data_partition(file_id: &str) -> bool {
    let name = file_id.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
    name.is_some_and(|name| name.contains('-'))
}

/// The name of a data partition in file ids: what means something there, or in a path, is escaped.
fn escaped(partition: &str) -> String {
    let mut out = String::with_capacity(partition.len());
    for letter in partition.chars() {
        let is_special = letter < ' ' || "\"#%'*/:=?\\{[]^\u{7f}_-".contains(letter);
        if is_special {
            // Writing to a string does not fail.
            let _ = write!(out, "%{:02X}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shards_are_of_the_table_or_of_a_partition() {
        let all = RecordIndexShards::of_file_ids(["record-index-0001-0", "record-index-0000-0"]).unwrap();
        assert_eq!(all, RecordIndexShards::global(2));
        assert_eq!((all.of_partition("any"), all.is_partitioned()), (Some(0..2), false));
        let names = ["record-index-p%2Da-0000-0", "record-index-p%2Da-0001-0", "record-index-b-0000-0"];
        let mut shards = RecordIndexShards::of_file_ids(names).unwrap();
        assert!(shards.is_partitioned());
        assert_eq!((shards.of_partition("b"), shards.of_partition("p-a")), (Some(0..1), Some(1..3)));
        assert_eq!(shards.of_partition("new"), None);
        assert_eq!(shards.add_partition("new", 2), 3..5);
        assert_eq!(shards.add_partition("b", 9), 0..1);
        assert_eq!(shards.file_ids().last().unwrap(), "record-index-new-0001-0");
        assert!(shards.file_ids().iter().all(|id| is_of_data_partition(id)));
        assert!(!all.file_ids().iter().any(|id| is_of_data_partition(id)) && !is_of_data_partition("files-0000-0"));
    }

    #[test]
    fn a_shard_that_is_missing_is_no_answer() {
        for names in [
            ["record-index-0000-0", "record-index-0002-0"],
            ["record-index-0001-0", "record-index-0002-0"],
            ["record-index-0000-0", "record-index-p-0000-0"],
        ] {
            assert!(RecordIndexShards::of_file_ids(names).is_err());
        }
        assert!(RecordIndexShards::of_file_ids(["other-0000-0"]).is_err());
    }

    #[test]
    fn partitions_are_escaped_as_hudi_does() {
        assert_eq!(escaped("region=eu_1/day=2024-01-02"), "region%3Deu%5F1%2Fday%3D2024%2D01%2D02");
        assert_eq!(escaped("plain"), "plain");
    }
}
