//! Starts the requests of a [`ReadAhead`], and gives readers what they brought.

use std::sync::Arc;

use bytes::Bytes;
use object_store::GetOptions;
use tokio::task::JoinHandle;

use super::read_ahead::{Queue, ReadAhead};
use super::runtime::{block_on_read, runtime};
use super::small_files::LARGEST;
use super::store::Storage;
use super::windows::TAIL;
use hoodoo_runtime::simulated;

/// Files that are fetched ahead of the one that is read.
const AHEAD: usize = 16;

impl Storage {
    /// The same storage, for somebody who reads these files with their sizes, in their order: their first requests are made
    /// ahead, many at a time. A disk needs no such thing.
    #[must_use]
    pub fn reading_ahead<'f>(&self, files: impl Iterator<Item = (&'f str, u64)>) -> Self {
        // Requests of a simulated process have one order.
        if !self.is_remote() || simulated::is_on() {
            return self.clone();
        }
        let is_worth_it = |(path, size): &(&str, u64)| *size > 0 && (path.ends_with(".parquet") || *size <= TAIL);
        let waiting = files.filter(is_worth_it).map(|(path, size)| (path.to_owned(), size)).collect();
        Self { ahead: Some(Arc::new(ReadAhead::new(waiting))), ..self.clone() }
    }

    /// The end of a file, if it was fetched ahead. What failed is tried again, and explained, by the reader.
    pub(super) fn fetched_ahead(&self, path: &str) -> Option<Bytes> {
        let ahead = self.ahead.as_ref()?;
        let fetch = {
            let mut queue = ahead.queue();
            self.begin_more(&mut queue);
            let fetch = queue.fetching.remove(path);
            if fetch.is_none() {
                queue.read.insert(path.to_owned());
            }
            self.begin_more(&mut queue);
            fetch?
        };
        block_on_read(async { Ok(fetch.await.ok().flatten()) }).ok().flatten()
    }

    fn begin_more(&self, queue: &mut Queue) {
        while queue.fetching.len() < AHEAD {
            let Some((path, size)) = queue.waiting.pop_front() else { return };
            if queue.read.remove(&path) || self.small.get(&path, size).is_some() {
                continue;
            }
            if let Some(fetch) = self.fetch_end(&path, size) {
                queue.fetching.insert(path, fetch);
            }
        }
    }

    fn fetch_end(&self, path: &str, size: u64) -> Option<JoinHandle<Option<Bytes>>> {
        let (key, store, small, path) = (self.key(path).ok()?, self.store.clone(), self.small.clone(), path.to_owned());
        let range = size.saturating_sub(TAIL)..size;
        let fetch = async move {
            let listings = small.listings();
            let options = GetOptions { range: Some(range.clone().into()), ..Default::default() };
            let found = store.get_opts(&key, options).await.ok()?;
            let tag = found.meta.e_tag.clone();
            let content = found.bytes().await.ok().filter(|bytes| bytes.len() as u64 == range.end - range.start)?;
            if size <= LARGEST {
                small.put(&path, tag.as_deref(), &content, listings);
            }
            Some(content)
        };
        Some(runtime().ok()?.spawn(fetch))
    }
}
