//! Records of `column_stats` and `partition_stats`.

use arrow::datatypes::Schema;

use super::any_value::any_value;
use super::indexed::{IndexVersion, V1_DECIMAL_SCALE, type_in};
use crate::format::avro::datum::write_long;
use crate::format::column_range::{ColumnRange, FileRanges, RangeValue, UnknownRange, ValueType};
use crate::metadata_table::encode::{
    Field, record, write_bytes, write_length, write_optional_long, write_optional_string, write_string,
};
use crate::metadata_table::keys::{column_stats_key, expression_partition_key, partition_name, partition_stats_key};

/// Key and value of a record.
pub(crate) type KeyedRecord = (String, Vec<u8>);

/// Types of records.
const COLUMN_STATS: i64 = 3;
const PARTITION_STATS: i64 = 6;

/// Branches of the union of values.
mod branch {
    pub(super) const NULL: i64 = 0;
    pub(super) const BOOLEAN: i64 = 1;
    pub(super) const INT: i64 = 2;
    pub(super) const LONG: i64 = 3;
    pub(super) const FLOAT: i64 = 4;
    pub(super) const DOUBLE: i64 = 5;
    pub(super) const BYTES: i64 = 6;
    pub(super) const STRING: i64 = 7;
    pub(super) const DATE: i64 = 8;
    pub(super) const DECIMAL: i64 = 9;
}

/// A record of a file's or a partition's column, as it is stored.
struct Statistics<'a> {
    record_type: i64,
    /// Name of the file, or of the partition.
    of: &'a str,
    range: &'a ColumnRange,
    version: IndexVersion,
}

/// The records of a file that was written. None if there is a column of which nothing can be said.
pub(crate) fn column_stats_records(
    partition: &str,
    file_name: &str,
    file: &FileRanges,
    version: IndexVersion,
) -> Vec<KeyedRecord> {
    if file.is_partial || file.unknown.iter().any(|unknown| unknown.value_type.is_none()) {
        return Vec::new();
    }
    let record = |range: &ColumnRange| file_record(partition, file_name, range, version);
    let unknown = file.unknown.iter().map(|unknown| record(&any_value(unknown)));
    file.ranges.iter().map(record).chain(unknown).collect()
}

/// The record of one column of a file.
pub(crate) fn file_record(partition: &str, file_name: &str, range: &ColumnRange, version: IndexVersion) -> KeyedRecord {
    let value = Statistics { record_type: COLUMN_STATS, of: file_name, range, version };
    (column_stats_key(&range.column, partition, file_name), value.encode())
}

/// The record of a partition in an expression index.
pub(crate) fn expression_partition_record(partition: &str, range: &ColumnRange, version: IndexVersion) -> KeyedRecord {
    let value = Statistics { record_type: PARTITION_STATS, of: partition_name(partition), range, version };
    (expression_partition_key(&range.column, partition), value.encode())
}

/// The keys of a file's records, to delete them when the file is deleted: as Hudi does, with a block of deletes.
pub(crate) fn column_stats_keys(partition: &str, file_name: &str, columns: &[String]) -> Vec<String> {
    columns.iter().map(|column| column_stats_key(column, partition, file_name)).collect()
}

/// The record of a column of a partition. It replaces the one that is there: readers of Hudi fail on records that are to be
/// merged with those of another type.
pub(crate) fn partition_stats_record(partition: &str, range: &ColumnRange, version: IndexVersion) -> KeyedRecord {
    let value = Statistics { record_type: PARTITION_STATS, of: partition_name(partition), range, version };
    (partition_stats_key(&range.column, partition), value.encode())
}

/// The keys of a partition's records, to delete them when the partition is deleted.
pub(crate) fn partition_stats_keys(partition: &str, columns: &[String]) -> Vec<String> {
    columns.iter().map(|column| partition_stats_key(column, partition)).collect()
}

