//! The file groups of a bucket index: the record of a key is in the group of its bucket, and nowhere else in its partition.
//!
//! Hudi stores nothing that tells how many buckets there are. A writer with another number puts keys into other groups
//! than before and doubles them, without an error. So the ids of the groups are compared with the number of buckets, and
//! some of the stored keys with the group that they are in, before anything is written.

use std::collections::{BTreeMap, HashMap};

use arrow::array::StringArray;

use crate::error::{Error, Result};
use crate::file_group::{FileSlice, bucket_of_file_id};
use crate::merge::{KeyedRows, RowRef};
use crate::storage::Storage;
use crate::table::keygen::KeyGenConfig;
use crate::table::{BucketIndex, NUM_BUCKETS, OpenFiles, first_keys};
use crate::write::locate::log_keys::Logs;

/// Keys of a file group that are compared with its bucket.
const SAMPLE: usize = 64;
const SAME_SETTINGS: &str = "Write with the number of buckets (hoodie.bucket.index.num.buckets, \
                             hoodie.bucket.index.partition.expressions) and the hash fields \
                             (hoodie.bucket.index.hash.field) of the table's other writers. To change them, write all rows \
                             anew with insert_overwrite_table";
const REWRITE: &str =
    "Read the rows of the partition and write them anew with insert_overwrite and hoodie.index.type=BUCKET";

/// The file groups of a partition, by their buckets.
#[derive(Debug)]
pub(in crate::write) struct BucketGroups {
    buckets: u32,
    slices: BTreeMap<u32, FileSlice>,
}

impl BucketGroups {
    /// Those among the newest slices of a partition.
    ///
    /// # Errors
    /// `InvalidOption` for a group that is of none of so many buckets, `Corrupt` for two groups of one.
    pub(in crate::write) fn of(index: &BucketIndex, partition: &str, slices: Vec<FileSlice>) -> Result<Self> {
        let buckets = index.buckets_in(partition);
        let mut found: BTreeMap<u32, FileSlice> = BTreeMap::new();
        for slice in slices {
            let named = |e: Error| e.with("partition", partition).with("file group", &slice.file_id);
            let Some(bucket) = bucket_of_file_id(&slice.file_id) else {
                let e = Error::invalid_option("the partition has a file group that is not of a bucket index");
                return Err(named(e).remedy(format!(
                    "Write with the hoodie.index.type of the table's other writers. If a writer of another index type broke \
                     the partition: {REWRITE}"
                )));
            };
            if bucket >= buckets {
                let e = Error::invalid_option(format!(
                    "the partition has a file group of bucket {bucket}, and {NUM_BUCKETS} says that it has {buckets} buckets"
                ));
                return Err(named(e).remedy(SAME_SETTINGS));
            }
            if let Some(other) = found.get(&bucket) {
                let e = Error::corrupt(format!("the partition has two file groups of bucket {bucket}"));
                return Err(named(e).with("other file group", &other.file_id).remedy(format!(
                    "Roll back the commit that made the second one, as rows may be there twice. Or: {REWRITE}"
                )));
            }
            found.insert(bucket, slice);
        }
        Ok(Self { buckets, slices: found })
    }

    /// The bucket of a key with this hash.
    pub(in crate::write) fn bucket(&self, hash: u32) -> u32 {
        hash % self.buckets.max(1)
    }

    /// The newest slice of a bucket's group, if it has one.
    pub(in crate::write) fn slice(&self, bucket: u32) -> Option<&FileSlice> {
        self.slices.get(&bucket)
    }

    /// The slice whose keys are compared: one of these buckets, or else any; one with a base file where there is one.
    fn sample<'s>(&'s self, touched: impl Iterator<Item = &'s FileSlice>) -> Option<&'s FileSlice> {
        let size = |slice: &&FileSlice| {
            let logs: u64 = slice.logs.iter().map(|log| log.size).sum();
            (slice.base.is_none(), slice.base.as_ref().map_or(logs, |base| base.size))
        };
        let touched = touched.min_by_key(size).filter(|slice| slice.base.is_some());
        // One that nobody has begun has no keys.
        let begun = |slice: &&FileSlice| slice.base.is_some() || !slice.logs.is_empty();
        touched.or_else(|| self.slices.values().filter(begun).min_by_key(size))
    }
}

/// Where the stored keys of a table are read.
pub(in crate::write) struct StoredKeys<'a> {
    pub(in crate::write) storage: &'a Storage,
    pub(in crate::write) opened: &'a OpenFiles,
    pub(in crate::write) virtual_keys: Option<&'a KeyGenConfig>,
    pub(in crate::write) logs: Option<&'a Logs>,
}

