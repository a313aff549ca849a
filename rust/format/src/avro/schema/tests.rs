#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use proptest::prelude::*;

use super::*;
use hoodoo_runtime::error::ErrorKind;

const HUDI: &str = include_str!("../../../../../tests/fixtures/timeline/alltypes.avsc");
const HUDI_META: &str = include_str!("../../../../../tests/fixtures/timeline/alltypes_meta.avsc");

fn field(name: &str, ty: DataType) -> Field {
    Field::new(name, ty, true)
}

fn list(ty: DataType, nullable: bool) -> DataType {
    DataType::List(Arc::new(Field::new("element", ty, nullable)))
}

fn map(ty: DataType, nullable: bool) -> DataType {
    let entries = vec![Field::new("key", DataType::Utf8, false), Field::new("value", ty, nullable)];
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(Fields::from(entries)), false)), false)
}

fn utc(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("UTC".into()))
}

/// The columns of the table whose schema Hudi wrote into the fixtures.
fn all_types() -> Schema {
    let innermost = DataType::Struct(vec![field("d", DataType::Decimal128(5, 1))].into());
    let deep = DataType::Struct(vec![field("x", list(innermost, true))].into());
    let inner = DataType::Struct(
        vec![field("a", DataType::Int32), field("b", DataType::Decimal128(20, 4)), field("deep", deep)].into(),
    );
    Schema::new(vec![
        Field::new("id", DataType::Utf8, false),
        field("ts", DataType::Int64),
        field("b", DataType::Boolean),
        field("sh", DataType::Int32),
        field("i", DataType::Int32),
        Field::new("l", DataType::Int64, false),
        field("f", DataType::Float32),
        field("d", DataType::Float64),
        field("dec", DataType::Decimal128(10, 2)),
        Field::new("decreq", DataType::Decimal128(38, 18), false),
        field("dt", DataType::Date32),
        field("tm", utc(TimeUnit::Microsecond)),
        field("ntz", DataType::Timestamp(TimeUnit::Microsecond, None)),
        field("bin", DataType::Binary),
        field("arr", list(DataType::Utf8, true)),
        field("arrnn", list(DataType::Decimal128(9, 3), false)),
        field("mp", map(DataType::Int32, true)),
        field("mpnn", map(DataType::Decimal128(7, 2), false)),
        field("st", inner.clone()),
        Field::new("streq", inner.clone(), false),
        field("aos", list(inner.clone(), true)),
        field("mos", map(inner.clone(), true)),
        field("aoa", list(list(inner, true), true)),
        field("moa", map(list(utc(TimeUnit::Microsecond), true), true)),
        field("zz", DataType::Utf8),
    ])
}

