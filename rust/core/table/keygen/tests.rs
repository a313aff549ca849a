//! Every case of `tests/fixtures/keygen/golden.json`, which real Hudi wrote, and what it can't show.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::record_batch::RecordBatch;
use serde_json::Value;

use super::*;
use crate::error::ErrorKind;

/// Splits at commas outside of brackets.
fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found
}

/// An Arrow column of a Spark type from the golden file's strings.
fn column(kind: &str, values: &[&Value]) -> ArrayRef {
    let strings: Vec<Option<&str>> = values.iter().map(|v| v.as_str()).collect();
    macro_rules! parsed {
        ($array:ty, $type:ty) => {
            Arc::new(strings.iter().map(|t| t.map(|t| t.parse::<$type>().unwrap())).collect::<$array>())
        };
    }
    if let Some(inner) = kind.strip_prefix("struct<") {
        let mut fields = Vec::new();
        for (i, part) in split_top(inner.strip_suffix('>').unwrap()).into_iter().enumerate() {
            let (name, kind) = part.split_once(':').unwrap();
            let own: Vec<&Value> = values.iter().map(|v| v.get(i).unwrap_or(&Value::Null)).collect();
            let array = column(kind.trim(), &own);
            fields.push((Arc::new(Field::new(name, array.data_type().clone(), true)), array));
        }
        let (fields, arrays): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        let nulls = NullBuffer::from(values.iter().map(|v| !v.is_null()).collect::<Vec<_>>());
        return Arc::new(StructArray::new(fields.into(), arrays, Some(nulls)));
    }
    if let Some(inner) = kind.strip_prefix("decimal(") {
        let (precision, scale) = inner.strip_suffix(')').unwrap().split_once(',').unwrap();
        let scale: i8 = scale.parse().unwrap();
        let array: Decimal128Array = strings.iter().map(|t| t.map(|t| unscaled(t, scale))).collect();
        return Arc::new(array.with_precision_and_scale(precision.parse().unwrap(), scale).unwrap());
    }
    match kind {
        "string" => Arc::new(StringArray::from(strings)),
        "boolean" => parsed!(BooleanArray, bool),
        "smallint" => parsed!(Int16Array, i16),
        "int" => parsed!(Int32Array, i32),
        "bigint" => parsed!(Int64Array, i64),
        "float" => {
            Arc::new(strings.iter().map(|t| t.map(|t| t.parse::<f64>().unwrap() as f32)).collect::<Float32Array>())
        }
        "double" => parsed!(Float64Array, f64),
        "date" => parsed!(Date32Array, i32),
        "timestamp" => {
            let micros: TimestampMicrosecondArray =
                strings.iter().map(|t| t.map(|t| t.parse::<i64>().unwrap())).collect();
            Arc::new(micros.with_timezone("UTC"))
        }
        "timestamp_ntz" => parsed!(TimestampMicrosecondArray, i64),
        "binary" => {
            let byte = |t: &str, i: usize| u8::from_str_radix(&t[2 * i..2 * i + 2], 16).unwrap();
            let bytes: Vec<Option<Vec<u8>>> =
                strings.iter().map(|t| t.map(|t| (0..t.len() / 2).map(|i| byte(t, i)).collect())).collect();
            Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryArray>())
        }
        other => panic!("no type {other}"),
    }
}

/// `1.50`, `1E-8`, `0E-18` as a number of 10^-scale.
fn unscaled(text: &str, scale: i8) -> i128 {
    let (digits, exponent) = text.split_once('E').unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let shift = i32::from(scale) + exponent.parse::<i32>().unwrap() - fraction.len() as i32;
    format!("{whole}{fraction}").parse::<i128>().unwrap() * 10i128.pow(shift as u32)
}

fn batch_of(case: &Value) -> RecordBatch {
    let rows = case["rows"].as_array().unwrap();
    let columns = split_top(case["schema"].as_str().unwrap()).into_iter().enumerate().map(|(i, part)| {
        let (name, kind) = part.split_once(' ').unwrap();
        let values: Vec<&Value> = rows.iter().map(|r| &r[i]).collect();
        (name.trim_matches('`').to_owned(), column(kind, &values), true)
    });
    RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
}