/// The ranges of a file of which nothing is known, in a table of these columns.
pub(crate) fn unknown_ranges(schema: &Schema, columns: &[String]) -> FileRanges {
    let unknown =
        |column: &String| UnknownRange { column: column.clone(), value_count: 0, value_type: type_in(schema, column) };
    FileRanges { unknown: columns.iter().map(unknown).collect(), ..FileRanges::default() }
}

impl Statistics<'_> {
    fn encode(&self) -> Vec<u8> {
        let Self { record_type, of, range, version } = *self;
        record(record_type, Field::ColumnStats, |out| {
            write_optional_string(Some(of), out);
            write_optional_string(Some(&range.column), out);
            write_value(range.min.as_ref(), range.value_type, version, out);
            write_value(range.max.as_ref(), range.value_type, version, out);
            for count in [range.value_count, range.null_count, range.total_size, range.total_uncompressed_size] {
                write_optional_long(Some(count), out);
            }
            // Not deleted; and of all that there is in the partition, or not.
            out.extend_from_slice(&[0, u8::from(record_type == PARTITION_STATS)]);
            write_type(range.value_type, version, out);
        })
    }
}

/// The type of values: a record in a union with null.
fn write_type(value_type: ValueType, version: IndexVersion, out: &mut Vec<u8>) {
    if version == IndexVersion::V1 {
        out.push(0);
        return;
    }
    write_long(1, out);
    write_long(value_type.ordinal().into(), out);
    write_optional_string(value_type.additional_info().as_deref(), out);
}

/// A value in the record of its type. Statistics of the first version tell dates and decimals by these records, and
/// timestamps are plain integers.
fn write_value(value: Option<&RangeValue>, value_type: ValueType, version: IndexVersion, out: &mut Vec<u8>) {
    let Some(value) = value else {
        write_long(branch::NULL, out);
        return;
    };
    match value {
        RangeValue::Boolean(value) => {
            write_long(branch::BOOLEAN, out);
            out.push(u8::from(*value));
        }
        RangeValue::Int(value) => {
            let is_date = version == IndexVersion::V1 && value_type == ValueType::Date;
            write_long(if is_date { branch::DATE } else { branch::INT }, out);
            write_long((*value).into(), out);
        }
        RangeValue::Long(value) => {
            write_long(branch::LONG, out);
            write_long(*value, out);
        }
        RangeValue::Float(value) => {
            write_long(branch::FLOAT, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        RangeValue::Double(value) => {
            write_long(branch::DOUBLE, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        RangeValue::Bytes(value) => {
            write_long(branch::BYTES, out);
            write_bytes(value, out);
        }
        RangeValue::String(value) => {
            write_long(branch::STRING, out);
            write_string(value, out);
        }
        RangeValue::Decimal(value) => match (version, value_type) {
            (IndexVersion::V1, ValueType::Decimal(_, scale)) => {
                write_long(branch::DECIMAL, out);
                write_shortest(rescaled(*value, scale), out);
            }
            _ => {
                write_long(branch::BYTES, out);
                write_shortest(*value, out);
            }
        },
    }
}

/// A decimal with the 15 digits behind the point that statistics of the first version have. Others are not indexed.
fn rescaled(value: i128, scale: i8) -> i128 {
    let more = u32::try_from(V1_DECIMAL_SCALE - i32::from(scale)).unwrap_or(0);
    10i128.checked_pow(more).map_or(value, |factor| value.saturating_mul(factor))
}

/// An integer as Java's big integers are written: big-endian, in as few bytes as keep its sign.
fn write_shortest(value: i128, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let sign_bits = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    // One bit is left for the sign.
    let needed = (i128::BITS - sign_bits) as usize / 8 + 1;
    let shortest = bytes.get(bytes.len().saturating_sub(needed)..).unwrap_or(&bytes);
    write_length(shortest.len(), out);
    out.extend_from_slice(shortest);
}
