//! Values of records, in Avro.
//!
//! All records have one schema, of which each kind fills one field. Values are put together byte by byte: a commit may
//! write a record for each key, and trees of values would cost far more than the bytes. The key is not in the value: the
//! HFile has it. The meta columns are null, for nobody reads them here.

use uuid::Uuid;

use crate::format::avro::datum::write_long;

/// The schema of all values, as Hudi 1.2 writes it, for the headers of files and blocks. Readers refuse values of another
/// schema than the one that is beside them.
pub(crate) const RECORD_SCHEMA: &str = include_str!("record_schema.json").trim_ascii_end();

/// How many meta columns come first.
const META_COLUMNS: usize = 5;
/// Index of the branch of a nullable field that is not null.
const PRESENT: i64 = 1;
/// A file id of a record location is two halves of a UUID and a number.
const ENCODING_UUID: i64 = 0;
/// A file id of a record location is a string.
const ENCODING_STRING: i64 = 1;
/// The number of a file id that has none.
const NO_NUMBER: i64 = -1;

/// The fields behind `type`, of which a record fills one, in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Files,
    BloomFilter,
    ColumnStats,
    RecordIndex,
    SecondaryIndex,
}

const FIELDS: [Field; 5] =
    [Field::Files, Field::BloomFilter, Field::ColumnStats, Field::RecordIndex, Field::SecondaryIndex];

/// What the entries of a record of `files` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileEntries {
    /// All partitions of the table; their sizes are 0.
    Partitions,
    /// The files of a partition.
    Files,
}

impl FileEntries {
    fn record_type(self) -> i64 {
        match self {
            Self::Partitions => 1,
            Self::Files => 2,
        }
    }
}

/// The record of a partition's files, or of the table's partitions: names, sizes, and whether they are deleted.
pub(crate) fn files_record<'a>(entries: impl IntoIterator<Item = (&'a str, u64, bool)>, kind: FileEntries) -> Vec<u8> {
    let (mut map, mut count) = (Vec::new(), 0usize);
    for (name, size, is_deleted) in entries {
        write_string(name, &mut map);
        write_long(i64::try_from(size).unwrap_or(i64::MAX), &mut map);
        map.push(u8::from(is_deleted));
        count += 1;
    }
    record(kind.record_type(), Field::Files, |out| {
        // A map is one block of entries, and a block without entries.
        if count > 0 {
            write_length(count, out);
            out.extend_from_slice(&map);
        }
        out.push(0);
    })
}

/// The record of the bloom filter of a base file: `filter` is the text that its footer has, `timestamp` the instant.
pub(crate) fn bloom_record(filter_type: &str, timestamp: &str, filter: &[u8], is_deleted: bool) -> Vec<u8> {
    record(4, Field::BloomFilter, |out| {
        write_string(filter_type, out);
        write_string(timestamp, out);
        write_bytes(filter, out);
        out.push(u8::from(is_deleted));
    })
}

/// The record of a key in the record index: the partition and the file group that hold it, and the time of the instant
/// that put it there, in milliseconds. It does not name the key, so all keys of a file group have the same.
pub(crate) fn record_index_record(partition: &str, file_id: &str, written_ms: i64) -> Vec<u8> {
    record(5, Field::RecordIndex, |out| {
        write_optional_string(Some(partition), out);
        let (uuid, number) = uuid_and_number(file_id).unzip();
        let (high, low) = uuid.map(|uuid| uuid.as_u64_pair()).unzip();
        write_optional_long(Some(high.map_or(NO_NUMBER, u64::cast_signed)), out);
        write_optional_long(Some(low.map_or(NO_NUMBER, u64::cast_signed)), out);
        write_optional_long(Some(number.unwrap_or(NO_NUMBER)), out);
        write_optional_string(Some(if uuid.is_some() { "" } else { file_id }), out);
        write_optional_long(Some(written_ms), out);
        write_long(if uuid.is_some() { ENCODING_UUID } else { ENCODING_STRING }, out);
        // Hudi does not write positions.
        write_optional_long(None, out);
    })
}

/// A file id that is made of a UUID and a number, or only of a UUID. `None` if these would not give the same id again.
fn uuid_and_number(file_id: &str) -> Option<(Uuid, i64)> {
    const UUID_LETTERS: usize = 36;
    let uuid = file_id.get(..UUID_LETTERS)?;
    let parsed = Uuid::try_parse(uuid).ok()?;
    let mut canonical = Uuid::encode_buffer();
    if parsed.hyphenated().encode_lower(&mut canonical) != uuid {
        return None;
    }
    let number = match file_id.get(UUID_LETTERS..)? {
        "" => NO_NUMBER,
        rest => {
            let digits = rest.strip_prefix('-')?;
            if !digits.bytes().all(|digit| digit.is_ascii_digit()) || (digits.len() > 1 && digits.starts_with('0')) {
                return None;
            }
            i64::from(digits.parse::<i32>().ok()?)
        }
    };
    Some((parsed, number))
}

/// The record of a value and a record key of a secondary index. Both are in its key.
pub(crate) fn secondary_record(is_deleted: bool) -> Vec<u8> {
    record(7, Field::SecondaryIndex, |out| out.push(u8::from(is_deleted)))
}

