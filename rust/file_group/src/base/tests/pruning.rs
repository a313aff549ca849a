use arrow::compute::filter_record_batch;
use proptest::prelude::*;

use super::*;

/// Three row groups of several pages: `n` ascending, `r` random with nulls, `f` floats with NaN and both zeros.
fn data() -> RecordBatch {
    let mut numbers = Numbers(42);
    let mut random = || {
        let n = numbers.below(90) as i64;
        (n % 9 != 0).then_some(n)
    };
    let floats = |i: i64| match i % 50 {
        0 => Some(f64::NAN),
        1 => Some(0.0),
        2 => Some(-0.0),
        3 => None,
        _ => Some(i as f64 / 10.0),
    };
    batch(vec![
        column("n", (0..3000).map(|i| (i != 7).then_some(i)).collect::<Int32Array>()),
        column("r", (0..3000).map(|_| random()).collect::<Int64Array>()),
        column("f", (0..3000).map(floats).collect::<Float64Array>()),
        column(
            "s",
            (0..3000).map(|i| (i < 2000).then(|| format!("s{:04}{}", i, "x".repeat(300)))).collect::<StringArray>(),
        ),
        column("e", Int32Array::new_null(3000)),
        column("b", (0..3000).map(|i| Some(i % 1000 < 500)).collect::<BooleanArray>()),
    ])
}

fn reader(data: &RecordBatch) -> BaseFileReader<Bytes> {
    let options = BaseFileOptions {
        row_group_rows: 1000,
        page_bytes: 1024,
        dictionary: DictionaryUse::Never,
        ..Default::default()
    };
    BaseFileReader::open(write(&(0..30).map(|i| data.slice(i * 100, 100)).collect::<Vec<_>>(), options).0).unwrap()
}

fn long(v: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![v]))
}

#[test]
fn row_groups_without_a_match_are_skipped() {
    let data = data();
    let reader = reader(&data);
    let groups = |p: Predicate| reader.matching_row_groups(&p).unwrap();
    let n = |v: i64| long(v);
    assert_eq!(groups(Predicate::Eq("n".into(), n(1500))), [1]);
    assert_eq!(groups(Predicate::Lt("n".into(), n(1000))), [0]);
    assert_eq!(groups(Predicate::LtEq("n".into(), n(1000))), [0, 1]);
    assert_eq!(groups(Predicate::Gt("n".into(), n(1999))), [2]);
    assert_eq!(groups(Predicate::GtEq("n".into(), n(1999))), [1, 2]);
    assert_eq!(groups(Predicate::In("n".into(), Arc::new(Int64Array::from(vec![3, 2500])))), [0, 2]);
    assert_eq!(groups(Predicate::In("n".into(), Arc::new(Int64Array::from_iter_values(1200..1300)))), [1]);
    assert_eq!(groups(Predicate::IsNull("n".into())), [0]);
    assert_eq!(groups(Predicate::IsNotNull("s".into())), [0, 1]);
    assert_eq!(groups(Predicate::Not(Box::new(Predicate::GtEq("n".into(), n(1000))))), [0]);
    assert_eq!(groups(Predicate::Eq("e".into(), n(1))), [0usize; 0]);
    assert_eq!(groups(Predicate::Eq("nowhere".into(), n(1))), [0usize; 0]);
    assert_eq!(groups(Predicate::IsNull("nowhere".into())), [0, 1, 2]);
    assert_eq!(groups(Predicate::Eq("s".into(), Arc::new(StringArray::from(vec!["s9"])))), [0usize; 0]);
    let part = |v: i64| Predicate::Eq("n".into(), n(v));
    assert_eq!(groups(Predicate::Or(vec![part(1), part(2999)])), [0, 2]);
    assert_eq!(groups(Predicate::And(vec![part(1), part(2999)])), [0usize; 0]);
    assert_eq!(groups(Predicate::Gt("f".into(), Arc::new(Float64Array::from(vec![1e9])))), [0, 1, 2]);
}

