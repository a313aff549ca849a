#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

fn read<T: for<'de> Deserialize<'de>>(schema: &str, bytes: &[u8]) -> Result<T, DatumError> {
    read_datum(&DatumSchema::parse(schema).unwrap(), &mut Cursor::new(bytes))
}

fn write<T: Serialize>(schema: &str, value: &T) -> Result<Vec<u8>, DatumError> {
    let mut out = Vec::new();
    write_datum(&DatumSchema::parse(schema).unwrap(), value, &mut out)?;
    Ok(out)
}

#[derive(Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Trip {
    id: String,
    fare: Option<f64>,
    tags: Vec<String>,
}

const TRIP: &str = r#"{"type":"record","name":"Trip","namespace":"a.b","fields":[
    {"name":"id","type":"string"},
    {"name":"fare","type":["null","double"]},
    {"name":"tags","type":{"type":"array","items":"string"}}]}"#;

fn trip() -> Trip {
    Trip { id: "x".into(), fare: Some(1.5), tags: vec!["a".into(), "b".into()] }
}

#[test]
fn bytes_are_those_of_the_avro_specification() {
    assert_eq!(write(TRIP, &trip()).unwrap(), b"\x02x\x02\0\0\0\0\0\0\xf8\x3f\x04\x02a\x02b\0");
    assert_eq!(write(TRIP, &Trip::default()).unwrap(), b"\0\0\0");
    for (number, bytes) in [
        (0i64, vec![0u8]),
        (-1, vec![1]),
        (1, vec![2]),
        (-64, vec![0x7f]),
        (64, vec![0x80, 1]),
        (i64::MIN, {
            let mut b = vec![0xff; 9];
            b.push(1);
            b
        }),
    ] {
        assert_eq!(write("\"long\"", &number).unwrap(), bytes);
        assert_eq!(read::<i64>("\"long\"", &bytes).unwrap(), number);
    }
}

#[test]
fn fields_are_matched_by_name() {
    let writer = r#"{"type":"record","name":"Trip","fields":[
        {"name":"new","type":["null",{"type":"map","values":{"type":"array","items":"long"}}]},
        {"name":"tags","type":{"type":"array","items":"string"}},
        {"name":"id","type":["null","string"]}]}"#;
    // The map in blocks with their size in front; skipped all the same.
    let bytes = b"\x02\x01\x0a\x02k\x02\x08\0\0\x02\x02t\0\x02\x02i";
    let read: Trip = read(writer, bytes).unwrap();
    assert_eq!(read, Trip { id: "i".into(), fare: None, tags: vec!["t".into()] });
}

#[test]
fn a_value_that_does_not_fit_its_schema_is_not_written() {
    #[derive(Serialize)]
    struct Short {
        id: String,
    }
    let e = write(TRIP, &Short { id: "x".into() }).unwrap_err();
    assert!(e.to_string().contains("has no field fare"), "{e}");
    assert!(write("\"int\"", &1i64).is_err());
    assert!(write("[\"null\",\"string\"]", &1i32).is_err());
    assert!(write("\"string\"", &None::<String>).is_err());
}

#[test]
fn recursion_ends_at_a_limit() {
    let list = r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}"#;
    let nested = [vec![2u8; 100_000], vec![0]].concat();
    let ignored = read::<serde::de::IgnoredAny>(list, &nested).unwrap_err();
    assert!(ignored.to_string().contains("too deeply"), "{ignored}");
    let kept = read::<serde_json::Value>(list, &nested).unwrap_err();
    assert!(kept.to_string().contains("too deeply"), "{kept}");
    assert!(read::<serde_json::Value>(list, &[2, 2, 0]).is_ok());
}

#[test]
fn a_huge_count_of_nothing_is_refused() {
    let schema = r#"{"type":"array","items":"null"}"#;
    let mut bytes = Vec::new();
    write_long(i64::MAX, &mut bytes);
    assert!(read::<serde::de::IgnoredAny>(schema, &bytes).is_err());
    assert!(read::<Vec<()>>(schema, &bytes).is_err());
    // Every record holds the one before it twice: 2^30 empty records if nobody counted.
    let mut record = r#"{"type":"record","name":"R0","fields":[]}"#.to_owned();
    for i in 1..30 {
        let before = i - 1;
        record = format!(
            r#"{{"type":"record","name":"R{i}","fields":[{{"name":"a","type":{record}}},{{"name":"b","type":"R{before}"}}]}}"#
        );
    }
    let error = read::<serde::de::IgnoredAny>(&record, &[]).unwrap_err();
    assert!(error.to_string().contains("without content"), "{error}");
    let shallow = r#"[{"type":"record","name":"A","fields":[]}]"#;
    assert!(read::<serde::de::IgnoredAny>(shallow, &[0]).is_ok());
}

#[test]
fn lengths_beyond_the_input_are_refused() {
    let mut bytes = Vec::new();
    write_long(1 << 40, &mut bytes);
    for schema in
        [r#""string""#, r#""bytes""#, r#"{"type":"array","items":"string"}"#, r#"{"type":"map","values":"int"}"#]
    {
        assert!(read::<serde_json::Value>(schema, &bytes).is_err(), "{schema}");
        assert!(read::<serde_json::Value>(schema, &[1]).is_err(), "{schema}");
        assert!(read::<serde_json::Value>(schema, &[0xff; 12]).is_err(), "{schema}");
    }
}

#[test]
fn damaged_schemas_are_errors() {
    for schema in [
        "",
        "{",
        "1",
        r#""Unknown""#,
        r#"{"type":"record","name":"R"}"#,
        r#"{"type":"record","fields":[]}"#,
        r#"{"type":"record","name":"R","fields":[{"name":"a"}]}"#,
        r#"{"type":"array"}"#,
        r#"{"type":"fixed","name":"F","size":-1}"#,
        r#"{"items":"string"}"#,
    ] {
        assert!(DatumSchema::parse(schema).is_err(), "{schema}");
    }
    let deep = format!("{}\"int\"{}", "[".repeat(120), "]".repeat(120));
    assert!(DatumSchema::parse(&deep).is_err());
}

proptest! {
    #[test]
    fn maps_survive(map in any::<BTreeMap<String, Vec<i64>>>()) {
        let schema = r#"{"type":"map","values":{"type":"array","items":"long"}}"#;
        let bytes = write(schema, &map).unwrap();
        prop_assert_eq!(read::<BTreeMap<String, Vec<i64>>>(schema, &bytes).unwrap(), map);
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in any::<Vec<u8>>()) {
        let _ = read::<Trip>(TRIP, &bytes);
        let _ = read::<serde_json::Value>(TRIP, &bytes);
        let _ = read::<serde::de::IgnoredAny>(TRIP, &bytes);
    }
}
