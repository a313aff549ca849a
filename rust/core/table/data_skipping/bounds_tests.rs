#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
//! Bounds beside a naive evaluation of the rows that they are of.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use proptest::prelude::*;

use super::*;
use crate::file_group::base::{KeptStatistics, Predicate, matching_slices};

fn stats(value_type: &str, min: Option<StoredBound>, max: Option<StoredBound>, counts: (i64, i64)) -> ColumnStats {
    let (value_count, null_count) = (Some(counts.0), Some(counts.1));
    ColumnStats { value_type: Some(value_type.to_owned()), min, max, value_count, null_count, bytes: Some(0) }
}

struct Given(BTreeMap<&'static str, Vec<Option<ColumnStats>>>);

impl KeptStatistics for Given {
    fn bounds(&self, column: &str, data_type: Option<&DataType>) -> Result<Option<Bounds>> {
        self.0.get(column).map(|stats| bounds_of(stats, column, data_type)).transpose()
    }
}

fn decimal(text: &str, scale: i8) -> Option<i128> {
    unscaled(Some(&StoredBound::String(text.to_owned())), scale)
}

#[test]
fn decimals_are_exact_or_unknown() {
    assert_eq!(decimal("12.34", 2), Some(1234));
    assert_eq!(decimal("-0.05", 2), Some(-5));
    assert_eq!(decimal("12", 2), Some(1200));
    assert_eq!(decimal("1.500000000000000", 2), Some(150));
    assert_eq!(decimal("1.505000000000000", 2), None);
    assert_eq!(decimal("1.500000000000000", 18), None);
    assert_eq!(decimal("0x04d2", 2), None);
}

#[test]
fn strings_whose_order_depends_on_the_encoding_are_unknown() {
    for (text, is_known) in [("a", true), ("é日本", true), ("\u{FFFD}", false), ("a😀", false)] {
        assert_eq!(ordered_string(Some(&StoredBound::String(text.to_owned()))).is_some(), is_known, "{text}");
    }
}

#[test]
fn what_may_be_wrong_is_unknown() {
    let long = |v| Some(StoredBound::Long(v));
    let kept = [
        Some(stats("LONG", long(1), long(2), (3, 0))),
        // Another type than the column's, a type that has no order, values that are no numbers.
        Some(stats("STRING", long(1), long(2), (3, 0))),
        Some(stats("BYTES", long(1), long(2), (3, 0))),
        Some(stats("DOUBLE", Some(StoredBound::Double(f64::NAN)), Some(StoredBound::Double(f64::NAN)), (3, 0))),
        None,
    ];
    let found = bounds_of(&kept, "a", Some(&DataType::Int64)).unwrap();
    assert_eq!((found.mins.null_count(), found.maxes.null_count()), (4, 4));
    // Counts: unset by Parquet, null without a type, all null, and none at all as in a log file of deletes.
    let counted = |counts, value_type: Option<&str>| {
        let one = ColumnStats { value_type: value_type.map(str::to_owned), ..stats("LONG", None, None, counts) };
        let found = bounds_of(&[Some(one)], "a", None).unwrap();
        found.nulls.is_valid(0)
    };
    assert!(!counted((3, -1), Some("LONG")) && !counted((3, 3), None) && !counted((3, 4), Some("LONG")));
    assert!(counted((3, 3), Some("LONG")) && counted((0, 0), Some("NULL")) && counted((0, 0), None));
}

#[test]
fn nulls_that_may_be_long_values_are_unknown() {
    let of = |value_type: &str, is_known: bool, counts, bytes| {
        let bound = |text: &str| is_known.then(|| StoredBound::String(text.to_owned()));
        let one = ColumnStats { bytes, ..stats(value_type, bound("a"), bound("b"), counts) };
        let found = bounds_of(&[Some(one)], "a", Some(&DataType::Utf8)).unwrap();
        (found.nulls.is_valid(0), found.mins.is_valid(0))
    };
    // A file of long strings only, as Hudi has it, and one of nulls.
    assert_eq!(of("STRING", false, (1, 1), Some(5034)), (false, false));
    assert_eq!(of("BYTES", false, (1, 1), Some(5034)), (false, false));
    assert_eq!(of("STRING", false, (1, 1), None), (false, false));
    assert_eq!(of("STRING", false, (9000, 9000), Some(60)), (true, false));
    assert_eq!(of("LONG", false, (9000, 9000), Some(9000)), (true, false));
    // Some row groups of long strings among others, and no null at all.
    assert_eq!(of("STRING", true, (6000, 10), Some(70_000)), (true, false));
    assert_eq!(of("STRING", true, (6000, 0), Some(70_000)), (true, true));
    assert_eq!(of("STRING", true, (60, 10), Some(700)), (true, true));
}

#[test]
fn ranges_with_zero_may_have_hidden_nan() {
    let double = |min, max| stats("DOUBLE", Some(StoredBound::Double(min)), Some(StoredBound::Double(max)), (3, 0));
    for (min, max, is_known) in
        [(0.5, 2.0, true), (-2.0, -0.5, true), (0.0, 0.0, false), (-1.0, 2.0, false), (0.0, 2.0, false)]
    {
        let found = bounds_of(&[Some(double(min, max))], "a", Some(&DataType::Float64)).unwrap();
        assert_eq!((found.mins.is_valid(0), found.maxes.is_valid(0)), (is_known, is_known), "{min} {max}");
    }
}

#[test]
fn strings_of_a_column_with_long_ones_are_unknown() {
    let string = |length: usize| Some(StoredBound::String("x".repeat(length)));
    for (length, values, bytes, is_known) in [
        (3, 100, 400, true),
        (1024, 100, 5_000, true),
        (1025, 100, 5_000, false),
        (3, 100, 30_000, false),
        (3, 1, 60, true),
    ] {
        let one = ColumnStats { bytes: Some(bytes), ..stats("STRING", string(3), string(length), (values, 0)) };
        let found = bounds_of(&[Some(one)], "a", Some(&DataType::Utf8)).unwrap();
        assert_eq!(found.mins.is_valid(0), is_known, "{length} {values} {bytes}");
    }
}

#[test]
fn older_types_are_widened() {
    let long = |v| Some(StoredBound::Long(v));
    let kept = [Some(stats("INT", long(1), long(2), (3, 0))), Some(stats("LONG", long(3), long(4), (3, 0)))];
    let found = bounds_of(&kept, "a", Some(&DataType::Int64)).unwrap();
    assert_eq!(found.mins.as_primitive::<arrow::datatypes::Int64Type>().values(), &[1, 3]);
    let found = bounds_of(&kept, "a", Some(&DataType::Float64)).unwrap();
    assert_eq!(found.maxes.as_primitive::<arrow::datatypes::Float64Type>().values(), &[2.0, 4.0]);
    // A table never narrows a column.
    let found = bounds_of(&kept, "a", Some(&DataType::Int32)).unwrap();
    assert!(found.mins.is_valid(0) && found.mins.is_null(1));
}

/// A file: values of a column of longs and of one of doubles.
type Rows = Vec<(Option<i64>, Option<f64>)>;

fn batch(rows: &[(Option<i64>, Option<f64>)]) -> RecordBatch {
    let longs: ArrayRef = Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>());
    let doubles: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<Float64Array>());
    RecordBatch::try_from_iter_with_nullable([("a", longs, true), ("b", doubles, true)]).unwrap()
}