#[test]
fn pages_without_a_match_are_not_decoded() {
    let data = data();
    let reader = reader(&data);
    let scan = ScanOptions::new(Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)])));
    // All columns read are looked at, so rows are filtered late, and only pages limit what comes before.
    let options = scan.with_predicate(Some(Predicate::Eq("n".into(), Arc::new(Int32Array::from(vec![1550])))));
    let metadata = reader.with_page_index().unwrap();
    let index = metadata.metadata().page_index().unwrap().clone();
    assert!(index.num_data_pages(1, 0).unwrap() > 2);
    let kept =
        reader.statistics(metadata.metadata()).rows(options.predicate.as_ref().unwrap(), index.as_ref(), &[1]).unwrap();
    assert!(kept.unwrap().row_count() < 600);
    assert_eq!(read(&reader, &options).num_rows(), 1);
}

fn leaf() -> impl Strategy<Value = Predicate> {
    let number = prop_oneof![-5i64..3005, Just(0i64), Just(7), Just(90)];
    let float = prop_oneof![(-10i64..310).prop_map(|v| v as f64), Just(f64::NAN), Just(-0.0), Just(0.0)];
    let n = number.clone().prop_map(|v| ("n".to_owned(), long(v)));
    let r = (-2i64..95).prop_map(|v| ("r".to_owned(), long(v)));
    let f = float.prop_map(|v| ("f".to_owned(), Arc::new(Float64Array::from(vec![v])) as ArrayRef));
    let s = (0i64..2100)
        .prop_map(|v| ("s".to_owned(), Arc::new(StringArray::from(vec![format!("s{v:04}xx")])) as ArrayRef));
    let e = Just(("e".to_owned(), long(3)));
    let b = any::<bool>().prop_map(|v| ("b".to_owned(), Arc::new(BooleanArray::from(vec![v])) as ArrayRef));
    let null = Just(("n".to_owned(), Arc::new(Int64Array::new_null(1)) as ArrayRef));
    let missing = Just(("nowhere".to_owned(), long(3)));
    let compare = (prop_oneof![n, r, f, s, e, b, null, missing], 0..8u8).prop_map(|((c, l), kind)| match kind {
        0 => Predicate::Eq(c, l),
        1 => Predicate::NotEq(c, l),
        2 => Predicate::Lt(c, l),
        3 => Predicate::LtEq(c, l),
        4 => Predicate::Gt(c, l),
        5 => Predicate::GtEq(c, l),
        6 => Predicate::IsNull(c),
        _ => Predicate::IsNotNull(c),
    });
    let list = (prop::collection::vec(prop::option::weighted(0.95, number), 0..80), any::<bool>())
        .prop_map(|(v, n)| Predicate::In(if n { "n" } else { "r" }.into(), Arc::new(Int64Array::from(v))));
    prop_oneof![8 => compare, 1 => list]
}

fn predicate() -> impl Strategy<Value = Predicate> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Predicate::And),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Predicate::Or),
            inner.prop_map(|p| Predicate::Not(Box::new(p))),
        ]
    })
}