/// A record of this type; `fill` writes its one field.
pub(super) fn record(record_type: i64, filled: Field, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    // Nulls of the meta columns, and an empty key.
    let mut out = vec![0; META_COLUMNS + 1];
    write_long(record_type, &mut out);
    let mut fill = Some(fill);
    for field in FIELDS {
        match fill.take_if(|_| field == filled) {
            Some(fill) => {
                write_long(PRESENT, &mut out);
                fill(&mut out);
            }
            None => out.push(0),
        }
    }
    out
}

pub(super) fn write_length(length: usize, out: &mut Vec<u8>) {
    write_long(i64::try_from(length).unwrap_or(i64::MAX), out);
}

pub(super) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

pub(super) fn write_string(string: &str, out: &mut Vec<u8>) {
    write_bytes(string.as_bytes(), out);
}

/// A string of a field whose first branch is null.
pub(super) fn write_optional_string(string: Option<&str>, out: &mut Vec<u8>) {
    match string {
        Some(string) => {
            write_long(PRESENT, out);
            write_string(string, out);
        }
        None => out.push(0),
    }
}

/// An integer of a field whose first branch is null.
pub(super) fn write_optional_long(value: Option<i64>, out: &mut Vec<u8>) {
    match value {
        Some(value) => {
            write_long(PRESENT, out);
            write_long(value, out);
        }
        None => out.push(0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::avro::datum::DatumSchema;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_schema_is_one() {
        assert!(RECORD_SCHEMA.starts_with('{') && RECORD_SCHEMA.ends_with('}'));
        DatumSchema::parse(RECORD_SCHEMA).unwrap();
    }

    // The values are those of the metadata tables in tests/fixtures/metadata_table, which Hudi wrote.

    #[test]
    fn files_are_those_of_hudi() {
        assert_eq!(hex(&files_record([], FileEntries::Partitions)), "00000000000002020000000000");
        assert_eq!(
            hex(&files_record([(".", 0, false)], FileEntries::Partitions)),
            "00000000000002020202".to_owned() + "2e00000000000000"
        );
        let files = [
            (".1c641a14-c7db-4869-aa19-98b92a674b4a-0_20261124183430707.log.1_0-299-650", 2377, false),
            ("1c641a14-c7db-4869-aa19-98b92a674b4a-0_0-251-585_20261124183420542.parquet", 5860, false),
            (".1c641a14-c7db-4869-aa19-98b92a674b4a-0_20261124183427813.log.1_0-274-620", 2368, false),
        ];
        assert_eq!(
            hex(&files_record(files, FileEntries::Files)),
            "00000000000004020692012e31633634316131342d633764622d343836392d616131392d3938623932613637346234612d305f32303236313132343138333433303730372e6c6f672e315f302d3239392d363530922500940131633634316131342d633764622d343836392d616131392d3938623932613637346234612d305f302d3235312d3538355f32303236313132343138333432303534322e70617271756574c85b0092012e31633634316131342d633764622d343836392d616131392d3938623932613637346234612d305f32303236313132343138333432373831332e6c6f672e315f302d3237342d3632308025000000000000"
        );
    }

    #[test]
    fn locations_of_keys_are_those_of_hudi() {
        assert_eq!(
            hex(&record_index_record("p1", "e5abd774-004a-4242-873c-1c9e49e256d7-0", 1_795_545_198_009)),
            "0000000000000a000000020204703102fbf6adfbffa294d43402d1a4ede1b6d8f1c3f1010200020002f2b6abedc168000000"
        );
        let other = record_index_record("", "bucket-7", 1);
        assert_eq!(
            hex(&other),
            "0000000000000a0000000202000201020102010210".to_owned() + "6275636b65742d37" + "0202020000"
        );
        let written = record_index_record("p", "1c641a14-c7db-4869-aa19-98b92a674b4a", 0);
        assert!(hex(&written).ends_with("020102000200000000"), "no number and an empty string: {}", hex(&written));
    }

    #[test]
    fn file_ids_stay_what_they_are() {
        let uuid = "1c641a14-c7db-4869-aa19-98b92a674b4a";
        let number = |file_id: &str| uuid_and_number(file_id).map(|(_, number)| number);
        assert_eq!((number(uuid), number(&format!("{uuid}-12"))), (Some(-1), Some(12)));
        let upper = uuid.to_uppercase();
        for other in [&upper, &format!("{uuid}-01"), &format!("{uuid}--1"), &format!("{uuid}-"), &format!("{uuid}x")] {
            assert_eq!(number(other), None, "{other}");
        }
        assert_eq!(number("short"), None);
    }

    #[test]
    fn bloom_filters_are_those_of_hudi() {
        let filter = "/////wAAABcBAAAGtwCAQAAAAAAA";
        assert_eq!(
            hex(&bloom_record("SIMPLE", "20261124183420542", filter.as_bytes(), false)),
            "00000000000008000".to_owned()
                + "20c53494d504c45223230323631313234313833343230353432"
                + &hex(&[56])
                + &hex(filter.as_bytes())
                + "00000000"
        );
    }

    #[test]
    fn values_of_secondary_indexes_only_tell_deletes() {
        assert_eq!(hex(&secondary_record(false)), "0000000000000e000000000200");
        assert_eq!(hex(&secondary_record(true)), "0000000000000e000000000201");
    }
}
