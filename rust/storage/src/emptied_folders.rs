//! Deleting the folders of files that were deleted, in stores where they stay otherwise.

use std::collections::BTreeSet;

use futures::StreamExt;
use object_store::ObjectStore;

use super::real_folders::{NONE, THERE, UNKNOWN};
use super::runtime::{block_on, block_on_read};
use super::store::Storage;
use hoodoo_runtime::error::Result;

/// What came of deleting folders.
#[derive(Default)]
struct Deleted {
    /// Some were there.
    any: bool,
    /// Some are still there.
    left: bool,
}

impl Storage {
    /// Deletes a folder whose files have been deleted, if the store is one where it stays otherwise. A folder that is not
    /// empty stays. `files`: those that were in it; others are left out.
    ///
    /// # Errors
    /// `Storage` if what is in it cannot be listed.
    pub fn delete_emptied_folder(&self, folder: &str, files: &[impl AsRef<str>]) -> Result<()> {
        let state = self.real_folders.get();
        if state == NONE || folder.is_empty() {
            return Ok(());
        }
        let is_inside = |file: &&str| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let inside: Vec<&str> = files.iter().map(AsRef::as_ref).filter(is_inside).collect();
        let mut folders = BTreeSet::from([folder.to_owned()]);
        folders.extend(inside.iter().flat_map(|file| folders_of(folder, file)).map(str::to_owned));
        let knows_all = !inside.is_empty();
        let deleted = if knows_all { self.delete_folders(&folders)? } else { Deleted { any: false, left: true } };
        if knows_all && state == UNKNOWN {
            self.real_folders.found(if deleted.any || deleted.left { THERE } else { NONE });
        }
        if deleted.left {
            let mut found = BTreeSet::new();
            self.find_folders(folder, &mut found)?;
            let deleted = self.delete_folders(&found)?;
            if deleted.any {
                self.real_folders.found(THERE);
            }
        }
        Ok(())
    }

    /// A folder with all folders in it.
    fn find_folders(&self, folder: &str, found: &mut BTreeSet<String>) -> Result<()> {
        let mut next = vec![folder.to_owned()];
        while let Some(folder) = next.pop() {
            let key = self.key(&folder)?;
            let listed = block_on_read(self.store.list_with_delimiter(Some(&key)));
            let listed = listed.map_err(|e| self.error(&folder, "listing", e))?;
            next.extend(listed.common_prefixes.iter().map(|prefix| self.relative(prefix)));
            found.insert(folder);
        }
        Ok(())
    }

    /// Deletes folders, the deepest ones first: a store refuses to delete one that is not empty.
    fn delete_folders(&self, folders: &BTreeSet<String>) -> Result<Deleted> {
        let depth = |folder: &str| folder.matches('/').count();
        let mut done = Deleted::default();
        let deepest = folders.iter().map(|folder| depth(folder)).max().unwrap_or_default();
        for level in (0..=deepest).rev() {
            let keys = folders.iter().filter(|folder| depth(folder) == level).map(|folder| self.key(folder).map(Ok));
            let keys = keys.collect::<Result<Vec<_>>>()?;
            if keys.is_empty() {
                continue;
            }
            let answers = self.store.delete_stream(futures::stream::iter(keys).boxed()).collect::<Vec<_>>();
            let answers = block_on(async { Ok(answers.await) }).map_err(|e| self.error("", "deleting", e))?;
            let is_absent = |e: &object_store::Error| matches!(e, object_store::Error::NotFound { .. });
            done.any |= answers.iter().any(Result::is_ok);
            done.left |= answers.iter().any(|answer| answer.as_ref().is_err_and(|e| !is_absent(e)));
            // Without the folder of a file that was there a moment ago, there are no folders at all.
            if self.real_folders.get() == UNKNOWN && !done.any && !done.left {
                break;
            }
        }
        Ok(done)
    }
}

/// The folders between a folder and a file in it.
fn folders_of<'f>(folder: &str, file: &'f str) -> impl Iterator<Item = &'f str> {
    let begin = folder.len();
    file.match_indices('/').filter(move |(at, _)| *at > begin).filter_map(|(at, _)| file.get(..at))
}

#[cfg(test)]
mod tests {
    use super::folders_of;

    #[test]
    fn folders_between() {
        let of = |folder, file| folders_of(folder, file).collect::<Vec<_>>();
        assert_eq!(of("a/1", "a/1/p/q/f"), ["a/1/p", "a/1/p/q"]);
        assert_eq!(of("a/1", "a/1/f"), [""; 0]);
    }
}
