//! Files that HBase wrote; their origin is in `tests/fixtures/README.md`.

use std::path::Path;

use bytes::Bytes;
use hoodoo_hfile::{HFileError, HFileReader};

use crate::linear::{Pair, found, numbered, read, scan, with_keys, with_prefixes};

const FILES: [&str; 4] = [
    "hudi_1_0_hbase_2_4_9_16KB_GZ_20000",
    "hudi_1_0_hbase_2_4_9_64KB_NONE_5000",
    "hudi_1_0_hbase_2_4_9_16KB_GZ_200_20_non_unique",
    "hudi_1_0_hbase_2_4_9_no_entry",
];

fn fixture(name: &str) -> Bytes {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/hfiles");
    std::fs::read(folder.join(name).with_extension("hfile")).unwrap().into()
}

/// Each key has a value, and then the values `_0` to `_19`.
fn copies() -> Vec<Pair> {
    let all = numbered(200).into_iter().flat_map(|(key, value)| {
        let more = (0..20).map({
            let (key, value) = (key.clone(), value.clone());
            move |n| (key.clone(), [value.as_slice(), format!("_{n}").as_bytes()].concat())
        });
        std::iter::once((key, value)).chain(more)
    });
    all.collect()
}

#[test]
fn all_entries() {
    let expected = [numbered(20_000), numbered(5_000), copies(), Vec::new()];
    for (name, expected) in FILES.into_iter().zip(expected) {
        let reader = HFileReader::open(fixture(name)).unwrap();
        assert_eq!(reader.entry_count(), expected.len() as u64, "{name}");
        assert_eq!(scan(&reader).unwrap(), expected, "{name}");
    }
}

#[test]
fn file_info_and_meta_blocks() {
    for name in FILES {
        let reader = HFileReader::open(fixture(name)).unwrap();
        assert_eq!(reader.file_info("KEY_VALUE_VERSION").map(|value| value.to_vec()), None.or(Some(vec![0, 0, 0, 1])));
        assert_eq!(reader.file_info("no such name"), None);
        assert_eq!(reader.meta_block("no such name").unwrap(), None);
    }
}

#[test]
fn keys_are_found_as_by_a_linear_scan() {
    for name in FILES {
        let reader = HFileReader::open(fixture(name)).unwrap();
        let all = scan(&reader).unwrap();
        for step in [1, 7, 500] {
            let mut keys: Vec<Vec<u8>> = (0..21_000).step_by(step).map(|n| numbered_key(n, "")).collect();
            keys.extend((0..21_000).step_by(step * 100).map(|n| numbered_key(n, "x")));
            keys.extend([b"".to_vec(), b"a".to_vec(), b"z".to_vec()]);
            keys.sort();
            let expected = if step == 1 { all_of(&all, &keys) } else { with_keys(&all, &keys) };
            assert_eq!(found(reader.get_many(&keys).unwrap()).unwrap(), expected, "{name} {step}");
            for key in keys.iter().step_by(keys.len() / 50 + 1) {
                let first = all.iter().find(|(found, _)| found == key).map(|(_, value)| value.clone());
                assert_eq!(reader.get(key).unwrap().map(|value| value.to_vec()), first, "{name}");
            }
        }
    }
}

/// As `with_keys`, for as many keys as entries.
fn all_of(entries: &[Pair], keys: &[Vec<u8>]) -> Vec<(usize, Pair)> {
    let of = |entry: &Pair| keys.binary_search(&entry.0).ok().map(|key| (key, entry.clone()));
    entries.iter().filter_map(of).collect()
}

fn numbered_key(number: usize, end: &str) -> Vec<u8> {
    format!("hudi-key-{number:09}{end}").into_bytes()
}

#[test]
fn prefixes_are_found_as_by_a_linear_scan() {
    for name in FILES {
        let reader = HFileReader::open(fixture(name)).unwrap();
        let all = scan(&reader).unwrap();
        let lists: [&[&str]; 6] = [
            &["hudi-key-0000042"],
            &["hudi-key-00000", "hudi-key-0000012", "hudi-key-000019999"],
            &["", "a"],
            &["a", "hudi-key-0000001", "hudi-key-0000003", "hudi-key-00000499", "z"],
            &["hudi-key-000000198", "hudi-key-000000199"],
            &[],
        ];
        for prefixes in lists {
            let prefixes: Vec<Vec<u8>> = prefixes.iter().map(|prefix| prefix.as_bytes().to_vec()).collect();
            let expected = with_prefixes(&all, &prefixes);
            assert_eq!(found(reader.prefixes(&prefixes).unwrap()).unwrap(), expected, "{name} {prefixes:?}");
        }
        let expected = with_prefixes(&all, &[b"hudi-key-00000007".to_vec()]);
        assert_eq!(found(reader.prefix(&"hudi-key-00000007").unwrap()).unwrap(), expected);
    }
}

#[test]
fn checksums_of_hbase_are_verified() {
    let whole = fixture("hudi_1_0_hbase_2_4_9_64KB_NONE_5000");
    // Values of entries: nothing else would notice.
    for at in [60, 65_000, 70_000, 262_500] {
        let mut changed = whole.to_vec();
        changed[at] ^= 1;
        assert!(matches!(read(&changed).unwrap_err(), HFileError::ChecksumMismatch { .. }), "{at}");
    }
}
