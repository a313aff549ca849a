//! Decoders that were made before. The log blocks of a metadata table all have one schema: to make its decoder anew for each
//! block takes most of the time of a read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, TryLockError};

use super::record_decoder::RecordDecoder;
use hoodoo_runtime::error::Result;

/// So many of them are kept, the last ones that were used.
const KEPT: usize = 16;
/// Longer schemas, in bytes, are few in a process: tables of thousands of columns.
const LONGEST: usize = 64 << 10;

/// What a decoder is made of.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    schema: String,
    columns: Vec<String>,
    batch_rows: usize,
}

impl Key {
    fn is_of(&self, schema: &str, columns: &[&str], batch_rows: usize) -> bool {
        self.batch_rows == batch_rows && self.schema == schema && self.columns == columns
    }
}

/// The last one that was used comes first.
#[derive(Default)]
struct Cache(VecDeque<(Key, Arc<RecordDecoder>)>);

static CACHE: Mutex<Cache> = Mutex::new(Cache(VecDeque::new()));

impl Cache {
    fn get(&mut self, schema: &str, columns: &[&str], batch_rows: usize) -> Option<Arc<RecordDecoder>> {
        let at = self.0.iter().position(|(key, _)| key.is_of(schema, columns, batch_rows))?;
        let known = self.0.remove(at)?;
        let decoder = known.1.clone();
        self.0.push_front(known);
        Some(decoder)
    }

    fn put(&mut self, key: Key, decoder: Arc<RecordDecoder>) {
        self.0.truncate(KEPT - 1);
        self.0.push_front((key, decoder));
    }
}

/// Uses the cache, unless another thread does: a child process of a fork would wait for a thread that it does not have.
fn with_cache<T>(act: impl FnOnce(&mut Cache) -> T) -> Option<T> {
    match CACHE.try_lock() {
        Ok(mut cache) => Some(act(&mut cache)),
        Err(TryLockError::Poisoned(cache)) => Some(act(&mut cache.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A decoder of those of `columns` that records of a schema have.
///
/// # Errors
/// Those of [`RecordDecoder::new`].
pub(super) fn decoder(schema: &str, columns: &[&str], batch_rows: usize) -> Result<Arc<RecordDecoder>> {
    if let Some(known) = with_cache(|cache| cache.get(schema, columns, batch_rows)).flatten() {
        return Ok(known);
    }
    let made = Arc::new(RecordDecoder::new(schema, columns, batch_rows)?);
    if schema.len() <= LONGEST {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        with_cache(|cache| cache.put(Key { schema: schema.to_owned(), columns, batch_rows }, made.clone()));
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_last_ones_that_were_used_are_kept() {
        let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "c", "type": "long"}]}"#;
        let made = Arc::new(RecordDecoder::new(schema, &["c"], 8).unwrap());
        let key = |rows| Key { schema: schema.to_owned(), columns: vec!["c".to_owned()], batch_rows: rows };
        let mut cache = Cache::default();
        for rows in 0..KEPT {
            cache.put(key(rows), made.clone());
        }
        assert!(cache.get(schema, &["c"], 0).is_some());
        cache.put(key(100), made);
        assert!(cache.get(schema, &["c"], 0).is_some(), "it was used");
        assert!(cache.get(schema, &["c"], 1).is_none(), "it was not");
        assert!(cache.get(schema, &["c"], 100).is_some());
        assert!(cache.get(schema, &[], 100).is_none(), "other columns");
        assert!(cache.get("{}", &["c"], 100).is_none(), "another schema");
        assert_eq!(cache.0.len(), KEPT);
    }

    #[test]
    fn a_decoder_is_made_once_unless_another_thread_looks_for_one() {
        let schema = r#"{"type": "record", "name": "once", "fields": [{"name": "c", "type": "long"}]}"#;
        let made = || decoder(schema, &["c"], 8).unwrap();
        // Other tests use the cache at the same time.
        assert!((0..1000).any(|_| Arc::ptr_eq(&made(), &made())));
        let held = CACHE.lock();
        assert!(!Arc::ptr_eq(&made(), &made()));
        drop(held);
    }

    #[test]
    fn what_is_no_schema_is_an_error_each_time() {
        for _ in 0..2 {
            assert!(decoder("{", &["c"], 8).is_err());
        }
    }
}
