//! Record keys of one partition: each once, and each within the range that its file's footer states.
//!
//! Memory is bounded: a pass keeps the hashes of one share of the keys, and large partitions take several passes.

use std::collections::{HashMap, HashSet};

use arrow::array::Array;

use crate::error::Result;
use crate::file_group::BaseFile;
use crate::file_group::base::keys::compare_keys;
use crate::file_group::base::{BaseFileReader, KeyRange};
use crate::merge::hash_key;
use crate::storage::Storage;
use crate::table::key_arrays;
use crate::table::keygen::KeyGenConfig;

/// Hashes held at once; a hash takes some 16 bytes.
const KEYS_A_PASS: u64 = 8 << 20;
/// Hashes that were met twice and are looked at again, at most.
const SUSPECTS: usize = 100_000;

/// Where keys are read from.
pub(super) struct KeySource<'a> {
    pub(super) storage: &'a Storage,
    /// How keys are computed where the table has no meta columns.
    pub(super) virtual_keys: Option<&'a KeyGenConfig>,
}

impl KeySource<'_> {
    fn each(&self, file: &BaseFile, mut use_key: impl FnMut(&str)) -> Result<()> {
        for keys in key_arrays(self.storage, file, self.virtual_keys)? {
            let keys = keys?;
            (0..keys.len()).filter(|row| keys.is_valid(*row)).for_each(|row| use_key(keys.value(row)));
        }
        Ok(())
    }
}

/// What was found in one partition.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Rows with a key.
    pub(super) keys: u64,
    /// Keys that are in several rows.
    pub(super) repeated: usize,
    /// One of them, and where it is.
    pub(super) example: Option<String>,
    /// Files with a key outside the range of their footer.
    pub(super) out_of_range: Vec<(String, String)>,
}

pub(super) fn duplicates(source: &KeySource<'_>, files: &[BaseFile]) -> Result<Found> {
    let mut found = Found::default();
    let mut rows = 0;
    let mut ranges: Vec<Option<KeyRange>> = Vec::with_capacity(files.len());
    for file in files {
        let reader = BaseFileReader::open(source.storage.reader(&file.path, file.size)?)?;
        rows += reader.rows();
        ranges.push(reader.key_range().filter(|_| source.virtual_keys.is_none()));
    }
    let passes = rows.div_ceil(KEYS_A_PASS).max(1);
    let mut suspects: HashSet<u64> = HashSet::new();
    for pass in 0..passes {
        let mut seen: HashSet<u64> = HashSet::with_capacity(usize::try_from(rows / passes).unwrap_or(0));
        for (file, range) in files.iter().zip(&ranges) {
            let mut stray = None;
            source.each(file, |key| {
                let hash = hash_key(key);
                if hash % passes != pass {
                    return;
                }
                found.keys += 1;
                if !seen.insert(hash) && suspects.len() < SUSPECTS {
                    suspects.insert(hash);
                }
                if stray.is_none() && range.as_ref().is_some_and(|r| is_outside(r, key)) {
                    stray = Some(key.to_owned());
                }
            })?;
            if let Some(key) = stray {
                let message = format!("the key '{key}' is outside the range that the file's footer states");
                found.out_of_range.push((file.path.clone(), message));
            }
        }
    }
    confirm(source, files, &suspects, &mut found)?;
    Ok(found)
}

fn is_outside(range: &KeyRange, key: &str) -> bool {
    compare_keys(key, &range.min).is_lt() || compare_keys(key, &range.max).is_gt()
}

/// Two keys may share a hash: compares the keys themselves.
fn confirm(source: &KeySource<'_>, files: &[BaseFile], suspects: &HashSet<u64>, found: &mut Found) -> Result<()> {
    if suspects.is_empty() {
        return Ok(());
    }
    let mut first_seen: HashMap<String, (usize, bool)> = HashMap::new();
    let mut example: Option<(String, usize, usize)> = None;
    for (index, file) in files.iter().enumerate() {
        source.each(file, |key| {
            if !suspects.contains(&hash_key(key)) {
                return;
            }
            match first_seen.get_mut(key) {
                None => {
                    first_seen.insert(key.to_owned(), (index, false));
                }
                Some((first, repeated)) => {
                    found.repeated += usize::from(!*repeated);
                    *repeated = true;
                    example.get_or_insert_with(|| (key.to_owned(), *first, index));
                }
            }
        })?;
    }
    let path = |index: usize| files.get(index).map_or("", |f| f.path.as_str());
    found.example = example.map(|(key, a, b)| match a == b {
        true => format!("'{key}' twice in {}", path(a)),
        false => format!("'{key}' in {} and {}", path(a), path(b)),
    });
    Ok(())
}