fn lookup<'a>(maps: [&'a Value; 2]) -> impl Fn(&str) -> Option<String> + 'a {
    move |key| maps.iter().find_map(|m| m.get(key)?.as_str().map(str::to_owned))
}

fn run(case: &Value, get: &dyn Fn(&str) -> Option<String>) -> Result<RowKeys> {
    let config = KeyGenConfig::from_properties(get, case["version"].as_u64().unwrap() as u32)?;
    let batch = batch_of(case);
    let generator = KeyGenerator::new(config, &batch.schema())?;
    if generator.config().generates_keys() {
        return generator.generated_keys(&batch, &mut AutoKeys::new("<instant>", 0));
    }
    generator.keys(&batch)
}

/// A missing partition column puts all rows into Hudi's null partition; long zone names, and short ones that only Java
/// knows, are not built. A level without a name is no folder.
const REFUSED_HERE: [&str; 4] =
    ["path_missing_column", "path_slash_negative", "time_out_32_upsert", "time_zone_name_America_Sao_Paulo_upsert"];

/// Cases in which Hudi's row writer differs from its Avro writers, which are followed; and where more is refused here.
fn differs(case: &Value) -> bool {
    let name = case["name"].as_str().unwrap();
    let schema = case["schema"].as_str().unwrap();
    let row_writer = case["op"] == "bulk_insert";
    let row_writer_own = schema.split(", ").any(|c| c.ends_with(" timestamp") || c.ends_with(" binary"))
        || name.starts_with("path_slash")
        || ["nested_complex", "non_partition_two", "time_unix_decimal"].iter().any(|n| name.starts_with(n));
    (row_writer && row_writer_own) || REFUSED_HERE.contains(&name)
}

#[test]
fn golden_cases_of_hudi() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/keygen/golden.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let none = Value::Null;
    let (mut compared, mut failures) = (0, Vec::new());
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        if REFUSED_HERE.contains(&name) {
            assert!(run(case, &lookup([&case["options"], &none])).is_err(), "{name}");
        }
        if differs(case) {
            continue;
        }
        // By the write options, as a writer of a new table has them; then by the table's own properties as well.
        let mut settings = vec![[&case["options"], &none]];
        if case.get("error").is_none() {
            settings.push([&case["properties"], &case["options"]]);
        }
        for maps in settings {
            let result = run(case, &lookup(maps));
            match (case.get("expected"), result) {
                (None, Err(_)) => {}
                (None, Ok(found)) => {
                    failures.push(format!("{name}: Hudi refuses: {:?}, we give {found:?}", case["error"]))
                }
                (Some(_), Err(error)) => failures.push(format!("{name}: {error}")),
                (Some(expected), Ok(found)) => {
                    for (row, want) in expected.as_array().unwrap().iter().enumerate().filter(|(_, w)| !w.is_null()) {
                        let path = &found.partitions.paths[found.partitions.ids[row] as usize];
                        let got = [found.record_keys.value(row), path.as_str()];
                        if want[0] != got[0] || want[1] != got[1] {
                            failures.push(format!("{name} row {row} {}: Hudi {want}, we {got:?}", case["rows"][row]));
                        }
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
    assert!(compared > 1000, "only {compared} rows compared");
}

/// Paths of the golden file read back to the strings that their values have in a path.
#[test]
fn golden_paths_read_back() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/keygen/golden.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let texts_only = name.starts_with("path_url") || name.starts_with("path_two") || name.starts_with("path_hive");
        if !texts_only || case.get("error").is_some() {
            continue;
        }
        let config = KeyGenConfig::from_properties(&lookup([&case["properties"], &case["options"]]), 9).unwrap();
        for (row, want) in case["expected"].as_array().unwrap().iter().enumerate() {
            let values = parse_partition_values(&config, want[1].as_str().unwrap()).unwrap();
            let original =
                case["rows"][row].as_array().unwrap()[1..].iter().map(|v| v.as_str().filter(|t| !t.is_empty()));
            assert!(values.iter().map(Option::as_deref).eq(original), "{name} row {row}: {values:?}");
            compared += 1;
        }
    }
    assert!(compared > 50);
}

fn config(pairs: &[(&str, &str)], version: u32) -> Result<KeyGenConfig> {
    let owned: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    KeyGenConfig::from_properties(&move |key| owned.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone()), version)
}

