#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use super::bit_row::{Remainder, tail};
use super::*;
use proptest::prelude::*;

fn keys(n: usize) -> Vec<StringArray> {
    vec![
        (0..n / 2).map(|i| Some(format!("key-{i}"))).collect(),
        (n / 2..n).map(|i| Some(format!("k\u{e9}y:{i:05}"))).collect(),
    ]
}

fn all(arrays: &[StringArray]) -> Vec<String> {
    arrays.iter().flat_map(|a| a.iter().flatten().map(str::to_owned)).collect()
}

#[test]
fn sizes_as_hudi_does() {
    let row = BitRow::sized(60_000, 1e-9).unwrap();
    assert_eq!((row.bits, row.hashes), (2_587_966, 30));
}

#[test]
fn remainder_is_remainder() {
    for d in [1u32, 2, 3, 44, 1000, 2_587_966, i32::MAX as u32] {
        for x in [0u32, 1, 2, 43, 44, 45, 999_999_999, i32::MAX as u32, 1 << 31] {
            assert_eq!(Remainder::by(d).of(x), x % d, "{x} % {d}");
        }
    }
}

#[test]
fn every_layout_finds_its_keys_after_a_round_trip() {
    for filter_type in [BloomFilterType::Simple, BloomFilterType::DynamicV0] {
        for sizing in [BloomSizing::ByRows, BloomSizing::Configured { entries: 300, max_entries: 900 }] {
            let options = BloomOptions { filter_type, sizing, ..Default::default() };
            let keys = keys(1000);
            let filter = BloomFilter::build(&options, &keys, 1).unwrap();
            let text = filter.to_base64();
            assert_eq!(text.len(), filter.base64_len());
            let back = BloomFilter::from_base64(filter_type, &text).unwrap();
            assert!(all(&keys).iter().all(|k| back.might_contain(k)));
            assert_eq!(back.to_base64(), text);
            if sizing == BloomSizing::ByRows {
                let false_positives = (0..2000).filter(|i| back.might_contain(&format!("other-{i}"))).count();
                assert_eq!(false_positives, 0);
                let estimate = options.string_len(1000);
                assert!(text.len().abs_diff(estimate) < 64, "{} {estimate}", text.len());
            }
        }
    }
}

#[test]
fn threads_do_not_change_the_bits() {
    let keys = keys(200_000);
    let options = BloomOptions::default();
    let one = BloomFilter::build(&options, &keys, 1).unwrap();
    assert_eq!(one, BloomFilter::build(&options, &keys, 3).unwrap());
}

#[test]
fn no_keys_make_a_small_filter() {
    let filter = BloomFilter::build(&BloomOptions::default(), &[], 1).unwrap();
    assert!(filter.to_base64().len() < 100);
    assert!(!filter.might_contain("a"));
}

#[test]
fn refuses_impossible_rates() {
    for fpp in [0.0, 1.0, -1.0, f64::NAN] {
        let error = BloomFilter::build(&BloomOptions { fpp, ..Default::default() }, &[], 1).unwrap_err();
        assert_eq!(error.kind(), hoodoo_runtime::ErrorKind::InvalidOption);
    }
}

#[test]
fn joined_filters_know_the_keys_of_all() {
    let options = BloomOptions::default();
    let filter = |strings: &[&str]| {
        let keys = strings.iter().map(|t| Some(*t)).collect::<StringArray>();
        BloomFilter::build(&options, &[keys], 1).unwrap()
    };
    let (one, two) = (filter(&["a", "b", "c"]), filter(&["d"]));
    assert!(BloomFilter::can_join([&one, &two]));
    let joined = BloomFilter::joined(vec![one.clone(), two.clone()]).unwrap();
    assert!(["a", "b", "c", "d"].iter().all(|key| joined.might_contain(key)));
    assert!(!joined.might_contain("e"));
    let read = BloomFilter::from_base64(BloomFilterType::DynamicV0, &joined.to_base64()).unwrap();
    assert_eq!(read, joined);
    let simple = BloomOptions { filter_type: BloomFilterType::Simple, ..options.clone() };
    let simple = BloomFilter::build(&simple, &keys(4), 1).unwrap();
    assert!(!BloomFilter::can_join([&one, &simple]));
    assert!(!BloomFilter::can_join(std::iter::repeat_n(&one, MAX_JOINED_ROWS)));
    assert!(BloomFilter::joined(Vec::new()).is_none());
}

#[test]
fn filters_are_sized_for_about_as_many_keys() {
    let options = BloomOptions::default();
    let ours = BloomFilter::build(&options, &keys(10_000), 1).unwrap();
    let theirs = BloomOptions { sizing: BloomSizing::HUDI, ..options.clone() };
    let theirs = BloomFilter::build(&theirs, &keys(10_000), 1).unwrap();
    let fits = |filter: &BloomFilter, keys: usize| filter.is_sized_for(&options, keys);
    assert!(fits(&ours, 10_000) && !fits(&ours, 5_000) && !fits(&ours, 20_000));
    assert!(fits(&theirs, 55_000) && !fits(&theirs, 10_000) && !fits(&theirs, 100_000));
    assert!(!ours.is_sized_for(&BloomOptions { filter_type: BloomFilterType::Simple, ..options.clone() }, 10_000));
}

#[test]
fn hash_sign_extends_the_tail_and_counts_from_its_end() {
    assert_eq!(tail(&[0xff]), u32::MAX);
    assert_eq!(tail(&[0x01, 0x80]), 0xffff_fe80);
    assert_eq!(tail(&[0x80, 0, 0]), 0xff80_0000);
    assert_eq!(tail(b"123"), 0x0031_3233);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn lanes_hash_as_one_by_one(words in prop::collection::vec("\\PC{0,40}", 0..200), n in 1usize..500) {
        let mut one = BitRow::sized(n, 1e-9).unwrap();
        let mut many = one.clone();
        for w in &words {
            one.insert(w.as_bytes());
        }
        many.insert_all(words.iter().map(|w| w.as_bytes()));
        prop_assert_eq!(one, many);
    }

    #[test]
    fn hostile_bytes_give_an_error_or_a_filter(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in 0usize..35,
        value in any::<u8>(),
    ) {
        for filter_type in [BloomFilterType::Simple, BloomFilterType::DynamicV0] {
            let _ = BloomFilter::from_bytes(filter_type, &bytes);
            let options = BloomOptions { filter_type, ..Default::default() };
            let mut real = BloomFilter::build(&options, &keys(4), 1).unwrap().to_bytes();
            let mut cut = real.clone();
            real[at] = value;
            if let Ok(filter) = BloomFilter::from_bytes(filter_type, &real) {
                filter.might_contain("a");
            }
            cut.truncate(at);
            prop_assert!(BloomFilter::from_bytes(filter_type, &cut).is_err());
        }
    }
}