impl StoredKeys<'_> {
    /// Compares some keys of one slice of a partition, of a touched one if it has a base file, with its bucket.
    ///
    /// # Errors
    /// `InvalidOption` when a key belongs elsewhere; those of reading the slice.
    pub(in crate::write) fn check<'s>(
        &self,
        index: &BucketIndex,
        groups: &'s BucketGroups,
        touched: impl Iterator<Item = &'s FileSlice>,
    ) -> Result<()> {
        let Some(slice) = groups.sample(touched) else { return Ok(()) };
        let belongs = |key: &str| belongs(index, groups, slice, key).map_err(|e| e.with("table", self.storage.uri()));
        if let Some(base) = &slice.base {
            let reader = self.opened.open(self.storage, base)?;
            let keys = first_keys(&reader, self.virtual_keys, SAMPLE);
            let keys = keys.map_err(|e| e.with("table", self.storage.uri()).with("file", &base.path))?;
            self.opened.keep(base, reader);
            return keys.iter().flat_map(|keys| keys.iter().flatten()).try_for_each(belongs);
        }
        let Some(logs) = self.logs else { return Ok(()) };
        let mut checked = Ok(());
        let mut left = SAMPLE;
        logs.reader.each_key_in_logs(slice, &mut |key, _| {
            if left > 0 && checked.is_ok() {
                checked = belongs(key);
                left -= 1;
            }
        })?;
        checked
    }
}

/// Fails when a key that a slice holds is not one of its bucket.
fn belongs(index: &BucketIndex, groups: &BucketGroups, slice: &FileSlice, key: &str) -> Result<()> {
    let (stored, bucket) = (bucket_of_file_id(&slice.file_id), groups.bucket(index.hash(key)));
    if stored == Some(bucket) {
        return Ok(());
    }
    let (stored, buckets) = (stored.unwrap_or_default(), groups.buckets);
    Err(Error::invalid_option(format!(
        "the key '{key}' is stored in bucket {stored} and belongs to bucket {bucket} of {buckets}"
    ))
    .with("partition", &slice.partition)
    .with("file group", &slice.file_id)
    .remedy(SAME_SETTINGS))
}

/// The file groups of the partitions that a write goes to.
pub(in crate::write) struct Buckets<'a> {
    index: &'a BucketIndex,
    /// Whether stored keys were compared with their groups already.
    are_checked: bool,
    partitions: HashMap<String, BucketGroups>,
}

impl<'a> Buckets<'a> {
    /// The groups of these partitions; `slices` gives the newest slices of each.
    ///
    /// # Errors
    /// Those of [`BucketGroups::of`] and of `slices`.
    pub(in crate::write) fn new(
        index: &'a BucketIndex,
        partitions: &[String],
        slices: &dyn Fn(&str) -> Result<Vec<FileSlice>>,
    ) -> Result<Self> {
        let groups = |partition: &String| {
            let groups = BucketGroups::of(index, partition, slices(partition)?)?;
            Ok((partition.clone(), groups))
        };
        Ok(Self { index, are_checked: false, partitions: partitions.iter().map(groups).collect::<Result<_>>()? })
    }

    /// The same, whose stored keys were compared already.
    #[must_use]
    pub(in crate::write) fn checked(self) -> Self {
        Self { are_checked: true, ..self }
    }

    /// The groups of a partition.
    ///
    /// # Errors
    /// `Internal` for a partition that was not named.
    pub(in crate::write) fn of_partition(&self, partition: &str) -> Result<&BucketGroups> {
        self.partitions.get(partition).ok_or_else(|| {
            Error::internal("the buckets of a partition were not looked for").with("partition", partition)
        })
    }