const KEY: &str = "hoodie.table.recordkey.fields";
const PART: &str = "hoodie.table.partition.fields";
const TYPE: &str = "hoodie.table.keygenerator.type";
const CLASS: &str = "hoodie.datasource.write.keygenerator.class";

fn one_column(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap()
}

#[test]
fn generators_by_type_class_and_inference() {
    use KeyGeneratorType as K;
    for (text, kind) in [
        ("SIMPLE", K::Simple),
        ("complex_avro", K::Complex),
        ("TIMESTAMP_AVRO", K::Timestamp),
        ("AUTO_RECORD", K::AutoRecord),
        ("org.apache.hudi.keygen.GlobalAvroDeleteKeyGenerator", K::GlobalDelete),
        ("org.apache.hudi.keygen.NonpartitionedKeyGenerator", K::NonPartition),
        ("org.apache.hudi.keygen.CustomAvroKeyGenerator", K::Custom),
    ] {
        assert_eq!(K::parse(text).unwrap(), Some(kind), "{text}");
    }
    assert_eq!(K::parse("SPARK_SQL").unwrap(), None);
    for text in ["USER_PROVIDED", "SPARK_SQL_UUID", "com.example.SimpleKeyGenerator", "HOODIE_TABLE_METADATA", ""] {
        assert_eq!(K::parse(text).unwrap_err().kind(), ErrorKind::Unsupported, "{text}");
    }
    let kind = |pairs: &[(&str, &str)]| config(pairs, 9).unwrap().kind;
    assert_eq!(kind(&[(KEY, "a")]), K::NonPartition);
    assert_eq!(kind(&[(KEY, "a"), (PART, "p")]), K::Simple);
    assert_eq!(kind(&[(KEY, "a,b"), (PART, "p")]), K::Complex);
    assert_eq!(kind(&[(KEY, "a"), (PART, "p:SIMPLE,q:SIMPLE")]), K::Custom);
    // The table wins over the write, and a class of the write loses to it.
    assert_eq!(
        kind(&[(KEY, "a"), (PART, "p"), (TYPE, "COMPLEX"), (CLASS, "org.apache.hudi.keygen.SimpleKeyGenerator")]),
        K::Complex
    );
}

#[test]
fn configurations_that_contradict_themselves() {
    let kind = |pairs: &[(&str, &str)]| config(pairs, 9).unwrap_err().kind();
    assert_eq!(kind(&[(KEY, "a,b"), (PART, "p"), (TYPE, "SIMPLE")]), ErrorKind::InvalidOption);
    assert_eq!(kind(&[(KEY, "a"), (PART, "p,q"), (TYPE, "SIMPLE")]), ErrorKind::InvalidOption);
    assert_eq!(kind(&[(KEY, "a"), (PART, "p"), (TYPE, "CUSTOM")]), ErrorKind::InvalidOption);
    assert_eq!(kind(&[(KEY, "a"), (PART, "p:DAILY")]), ErrorKind::InvalidOption);
    assert_eq!(kind(&[(KEY, "a"), (PART, "p"), (TYPE, "TIMESTAMP")]), ErrorKind::InvalidOption);
}

#[test]
fn custom_types_come_from_the_write_when_the_table_has_none() {
    let write = "hoodie.datasource.write.partitionpath.field";
    let made = config(&[(KEY, "a"), (PART, "p"), (TYPE, "CUSTOM"), (write, "p:SIMPLE")], 6).unwrap();
    assert_eq!(made.partition_fields[0], PartitionField { name: "p".into(), kind: PartitionFieldKind::Simple });
}