#[test]
fn what_is_written_is_what_hudi_writes_byte_for_byte() {
    // The one thing that an Arrow schema does not carry is the comment of column zz.
    let hudi = HUDI.replace(r#""doc":"a comment","#, "");
    assert_eq!(table_schema_to_avro(&all_types(), "alltypes", false).unwrap(), hudi);
    let hudi = HUDI_META.replace(r#""doc":"a comment","#, "");
    assert_eq!(table_schema_to_avro(&all_types(), "alltypes", true).unwrap(), hudi);
}

#[test]
fn what_hudi_writes_is_read() {
    assert_eq!(avro_to_arrow_schema(HUDI).unwrap(), all_types());
    let with_meta = avro_to_arrow_schema(HUDI_META).unwrap();
    assert_eq!(with_meta.fields().len(), all_types().fields().len() + 5);
    for (field, name) in with_meta.fields().iter().zip(META_FIELDS) {
        assert_eq!((field.name().as_str(), field.data_type(), field.is_nullable()), (name, &DataType::Utf8, true));
    }
    // Meta columns that come in are not written twice.
    let hudi = HUDI_META.replace(r#""doc":"a comment","#, "");
    assert_eq!(table_schema_to_avro(&with_meta, "alltypes", true).unwrap(), hudi);
}

#[test]
fn table_names_become_avro_names() {
    // Each pair seen in what Hudi 1.2.0 wrote for a table of that name.
    for (table, name) in
        [("my-table.v1", "my__table__v1"), ("1_tab le", "___tab__le"), ("t\u{e4}", "t__"), ("ok_1", "ok_1")]
    {
        assert_eq!(record_name(table), format!("{name}_record"));
        assert_eq!(record_namespace(table), format!("hoodie.{name}"));
    }
}

fn one(ty: &str) -> hoodoo_runtime::Result<Field> {
    let json = format!(r#"{{"type":"record","name":"r","fields":[{{"name":"col","type":{ty}}}]}}"#);
    Ok(avro_to_arrow_schema(&json)?.field(0).clone())
}

#[test]
fn types_of_other_writers_are_read() {
    let cases = [
        (r#"{"type":"string","avro.java.string":"String"}"#, DataType::Utf8),
        (r#"{"type":"string","logicalType":"uuid"}"#, DataType::Utf8),
        (r#"{"type":"enum","name":"e","symbols":["A"]}"#, DataType::Utf8),
        (r#"{"type":"bytes","logicalType":"decimal","precision":12,"scale":3}"#, DataType::Decimal128(12, 3)),
        (r#"{"type":"bytes","logicalType":"decimal","precision":12}"#, DataType::Decimal128(12, 0)),
        (r#"{"type":"fixed","name":"f","size":16}"#, DataType::FixedSizeBinary(16)),
        (r#"{"type":"long","logicalType":"timestamp-millis"}"#, utc(TimeUnit::Millisecond)),
        (r#"{"type":"long","logicalType":"local-timestamp-millis"}"#, DataType::Timestamp(TimeUnit::Millisecond, None)),
        (r#"{"type":"int","logicalType":"time-millis"}"#, DataType::Time32(TimeUnit::Millisecond)),
        (r#"{"type":"long","logicalType":"time-micros"}"#, DataType::Time64(TimeUnit::Microsecond)),
        (r#"{"type":"long","logicalType":"date"}"#, DataType::Int64),
        (r#"{"type":{"type":"int"}}"#, DataType::Int32),
        (r#"["int"]"#, DataType::Int32),
    ];
    for (json, ty) in cases {
        let field = one(json).unwrap();
        assert_eq!((field.data_type(), field.is_nullable()), (&ty, false), "{json}");
        let field = one(&format!("[{json},\"null\"]").replace("[[", "[").replace("],", ",")).unwrap();
        assert!(field.is_nullable(), "{json}");
    }
}

#[test]
fn named_types_are_found_by_reference() {
    let json = r#"{"type":"record","name":"r","namespace":"a.b","fields":[
        {"name":"p","type":{"type":"record","name":"point","fields":[{"name":"x","type":"int","default":3}]}},
        {"name":"q","type":["null","point"],"default":null},
        {"name":"s","type":"a.b.point"},
        {"name":"h","type":{"type":"fixed","name":"c.hash","size":4}},
        {"name":"i","type":{"type":"array","items":"c.hash"}}]}"#;
    let schema = avro_to_arrow_schema(json).unwrap();
    let point = DataType::Struct(vec![Field::new("x", DataType::Int32, false)].into());
    assert_eq!(schema.field(0).data_type(), &point);
    assert_eq!(schema.field(1), &Field::new("q", point.clone(), true));
    assert_eq!(schema.field(2).data_type(), &point);
    assert_eq!(schema.field(4).data_type(), &list(DataType::FixedSizeBinary(4), false));
}

#[test]
fn types_without_an_arrow_form_are_refused_by_name() {
    for ty in [
        r#""null""#,
        r#"["int","string"]"#,
        r#"["null"]"#,
        r#"{"type":"long","logicalType":"timestamp-nanos"}"#,
        r#"{"type":"fixed","name":"f","size":12,"logicalType":"duration"}"#,
        r#"{"type":"bytes","logicalType":"decimal","precision":50,"scale":3}"#,
        r#"{"type":"record","name":"v","logicalType":"variant","fields":[]}"#,
        r#"{"type":"record","name":"n","fields":[{"name":"next","type":["null","n"]}]}"#,
    ] {
        let error = one(ty).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{ty}: {error}");
        assert!(error.to_string().contains("column col"), "{error}");
    }
}

#[test]
fn hostile_schemas_are_corrupt() {
    for json in [
        "",
        "{",
        "[]",
        "3",
        r#""int""#,
        r#"{"type":"array","items":"int"}"#,
        r#"{"type":"record","fields":[]}"#,
        r#"{"type":"record","name":"r"}"#,
        r#"{"type":"record","name":"r","fields":[{"type":"int"}]}"#,
        r#"{"type":"record","name":"r","fields":[{"name":"a","type":"nope"}]}"#,
        r#"{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#,
        r#"{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f","size":-1}}]}"#,
        r#"{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"bytes","logicalType":"decimal","scale":1}}]}"#,
    ] {
        let error = avro_to_arrow_schema(json).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{json}: {error}");
    }
    let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(100), "}".repeat(100));
    assert_eq!(one(&deep).unwrap_err().kind(), ErrorKind::Corrupt);
    // Every record holds the one before it twice.
    let mut fields =
        vec![r#"{"name":"f0","type":{"type":"record","name":"R0","fields":[{"name":"x","type":"int"}]}}"#.to_owned()];
    for i in 1..40 {
        let before = i - 1;
        fields.push(format!(
            r#"{{"name":"f{i}","type":{{"type":"record","name":"R{i}","fields":[{{"name":"a","type":"R{before}"}},{{"name":"b","type":"R{before}"}}]}}}}"#
        ));
    }
    let json = format!(r#"{{"type":"record","name":"r","fields":[{}]}}"#, fields.join(","));
    assert_eq!(avro_to_arrow_schema(&json).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn columns_that_a_table_cannot_hold_are_refused_by_name() {
    let nested = |ty: DataType| DataType::Struct(vec![field("inner", ty)].into());
    for ty in [
        DataType::UInt64,
        DataType::Float16,
        DataType::Null,
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Duration(TimeUnit::Second),
        DataType::Decimal256(39, 1),
        DataType::Decimal128(5, -1),
        DataType::Struct(Fields::empty()),
    ] {
        let schema = Schema::new(vec![field("outer", nested(ty.clone()))]);
        let error = table_schema_to_avro(&schema, "t", false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{ty}");
        assert!(error.message().contains("outer.inner"), "{error}");
    }
    for names in [vec!["a-b"], vec!["1a"], vec![""], vec!["a", "A"]] {
        let schema = Schema::new(names.iter().map(|n| field(n, DataType::Int32)).collect::<Vec<_>>());
        assert_eq!(table_schema_to_avro(&schema, "t", false).unwrap_err().kind(), ErrorKind::Schema, "{names:?}");
    }
}

#[test]
fn narrower_types_come_back_wider() {
    let schema = Schema::new(vec![
        field("a", DataType::UInt32),
        field("b", DataType::LargeBinary),
        field("c", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8View))),
        field("d", DataType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".into()))),
        field("e", DataType::LargeList(Arc::new(Field::new("item", DataType::Int8, true)))),
    ]);
    let held = held_schema(&schema).unwrap();
    let types: Vec<_> = held.fields().iter().map(|f| f.data_type().clone()).collect();
    let wide =
        [DataType::Int64, DataType::Binary, DataType::Utf8, utc(TimeUnit::Millisecond), list(DataType::Int32, true)];
    assert_eq!(types, wide);
    assert_eq!(held_schema(&held).unwrap(), held);
}

#[test]
fn every_decimal_fits_its_fixed() {
    // Sizes from the two's complement of 10^p - 1.
    for (precision, size) in [(1, 1), (2, 1), (3, 2), (9, 4), (10, 5), (18, 8), (19, 9), (20, 9), (30, 13), (38, 16)] {
        let schema = Schema::new(vec![field("d", DataType::Decimal128(precision, 0))]);
        let json = table_schema_to_avro(&schema, "t", false).unwrap();
        assert!(json.contains(&format!("\"size\":{size},")), "{precision}: {json}");
    }
}

proptest! {
    #[test]
    fn damaged_schemas_do_not_panic(at in any::<prop::sample::Index>(), byte in 32u8..127, cut in any::<prop::sample::Index>()) {
        let mut text = HUDI.as_bytes().to_vec();
        let at = at.index(text.len());
        text[at] = byte;
        let _ = avro_to_arrow_schema(std::str::from_utf8(&text).unwrap());
        text.truncate(cut.index(text.len()));
        let _ = avro_to_arrow_schema(std::str::from_utf8(&text).unwrap());
    }
}

#[test]
fn a_table_schema_is_written_as_hudi_on_spark_writes_it() {
    let schema = Schema::new(vec![Field::new("id", DataType::Utf8, false), Field::new("n", DataType::Int64, true)]);
    assert_eq!(
        table_schema_to_avro(&schema, "trips", false).unwrap(),
        r#"{"type":"record","name":"trips_record","namespace":"hoodie.trips","fields":[{"name":"id","type":"string"},{"name":"n","type":["null","long"],"default":null}]}"#
    );
}
