//! Lookups in a secondary index: which record keys have some values of a column.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray};

use super::kind::Kind;
use super::secondary_entries::{is_secondary_index, push_escaped};
use super::{MetadataTable, raw};
use crate::error::{Error, Result};
use crate::format::log::Wanted;
use crate::parallel::run_parallel;

impl MetadataTable {
    /// The secondary index on a column, if there is one.
    ///
    /// # Errors
    /// `Corrupt` for definitions that are damaged; `Storage`.
    pub(crate) fn secondary_index_on(&self, column: &str) -> Result<Option<&str>> {
        let mut partitions = self.partitions().iter().filter(|name| is_secondary_index(name)).peekable();
        if partitions.peek().is_none() {
            return Ok(None);
        }
        let definitions = self.definitions()?;
        let is_on = |partition: &&String| definitions.source_fields(partition).is_some_and(|fields| fields == [column]);
        Ok(partitions.find(is_on).map(String::as_str))
    }
}

/// The record keys of the records with one of these values. All records of a value are in one shard, or, in indexes of the
/// first version, in any: all shards are asked for the keys that begin with the value, at the same time.
///
/// # Errors
/// `InvalidOption` without this index; `Corrupt`, with the file; `Storage`.
pub(crate) fn look_up_values(
    metadata: &MetadataTable,
    partition: &str,
    values: &[String],
    threads: usize,
) -> Result<BTreeSet<String>> {
    let mut prefixes: Vec<String> = values.iter().map(|value| format!("{}$", escaped(value))).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    let wanted: BTreeSet<&str> = values.iter().map(String::as_str).collect();
    let shards = metadata.shards(partition)?;
    let found = run_parallel(shards.iter().collect(), threads, |shard| {
        let mut keys = BTreeSet::new();
        metadata.each_wanted(Kind::SecondaryIndex, shard, Wanted::Prefixes(&prefixes), &mut |rows| {
            let of = |name: &str| raw::flat(&rows, name)?.as_string_opt::<i32>().ok_or_else(mistyped);
            let (record_keys, held) = (of("record_key")?, of("value")?);
            // Log blocks of another form pass on all of their records.
            let is_wanted = |row: usize| held.is_valid(row) && wanted.contains(held.value(row));
            let rows = (0..record_keys.len()).filter(|row| is_wanted(*row));
            keys.extend(rows.map(|row| record_keys.value(row).to_owned()));
            Ok(())
        })?;
        Ok(keys)
    })?;
    Ok(found.into_iter().flatten().collect())
}

fn mistyped() -> Error {
    Error::internal("rows of a secondary index have other types")
}

/// A value as keys have it.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    // Writing to a string does not fail.
    let _ = push_escaped(value, &mut escaped);
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_parts_a_key_is_escaped() {
        assert_eq!(escaped("a"), "a");
        assert_eq!(escaped(r"a$b\"), r"a\$b\\");
        assert_eq!(escaped("\0"), "\\\0");
    }
}
