//! Ranges and records beside those that Hudi 1.2.0 has of the same rows: `tests/fixtures/column_stats`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use serde_json::Value;

use super::partitions::{StoredRange, partition_range};
use super::records::{column_stats_records, partition_stats_record, unknown_ranges};
use super::*;
use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
use crate::format::avro::schema::avro_to_arrow_schema;
use crate::format::column_range::{FileRanges, UnknownRange};
use crate::metadata_table::keys::{column_stats_key, partition_stats_key};

/// Of these Hudi's statistics are wrong: of nothing but nulls the integer 0, and where there is NaN, 0 or nothing.
const WRONG: [&str; 3] = ["null_int", "float_nan", "double_nan"];

struct Fixture {
    bytes: Bytes,
    expected: Value,
    version: IndexVersion,
}

impl Fixture {
    fn both() -> [Self; 2] {
        [("v9", IndexVersion::V2), ("v8", IndexVersion::V1)].map(|(name, version)| {
            let folder = format!("{}/tests/fixtures/column_stats", env!("CARGO_MANIFEST_DIR"));
            let bytes = std::fs::read(format!("{folder}/{name}.parquet")).unwrap().into();
            let expected = std::fs::read(format!("{folder}/expected.json")).unwrap();
            let expected = serde_json::from_slice::<Value>(&expected).unwrap()[name].take();
            Self { bytes, expected, version }
        })
    }

    fn columns(&self) -> Vec<String> {
        let columns = self.expected["columns"].as_array().unwrap();
        columns.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    /// A file's name, and the records about it.
    fn records(&self, kind: &str) -> (String, BTreeMap<String, String>) {
        let file = &self.expected["files"][kind];
        let records = file["records"].as_object().unwrap().iter();
        let records = records.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()));
        (file["name"].as_str().unwrap().to_owned(), records.collect())
    }

    fn footer(&self) -> ParquetMetaData {
        ParquetMetaDataReader::new().parse_and_finish(&self.bytes).unwrap()
    }

    fn rows(&self) -> RecordBatch {
        let mut batches = ParquetRecordBatchReaderBuilder::try_new(self.bytes.clone()).unwrap().build().unwrap();
        batches.next().unwrap().unwrap()
    }
}

fn encoded(file: &str, ranges: &FileRanges, version: IndexVersion) -> BTreeMap<String, String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let records = column_stats_records("p", file, ranges, version);
    records.into_iter().map(|(key, value)| (key, hex(&value))).collect()
}

fn without(mut records: BTreeMap<String, String>, file: &str, columns: &[&str]) -> BTreeMap<String, String> {
    columns.iter().for_each(|column| _ = records.remove(&column_stats_key(column, "p", file)));
    records
}

fn range<'r>(ranges: &'r FileRanges, column: &str) -> &'r ColumnRange {
    let found = ranges.ranges.iter().find(|range| range.column == column);
    found.unwrap_or_else(|| panic!("no range of {column} in {ranges:?}"))
}

/// The same without the sizes, which say how a file was written.
fn values(ranges: &FileRanges) -> BTreeMap<String, ColumnRange> {
    let plain = |range: &ColumnRange| ColumnRange { total_size: 0, total_uncompressed_size: 0, ..range.clone() };
    ranges.ranges.iter().map(|range| (range.column.clone(), plain(range))).collect()
}

#[test]
fn the_columns_are_those_of_hudi() {
    for fixture in Fixture::both() {
        let footer = fixture.footer();
        let pairs = footer.file_metadata().key_value_metadata().unwrap();
        let avro = pairs.iter().find(|pair| pair.key == "parquet.avro.schema").unwrap().value.clone().unwrap();
        let schema = avro_to_arrow_schema(&avro).unwrap();
        let options = IndexedColumnOptions::new(|_| None).unwrap();
        assert_eq!(indexed_columns(&schema, true, &options, fixture.version).unwrap(), fixture.columns());
    }
}

#[test]
fn records_of_base_files_are_those_of_hudi() {
    for fixture in Fixture::both() {
        let ranges = ranges_of_footer(&fixture.footer(), &fixture.columns());
        let (file, wanted) = fixture.records("base");
        let ours = encoded(&file, &ranges, fixture.version);
        assert_eq!(without(ours, &file, &WRONG), without(wanted, &file, &WRONG));
        let nulls = range(&ranges, "null_int");
        assert_eq!((&nulls.min, &nulls.max, nulls.value_count, nulls.null_count), (&None, &None, 6, 6));
        for column in ["float_nan", "double_nan"] {
            let max = ranges.ranges.iter().find(|range| range.column == column).and_then(|range| range.max.clone());
            let is_wide = match max {
                Some(RangeValue::Float(max)) => max.is_infinite(),
                Some(RangeValue::Double(max)) => max.is_infinite(),
                // What cannot be told.
                _ => ranges.unknown.iter().any(|unknown| unknown.column == column),
            };
            assert!(is_wide, "{column} in {ranges:?}");
        }
    }
}

