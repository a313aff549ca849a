//! Keys of records, and which shard of a partition has a key.
//!
//! Names of columns and partitions are hashed with xxHash64, names of files with MD5, so that keys are short and of one
//! length. What has only hashes of names cannot be turned back into names: the records say them again.

use md5::{Digest, Md5};

use crate::format::java::string_hash;

/// The key of the record that lists the partitions.
pub(crate) const ALL_PARTITIONS: &str = "__all_partitions__";
/// How a table without partitions names its only one.
pub(crate) const NON_PARTITIONED: &str = ".";

/// The name of a partition in keys; it is empty in the table's paths for a table without partitions.
pub(crate) fn partition_name(partition: &str) -> &str {
    if partition.is_empty() { NON_PARTITIONED } else { partition }
}

/// The part of a key that stands for a partition, or for a column.
pub(super) fn partition_hash(partition: &str) -> String {
    let mut key = String::with_capacity(12);
    push_hash(partition_name(partition), &mut key);
    key
}

/// The key of the statistics of a column in a file.
pub(crate) fn column_stats_key(column: &str, partition: &str, file_name: &str) -> String {
    let mut key = String::with_capacity(48);
    push_hash(column, &mut key);
    push_hash(partition_name(partition), &mut key);
    push_file(file_name, &mut key);
    key
}

/// The key of the statistics of a column in a partition.
pub(crate) fn partition_stats_key(column: &str, partition: &str) -> String {
    let mut key = String::with_capacity(24);
    push_hash(column, &mut key);
    push_hash(partition_name(partition), &mut key);
    key
}

/// The key of the statistics of a partition in an expression index of a column.
pub(crate) fn expression_partition_key(column: &str, partition: &str) -> String {
    let mut key = String::with_capacity(36);
    push_hash(column, &mut key);
    push_hash("__partition_stat__", &mut key);
    push_hash(partition_name(partition), &mut key);
    key
}

/// The key of the bloom filter of a base file.
pub(crate) fn bloom_key(partition: &str, file_name: &str) -> String {
    let mut key = String::with_capacity(36);
    push_hash(partition_name(partition), &mut key);
    push_file(file_name, &mut key);
    key
}

/// The shard that has a key, of so many.
pub(crate) fn shard_of(key: &str, shards: usize) -> usize {
    let Ok(shards) = i32::try_from(shards) else { return 0 };
    // As in Java, where the smallest integer has no absolute value.
    string_hash(key).wrapping_abs().checked_rem(shards).map_or(0, |shard| shard.unsigned_abs() as usize)
}

/// The part of a key of a secondary index that says which shard has it: the value up to the `$` behind it, still with its
/// backslashes, so that all records of a value are in one shard. In indexes of the first version it is the whole key.
pub(crate) fn secondary_shard_key(key: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in key.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'$' => return key.get(..=at).unwrap_or(key),
            _ => {}
        }
    }
    key
}

fn push_hash(name: &str, key: &mut String) {
    /// 0xDABADABA, with its sign.
    const SEED: u64 = 0xFFFF_FFFF_DABA_DABA;
    let hash = twox_hash::XxHash64::oneshot(SEED, name.as_bytes());
    base64_simd::STANDARD.encode_append(hash.to_be_bytes(), key);
}

fn push_file(name: &str, key: &mut String) {
    base64_simd::STANDARD.encode_append(Md5::digest(name.as_bytes()), key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_hudis_hashes() {
        for (name, hash) in [("part", "+WGrmgkN3io="), ("0", "06zdpyCf3Jg="), ("_hoodie_commit_time", "JBBzUToHtLc=")] {
            assert_eq!(partition_hash(name), hash);
            assert_eq!(partition_stats_key(name, "0"), format!("{hash}06zdpyCf3Jg="));
        }
        assert_eq!(partition_hash(""), partition_hash("."));
    }

    #[test]
    fn keys_of_files_are_those_of_hudi() {
        // From a table that Hudi wrote: see tests/fixtures/metadata_table.
        for (column, partition, file, key) in [
            (
                "part",
                "p0",
                "d490ba57-a289-42ce-81a8-57e776268098-0_0-130-257_20261124183348732.parquet",
                "+WGrmgkN3io=Z+KNMU8CLlo=3D54qIzgK4pnuj/xhlIgNw==",
            ),
            (
                "_hoodie_commit_time",
                "",
                ".1c641a14-c7db-4869-aa19-98b92a674b4a-0_20261124183430707.log.1_0-299-650",
                "JBBzUToHtLc=FXThHwelITM=11Mo0jcNPJ39k7zLAssEeg==",
            ),
        ] {
            assert_eq!(column_stats_key(column, partition, file), key);
        }
        let file = "1c641a14-c7db-4869-aa19-98b92a674b4a-0_0-251-585_20261124183420542.parquet";
        assert_eq!(bloom_key("", file), "FXThHwelITM=iZg9pKe9SkaQKgsmYq1RLw==");
    }

    #[test]
    fn shards_are_those_of_java() {
        assert_eq!(shard_of("anything", 1), 0);
        assert_eq!(shard_of("anything", 0), 0);
        assert_eq!(shard_of("", 7), 0);
        // The hash of "k0001" is 100294380; that of the second string is the smallest integer.
        assert_eq!(shard_of("k0001", 10), 0);
        assert_eq!(shard_of("polygenelubricants", 10), 8);
        // Beyond the basic plane, a letter is two units.
        assert_eq!(shard_of("\u{1F600}", 10), 9);
    }

    #[test]
    fn all_records_of_a_value_are_in_one_shard() {
        assert_eq!(secondary_shard_key("a$k"), "a$");
        assert_eq!(secondary_shard_key(r"a\$b\\$k\$1"), r"a\$b\\$");
        assert_eq!(secondary_shard_key("none"), "none");
        assert_eq!(secondary_shard_key("\0$k"), "\0$");
    }
}
