//! Reading files that nobody changes once they are there.

use bytes::Bytes;
use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::runtime::block_on_read;
use super::store::Storage;
use crate::error::Result;

/// Files that are fetched at a time.
const AT_ONCE: usize = 32;

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
        let fetch = |(path, key): (&String, Path)| {
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
        self.kept.clear();
    }
}