#[test]
fn records_of_log_files_are_those_of_hudi() {
    for fixture in Fixture::both() {
        let rows = fixture.rows();
        let keys = rows.column_by_name("id").unwrap().as_string::<i32>();
        let updated: BooleanArray = keys.iter().map(|key| key.map(|key| ("k001"..="k003").contains(&key))).collect();
        let mut ranges = BatchRanges::new(rows.schema_ref(), &fixture.columns());
        ranges.add(&filter_record_batch(&rows, &updated).unwrap()).unwrap();
        let (file, wanted) = fixture.records("log");
        // The update has another time. And Hudi's maximum is NaN, which Spark does not find.
        let other = ["_hoodie_commit_time", "ts", "float_nan", "double_nan"];
        let ours = encoded(&file, &ranges.finish(), fixture.version);
        assert_eq!(without(ours, &file, &other), without(wanted, &file, &other));

        let (file, wanted) = fixture.records("deletes");
        let none = BatchRanges::new(rows.schema_ref(), &fixture.columns()).finish();
        assert_eq!(encoded(&file, &none, fixture.version), wanted);
    }
}

#[test]
fn our_files_have_the_same_ranges() {
    for fixture in Fixture::both() {
        let rows = fixture.rows();
        let mut writer = BaseFileWriter::try_new(Vec::new(), rows.schema(), BaseFileOptions::default()).unwrap();
        writer.write(&rows.slice(0, 2)).unwrap();
        writer.end_row_group().unwrap();
        writer.write(&rows.slice(2, 4)).unwrap();
        let (_, _, footer) = writer.finish_with_footer().unwrap();
        let ours = ranges_of_footer(&footer, &fixture.columns());
        assert!(ours.unknown.is_empty(), "{:?}", ours.unknown);
        let theirs = values(&ranges_of_footer(&fixture.footer(), &fixture.columns()));
        let nan = |column: &String| WRONG.contains(&column.as_str());
        let plain = |mut ranges: BTreeMap<String, ColumnRange>| {
            ranges.retain(|column, _| !nan(column));
            ranges
        };
        assert_eq!(plain(values(&ours)), plain(theirs));
        let mut batches = BatchRanges::new(rows.schema_ref(), &fixture.columns());
        batches.add(&rows.slice(0, 5)).unwrap();
        batches.add(&rows.slice(5, 1)).unwrap();
        let batches = batches.finish();
        // Footers do not tell one zero from the other.
        let text = |ranges: &FileRanges| format!("{:?}", values(ranges)).replace("(-0.0)", "(0.0)");
        assert_eq!(text(&batches), text(&ours));
        let bounds = |range: &ColumnRange| (range.min.clone(), range.max.clone());
        let wanted = (Some(RangeValue::Double(-5.0)), Some(RangeValue::Double(f64::INFINITY)));
        assert_eq!(bounds(range(&ours, "double_nan")), wanted);
    }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn names(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn truncated_strings_are_bounds() {
    for end in ["z", "\u{7f}", "\u{7ff}", "\u{10FFFF}"] {
        let long = |start: &str| format!("{start}{}", end.repeat(400));
        let (min, max) = (long("a"), long(end));
        let rows = batch(vec![
            ("s", Arc::new(StringArray::from(vec![min.as_str(), max.as_str()])) as ArrayRef),
            ("_hoodie_record_key", Arc::new(StringArray::from(vec![min.as_str(), max.as_str()]))),
        ]);
        let mut writer = BaseFileWriter::try_new(Vec::new(), rows.schema(), BaseFileOptions::default()).unwrap();
        writer.write(&rows).unwrap();
        let (_, _, footer) = writer.finish_with_footer().unwrap();
        let ranges = ranges_of_footer(&footer, &names(&["s", "_hoodie_record_key"]));
        assert_eq!(ranges.ranges.len(), 2, "{end:?}");
        for range in &ranges.ranges {
            let text = |value: &Option<RangeValue>| match value {
                Some(RangeValue::String(text)) => text.clone(),
                other => panic!("{other:?}"),
            };
            assert!(text(&range.min) <= min && text(&range.max) >= max, "{end:?}");
        }
    }
}

#[test]
fn nested_columns_and_dictionaries_have_ranges() {
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(99), None, Some(7)]));
    let fields = vec![Arc::new(Field::new("n", DataType::Int32, true))];
    let nulls = arrow::buffer::NullBuffer::from(vec![true, false, true, true]);
    let outer: ArrayRef = Arc::new(arrow::array::StructArray::new(fields.into(), vec![inner], Some(nulls)));
    let coded = StringArray::from(vec!["m", "a", "m", "b"]);
    let coded = arrow::compute::cast(&coded, &DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()));
    let rows = batch(vec![("st", outer), ("d", coded.unwrap())]).slice(1, 3).slice(1, 2);
    let mut ranges = BatchRanges::new(rows.schema_ref(), &names(&["st.n", "d"]));
    ranges.add(&rows).unwrap();
    let ranges = ranges.finish();
    let found = range(&ranges, "st.n");
    assert_eq!((found.min.clone(), found.null_count, found.value_count), (Some(RangeValue::Int(7)), 1, 2));
    let found = range(&ranges, "d");
    assert_eq!(found.min, Some(RangeValue::String("b".to_owned())));
    assert_eq!(found.max, Some(RangeValue::String("m".to_owned())));
}

