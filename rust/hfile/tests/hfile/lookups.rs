//! Lookups in indexes of several levels, and what they need of keys and files.

use bytes::Bytes;
use hoodoo_hfile::{HFileError, HFileReader};
use proptest::prelude::*;

use crate::linear::{found, numbered, read, scan, with_keys, with_prefixes};
use crate::maker::Maker;

#[test]
fn indexes_of_several_levels() {
    let mut entries = numbered(60);
    entries.push((vec![b'z'; 300], Vec::new()));
    let keys: Vec<Vec<u8>> = entries.iter().map(|(key, _)| key.clone()).collect();
    for levels in 1..=4 {
        for (gzip, checksum) in [(false, 0), (true, 1), (false, 2), (true, 2)] {
            let maker = Maker { gzip, checksum, levels, ..Maker::default() };
            let reader = HFileReader::open(Bytes::from(maker.make(&entries))).unwrap();
            assert_eq!(scan(&reader).unwrap(), entries, "{maker:?}");
            assert_eq!(reader.file_info("name").map(|value| value.to_vec()), Some(b"v".to_vec()));
            for list in [&keys[..], &keys[17..18], &keys[58..], &keys[..0]] {
                assert_eq!(found(reader.get_many(list).unwrap()).unwrap(), with_keys(&entries, list), "{maker:?}");
            }
            for prefix in ["", "hudi-key-00000002", "hudi-key-000000042", "zz", "zzy", "a", "hudi-key-0000001x"] {
                let expected = with_prefixes(&entries, &[prefix.as_bytes().to_vec()]);
                assert_eq!(found(reader.prefix(&prefix).unwrap()).unwrap(), expected, "{maker:?} {prefix}");
            }
        }
    }
}

#[test]
fn keys_of_a_lookup_are_sorted_and_unique() {
    let reader = HFileReader::open(Bytes::from(Maker::default().make(&numbered(9)))).unwrap();
    for keys in [["a", "c", "b"], ["a", "b", "b"]] {
        assert!(matches!(reader.get_many(&keys), Err(HFileError::UnsortedKeys { position: 2 })));
        assert!(matches!(reader.prefixes(&keys), Err(HFileError::UnsortedKeys { position: 2 })));
    }
}

#[test]
fn a_file_that_is_not_sorted_can_be_read_but_not_searched() {
    for swapped in [[0, 1], [1, 6]] {
        let mut entries = numbered(9);
        entries.swap(swapped[0], swapped[1]);
        let file = Maker::default().make(&entries);
        assert_eq!(read(&file).unwrap(), entries);
        let reader = HFileReader::open(Bytes::from(file)).unwrap();
        let keys: Vec<Vec<u8>> = numbered(9).into_iter().map(|(key, _)| key).collect();
        let error = reader.get_many(&keys).and_then(found).unwrap_err();
        assert!(matches!(error, HFileError::UnsortedEntries { .. }), "{error}");
    }
    // The first keys of the blocks are not sorted.
    let mut entries = numbered(9);
    entries.rotate_left(4);
    let reader = HFileReader::open(Bytes::from(Maker::default().make(&entries))).unwrap();
    assert!(matches!(reader.get(b"k"), Err(HFileError::UnsortedEntries { .. })));
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_lookup_is_as_a_linear_scan(
        rows in prop::collection::btree_map(key(), prop::collection::vec(any::<u8>(), 0..9), 0..80),
        keys in prop::collection::btree_set(key(), 0..12),
        levels in 1..4u64,
        fan_out in 1..6usize,
    ) {
        let entries: Vec<_> = rows.into_iter().collect();
        let keys: Vec<_> = keys.into_iter().collect();
        let file = Maker { levels, fan_out, ..Maker::default() }.make(&entries);
        let reader = HFileReader::open(Bytes::from(file)).unwrap();
        prop_assert_eq!(found(reader.get_many(&keys).unwrap()).unwrap(), with_keys(&entries, &keys));
        prop_assert_eq!(found(reader.prefixes(&keys).unwrap()).unwrap(), with_prefixes(&entries, &keys));
    }
}