/// One row's truth by plain code: `None` is unknown.
fn truth(p: &Predicate, data: &RecordBatch, row: usize) -> Option<bool> {
    use std::cmp::Ordering;
    let order = |c: &str, l: &ArrayRef, i: usize| -> Option<Ordering> {
        let column = data.column_by_name(c)?;
        if column.is_null(row) || l.is_null(i) {
            return None;
        }
        Some(match column.data_type() {
            DataType::Int32 => {
                i64::from(column.as_primitive::<Int32Type>().value(row)).cmp(&l.as_primitive::<Int64Type>().value(i))
            }
            DataType::Int64 => {
                column.as_primitive::<Int64Type>().value(row).cmp(&l.as_primitive::<Int64Type>().value(i))
            }
            DataType::Float64 => {
                let (a, b) =
                    (column.as_primitive::<Float64Type>().value(row), l.as_primitive::<Float64Type>().value(i));
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            DataType::Utf8 => column.as_string::<i32>().value(row).cmp(l.as_string::<i32>().value(i)),
            _ => column.as_boolean().value(row).cmp(&l.as_boolean().value(i)),
        })
    };
    let null = |c: &str| data.column_by_name(c).is_none_or(|a| a.is_null(row));
    match p {
        Predicate::Eq(c, l) => order(c, l, 0).map(Ordering::is_eq),
        Predicate::NotEq(c, l) => order(c, l, 0).map(Ordering::is_ne),
        Predicate::Lt(c, l) => order(c, l, 0).map(Ordering::is_lt),
        Predicate::LtEq(c, l) => order(c, l, 0).map(Ordering::is_le),
        Predicate::Gt(c, l) => order(c, l, 0).map(Ordering::is_gt),
        Predicate::GtEq(c, l) => order(c, l, 0).map(Ordering::is_ge),
        Predicate::In(c, _) if null(c) => None,
        Predicate::In(c, l) => match (0..l.len()).any(|i| order(c, l, i).is_some_and(Ordering::is_eq)) {
            true => Some(true),
            false if l.null_count() > 0 => None,
            false => Some(false),
        },
        Predicate::IsNull(c) => Some(null(c)),
        Predicate::IsNotNull(c) => Some(!null(c)),
        Predicate::And(parts) => parts
            .iter()
            .try_fold(true, |all, p| match truth(p, data, row) {
                Some(false) => Err(Some(false)),
                Some(true) => Ok(all),
                None => Ok(false),
            })
            .map_or_else(|e| e, |all| if all { Some(true) } else { None }),
        Predicate::Or(parts) => parts
            .iter()
            .try_fold(false, |unknown, p| match truth(p, data, row) {
                Some(true) => Err(Some(true)),
                Some(false) => Ok(unknown),
                None => Ok(true),
            })
            .map_or_else(|e| e, |unknown| if unknown { None } else { Some(false) }),
        Predicate::Not(p) => truth(p, data, row).map(|v| !v),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_scan_with_a_predicate_gives_exactly_the_rows_for_which_it_holds(p in predicate(), few in any::<bool>()) {
        thread_local! {
            static FILE: (RecordBatch, BaseFileReader<Bytes>) = { let d = data(); let r = reader(&d); (d, r) };
        }
        FILE.with(|(data, reader)| {
            let mask: BooleanArray = (0..data.num_rows()).map(|i| Some(truth(&p, data, i) == Some(true))).collect();
            // With few columns the predicate is applied after decoding, or looks at columns that are not given back.
            let expected = filter_record_batch(data, &mask).unwrap();
            let expected = if few { expected.project(&[0]).unwrap() } else { expected };
            let options = ScanOptions::new(expected.schema()).with_predicate(Some(p.clone())).with_batch_size(700);
            // Compared without float equality, since NaN is a value here.
            let (got, expected) = (read(reader, &options), expected);
            prop_assert_eq!(format!("{:?}", got), format!("{:?}", expected));
            prop_assert_eq!(got.column(0), expected.column(0));
            Ok(())
        })?;
    }
}

#[test]
fn a_literal_of_another_kind_is_refused() {
    let data = data();
    let reader = reader(&data);
    let wrong = Predicate::Eq("s".into(), long(1));
    let error = reader.scan(&ScanOptions::new(data.schema()).with_predicate(Some(wrong))).err().unwrap();
    assert_eq!(error.kind(), hoodoo_runtime::ErrorKind::Schema);
    let two = Predicate::Lt("n".into(), Arc::new(Int64Array::from(vec![1, 2])));
    let error = reader.scan(&ScanOptions::new(data.schema()).with_predicate(Some(two))).err().unwrap();
    assert_eq!(error.kind(), hoodoo_runtime::ErrorKind::InvalidOption);
}