#[test]
fn old_option_names_and_bad_time_settings() {
    let old = "hoodie.deltastreamer.keygen.timebased.";
    let settings = |more: &[(&str, &str)]| {
        let mut pairs = vec![(KEY, "a"), (PART, "p"), (TYPE, "TIMESTAMP")];
        pairs.extend_from_slice(more);
        let made = config(&pairs, 9)?;
        KeyGenerator::new(
            made,
            &Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("p", DataType::Int64, true)]),
        )
    };
    let (kind, out) = (format!("{old}timestamp.type"), format!("{old}output.dateformat"));
    let zone = format!("{old}output.timezone");
    assert!(settings(&[(&kind, "EPOCHMILLISECONDS"), (&out, "yyyy/MM/dd")]).is_ok());
    for bad in [
        vec![(kind.as_str(), "DAYS"), (&out, "yyyy")],
        vec![(&kind, "SCALAR")],
        vec![(&kind, "DATE_STRING"), (&out, "yyyy")],
        vec![(&kind, "SCALAR"), (&out, "yyyy-bb")],
        vec![(&kind, "SCALAR"), (&out, "zzzz")],
        vec![(&kind, "SCALAR"), (&out, "yyyy"), (&zone, "Mars/Olympus")],
    ] {
        assert_eq!(settings(&bad).unwrap_err().kind(), ErrorKind::InvalidOption, "{bad:?}");
    }
}

#[test]
fn errors_name_column_and_row() {
    let generator = |batch: &RecordBatch| KeyGenerator::new(config(&[(KEY, "a")], 9).unwrap(), &batch.schema());
    for (array, what) in [
        (StringArray::from(vec![Some("x"), Some(""), None]), "empty"),
        (StringArray::from(vec![Some("x"), None, Some("")]), "null"),
    ] {
        let batch = one_column("a", Arc::new(array));
        let error = generator(&batch).unwrap().keys(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema);
        let text = error.to_string();
        assert!(text.contains("column=a") && text.contains("row=1") && text.contains(what), "{text}");
    }
    let other = one_column("b", Arc::new(Int32Array::from(vec![1])));
    let error = generator(&other).unwrap_err();
    assert!(error.kind() == ErrorKind::Schema && error.to_string().contains("which have b"), "{error}");
    let list = arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let lists = one_column("a", Arc::new(list));
    assert_eq!(generator(&lists).unwrap().keys(&lists).unwrap_err().kind(), ErrorKind::Schema);
}

#[test]
fn a_text_key_is_not_copied() {
    let array = StringArray::from(vec!["x", "y"]);
    let batch = one_column("a", Arc::new(array.clone()));
    let keys = KeyGenerator::new(config(&[(KEY, "a")], 9).unwrap(), &batch.schema()).unwrap().keys(&batch).unwrap();
    assert_eq!(keys.record_keys.value_data().as_ptr(), array.value_data().as_ptr());
    assert_eq!(keys.partitions, Partitions { ids: vec![0, 0], paths: vec![String::new()] });
}

#[test]
fn other_arrow_forms_of_the_same_values() {
    let text = ["b", "a", "b"];
    let dictionary: DictionaryArray<Int32Type> = text.into_iter().collect();
    let forms: [ArrayRef; 3] = [
        Arc::new(LargeStringArray::from_iter_values(text)),
        Arc::new(StringViewArray::from_iter_values(text)),
        Arc::new(dictionary),
    ];
    for array in forms {
        let batch = one_column("a", array);
        let made = config(&[(KEY, "a"), (PART, "a")], 9).unwrap();
        let keys = KeyGenerator::new(made, &batch.schema()).unwrap().keys(&batch).unwrap();
        assert_eq!(keys.record_keys, StringArray::from_iter_values(text));
        assert_eq!(keys.partitions, Partitions { ids: vec![0, 1, 0], paths: vec!["b".into(), "a".into()] });
    }
    // A millisecond column has milliseconds in Avro too.
    let batch = one_column("a", Arc::new(TimestampMillisecondArray::from(vec![1_500])));
    let keys =
        KeyGenerator::new(config(&[(KEY, "a")], 9).unwrap(), &batch.schema()).unwrap().record_keys(&batch).unwrap();
    assert_eq!(keys.value(0), "1500");
}