    /// Some rows of a partition by their buckets: numbers in `rows`, ascending.
    ///
    /// # Errors
    /// `Internal` for a partition that was not named, or a row that is not there; those of `keys`, which gives the keys of
    /// a batch.
    pub(in crate::write) fn split<'k>(
        &self,
        partition: &str,
        keys: impl Fn(u32) -> Result<&'k StringArray>,
        rows: &[RowRef],
    ) -> Result<BTreeMap<u32, Vec<u32>>> {
        let groups = self.of_partition(partition)?;
        let mut hashes: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut split: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let (mut at, mut current) = (None, Vec::new());
        for (number, row) in (0u32..).zip(rows) {
            if at != Some(row.batch) {
                // Rows come batch after batch, mostly.
                if let Some(before) = at.replace(row.batch) {
                    hashes.insert(before, std::mem::take(&mut current));
                }
                current = match hashes.remove(&row.batch) {
                    Some(known) => known,
                    None => self.index.hashes(keys(row.batch)?),
                };
            }
            let hash = current.get(row.row as usize).copied();
            let hash =
                hash.ok_or_else(|| Error::internal(format!("there is no row {} in batch {}", row.row, row.batch)))?;
            split.entry(groups.bucket(hash)).or_default().push(number);
        }
        Ok(split)
    }

    /// The records of a partition by the groups that their buckets have. Some stored keys are compared before.
    ///
    /// # Errors
    /// Those of [`StoredKeys::check`] and [`Buckets::split`].
    pub(in crate::write) fn locate(
        &self,
        partition: &str,
        keyed: &[KeyedRows<'_>],
        records: &[RowRef],
        stored: &StoredKeys<'_>,
    ) -> Result<Vec<(FileSlice, Vec<u32>)>> {
        let groups = self.of_partition(partition)?;
        let keys = |batch: u32| keyed.get(batch as usize).map(|batch| batch.keys).ok_or_else(|| no_batch(batch));
        let split = self.split(partition, keys, records)?;
        if !self.are_checked {
            stored.check(self.index, groups, split.keys().filter_map(|bucket| groups.slice(*bucket)))?;
        }
        let of_group = |(bucket, records)| Some((groups.slice(bucket)?.clone(), records));
        Ok(split.into_iter().filter_map(of_group).collect())
    }

    /// Fails for a key that a slice holds and that is not one of its bucket.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub(in crate::write) fn check_found(&self, slice: &FileSlice, key: &str) -> Result<()> {
        belongs(self.index, self.of_partition(&slice.partition)?, slice, key)
    }
}

fn no_batch(batch: u32) -> Error {
    Error::internal(format!("there is no batch {batch} of incoming rows"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    fn slice(file_id: &str) -> FileSlice {
        FileSlice {
            partition: "p".into(),
            file_id: file_id.into(),
            base_instant: "1".into(),
            base: None,
            logs: Vec::new(),
        }
    }

    fn groups(ids: &[&str]) -> Result<BucketGroups> {
        BucketGroups::of(&BucketIndex::of_buckets(4), "p", ids.iter().map(|id| slice(id)).collect())
    }

    const ID: &str = "-d412-491c-9d6d-9167be27f717-0";

    #[test]
    fn groups_are_of_one_bucket_each() {
        let id = |bucket: &str| format!("{bucket}{ID}");
        let found = groups(&[&id("00000003"), &id("00000000")]).unwrap();
        assert!(found.slice(3).is_some() && found.slice(1).is_none());
        for (ids, kind, says) in [
            ([id("00000001"), id("9997495f")], ErrorKind::InvalidOption, "not of a bucket index"),
            ([id("00000001"), id("00000004")], ErrorKind::InvalidOption, "bucket 4"),
            ([id("00000001"), "00000001-other".into()], ErrorKind::Corrupt, "two file groups of bucket 1"),
        ] {
            let e = groups(&ids.each_ref().map(String::as_str)).unwrap_err();
            assert!(e.kind() == kind && e.to_string().contains(says), "{e}");
        }
    }

    #[test]
    fn a_key_elsewhere_is_an_error_that_tells_what_to_do() {
        let index = BucketIndex::of_buckets(4);
        let found = groups(&[&format!("00000000{ID}")]).unwrap();
        // Hash 128.
        assert!(belongs(&index, &found, found.slice(0).unwrap(), "a").is_ok());
        let e = belongs(&index, &found, found.slice(0).unwrap(), "b").unwrap_err();
        assert!(e.to_string().contains("'b'") && e.to_string().contains(NUM_BUCKETS), "{e}");
    }

    #[test]
    fn rows_by_their_buckets() {
        let index = BucketIndex::of_buckets(4);
        let buckets = Buckets::new(&index, &["p".into()], &|_| Ok(Vec::new())).unwrap();
        // Hashes 128, 129 and 79.
        let batches = [StringArray::from(vec!["a", "b"]), StringArray::from(vec!["0"])];
        let keys = |batch: u32| batches.get(batch as usize).ok_or_else(|| no_batch(batch));
        let rows = [(1, 0), (0, 0), (1, 0), (0, 1)].map(|(batch, row)| RowRef { batch, row });
        let split = buckets.split("p", keys, &rows).unwrap();
        assert_eq!(split.into_iter().collect::<Vec<_>>(), [(0, vec![1]), (1, vec![3]), (3, vec![0, 2])]);
        for (batch, row) in [(2, 0), (0, 2)] {
            assert!(buckets.split("p", keys, &[RowRef { batch, row }]).is_err());
        }
        assert!(buckets.of_partition("q").is_err());
    }
}
