//! An HFile: all of its entries, its meta blocks, and lookups of what it has.
#![no_main]

use bytes::Bytes;
use hoodoo_hfile::{HFileError, HFileReader, HFileReaderOptions, Lookup};
use libfuzzer_sys::fuzz_target;

/// Keys and prefixes that are looked up.
const MOST_KEYS: usize = 50;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn scan(reader: &HFileReader<Bytes>) -> Result<Entries, HFileError> {
    let mut all = Vec::new();
    for block in reader.data_blocks()? {
        let block = block?;
        assert_eq!(block.entries().count(), block.count());
        all.extend(block.entries().map(|entry| (entry.key.to_vec(), entry.value.to_vec())));
    }
    assert_eq!(all.len() as u64, reader.entry_count());
    Ok(all)
}

/// An index that lies may hide entries, but what is found is what was looked for.
fn check(lookup: Result<Lookup<'_, Bytes, Vec<u8>>, HFileError>, all: &Entries, fits: impl Fn(usize, &[u8]) -> bool) {
    let Ok(lookup) = lookup else { return };
    for block in lookup.map_while(Result::ok) {
        assert!(block.count() > 0);
        for (key, entry) in block.entries() {
            assert!(fits(key, entry.key));
            assert!(all.iter().any(|(key, value)| key == entry.key && value == entry.value));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let options = HFileReaderOptions::default().tail_bytes(5_000).max_block_bytes(16 << 20);
    let Ok(reader) = HFileReader::open_with(Bytes::copy_from_slice(data), &options) else { return };
    let _ = reader.meta_block("bloomFilter");
    let _ = reader.get(b"key");
    let Ok(all) = scan(&reader) else { return };
    let mut keys: Vec<Vec<u8>> = all.iter().take(MOST_KEYS).map(|(key, _)| key.clone()).collect();
    keys.sort();
    keys.dedup();
    check(reader.get_many(&keys), &all, |number, key| keys[number] == key);
    check(reader.prefixes(&keys), &all, |number, key| key.starts_with(&keys[number]));
});
