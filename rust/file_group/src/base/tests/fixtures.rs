//! Files that real Hudi 1.2.0 wrote, made by `tests/fixtures/base_files/make.py`.

use super::*;
use hoodoo_format::bloom::{BloomFilter, BloomFilterType, BloomOptions, BloomSizing};

fn open(name: &str) -> BaseFileReader<Bytes> {
    let path = format!("{}/../../tests/fixtures/base_files/{name}.parquet", env!("CARGO_MANIFEST_DIR"));
    BaseFileReader::open(Bytes::from(std::fs::read(path).unwrap())).unwrap()
}

fn all(reader: &BaseFileReader<Bytes>) -> RecordBatch {
    let rows = read(reader, &ScanOptions::new(reader.schema().clone()));
    // Hudi's shuffles leave the rows in no order of ours.
    let order = arrow::compute::sort_to_indices(rows.column_by_name("ts").unwrap(), None, None).unwrap();
    arrow::compute::take_record_batch(&rows, &order).unwrap()
}

#[test]
fn both_of_hudis_writers_are_read_alike() {
    let (avro, row) = (open("avro_writer"), open("row_writer"));
    assert!(avro.avro_schema().is_some() && row.avro_schema().is_none());
    assert_eq!(avro.schema(), row.schema());
    let (avro, row) = (all(&avro), all(&row));
    for i in 5..avro.num_columns() {
        assert_eq!(avro.column(i), row.column(i), "{}", avro.schema().field(i));
    }
    let text = |name: &str| avro.schema().field_with_name(name).unwrap().data_type().to_string();
    assert_eq!(text("sh"), "Int32");
    assert_eq!(text("tsz"), "Timestamp(µs, \"UTC\")");
    assert_eq!(text("ntz"), "Timestamp(µs)");
    assert_eq!(avro.column_by_name("dec30").unwrap().as_primitive::<Decimal128Type>().value(3), -300_000_000_000_000);
    assert_eq!(avro.column_by_name("dec30").unwrap().data_type(), &DataType::Decimal128(30, 15));
}

#[test]
fn legacy_layouts_are_read() {
    let reader = open("two_level_lists");
    let batch = all(&reader);
    let list = batch.column_by_name("li").unwrap().as_list::<i32>();
    assert!(matches!(list.data_type(), DataType::List(f) if f.name() == "element"));
    assert_eq!(list.value(7).as_primitive::<Int64Type>().values(), &[7, 8]);
    let reader = open("int96");
    let batch = all(&reader);
    let micros = batch.column_by_name("tsz").unwrap();
    assert_eq!(micros.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    let mut seen = micros.as_primitive::<TimestampMicrosecondType>().values().to_vec();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).map(|i| 1_600_000_000_000_000 + i).collect::<Vec<_>>());
    let late = Predicate::GtEq(
        "tsz".into(),
        Arc::new(TimestampMicrosecondArray::from(vec![1_600_000_000_000_150]).with_timezone("UTC")),
    );
    assert_eq!(read(&reader, &ScanOptions::new(reader.schema().clone()).with_predicate(Some(late))).num_rows(), 50);
}

/// 200 keys in rows of 50 with room for 150: rows fill up, then keys go round. Byte for byte what Hudi wrote.
#[test]
fn bloom_filters_are_hudis_bit_for_bit() {
    for (name, filter_type) in [("avro_writer", BloomFilterType::DynamicV0), ("simple_bloom", BloomFilterType::Simple)]
    {
        let reader = open(name);
        let keys: Vec<StringArray> =
            reader.key_column().unwrap().map(|b| b.unwrap().1.column(0).as_string().clone()).collect();
        let filter = reader.bloom_filter().unwrap().unwrap();
        assert_eq!(filter.filter_type(), filter_type);
        assert!(keys.iter().flatten().flatten().all(|k| filter.might_contain(k)));
        let options =
            BloomOptions { filter_type, fpp: 1e-9, sizing: BloomSizing::Configured { entries: 50, max_entries: 150 } };
        let ours = BloomFilter::build(&options, &keys, 1).unwrap();
        assert_eq!(ours.to_base64(), reader.footer(BLOOM_FILTER_KEY).unwrap(), "{name}");
        let range = reader.key_range().unwrap();
        let stated = keys.iter().flatten().flatten().all(|k| range.contains(k));
        assert!(stated && !range.contains("~") && !range.contains(""));
    }
}

#[test]
fn decimals_and_dates_are_pruned_by_hudis_statistics() {
    let reader = open("avro_writer");
    let decimal =
        |v: i128| Arc::new(Decimal128Array::from(vec![v]).with_precision_and_scale(9, 2).unwrap()) as ArrayRef;
    assert_eq!(reader.matching_row_groups(&Predicate::Gt("dec9".into(), decimal(1990))).unwrap(), [0usize; 0]);
    assert_eq!(reader.matching_row_groups(&Predicate::GtEq("dec9".into(), decimal(1990))).unwrap(), [0]);
    let day = Arc::new(Date32Array::from(vec![18_262 + 200])) as ArrayRef;
    assert_eq!(reader.matching_row_groups(&Predicate::Eq("dt".into(), day)).unwrap(), [0usize; 0]);
    let text = Arc::new(StringArray::from(vec!["a"])) as ArrayRef;
    assert_eq!(reader.matching_row_groups(&Predicate::Lt("id".into(), text)).unwrap(), [0usize; 0]);
}