/// Statistics as Hudi makes them: of doubles with a NaN among them, both bounds are zero.
fn stats_of(rows: &Rows) -> (ColumnStats, ColumnStats) {
    let count = rows.len() as i64;
    let longs: Vec<i64> = rows.iter().filter_map(|r| r.0).collect();
    let mut doubles: Vec<f64> = rows.iter().filter_map(|r| r.1).collect();
    doubles.sort_by(f64::total_cmp);
    if doubles.iter().any(|v| v.is_nan()) {
        let count = doubles.len();
        doubles = vec![0.0; count];
    }
    let long = |v: Option<&i64>| v.copied().map(StoredBound::Long);
    let double = |v: Option<&f64>| v.copied().map(StoredBound::Double);
    let nulls = |present: usize| count - present as i64;
    (
        stats("LONG", long(longs.iter().min()), long(longs.iter().max()), (count, nulls(longs.len()))),
        stats("DOUBLE", double(doubles.first()), double(doubles.last()), (count, nulls(doubles.len()))),
    )
}

fn value() -> impl Strategy<Value = (Option<i64>, Option<f64>)> {
    let double = prop_oneof![
        8 => (-4i32..4).prop_map(f64::from),
        1 => Just(f64::NAN),
        1 => Just(-0.0),
        1 => Just(f64::INFINITY),
    ];
    (prop::option::of(-4i64..4), prop::option::of(double))
}

