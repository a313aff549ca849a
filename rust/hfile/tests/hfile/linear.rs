//! All that a file has, and lookups by looking at every entry.

use bytes::Bytes;
use hoodoo_hfile::{HFileError, HFileReader, Lookup, ReadAt};

pub type Pair = (Vec<u8>, Vec<u8>);

pub fn numbered(count: usize) -> Vec<Pair> {
    (0..count).map(|n| (format!("hudi-key-{n:09}").into_bytes(), format!("hudi-value-{n:09}").into_bytes())).collect()
}

pub fn scan<S: ReadAt>(reader: &HFileReader<S>) -> Result<Vec<Pair>, HFileError> {
    let mut found = Vec::new();
    for block in reader.data_blocks()? {
        let block = block?;
        let before = found.len();
        found.extend(block.entries().map(|entry| (entry.key.to_vec(), entry.value.to_vec())));
        assert_eq!(found.len() - before, block.count());
    }
    assert_eq!(found.len() as u64, reader.entry_count());
    Ok(found)
}

pub fn read(bytes: &[u8]) -> Result<Vec<Pair>, HFileError> {
    scan(&HFileReader::open(Bytes::copy_from_slice(bytes))?)
}

/// The number of the key, with the entry.
pub type Found = Vec<(usize, Pair)>;

pub fn found<S: ReadAt, K: AsRef<[u8]>>(lookup: Lookup<'_, S, K>) -> Result<Found, HFileError> {
    let mut found = Vec::new();
    for block in lookup {
        let block = block?;
        let before = found.len();
        found.extend(block.entries().map(|(key, entry)| (key, (entry.key.to_vec(), entry.value.to_vec()))));
        assert_eq!(found.len() - before, block.count());
        assert!(block.count() > 0);
    }
    Ok(found)
}

pub fn with_keys(entries: &[Pair], keys: &[Vec<u8>]) -> Found {
    let of = |entry: &Pair| keys.iter().position(|key| *key == entry.0).map(|key| (key, entry.clone()));
    entries.iter().filter_map(of).collect()
}

pub fn with_prefixes(entries: &[Pair], prefixes: &[Vec<u8>]) -> Found {
    let of = |entry: &Pair| prefixes.iter().position(|p| entry.0.starts_with(p)).map(|p| (p, entry.clone()));
    entries.iter().filter_map(of).collect()
}
