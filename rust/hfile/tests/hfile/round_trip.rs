//! What is written is read.

use bytes::Bytes;
use hoodoo_hfile::{Codec, HFileReader, HFileWriter, HFileWriterOptions};
use proptest::prelude::*;

use crate::linear::{Pair, found, read, scan, with_keys, with_prefixes};

fn written(entries: &[Pair], options: &HFileWriterOptions) -> Bytes {
    let mut writer = HFileWriter::new(Vec::new(), options.clone());
    entries.iter().try_for_each(|(key, value)| writer.append(key, value)).unwrap();
    writer.finish().unwrap().into()
}

#[test]
fn no_entries() {
    for codec in [Codec::None, Codec::Gzip] {
        let file = written(&[], &HFileWriterOptions::default().codec(codec));
        assert_eq!(read(&file).unwrap(), []);
        let reader = HFileReader::open(file).unwrap();
        assert_eq!(reader.get(b"").unwrap(), None);
        assert_eq!(found(reader.prefix(b"").unwrap()).unwrap(), []);
        assert_eq!(reader.file_info("hfile.LASTKEY"), None);
    }
}

#[test]
fn long_keys_and_large_values() {
    let mut entries: Vec<Pair> = [0, 1, 124, 125, 126, 127, 128, 253, 254, 255, 256, 32_766, 32_767]
        .map(|length| (vec![b'k'; length], vec![b'v'; length * 3]))
        .to_vec();
    entries
        .push((b"l".to_vec(), (0..3_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect()));
    entries.push((b"m".to_vec(), Vec::new()));
    for codec in [Codec::None, Codec::Gzip] {
        for block_bytes in [1, 300, 1 << 20] {
            let file = written(&entries, &HFileWriterOptions::default().codec(codec).block_bytes(block_bytes));
            let reader = HFileReader::open(file).unwrap();
            assert_eq!(scan(&reader).unwrap(), entries);
            for (key, value) in &entries {
                assert_eq!(reader.get(key).unwrap().as_deref(), Some(value.as_slice()));
            }
        }
    }
}

fn some_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        "[a-c]{0,4}".prop_map(String::into_bytes),
        "\\PC{0,6}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_entries(
        rows in prop::collection::btree_map(some_key(), prop::collection::vec(any::<u8>(), 0..200), 0..60),
        others in prop::collection::btree_set(some_key(), 0..5),
        gzip in any::<bool>(),
        block_bytes in 1..3_000usize,
        meta in prop::collection::btree_map("[a-z]{0,200}", prop::collection::vec(any::<u8>(), 0..99), 0..4),
    ) {
        let entries: Vec<Pair> = rows.into_iter().collect();
        let codec = if gzip { Codec::Gzip } else { Codec::None };
        let options = HFileWriterOptions::default().codec(codec).block_bytes(block_bytes);
        let mut writer = HFileWriter::new(Vec::new(), options);
        for (key, value) in &entries {
            writer.append(key, value).unwrap();
        }
        for (name, content) in &meta {
            writer.add_meta_block(name, content.as_slice()).unwrap();
            writer.set_file_info(name, content.as_slice()).unwrap();
        }
        let reader = HFileReader::open(Bytes::from(writer.finish().unwrap())).unwrap();
        prop_assert_eq!(&scan(&reader).unwrap(), &entries);
        for (name, content) in &meta {
            prop_assert_eq!(&reader.meta_block(name).unwrap().unwrap(), content);
            prop_assert_eq!(reader.file_info(name).unwrap(), content);
        }
        let mut keys: Vec<Vec<u8>> = entries.iter().step_by(3).map(|(key, _)| key.clone()).chain(others).collect();
        keys.sort();
        keys.dedup();
        prop_assert_eq!(found(reader.get_many(&keys).unwrap()).unwrap(), with_keys(&entries, &keys));
        prop_assert_eq!(found(reader.prefixes(&keys).unwrap()).unwrap(), with_prefixes(&entries, &keys));
    }
}
