//! Every kind of log block as Hudi wrote it, whole and damaged: what is read is what Hudi reads, or an error.
//!
//! `tests/fixtures/logs/blocks/expected.json` has what Hudi makes of each file, and of each file with one bit changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, SchemaRef};
use bytes::Bytes;
use hoodoo::error::{ErrorKind, Result};
use hoodoo::file_group::LogFile;
use hoodoo::file_group::log::{LogBatch, LogScan};
use hoodoo::format::avro::schema::avro_to_arrow_schema;
use hoodoo::format::log::{self, Deletes, HeaderKey, OrderingValue};
use hoodoo::storage::{Storage, StorageOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fuzz::feed;

#[derive(Deserialize)]
struct Expected {
    rows: Vec<Value>,
    /// What Hudi reads after a bit of each byte was changed: runs of the same outcome.
    #[serde(default)]
    flips: String,
}

impl Expected {
    fn flips(&self) -> Vec<&str> {
        let words: Vec<&str> = self.flips.split_whitespace().collect();
        words.chunks(2).flat_map(|run| std::iter::repeat_n(run[1], run[0].parse().unwrap())).collect()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs/blocks")
}

fn expected() -> BTreeMap<String, Expected> {
    serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap()
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.hudi_log"))).unwrap()
}

/// The schema in which records of a file are wanted: that of the block itself, and of the table for blocks without any.
fn schema(name: &str) -> SchemaRef {
    let own = |name: &str| {
        let file = log::LogFile::new(Bytes::from(file(name)));
        let block = file.blocks().next()?.ok()?;
        avro_to_arrow_schema(block.header(HeaderKey::Schema)?).ok()
    };
    Arc::new(own(name).or_else(|| own("avro")).unwrap())
}

/// A table that has one log file, whose content is replaced again and again.
struct Table {
    storage: Storage,
    schema: SchemaRef,
}

impl Table {
    fn new(schema: SchemaRef) -> Self {
        let name = uuid::Uuid::new_v4();
        Self { storage: Storage::open(&format!("memory://{name}/t"), &StorageOptions::new()).unwrap(), schema }
    }

    fn rows(&self, content: &[u8]) -> Result<Vec<Value>> {
        let path = ".f-0_20260101000000000.log.1_1-0-1";
        self.storage.replace(path, content.to_vec())?;
        let log = LogFile {
            file_id: "f-0".into(),
            instant: "20260101000000000".into(),
            version: 1,
            write_token: "1-0-1".into(),
            path: path.into(),
            size: content.len() as u64,
        };
        let scan = LogScan::open(&self.storage, &[log], |_| true)?;
        let mut rows = Vec::new();
        for block in 0..scan.blocks() {
            scan.read(block, &self.schema, 8 << 20, &mut |batch| {
                match batch {
                    LogBatch::Records(batch) => rows.extend(records(&batch)),
                    LogBatch::Deletes(deletes) => rows.extend(keys(&deletes)),
                }
                Ok(())
            })?;
        }
        Ok(rows)
    }
}

fn records(batch: &RecordBatch) -> Vec<Value> {
    let schema = batch.schema();
    let row = |row: usize| {
        let fields = schema.fields().iter().zip(batch.columns());
        fields
            .map(|(field, column)| (field.name().clone(), value(column, row)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    (0..batch.num_rows()).map(row).collect()
}

fn value(column: &dyn Array, row: usize) -> Value {
    match column.data_type() {
        _ if column.is_null(row) => Value::Null,
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::Int32 => json!(column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => json!(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => json!(column.as_boolean().value(row)),
        other => panic!("no test has a column of {other}"),
    }
}

/// Key and ordering value.
fn keys(deletes: &Deletes) -> Vec<Value> {
    let keys = deletes.keys.iter().zip(&deletes.ordering);
    keys.map(|(key, ordering)| json!([key, spelled(ordering)])).collect()
}

fn spelled(value: &OrderingValue) -> Value {
    use OrderingValue as V;
    match value {
        V::Default => json!("0"),
        V::Boolean(v) => json!(v.to_string()),
        V::Int(v) => json!(v.to_string()),
        V::Long(v) => json!(v.to_string()),
        V::Float(v) => json!(format!("{v:.5e}")),
        V::Double(v) => json!(format!("{v:.5e}")),
        V::Text(v) => json!(v),
        V::Decimal(v) => json!(format!("decimal {v}")),
        V::Date(days) => {
            let date = chrono::NaiveDate::default() + chrono::TimeDelta::days(i64::from(*days));
            json!(date.to_string())
        }
        V::Bytes(_) | V::Several(_) => json!(format!("{value:?}")),
    }
}

#[test]
fn every_file_is_read_as_hudi_reads_it() {
    let all = expected();
    assert!(all.len() >= 13, "{:?}", all.keys());
    for (name, expected) in all {
        let read = Table::new(schema(&name)).rows(&file(&name));
        if name == "delete_v2_other_class" {
            // Hudi makes an object of any class.
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Unsupported);
            continue;
        }
        assert_eq!(read.unwrap(), expected.rows, "{name}");
    }
}

#[test]
fn a_changed_bit_is_an_error_or_what_hudi_makes_of_it() {
    for (name, expected) in expected() {
        let (whole, table) = (file(&name), Table::new(schema(&name)));
        let rows = &expected.rows;
        let mut wrong = Vec::new();
        for (at, outcome) in expected.flips().into_iter().enumerate() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            // Being stricter than Hudi is no fault where a byte is not what it was.
            let Ok(read) = table.rows(&changed) else { continue };
            let same = match outcome {
                // What Hudi stumbles over may be what nobody needs: the rows are right all the same.
                _ if read == *rows => outcome != "-",
                "." => true,
                "=" | "e" => false,
                "-" => read.is_empty(),
                other => {
                    let text = serde_json::to_string(&read).unwrap();
                    other == format!("{:08x}", crc32fast::hash(text.as_bytes()))
                }
            };
            if !same {
                wrong.push((at, outcome));
            }
        }
        assert!(wrong.is_empty(), "{name}: {} {wrong:?}", wrong.len());
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_has_no_rows() {
    for name in expected().keys() {
        let (whole, table) = (file(name), Table::new(schema(name)));
        for cut in 0..whole.len() {
            assert_eq!(table.rows(&whole[..cut]).unwrap(), Vec::<Value>::new(), "{name} cut at {cut}");
        }
    }
}

#[test]
fn good_blocks_are_read_beside_half_written_ones() {
    let all = expected();
    let names = ["avro", "parquet", "hfile", "delete_v1", "delete_v2", "delete_v3"];
    let table = Table::new(schema("avro"));
    for good in names {
        let rows = all[good].rows.clone();
        for half in names {
            let (good, half) = (file(good), file(half));
            for cut in [6, 14, 30, half.len() / 2, half.len() - 9, half.len() - 1] {
                let half = &half[..cut];
                for parts in [[good.as_slice(), half], [half, good.as_slice()]] {
                    assert_eq!(table.rows(&parts.concat()).unwrap(), rows);
                }
            }
        }
    }
}

#[test]
fn blocks_come_in_any_order() {
    let all = expected();
    let names = ["avro", "parquet", "hfile", "delete_v1", "delete_v2"];
    for turn in 0..names.len() {
        let mut order = names;
        order.rotate_left(turn);
        let content: Vec<u8> = order.iter().flat_map(|name| file(name)).collect();
        let rows = Table::new(schema("avro")).rows(&content).unwrap();
        let mut expected: Vec<Value> = order.iter().flat_map(|name| all[*name].rows.clone()).collect();
        // Blocks of one instant stay together, and those of the deletes here are all of one.
        let mut rows: Vec<Value> = rows;
        for list in [&mut rows, &mut expected] {
            list.sort_by_key(Value::to_string);
        }
        assert_eq!(rows, expected, "{order:?}");
    }
}

fn any_bytes(name: &str, inputs: usize, seed: u64) {
    let table = Table::new(schema(name));
    feed(name, &[file(name)], inputs, seed, |bytes| drop(table.rows(bytes)));
    // The frame of a block keeps most of it out: its content by itself, without what catches panics.
    let source = log::LogFile::new(Bytes::from(file(name)));
    let Some(Ok(block)) = source.blocks().next() else { return };
    let content = source.content(&block).unwrap().to_vec();
    let schema = block.header(HeaderKey::Schema).unwrap_or_default().to_owned();
    let columns: Vec<&str> = vec!["_hoodie_record_key", "id", "ts", "key"];
    match block.kind {
        log::BlockKind::Delete => feed(name, &[content], 4 * inputs, seed, |bytes| drop(Deletes::read(bytes))),
        log::BlockKind::AvroData => feed(name, &[content], 4 * inputs, seed, |bytes| {
            drop(log::avro_batches(bytes, &schema, &columns, 100));
        }),
        log::BlockKind::HfileData => feed(name, &[content], 4 * inputs, seed, |bytes| {
            drop(log::hfile_batches(Bytes::copy_from_slice(bytes), &schema, &columns, 100));
        }),
        _ => {}
    }
}

#[test]
fn some_inputs_of_each_kind() {
    for name in expected().keys() {
        any_bytes(name, 1_000, 1);
    }
}

#[test]
#[ignore = "minutes"]
fn many_inputs_of_each_kind() {
    for name in expected().keys() {
        any_bytes(name, 100_000, 2);
    }
}

/// An Avro block of one record.
fn block_of(datum: &[u8]) -> Vec<u8> {
    let mut content = [3u32, 1].map(u32::to_be_bytes).concat();
    content.extend(u32::try_from(datum.len()).unwrap().to_be_bytes());
    content.extend(datum);
    content
}

#[test]
fn a_few_bytes_do_not_ask_for_the_world() {
    // 2^62 items that take no bytes; then the end of the list.
    let datum = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0];
    for items in [
        r#""null""#,
        r#"{"type":"fixed","name":"f","size":0}"#,
        r#"{"type":"record","name":"e","fields":[]}"#,
        r#"{"type":"record","name":"e","fields":[{"name":"n","type":"null"}]}"#,
    ] {
        let schema = format!(
            r#"{{"type":"record","name":"r","fields":[{{"name":"a","type":{{"type":"array","items":{items}}}}}]}}"#
        );
        let failed = log::avro_batches(&block_of(&datum), &schema, &["a"], 10).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Corrupt, "{items}");
    }
    // A null that takes two gigabytes.
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"a","type":["null",{"type":"fixed","name":"f","size":2000000000}]}]}"#;
    assert_eq!(log::avro_batches(&block_of(&[0]), schema, &["a"], 10).unwrap_err().kind(), ErrorKind::Corrupt);
    // Types that each have the next one twice.
    let mut doubled = r#"{"type":"record","name":"r40","fields":[{"name":"a","type":"int"}]}"#.to_owned();
    for level in (0..40).rev() {
        let below = level + 1;
        doubled = format!(
            r#"{{"type":"record","name":"r{level}","fields":[{{"name":"a","type":{doubled}}},{{"name":"b","type":"r{below}"}}]}}"#
        );
    }
    assert_eq!(log::avro_batches(&block_of(&[0]), &doubled, &["a"], 10).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_record_does_not_reach_into_the_next() {
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"a","type":"string"}]}"#;
    let block = |records: &[&[u8]]| {
        let mut content = [3u32, u32::try_from(records.len()).unwrap()].map(u32::to_be_bytes).concat();
        for record in records {
            content.extend(u32::try_from(record.len()).unwrap().to_be_bytes());
            content.extend(*record);
        }
        content
    };
    let read = |records: &[&[u8]]| log::avro_batches(&block(records), schema, &["a"], 10);
    assert_eq!(read(&[b"\x02a", b"\x02b"]).unwrap()[0].num_rows(), 2);
    // Two bytes of one that says four are in the next; together they are of the schema.
    assert_eq!(read(&[b"\x04a", b"x\x02b"]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(read(&[b"\x02ab", b"\x02b"]).unwrap_err().kind(), ErrorKind::Corrupt);
}