#[test]
fn nan_with_a_sign_is_no_minimum() {
    let rows = batch(vec![("d", Arc::new(Float64Array::from(vec![-f64::NAN, 3.0, -2.0])) as ArrayRef)]);
    let mut ranges = BatchRanges::new(rows.schema_ref(), &names(&["d"]));
    ranges.add(&rows).unwrap();
    let found = ranges.finish();
    let found = range(&found, "d");
    assert_eq!(found.min, Some(RangeValue::Double(-2.0)));
    assert_eq!(found.max, Some(RangeValue::Double(f64::INFINITY)));
    let rows = batch(vec![("d", Arc::new(Float64Array::from(vec![f64::NAN, -f64::NAN])) as ArrayRef)]);
    let mut ranges = BatchRanges::new(rows.schema_ref(), &names(&["d"]));
    ranges.add(&rows).unwrap();
    assert_eq!(range(&ranges.finish(), "d").min, Some(RangeValue::Double(f64::INFINITY)));
}

#[test]
fn files_with_some_columns_have_no_records() {
    let rows = batch(vec![("a", Arc::new(Int32Array::from(vec![1, 5])) as ArrayRef)]);
    let mut ranges = BatchRanges::new(rows.schema_ref(), &names(&["a", "b"]));
    ranges.add(&rows).unwrap();
    let ranges = ranges.finish();
    assert!(ranges.is_partial);
    assert!(column_stats_records("p", "f", &ranges, IndexVersion::V2).is_empty());
    // But the partition has these values.
    let of = |column| partition_range(column, &StoredRange::New, &[Some(&ranges)]).unwrap();
    assert_eq!((of("a").min, of("a").max), (Some(RangeValue::Int(1)), Some(RangeValue::Int(5))));
    assert_eq!((of("b").min, of("b").null_count), (None, 1));
    assert_eq!(partition_stats_record("p", &of("a"), IndexVersion::V2).0, partition_stats_key("a", "p"));
}

#[test]
fn what_is_not_known_may_be_anything() {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]);
    let unknown = unknown_ranges(&schema, &names(&["_hoodie_record_key", "n", "s"]));
    let known = FileRanges {
        ranges: vec![ColumnRange {
            min: Some(RangeValue::Long(3)),
            max: Some(RangeValue::Long(4)),
            value_count: 10,
            ..empty_range("n", ValueType::Long)
        }],
        ..FileRanges::default()
    };
    for files in [[&known, &unknown], [&unknown, &known]] {
        let of = |column| partition_range(column, &StoredRange::New, &files.map(Some)).unwrap();
        let n = of("n");
        assert_eq!(
            (n.min.clone(), n.max.clone()),
            (Some(RangeValue::Long(i64::MIN)), Some(RangeValue::Long(i64::MAX)))
        );
        assert!(n.null_count > 0 && n.null_count < n.value_count);
        let s = of("s");
        assert_eq!(s.min, Some(RangeValue::String(String::new())));
        assert!(matches!(&s.max, Some(RangeValue::String(max)) if max.as_str() > "\u{10FFFF}"));
    }
    // A record of all values keeps filters of other columns from skipping the file; without a type there can be none.
    assert_eq!(column_stats_records("p", "f", &unknown, IndexVersion::V2).len(), 3);
    let nothing = UnknownRange { column: "x".to_owned(), value_count: 1, value_type: None };
    let nothing = FileRanges { unknown: vec![nothing], ..known };
    assert!(column_stats_records("p", "f", &nothing, IndexVersion::V2).is_empty());
}

#[test]
fn deletes_do_not_narrow_a_partition() {
    let columns = names(&["n"]);
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let deletes = BatchRanges::new(&schema, &columns).finish();
    let known = FileRanges {
        ranges: vec![ColumnRange {
            min: Some(RangeValue::Long(3)),
            max: Some(RangeValue::Long(4)),
            value_count: 2,
            ..empty_range("n", ValueType::Long)
        }],
        ..FileRanges::default()
    };
    for files in [[&known, &deletes], [&deletes, &known]] {
        let range = partition_range("n", &StoredRange::New, &files.map(Some));
        assert_eq!(range.as_ref(), known.ranges.first());
    }
}

