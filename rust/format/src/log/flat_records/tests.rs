#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::error::Error as _;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal128Type, Int32Type};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::record_decoder::RecordDecoder;
use crate::avro::datum::write_long;
use hoodoo_runtime::error::{Error, ErrorKind, Result};

/// Types of fields; `N` stands for the number of the field, as the names of types must not be used twice.
const TYPES: &[(&str, Put)] = &[
    (r#""boolean""#, Put::Boolean),
    (r#""int""#, Put::Int),
    (r#""long""#, Put::Long),
    (r#""float""#, Put::Raw(4)),
    (r#""double""#, Put::Raw(8)),
    (r#""bytes""#, Put::Bytes),
    (r#""string""#, Put::Text),
    (r#"{"type":"string","avro.java.string":"String"}"#, Put::Text),
    (r#"{"type":"string","logicalType":"uuid"}"#, Put::Text),
    (r#"{"type":"fixed","name":"fN","size":5}"#, Put::Raw(5)),
    (r#"{"type":"fixed","name":"fN","size":512}"#, Put::Raw(512)),
    (r#"{"type":"enum","name":"eN","symbols":["A","LONGER","C"]}"#, Put::Symbol(3)),
    (r#"{"type":"int","logicalType":"date"}"#, Put::Int),
    (r#"{"type":"int","logicalType":"time-millis"}"#, Put::Int),
    (r#"{"type":"long","logicalType":"time-micros"}"#, Put::Long),
    (r#"{"type":"long","logicalType":"timestamp-millis"}"#, Put::Long),
    (r#"{"type":"long","logicalType":"timestamp-micros"}"#, Put::Long),
    (r#"{"type":"long","logicalType":"timestamp-nanos"}"#, Put::Long),
    (r#"{"type":"long","logicalType":"local-timestamp-millis"}"#, Put::Long),
    (r#"{"type":"long","logicalType":"local-timestamp-micros"}"#, Put::Long),
    (r#"{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}"#, Put::Decimal(16)),
    (r#"{"type":"bytes","logicalType":"decimal","precision":38}"#, Put::Decimal(16)),
    (r#"{"type":"bytes","logicalType":"decimal","precision":50,"scale":7}"#, Put::Decimal(32)),
    (r#"{"type":"fixed","name":"fN","size":3,"logicalType":"decimal","precision":5,"scale":1}"#, Put::Raw(3)),
    (r#"{"type":"fixed","name":"fN","size":16,"logicalType":"decimal","precision":30,"scale":9}"#, Put::Raw(16)),
    (r#"{"type":"fixed","name":"fN","size":20,"logicalType":"decimal","precision":45,"scale":9}"#, Put::Raw(20)),
    (
        r#"{"type":"record","name":"rN","fields":[{"name":"a","type":["null","string"]},{"name":"b","type":"int"},
            {"name":"c","type":{"type":"record","name":"qN","fields":[{"name":"d","type":["double","null"]}]}},
            {"name":"e","type":["null",{"type":"record","name":"pN","fields":[
                {"name":"f","type":"long"},{"name":"g","type":"string"},{"name":"h","type":["null","bytes"]}]}]}]}"#,
        Put::Record,
    ),
    (r#"{"type":"array","items":["null","int"]}"#, Put::List),
    (r#"{"type":"map","values":"string"}"#, Put::Map),
    (
        r#"{"type":"record","name":"rN","fields":[{"name":"a","type":{"type":"array","items":["null","int"]}}]}"#,
        Put::List,
    ),
];
/// How many of them are decoded straight into columns; the others are passed over.
const FLAT: usize = TYPES.len() - 3;

/// How a value of a type is made up.
#[derive(Debug, Clone, Copy)]
enum Put {
    Boolean,
    Int,
    Long,
    Raw(usize),
    Bytes,
    Text,
    Symbol(i64),
    Decimal(usize),
    Record,
    List,
    Map,
}

impl Put {
    /// A value in a branch of a union with null.
    fn optional(branch: i64, random: &mut StdRng, out: &mut Vec<u8>, value: impl FnOnce(&mut StdRng, &mut Vec<u8>)) {
        let is_null = random.random::<bool>();
        write_long(if is_null { 1 - branch } else { branch }, out);
        if !is_null {
            value(random, out);
        }
    }

    fn value(self, random: &mut StdRng, out: &mut Vec<u8>) {
        let small = random.random::<bool>();
        match self {
            Self::Boolean => out.push(random.random_range(0..2)),
            Self::Int if small => write_long(random.random_range(-100..100), out),
            Self::Int => write_long(i64::from(random.random::<i32>()), out),
            Self::Long if small => write_long(random.random_range(-100..100), out),
            Self::Long => write_long(random.random(), out),
            Self::Raw(size) => out.extend((0..size).map(|_| random.random::<u8>())),
            Self::Bytes => long_bytes(random.random_range(0..90), random, out),
            Self::Decimal(most) => long_bytes(random.random_range(0..=most), random, out),
            Self::Text => {
                let letters = random.random_range(0..70);
                let text: String =
                    (0..letters).map(|_| *b"aZ09\xe9".get(random.random_range(0..5)).unwrap() as char).collect();
                write_long(i64::try_from(text.len()).unwrap(), out);
                out.extend(text.as_bytes());
            }
            Self::Symbol(symbols) => write_long(random.random_range(0..symbols), out),
            Self::Record => {
                Self::optional(1, random, out, |random, out| Self::Text.value(random, out));
                Self::Int.value(random, out);
                Self::optional(0, random, out, |random, out| Self::Raw(8).value(random, out));
                Self::optional(1, random, out, |random, out| {
                    Self::Long.value(random, out);
                    Self::Text.value(random, out);
                    Self::optional(1, random, out, |random, out| Self::Bytes.value(random, out));
                });
            }
            Self::List => {
                let item = |random: &mut StdRng, out: &mut Vec<u8>| {
                    Self::optional(1, random, out, |random, out| Self::Int.value(random, out));
                };
                items(random, out, item);
            }
            Self::Map => items(random, out, |random, out| {
                Self::Text.value(random, out);
                Self::Text.value(random, out);
            }),
        }
    }
}

fn items(random: &mut StdRng, out: &mut Vec<u8>, item: impl Fn(&mut StdRng, &mut Vec<u8>)) {
    for _ in 0..random.random_range(0..3) {
        let (count, mut block) = (random.random_range(1..5), Vec::new());
        (0..count).for_each(|_| item(random, &mut block));
        let says_its_size = random.random::<bool>();
        write_long(if says_its_size { -count } else { count }, out);
        if says_its_size {
            write_long(i64::try_from(block.len()).unwrap(), out);
        }
        out.extend(block);
    }
    write_long(0, out);
}

fn long_bytes(length: usize, random: &mut StdRng, out: &mut Vec<u8>) {
    write_long(i64::try_from(length).unwrap(), out);
    out.extend((0..length).map(|_| random.random::<u8>()));
}

/// A type by its number, and which branch of a union is null, if any.
type Shape = Vec<(usize, usize)>;

fn schema(shape: &Shape) -> String {
    let field = |(number, (kind, null)): (usize, &(usize, usize))| {
        let json = TYPES[*kind].0.replace('N', &number.to_string());
        match null {
            0 => format!(r#"{{"name":"c{number}","type":{json}}}"#),
            1 => format!(r#"{{"name":"c{number}","type":["null",{json}],"default":null}}"#),
            _ => format!(r#"{{"name":"c{number}","type":[{json},"null"],"doc":"null last"}}"#),
        }
    };
    let fields: Vec<String> = shape.iter().enumerate().map(field).collect();
    format!(r#"{{"type":"record","name":"r","namespace":"n.s","fields":[{}]}}"#, fields.join(","))
}

fn records(shape: &Shape, rows: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(seed);
    let nulls = random.random_range(0.0..1.0);
    let mut record = || {
        let mut out = Vec::new();
        for (kind, null) in shape {
            let is_null = *null > 0 && random.random_bool(nulls);
            if *null > 0 {
                write_long(i64::from((*null == 1) != is_null), &mut out);
            }
            if !is_null {
                TYPES[*kind].1.value(&mut random, &mut out);
            }
        }
        out
    };
    (0..rows).map(|_| record()).collect()
}

/// What both decoders make of records. They agree on what is wrong too.
fn both(decoder: &RecordDecoder, records: &[Vec<u8>]) -> Result<Vec<arrow::array::RecordBatch>> {
    let each = || records.iter().map(|record| Ok(record.as_slice()));
    let general = decoder.general_batches(each(), records.len());
    let flat = decoder.batches(each(), records.len());
    match (&general, &flat) {
        (Ok(general), Ok(flat)) => assert_eq!(general, flat),
        (Err(general), Err(flat)) => assert_eq!(general.kind(), flat.kind()),
        (general, flat) => panic!("general: {general:?}\nflat: {flat:?}"),
    }
    flat
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop::collection::vec((0..TYPES.len(), 0..3usize), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_flat_records_as_the_general_decoder_has_them(
        shape in shapes(),
        wanted in any::<u16>(),
        rows in 0..40usize,
        batch_rows in 1..50usize,
        seed in any::<u64>(),
    ) {
        let names: Vec<String> = (0..shape.len()).filter(|n| wanted >> n & 1 == 1).map(|n| format!("c{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let decoder = RecordDecoder::new(&schema(&shape), &names, batch_rows).unwrap();
        let is_flat = shape.iter().enumerate().all(|(n, (kind, _))| wanted >> n & 1 == 0 || *kind < FLAT);
        prop_assert_eq!(decoder.is_flat(), !names.is_empty() && is_flat);
        let batches = both(&decoder, &records(&shape, rows, seed)).unwrap();
        prop_assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), rows);
    }

    #[test]
    fn damaged_records_are_refused_or_read_by_both_alike(
        shape in shapes(),
        wanted in any::<u16>(),
        seed in any::<u64>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..11u32), 1..4),
    ) {
        let names: Vec<String> = (0..shape.len()).filter(|n| wanted >> n & 1 == 1).map(|n| format!("c{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let decoder = RecordDecoder::new(&schema(&shape), &names, 3).unwrap();
        let mut records = records(&shape, 7, seed);
        for (record, at, what) in damage {
            let record = &mut records[record.index(7)];
            if record.is_empty() {
                continue;
            }
            let at = at.index(record.len());
            match what {
                0..8 => record[at] ^= 1 << what,
                8 => record.truncate(at),
                9 => record.insert(at, 0x80),
                _ => record[at] = 0xff,
            }
        }
        if let Err(e) = both(&decoder, &records) {
            prop_assert_eq!(e.kind(), ErrorKind::Corrupt);
        }
    }
}

fn only(kind: &str, record: &[u8]) -> Result<arrow::array::ArrayRef> {
    let schema = format!(r#"{{"type":"record","name":"r","fields":[{{"name":"c","type":{kind}}}]}}"#);
    let decoder = RecordDecoder::new(&schema, &["c"], 10).unwrap();
    assert!(decoder.is_flat(), "{kind}");
    both(&decoder, &[record.to_vec()]).map(|batches| batches[0].column(0).clone())
}

#[test]
fn numbers_at_their_limits() {
    let int = |record: &[u8]| only(r#""int""#, record).map(|c| c.as_primitive::<Int32Type>().value(0));
    assert_eq!(int(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap(), i32::MIN);
    assert_eq!(int(&[0x82, 0x80, 0x80, 0x80, 0x00]).unwrap(), 1);
    assert!(int(&[0x82, 0x80, 0x80, 0x80, 0x80, 0x00]).is_err());
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":9,"scale":0}"#;
    let decimal = |record: &[u8]| only(decimal, record).map(|c| c.as_primitive::<Decimal128Type>().value(0));
    assert_eq!(decimal(&[0]).unwrap(), 0);
    assert_eq!(decimal(&[2, 0xff]).unwrap(), -1);
    let wide = |first: u8, sign: u8| [[34, first].as_slice(), &[sign; 16]].concat();
    assert_eq!(decimal(&wide(0xff, 0xff)).unwrap(), -1);
    assert_eq!(decimal(&wide(0, 0x7f)).unwrap(), i128::from_be_bytes([0x7f; 16]));
    assert!(decimal(&wide(0, 0xff)).is_err() && decimal(&wide(1, 0)).is_err() && decimal(&wide(0xff, 0)).is_err());
    assert!(only(r#"["string","null"]"#, &[2]).unwrap().is_null(0));
}

#[test]
fn damage_is_named() {
    let refused = |kind: &str, record: &[u8]| -> String {
        let error: Error = only(kind, record).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        error.source().map(|source| source.to_string()).unwrap_or_default()
    };
    for (kind, record, said) in [
        (r#""string""#, [4, b'a'].as_slice(), "ends within"),
        (r#""string""#, &[2, b'a', b'b'], "goes on behind"),
        (r#""string""#, &[1], "negative length"),
        (r#""string""#, &[2, 0xff], "UTF-8"),
        (r#""string""#, &[0xff; 12], "too large"),
        (r#""string""#, &[0x80; 3], "ends within"),
        (r#""int""#, &[0xff, 0xff, 0xff, 0xff, 0x1f], "too large"),
        (r#""long""#, &[0x80; 12], "too large"),
        (r#""double""#, &[0; 7], "ends within"),
        (r#""boolean""#, &[2], "neither true nor false"),
        (r#"["null","int"]"#, &[4], "without such a branch"),
        (r#"["null","int"]"#, &[1], "without such a branch"),
        (r#"{"type":"enum","name":"e","symbols":["A"]}"#, &[2], "without such a symbol"),
        (r#""int""#, &[], "ends within"),
    ] {
        let found = refused(kind, record);
        assert!(found.contains(said), "{kind} {record:?}: {found}");
    }
}

#[test]
fn a_letter_between_two_values_is_no_text() {
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"c","type":"string"}]}"#;
    let decoder = RecordDecoder::new(schema, &["c"], 10).unwrap();
    assert!(both(&decoder, &[vec![2, 0xc3], vec![2, 0xa9]]).is_err());
    assert!(both(&decoder, &[vec![4, 0xc3, 0xa9]]).is_ok());
}

fn nested(kind: &str) -> String {
    format!(r#"{{"type":"record","name":"s","fields":[{{"name":"a","type":{kind}}}]}}"#)
}

#[test]
fn what_is_not_flat_is_left_to_the_general_decoder() {
    let other = [
        r#"{"type":"array","items":"int"}"#,
        r#"{"type":"map","values":"int"}"#,
        r#"{"type":"record","name":"s","fields":[]}"#,
        r#"["null","int","string"]"#,
        r#"["int","string"]"#,
        r#"["int"]"#,
        r#""null""#,
        r#"{"type":"fixed","name":"f","size":0}"#,
        r#"{"type":"fixed","name":"f","size":513}"#,
        r#"{"type":"fixed","name":"f","size":12,"logicalType":"duration"}"#,
    ];
    let inner = other.map(nested);
    let wide: Vec<String> = (0..200).map(|n| format!(r#"{{"name":"c{n}","type":"int"}}"#)).collect();
    let wide = format!(r#"{{"type":"record","name":"s","fields":[{}]}}"#, wide.join(","));
    for kind in other.into_iter().chain(inner.iter().map(String::as_str)).chain([wide.as_str()]) {
        let schema = format!(
            r#"{{"type":"record","name":"r","fields":[{{"name":"c","type":{kind}}},{{"name":"d","type":"int"}}]}}"#
        );
        // Neither decoder takes each of them.
        let is_flat = |columns: &[&str]| RecordDecoder::new(&schema, columns, 10).is_ok_and(|made| made.is_flat());
        assert!(!is_flat(&["c"]), "{kind}");
        assert!(!is_flat(&["c", "d"]), "{kind}");
        assert!(is_flat(&["d"]), "{kind}");
    }
    let within = nested(r#""int","aliases":["b"]"#);
    let aliases = format!(r#"{{"type":"record","name":"r","fields":[{{"name":"c","type":{within}}}]}}"#);
    assert!(!RecordDecoder::new(&aliases, &["c"], 10).unwrap().is_flat());
    let aliases = r#"{"type":"record","name":"r","fields":[{"name":"c","type":"int","aliases":["d"]}]}"#;
    assert!(!RecordDecoder::new(aliases, &["c"], 10).unwrap().is_flat());
    let no_column = r#"{"type":"record","name":"r","fields":[{"name":"c","type":"int"}]}"#;
    let decoder = RecordDecoder::new(no_column, &["x"], 10).unwrap();
    assert!(!decoder.is_flat());
    assert_eq!(both(&decoder, &[vec![2], vec![4]]).unwrap()[0].num_rows(), 2);
}

#[test]
fn a_type_may_be_named_where_it_does_not_stand() {
    for (kind, value) in [
        (r#"{"type":"enum","name":"e","symbols":["A","B"]}"#, [2].as_slice()),
        (r#"{"type":"record","name":"e","fields":[{"name":"x","type":"int"}]}"#, &[6]),
    ] {
        let schema = format!(
            r#"{{"type":"record","name":"r","fields":[{{"name":"a","type":{kind}}},{{"name":"b","type":["null","e"]}}]}}"#
        );
        let record = [value, &[2], value].concat();
        let read = |columns: &[&str]| {
            let decoder = RecordDecoder::new(&schema, columns, 10).unwrap();
            assert!(decoder.is_flat());
            both(&decoder, std::slice::from_ref(&record)).unwrap().remove(0)
        };
        let whole = read(&["a", "b"]);
        assert_eq!(read(&["b"]), whole.project(&[1]).unwrap());
        assert_eq!(read(&["a"]), whole.project(&[0]).unwrap());
    }
}

#[test]
fn what_is_passed_over_is_measured() {
    let list = r#"{"type":"record","name":"r","fields":[{"name":"c","type":{"type":"array","items":"null"}},{"name":"d","type":"int"}]}"#;
    let decoder = RecordDecoder::new(list, &["d"], 10).unwrap();
    assert!(decoder.is_flat());
    assert!(both(&decoder, &[vec![6, 0, 2]]).is_ok());
    // As many items as there are numbers, of no bytes.
    let endless = [[0xfe].as_slice(), &[0xff; 8], &[1, 0, 2]].concat();
    assert_eq!(both(&decoder, &[endless]).unwrap_err().kind(), ErrorKind::Corrupt);
    let itself =
        r#"{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]},{"name":"d","type":"int"}]}"#;
    let decoder = RecordDecoder::new(itself, &["d"], 10).unwrap();
    assert!(!decoder.is_flat());
    assert_eq!(both(&decoder, &[vec![0, 2]]).unwrap_err().kind(), ErrorKind::Unsupported);
}
