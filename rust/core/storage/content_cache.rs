//! The content of files that never change, such as completed instants: in an object store each look at one is a request,
//! and every view of a table looks at all that replaced file groups.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use bytes::Bytes;
use futures::StreamExt;
use object_store::ObjectStoreExt;

use super::Storage;
use super::runtime::block_on_read;
use crate::error::Result;

/// Bytes that are kept for a table.
const MOST: usize = 16 << 20;
/// Files that are fetched at a time.
const AT_ONCE: usize = 32;
/// Larger files are not kept.
const LARGEST: usize = 1 << 20;

/// Files by path, the oldest ones first to go.
#[derive(Default)]
pub(super) struct ContentCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    files: HashMap<String, Bytes>,
    order: VecDeque<String>,
    bytes: usize,
}

impl ContentCache {
    // Nobody waits here: a forked child may find a lock that is never given back.
    fn get(&self, path: &str) -> Option<Bytes> {
        self.0.try_lock().ok()?.files.get(path).cloned()
    }

    fn put(&self, path: &str, content: &Bytes) {
        if content.is_empty() || content.len() > LARGEST {
            return;
        }
        let Ok(mut kept) = self.0.try_lock() else { return };
        if kept.files.insert(path.to_owned(), content.clone()).is_some() {
            return;
        }
        kept.order.push_back(path.to_owned());
        kept.bytes += content.len();
        while kept.bytes > MOST {
            let Some(oldest) = kept.order.pop_front() else { return };
            let freed = kept.files.remove(&oldest).map_or(0, |content| content.len());
            kept.bytes = kept.bytes.saturating_sub(freed);
        }
    }
}

impl Storage {
    /// The content of a file that nobody changes once it is there, and that the caller has just seen in a listing. From an
    /// object store it is fetched once.
    pub fn read_unchanging(&self, path: &str) -> Result<Bytes> {
        if !self.is_remote() {
            return self.read(path);
        }
        if let Some(content) = self.kept.get(path) {
            return Ok(content);
        }
        let content = self.read(path)?;
        self.kept.put(path, &content);
        Ok(content)
    }

    /// Fetches files that nobody changes and that were not fetched before, many at a time. What fails is tried again, and
    /// explained, when it is read.
    pub fn fetch_unchanging(&self, paths: &[String]) {
        let mut missing: Vec<_> = paths.iter().filter(|path| self.kept.get(path).is_none()).collect();
        missing.sort();
        missing.dedup();
        if !self.is_remote() || missing.len() < 2 {
            return;
        }
        let keyed = missing.into_iter().filter_map(|path| Some((path, self.key(path).ok()?)));
        let fetch = |(path, key): (&String, object_store::path::Path)| {
            let (store, path) = (self.store.clone(), path.clone());
            async move { (path, async { store.get(&key).await?.bytes().await }.await) }
        };
        let fetches = futures::stream::iter(keyed.map(fetch)).buffer_unordered(AT_ONCE).collect::<Vec<_>>();
        for (path, content) in block_on_read(async { Ok(fetches.await) }).unwrap_or_default() {
            if let Ok(content) = content {
                self.kept.put(&path, &content);
            }
        }
    }

    /// Spares fetching what was just written into a file that nobody changes once it is there.
    pub fn cache_unchanging(&self, path: &str, content: &Bytes) {
        if self.is_remote() {
            self.kept.put(path, content);
        }
    }

    /// Has files that never change fetched once more: whether they did change is what somebody wants to know.
    pub fn forget_unchanging(&self) {
        if let Ok(mut kept) = self.kept.0.try_lock() {
            *kept = Cached::default();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_oldest_go_first_and_large_ones_are_not_kept() {
        let kept = ContentCache::default();
        let half = Bytes::from(vec![1; LARGEST]);
        let count = MOST / LARGEST;
        (0..=count).for_each(|n| kept.put(&n.to_string(), &half));
        assert!(kept.get("0").is_none() && kept.get("1").is_some() && kept.get(&count.to_string()).is_some());
        kept.put("large", &Bytes::from(vec![1; LARGEST + 1]));
        kept.put("empty", &Bytes::new());
        assert!(kept.get("large").is_none() && kept.get("empty").is_none());
    }
}