#[test]
fn decimals_of_the_first_version_get_the_digits_of_their_column() {
    let column = ValueType::Decimal(10, 2);
    let stored = |min: i128, max: i128| {
        StoredRange::Known(ColumnRange {
            min: Some(RangeValue::Decimal(min)),
            max: Some(RangeValue::Decimal(max)),
            value_count: 2,
            ..empty_range("n", ValueType::Decimal(30, 15))
        })
    };
    let bounds = |stored: StoredRange, file: Option<&FileRanges>| {
        let range = partition_range("n", &stored.with_type(column), &[file]).unwrap();
        assert_eq!(range.value_type, column);
        (range.min.unwrap(), range.max.unwrap())
    };
    let decimals = |min, max| (RangeValue::Decimal(min), RangeValue::Decimal(max));
    let tenth = 10i128.pow(14);
    let file = FileRanges {
        ranges: vec![ColumnRange {
            min: Some(RangeValue::Decimal(-5)),
            max: Some(RangeValue::Decimal(7)),
            value_count: 2,
            ..empty_range("n", column)
        }],
        ..FileRanges::default()
    };
    assert_eq!(bounds(stored(-tenth, 3 * tenth), Some(&file)), decimals(-10, 30));
    let all = decimals(-9_999_999_999, 9_999_999_999);
    assert_eq!(bounds(stored(-tenth, 3 * tenth), None), all);
    let largest = 10i128.pow(30) - 1;
    assert_eq!(bounds(stored(-largest, largest), Some(&file)), all);
}

#[test]
fn a_partition_keeps_what_it_had() {
    let range = |min: RangeValue, max: RangeValue, value_type| ColumnRange {
        min: Some(min),
        max: Some(max),
        value_count: 2,
        ..empty_range("n", value_type)
    };
    let file = |range| FileRanges { ranges: vec![range], ..FileRanges::default() };
    let long = |min, max| range(RangeValue::Long(min), RangeValue::Long(max), ValueType::Long);
    let bounds = |stored: &StoredRange, file: Option<&FileRanges>| {
        partition_range("n", stored, &[file]).map(|range| (range.min, range.max))
    };
    let longs = |min, max| Some((Some(RangeValue::Long(min)), Some(RangeValue::Long(max))));
    let new = file(long(5, 9));
    let int = StoredRange::Known(range(RangeValue::Int(1), RangeValue::Int(6), ValueType::Int));
    let string = RangeValue::String("x".to_owned());
    let strings = StoredRange::Known(range(string.clone(), string, ValueType::String));
    let millis = StoredRange::Known(range(RangeValue::Long(1), RangeValue::Long(2), ValueType::TimestampMillis));
    let micros = file(range(RangeValue::Long(5), RangeValue::Long(6), ValueType::TimestampMicros));
    assert_eq!(bounds(&StoredRange::New, Some(&new)), longs(5, 9));
    assert_eq!(bounds(&StoredRange::Known(long(7, 12)), Some(&new)), longs(5, 12));
    assert_eq!(bounds(&int, Some(&new)), longs(1, 9));
    for unknown in [&strings, &StoredRange::Unknown] {
        assert_eq!(bounds(unknown, Some(&new)), longs(i64::MIN, i64::MAX));
    }
    assert_eq!(bounds(&StoredRange::Known(long(7, 12)), None), longs(i64::MIN, i64::MAX));
    let (min, _) = bounds(&millis, Some(&micros)).unwrap();
    assert!(matches!(min, Some(RangeValue::Long(min)) if min < 0));
    // A range of no type would be skipped.
    assert_eq!(bounds(&StoredRange::Unknown, None), None);
    assert_eq!(bounds(&StoredRange::New, None), None);
}

#[test]
fn lists_of_columns_are_checked() {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("st", DataType::Struct(vec![Field::new("n", DataType::Int32, true)].into()), true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let listed = |list: &'static str, meta: bool| {
        let options = IndexedColumnOptions::new(|key| key.ends_with("column.list").then_some(list)).unwrap();
        indexed_columns(&schema, meta, &options, IndexVersion::V2)
    };
    assert_eq!(listed("b, st.n ,b,_hoodie_record_key,st", false).unwrap(), names(&["b", "st.n"]));
    assert_eq!(listed("b", true).unwrap().len(), 4);
    assert!(listed("c", true).unwrap_err().to_string().contains("'c'"));
    let first = IndexedColumnOptions::new(|key| key.ends_with("to.index").then_some("1")).unwrap();
    assert_eq!(indexed_columns(&schema, false, &first, IndexVersion::V2).unwrap(), names(&["a"]));
    assert!(IndexedColumnOptions::new(|key| key.ends_with("to.index").then_some("x")).is_err());
}