fn leaf() -> impl Strategy<Value = Predicate> {
    (0usize..8, any::<bool>(), value(), value()).prop_map(|(kind, is_long, one, other)| {
        let column = if is_long { "a" } else { "b" }.to_owned();
        let literal = |v: (Option<i64>, Option<f64>)| -> ArrayRef {
            if is_long { Arc::new(Int64Array::from(vec![v.0])) } else { Arc::new(Float64Array::from(vec![v.1])) }
        };
        let both: ArrayRef = if is_long {
            Arc::new(Int64Array::from(vec![one.0, other.0]))
        } else {
            Arc::new(Float64Array::from(vec![one.1, other.1]))
        };
        match kind {
            0 => Predicate::Eq(column, literal(one)),
            1 => Predicate::NotEq(column, literal(one)),
            2 => Predicate::Lt(column, literal(one)),
            3 => Predicate::LtEq(column, literal(one)),
            4 => Predicate::Gt(column, literal(one)),
            5 => Predicate::GtEq(column, literal(one)),
            6 => Predicate::In(column, both),
            _ if one.0.is_some() => Predicate::IsNull(column),
            _ => Predicate::IsNotNull(column),
        }
    })
}

fn tree() -> impl Strategy<Value = Predicate> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::And),
            prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::Or),
            inner.prop_map(|one| Predicate::Not(Box::new(one))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Rows are mixed as mergers may do it: each value of a row from any of its slice's files.
    #[test]
    fn no_slice_with_a_match_is_left_out(
        files in prop::collection::vec((prop::collection::vec(value(), 0..4), 0usize..3, any::<bool>()), 1..6),
        predicate in tree(),
    ) {
        let slice_of: Vec<usize> = files.iter().map(|(_, slice, _)| *slice).collect();
        let (mut longs, mut doubles) = (Vec::new(), Vec::new());
        for (rows, _, is_known) in &files {
            let (long, double) = stats_of(rows);
            longs.push(Some(long));
            // A file may lack the statistics of a column.
            doubles.push(is_known.then_some(double));
        }
        let given = Given(BTreeMap::from([("a", longs), ("b", doubles)]));
        let kept = matching_slices(&predicate, 3, &slice_of, &given).unwrap();
        for (slice, kept) in kept.iter().enumerate() {
            let rows: Rows =
                files.iter().filter(|(_, of, _)| *of == slice).flat_map(|(rows, ..)| rows.iter().copied()).collect();
            let mixed: Rows = rows.iter().flat_map(|one| rows.iter().map(move |other| (one.0, other.1))).collect();
            let matches = predicate.evaluate(&batch(&mixed)).unwrap().true_count() > 0;
            prop_assert!(*kept || !matches, "{predicate:?} holds in slice {slice}: {mixed:?}");
        }
    }

    /// What can be told by a comparison of one column is told.
    #[test]
    fn slices_out_of_range_are_left_out(rows in prop::collection::vec(-4i64..4, 1..4), beyond in 5i64..9) {
        let rows: Rows = rows.into_iter().map(|v| (Some(v), Some(v as f64 - 4.5))).collect();
        let (long, double) = stats_of(&rows);
        let given = Given(BTreeMap::from([("a", vec![Some(long)]), ("b", vec![Some(double)])]));
        let literal: ArrayRef = Arc::new(Int64Array::from(vec![beyond]));
        for predicate in [
            Predicate::Eq("a".into(), literal.clone()),
            Predicate::In("a".into(), literal.clone()),
            Predicate::Gt("a".into(), literal.clone()),
            Predicate::GtEq("a".into(), literal),
            Predicate::IsNull("a".into()),
            Predicate::Eq("b".into(), Arc::new(Float64Array::from(vec![beyond as f64]))),
        ] {
            prop_assert_eq!(matching_slices(&predicate, 1, &[0], &given).unwrap(), vec![false], "{:?}", predicate);
        }
    }
}
