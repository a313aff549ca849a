//! The entries of secondary indexes: which there are, and the keys of their records.
//!
//! A table has any number of them, each of one column. The partition has a record for each row: its key is the value as a
//! string, `$` and the record key ([`secondary_index`](super::secondary_index)); it says no more than whether it is deleted.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, StringArray, StringBuilder};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use serde::{Deserialize, Serialize};

use super::column_ranges::IndexVersion;
use super::keys::{secondary_shard_key, shard_of};
use crate::error::{Error, Result};
use crate::format::java::{write_double, write_float};

/// Begin of the names of the partitions.
pub(crate) const SECONDARY_INDEX: &str = "secondary_index_";
/// Letters that have a meaning in keys.
const SPECIAL: [char; 3] = ['\\', '$', '\0'];

/// Whether a partition of the metadata table is a secondary index.
pub(crate) fn is_secondary_index(partition: &str) -> bool {
    partition.len() > SECONDARY_INDEX.len() && partition.starts_with(SECONDARY_INDEX)
}

/// A secondary index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecondaryIndex {
    /// Its partition of the metadata table.
    pub(crate) partition: String,
    /// The column whose values it has.
    pub(crate) column: String,
    /// What decides of the shard: the value, or in the first version the whole key.
    pub(crate) version: IndexVersion,
}

impl SecondaryIndex {
    /// The file ids of so many shards.
    pub(crate) fn file_ids(&self, shards: usize) -> Vec<String> {
        let name = self.partition.replace('_', "-");
        (0..shards).map(|shard| format!("{name}-{shard:04}-0")).collect()
    }

    /// Which of so many shards has an entry.
    pub(crate) fn shard_of(&self, entry: &str, shards: usize) -> usize {
        match self.version {
            IndexVersion::V1 => shard_of(entry, shards),
            IndexVersion::V2 => shard_of(secondary_shard_key(entry), shards),
        }
    }
}

/// Whether a column of this type can have a secondary index, as in Hudi.
pub(crate) fn can_have_secondary_index(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, Some(_))
    )
}

/// The keys of the entries of rows, one for one: values as Java prints them, days and microseconds as numbers.
///
/// # Errors
/// `Unsupported` for a type that can have no secondary index; `Corrupt` for a row without record key.
pub(crate) fn entries_of(values: &ArrayRef, keys: &StringArray) -> Result<StringArray> {
    if keys.null_count() > 0 {
        return Err(Error::corrupt("a record has no key"));
    }
    match values.data_type() {
        DataType::Utf8 => {
            let strings = values.as_string_opt::<i32>().ok_or_else(mistyped)?;
            build(values, keys, |row, out| push_escaped(strings.value(row), out))
        }
        DataType::Int32 => numbers::<Int32Type>(values, keys),
        DataType::Int64 => numbers::<Int64Type>(values, keys),
        DataType::Date32 => numbers::<Date32Type>(values, keys),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => numbers::<TimestampMicrosecondType>(values, keys),
        DataType::Float32 => {
            let floats = values.as_primitive_opt::<Float32Type>().ok_or_else(mistyped)?;
            build(values, keys, |row, out| write_float(out, floats.value(row)))
        }
        DataType::Float64 => {
            let doubles = values.as_primitive_opt::<Float64Type>().ok_or_else(mistyped)?;
            build(values, keys, |row, out| write_double(out, doubles.value(row)))
        }
        other => Err(Error::unsupported(format!("a column of type {other} can have no secondary index"))),
    }
}

fn numbers<T: ArrowPrimitiveType>(values: &ArrayRef, keys: &StringArray) -> Result<StringArray>
where
    T::Native: std::fmt::Display,
{
    let numbers = values.as_primitive_opt::<T>().ok_or_else(mistyped)?;
    build(values, keys, |row, out| write!(out, "{}", numbers.value(row)))
}

fn build(
    values: &ArrayRef,
    keys: &StringArray,
    mut push: impl FnMut(usize, &mut StringBuilder) -> std::fmt::Result,
) -> Result<StringArray> {
    let bytes = keys.value_data().len() + keys.len() * 16;
    let mut out = StringBuilder::with_capacity(keys.len(), bytes);
    for row in 0..keys.len() {
        let pushed = match values.is_valid(row) {
            true => push(row, &mut out),
            false => out.write_char('\0'),
        };
        let pushed = pushed.and_then(|()| out.write_char('$')).and_then(|()| push_escaped(keys.value(row), &mut out));
        pushed.map_err(|e| Error::internal("an entry of a secondary index cannot be made").caused_by(e))?;
        // Ends what was written.
        out.append_value("");
    }
    Ok(out.finish())
}

/// Writes a string with a backslash before each letter that has a meaning in keys.
pub(super) fn push_escaped(mut string: &str, out: &mut impl Write) -> std::fmt::Result {
    while let Some((before, rest)) = string.find(SPECIAL).and_then(|at| string.split_at_checked(at)) {
        out.write_str(before)?;
        out.write_char('\\')?;
        let mut letters = rest.chars();
        letters.next().map_or(Ok(()), |letter| out.write_char(letter))?;
        string = letters.as_str();
    }
    out.write_str(string)
}

fn mistyped() -> Error {
    Error::internal("values of an indexed column have another type")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{Date32Array, Float64Array, Int64Array, TimestampMicrosecondArray};

    use super::*;

    fn entries(values: ArrayRef) -> Vec<String> {
        let keys: StringArray = (0..values.len()).map(|row| Some(format!("k${row}"))).collect();
        entries_of(&values, &keys).unwrap().iter().flatten().map(str::to_owned).collect()
    }

    #[test]
    fn entries_are_those_of_hudi() {
        let strings = StringArray::from(vec![Some("n0"), None, Some(""), Some("x$y"), Some("a\\b"), Some("\0z")]);
        assert_eq!(
            entries(Arc::new(strings)),
            ["n0$k\\$0", "\0$k\\$1", "$k\\$2", "x\\$y$k\\$3", "a\\\\b$k\\$4", "\\\0z$k\\$5"]
        );
        assert_eq!(entries(Arc::new(Int64Array::from(vec![Some(-7), None]))), ["-7$k\\$0", "\0$k\\$1"]);
        assert_eq!(entries(Arc::new(Float64Array::from(vec![30.0, 1e20]))), ["30.0$k\\$0", "1.0E20$k\\$1"]);
        assert_eq!(entries(Arc::new(Date32Array::from(vec![20_454]))), ["20454$k\\$0"]);
        let at = TimestampMicrosecondArray::from(vec![1_767_225_600_000_001]).with_timezone("UTC");
        assert_eq!(entries(Arc::new(at)), ["1767225600000001$k\\$0"]);
    }

    #[test]
    fn shards_are_those_of_the_value_or_of_the_entry() {
        let of = |version| SecondaryIndex { partition: "secondary_index_a_b".into(), column: "c".into(), version };
        assert_eq!(of(IndexVersion::V2).file_ids(2), ["secondary-index-a-b-0000-0", "secondary-index-a-b-0001-0"]);
        assert_eq!(of(IndexVersion::V2).shard_of("n0$k1", 10), of(IndexVersion::V2).shard_of("n0$k2", 10));
        assert_ne!(of(IndexVersion::V1).shard_of("n0$k1", 10), of(IndexVersion::V1).shard_of("n0$k2", 10));
    }

    #[test]
    fn other_types_have_none() {
        let flags: ArrayRef = Arc::new(arrow::array::BooleanArray::from(vec![true]));
        assert!(!can_have_secondary_index(flags.data_type()));
        assert!(entries_of(&flags, &StringArray::from(vec!["k"])).is_err());
    }
}
