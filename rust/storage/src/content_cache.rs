//! The content of files that never change, such as completed instants: in an object store each look at one is a request,
//! and every view of a table looks at all that replaced file groups.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use bytes::Bytes;

/// Bytes that are kept for a table.
const MOST: usize = 16 << 20;
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
    pub(super) fn get(&self, path: &str) -> Option<Bytes> {
        self.0.try_lock().ok()?.files.get(path).cloned()
    }

    pub(super) fn put(&self, path: &str, content: &Bytes) {
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

    pub(super) fn clear(&self) {
        if let Ok(mut kept) = self.0.try_lock() {
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