#[test]
fn times_of_one_day_share_a_path() {
    let time = "hoodie.keygen.timebased.";
    let (kind, out) = (format!("{time}timestamp.type"), format!("{time}output.dateformat"));
    let made = config(&[(PART, "t"), (TYPE, "TIMESTAMP"), (&kind, "UNIX_TIMESTAMP"), (&out, "yyyy/MM/dd")], 9).unwrap();
    assert_eq!(parse_partition_values(&made, "2024/01/02").unwrap(), vec![Some("2024/01/02".to_owned())]);
    let batch = one_column("t", Arc::new((0..200_000i64).collect::<Int64Array>()));
    let generator = KeyGenerator::new(made, &batch.schema()).unwrap();
    let found = generator.partition_paths(&batch).unwrap();
    assert_eq!(found.paths, ["1970/01/01", "1970/01/02", "1970/01/03"]);
    assert_eq!([found.ids[0], found.ids[86_399], found.ids[86_400], found.ids[199_999]], [0, 0, 1, 2]);
    assert_eq!(generator.record_keys(&batch).unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[test]
fn paths_that_take_more_than_one_level_a_field() {
    let time = "hoodie.keygen.timebased.";
    let (kind, out) = (format!("{time}timestamp.type"), format!("{time}output.dateformat"));
    let hive = "hoodie.datasource.write.hive_style_partitioning";
    let pairs = [(PART, "p:SIMPLE,t:TIMESTAMP"), (&kind, "UNIX_TIMESTAMP"), (&out, "yyyy/MM")];
    let read = |more: &[(&str, &str)], path: &str| {
        let mut all = pairs.to_vec();
        all.extend_from_slice(more);
        parse_partition_values(&config(&all, 9).unwrap(), path)
    };
    let some = |a: &str, b: &str| vec![Some(a.to_owned()), Some(b.to_owned())];
    assert_eq!(read(&[], "x/2024/01").unwrap(), some("x", "2024/01"));
    assert_eq!(read(&[(hive, "true")], "p=x/y/t=2024/01").unwrap(), some("x/y", "2024/01"));
    assert_eq!(read(&[], "x/2024/01/05").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(read(&[(hive, "true")], "q=x/y/t=2024/01").unwrap_err().kind(), ErrorKind::Corrupt);
    let slash =
        config(&[(PART, "d"), ("hoodie.datasource.write.slash.separated.date.partitioning", "true")], 9).unwrap();
    assert_eq!(parse_partition_values(&slash, "2024/01/02").unwrap(), vec![Some("2024-01-02".to_owned())]);
    let bad_escape = config(&[(PART, "d"), ("hoodie.datasource.write.partitionpath.urlencode", "true")], 9).unwrap();
    assert_eq!(parse_partition_values(&bad_escape, "a%zz%2Fé%4").unwrap(), vec![Some("a%zz/é%4".to_owned())]);
}

#[test]
fn generated_keys_count_on_over_batches() {
    let mut keys = AutoKeys::new("20261121075357231", 3);
    assert_eq!(keys.next(1).unwrap().value(0), "20261121075357231_3_0");
    let second = keys.next(2).unwrap();
    assert_eq!([second.value(0), second.value(1)], ["20261121075357231_3_1", "20261121075357231_3_2"]);
}

proptest::proptest! {
    /// No pattern and no text makes the engine panic, and what a full pattern prints it reads back.
    #[test]
    fn date_patterns_never_panic(pattern in "[yYMdDHhkKamsSEZz'/: -]{0,12}", text in "\\PC{0,20}", millis in proptest::num::i64::ANY) {
        if let Ok(compiled) = joda::Pattern::for_input("x", &pattern) {
            let mut out = String::new();
            let _ = compiled.format(millis, zone::Zone::UTC, &mut out);
            let _ = joda::Pattern::parse(std::slice::from_ref(&compiled), &out, zone::Zone::UTC, 1996);
            let _ = joda::Pattern::parse(&[compiled], &text, zone::Zone::UTC, 1996);
        }
        let full = joda::Pattern::for_input("x", "yyyy-MM-dd HH:mm:ss.SSS ZZ").unwrap();
        let within = millis % 200_000_000_000_000;
        let mut out = String::new();
        full.format(within, zone::Zone::UTC, &mut out).unwrap();
        let (back, _) = joda::Pattern::parse(&[full], &out, zone::Zone::UTC, 1996).unwrap();
        proptest::prop_assert_eq!(back, within);
    }
}
