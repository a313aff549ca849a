#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

fn schema() -> SchemaRef {
    let field = |name: &str, of: DataType| Field::new(name, of, true);
    Arc::new(Schema::new(vec![
        field("n", DataType::Int64),
        field("s", DataType::Utf8),
        field("f", DataType::Float64),
        field("row", DataType::Int64),
    ]))
}

type Row = (Option<i64>, Option<String>, Option<f64>);

/// The rows with their numbers.
fn batch(rows: &[Row], first: usize) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.1.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.2).collect::<Float64Array>()),
        Arc::new((first..first + rows.len()).map(|n| Some(n as i64)).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn order_by(names: &[&str]) -> OrderBy {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    Arc::new(move |batch| Ok(names.iter().map(|n| batch.column_by_name(n).unwrap().clone()).collect()))
}

fn sorter(names: &[&str], budget: usize, threads: usize) -> Sorter {
    let spill = SpillOptions { budget, folder: std::env::temp_dir() };
    Sorter::new(schema(), order_by(names), spill, threads).unwrap()
}

/// The numbers of the rows in their order.
fn numbers(rows: Rows) -> Vec<i64> {
    let batches: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
    let all = concat_batches(&schema(), &batches).unwrap();
    all.column(3).as_primitive::<Int64Type>().values().to_vec()
}

/// Nulls first; numbers as `total_cmp` has them.
fn expected(rows: &[Row], names: &[&str]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&rows[*a], &rows[*b]);
        let by = |name: &&str| match *name {
            "n" => a.0.cmp(&b.0),
            "s" => a.1.cmp(&b.1),
            _ => match (a.2, b.2) {
                (Some(x), Some(y)) => x.total_cmp(&y),
                (x, y) => x.is_some().cmp(&y.is_some()),
            },
        };
        names.iter().map(by).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    order.into_iter().map(|row| row as i64).collect()
}

fn value() -> impl Strategy<Value = Row> {
    let number = prop_oneof![Just(None), Just(Some(i64::MIN)), Just(Some(i64::MAX)), (-3..4i64).prop_map(Some)];
    let text =
        prop_oneof![Just(None), Just(Some(String::new())), "[a-b\\x00]{0,3}".prop_map(Some), "a{14,18}".prop_map(Some)];
    let float =
        prop_oneof![Just(None), Just(Some(f64::NAN)), Just(Some(-0.0)), (-2..3).prop_map(|n| Some(f64::from(n)))];
    (number, text, float)
}

/// Adds a batch whose first row has this number.
fn push(sorter: &mut Sorter, number: usize, batch: RecordBatch) {
    let keyed = sorter.keyer().keyed(batch).unwrap();
    sorter.push_keyed(number as u64, keyed).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rows_come_out_in_order(
        rows in prop::collection::vec(value(), 0..200),
        cut in 1..40usize,
        budget in prop_oneof![Just(0usize), Just(2000), Just(usize::MAX)],
        names in prop::sample::subsequence(vec!["n", "s", "f"], 1..4).prop_shuffle(),
    ) {
        let mut sorter = sorter(&names, budget, 1);
        for (i, part) in rows.chunks(cut).enumerate() {
            push(&mut sorter, i * cut, batch(part, i * cut));
        }
        prop_assert_eq!(numbers(sorter.finish().unwrap()), expected(&rows, &names));
    }
}

fn many(count: usize) -> Vec<Row> {
    let number = |i: usize| (i as i64).wrapping_mul(6_364_136_223_846_793_005) >> 40;
    (0..count).map(|i| (Some(number(i)), None, None)).collect()
}

#[test]
fn threads_and_runs_make_no_difference() {
    let rows = many(200_000);
    let wanted = expected(&rows, &["n"]);
    for (budget, threads) in [(usize::MAX, 1), (usize::MAX, 4), (3 << 20, 2)] {
        let mut sorter = sorter(&["n"], budget, threads);
        for (i, part) in rows.chunks(10_000).enumerate() {
            push(&mut sorter, i * 10_000, batch(part, i * 10_000));
        }
        assert_eq!(numbers(sorter.finish().unwrap()), wanted);
    }
}

#[test]
fn sorted_inputs_are_merged_with_the_others() {
    let rows = many(5000);
    let (head, tail) = rows.split_at(3000);
    let order: UInt32Array = expected(head, &["n"]).into_iter().map(|n| Some(n as u32)).collect();
    let sorted = take_record_batch(&batch(head, 0), &order).unwrap();
    let stream =
        |batch: RecordBatch| -> Rows { Box::new([batch.slice(0, 1), batch.slice(1, 2999)].into_iter().map(Ok)) };
    let mut one = sorter(&["n"], usize::MAX, 1);
    one.add_sorted(stream(sorted.clone())).unwrap();
    push(&mut one, 3000, batch(tail, 3000));
    assert_eq!(numbers(one.finish().unwrap()), expected(&rows, &["n"]));
    // Alone, too; and what is not sorted is found out.
    let mut alone = sorter(&["n"], 0, 1);
    alone.add_sorted(stream(sorted)).unwrap();
    assert_eq!(numbers(alone.finish().unwrap()).len(), 3000);
    let mut liar = sorter(&["n"], 0, 1);
    liar.add_sorted(stream(batch(head, 0))).unwrap();
    let failed = liar.finish().and_then(|rows| rows.collect::<Result<Vec<_>>>());
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn nothing_and_no_column() {
    let sorter = sorter(&["n"], 0, 1);
    assert_eq!(sorter.finish().unwrap().count(), 0);
    let spill = SpillOptions { budget: 0, folder: std::env::temp_dir() };
    let none: OrderBy = Arc::new(|_| Ok(Vec::new()));
    assert_eq!(Sorter::new(schema(), none, spill, 1).err().unwrap().kind(), ErrorKind::InvalidOption);
}

#[test]
fn ranges_that_are_sorted_one_after_the_other_join() {
    // More rows than a range has, many of them equal: a range ends between equal ones too.
    let rows: Vec<Row> = (0..250_000u64)
        .map(|i| {
            let mixed = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let number = (!mixed.is_multiple_of(11)).then_some((mixed % 9) as i64);
            (number, Some(format!("one and the same beginning {}", mixed % 5)), None)
        })
        .collect();
    for names in [&["n"][..], &["s"], &["f"], &["n", "s"]] {
        for threads in [1, 2, 3] {
            let mut sorter = sorter(names, 1 << 30, threads);
            let mut first = 0;
            // Batches of very different sizes.
            for size in [1, 100_000, 511, 32_768, 700, 60_000, 0, usize::MAX] {
                let end = rows.len().min(first + size.min(rows.len()));
                push(&mut sorter, first, batch(&rows[first..end], first));
                first = end;
            }
            assert_eq!(first, rows.len());
            let sorted = sorter.finish().unwrap();
            assert_eq!(numbers(sorted), expected(&rows, names), "{names:?} {threads}");
        }
    }
}
