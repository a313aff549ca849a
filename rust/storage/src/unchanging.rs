//! Reading files that nobody changes once they are there.

use bytes::Bytes;
use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::runtime::block_on_read;
use super::store::Storage;
use hoodoo_runtime::error::Result;

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

    /// The whole contents of files, in their order. Those that never change and were fetched before are not fetched again;
    /// the others are fetched many at a time, and not kept.
    pub(super) fn fetch_all(&self, paths: &[&str]) -> Result<Vec<Bytes>> {
        let mut contents: Vec<Option<Bytes>> = paths.iter().map(|path| self.kept.get(path)).collect();
        let mut missing = Vec::new();
        for (at, (path, _)) in paths.iter().zip(&contents).enumerate().filter(|(_, (_, known))| known.is_none()) {
            missing.push((at, self.key(path)?));
        }
        let fetch = |(at, key): (usize, Path)| {
            let store = self.store.clone();
            async move { (at, async { store.get(&key).await?.bytes().await }.await) }
        };
        let fetches = futures::stream::iter(missing.into_iter().map(fetch)).buffer_unordered(AT_ONCE);
        let fetched = block_on_read(async { Ok(fetches.collect::<Vec<_>>().await) });
        for (at, content) in fetched.map_err(|e| self.error("", "reading", e))? {
            let path = paths.get(at).copied().unwrap_or_default();
            let content = content.map_err(|e| self.error(path, "reading", e))?;
            if let Some(slot) = contents.get_mut(at) {
                *slot = Some(content);
            }
        }
        Ok(contents.into_iter().flatten().collect())
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
        self.small.clear();
    }
}
