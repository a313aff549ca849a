//! Small data files of an object store that were read. A table that is written often has many, and every look at it reads
//! them again: each takes a request.
//!
//! A file is kept with its entity tag. Each listing that shows it has to show that tag too, or it is fetched again: so
//! whoever reads a file by a listing gets what that listing shows.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use object_store::ObjectMeta;

/// Bytes that are kept for a table.
const MOST: usize = 16 << 20;
/// Larger files are not kept.
pub(super) const LARGEST: u64 = 64 << 10;

/// How often a thread tries to look at them while others do: nobody waits, because a forked child may find a lock that is
/// never given back.
const TRIES: u32 = 10_000;

/// Files by path, the oldest ones first to go.
#[derive(Default)]
pub(super) struct SmallFiles {
    kept: Mutex<Kept>,
    /// Whether a listing could not be compared with what is kept: then nothing of it is used any more.
    is_unsure: AtomicBool,
}

#[derive(Default)]
struct Kept {
    files: HashMap<String, SmallFile>,
    order: VecDeque<String>,
    bytes: usize,
    /// Number of listings so far.
    listings: u64,
}

struct SmallFile {
    tag: String,
    content: Bytes,
}

impl SmallFiles {
    fn kept(&self) -> Option<MutexGuard<'_, Kept>> {
        (0..TRIES).find_map(|_| {
            let kept = self.kept.try_lock().ok();
            if kept.is_none() {
                std::thread::yield_now();
            }
            kept
        })
    }

    /// The content of a file of this size.
    pub(super) fn get(&self, path: &str, size: u64) -> Option<Bytes> {
        let kept = self.kept()?;
        if self.is_unsure.load(Ordering::SeqCst) {
            return None;
        }
        kept.files.get(path).map(|file| file.content.clone()).filter(|content| content.len() as u64 == size)
    }

    /// The number of listings, to be given to [`SmallFiles::put`] with a file that is fetched now.
    pub(super) fn listings(&self) -> Option<u64> {
        Some(self.kept()?.listings)
    }

    /// Keeps a file, unless a listing came in between, which may have shown another one.
    pub(super) fn put(&self, path: &str, tag: Option<&str>, content: &Bytes, listings: Option<u64>) {
        let (Some(tag), Some(mut kept)) = (tag, self.kept()) else { return };
        if content.is_empty() || content.len() as u64 > LARGEST || listings != Some(kept.listings) {
            return;
        }
        let file = SmallFile { tag: plain(tag).to_owned(), content: content.clone() };
        kept.bytes += content.len();
        match kept.files.insert(path.to_owned(), file) {
            Some(before) => kept.bytes = kept.bytes.saturating_sub(before.content.len()),
            None => kept.order.push_back(path.to_owned()),
        }
        while kept.bytes > MOST {
            let Some(oldest) = kept.order.pop_front() else { return };
            kept.remove(&oldest);
        }
    }

    /// Gives up files of which a listing shows another tag, or none.
    pub(super) fn listed<'a>(&self, objects: impl Iterator<Item = (&'a str, &'a ObjectMeta)>) {
        let Some(mut kept) = self.kept() else { return self.is_unsure.store(true, Ordering::SeqCst) };
        kept.listings += 1;
        if kept.files.is_empty() {
            return;
        }
        for (path, object) in objects {
            let tag = object.e_tag.as_deref().map(plain);
            if kept.files.get(path).is_some_and(|file| Some(file.tag.as_str()) != tag) {
                kept.remove(path);
            }
        }
    }

    pub(super) fn clear(&self) {
        if let Some(mut kept) = self.kept() {
            let listings = kept.listings + 1;
            *kept = Kept { listings, ..Kept::default() };
        }
    }
}

impl Kept {
    fn remove(&mut self, path: &str) {
        if let Some(file) = self.files.remove(path) {
            self.bytes = self.bytes.saturating_sub(file.content.len());
        }
    }
}

/// Some stores have quotes around a tag only in some answers.
fn plain(tag: &str) -> &str {
    tag.trim_matches('"')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use object_store::path::Path;

    use super::*;

    fn object(path: &str, tag: Option<&str>) -> ObjectMeta {
        let location = Path::from(path);
        ObjectMeta {
            location,
            last_modified: Default::default(),
            size: 3,
            e_tag: tag.map(str::to_owned),
            version: None,
        }
    }

    fn listed(files: &SmallFiles, path: &str, tag: Option<&str>) {
        files.listed(std::iter::once((path, &object(path, tag))));
    }

    fn put(files: &SmallFiles, path: &str, tag: Option<&str>, content: &Bytes) {
        files.put(path, tag, content, files.listings());
    }

    #[test]
    fn a_file_is_given_up_when_a_listing_shows_another() {
        let (files, content) = (SmallFiles::default(), Bytes::from_static(b"abc"));
        put(&files, "a", Some("\"1\""), &content);
        put(&files, "untagged", None, &content);
        assert_eq!(files.get("a", 3), Some(content.clone()));
        assert!(files.get("a", 4).is_none() && files.get("untagged", 3).is_none());
        listed(&files, "a", Some("1"));
        listed(&files, "other", Some("2"));
        assert!(files.get("a", 3).is_some());
        listed(&files, "a", Some("2"));
        assert!(files.get("a", 3).is_none());
        for gone in [None, Some("3")] {
            put(&files, "a", Some("2"), &content);
            assert!(files.get("a", 3).is_some());
            listed(&files, "a", gone);
            assert!(files.get("a", 3).is_none());
        }
    }

    #[test]
    fn what_was_fetched_before_a_listing_is_not_kept_after_it() {
        let (files, content) = (SmallFiles::default(), Bytes::from_static(b"abc"));
        let before = files.listings();
        listed(&files, "a", Some("2"));
        files.put("a", Some("1"), &content, before);
        assert!(files.get("a", 3).is_none());
        put(&files, "a", Some("2"), &content);
        files.clear();
        assert!(files.get("a", 3).is_none());
    }

    #[test]
    fn the_oldest_go_first_and_large_ones_are_not_kept() {
        let size = usize::try_from(LARGEST).unwrap();
        let (files, content) = (SmallFiles::default(), Bytes::from(vec![1; size]));
        let count = MOST / size;
        (0..=count).for_each(|n| put(&files, &n.to_string(), Some("t"), &content));
        assert!(files.get("0", LARGEST).is_none() && files.get("1", LARGEST).is_some());
        put(&files, "large", Some("t"), &Bytes::from(vec![1; size + 1]));
        assert!(files.get("large", LARGEST + 1).is_none());
    }
}
