//! Lists many folders and deletes many files, with threads of this process or with tasks of an engine.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::path::Path;

use super::file_tasks::FileTasks;
use super::listing::FileMeta;
use super::local;
use super::runtime::block_on_read;
use super::store::{Storage, nothing_there};
use hoodoo_runtime::error::Result;
use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::run_parallel;

/// Folders of an object store that are listed at a time.
const LISTINGS: usize = 16;
/// Folders that a task lists. Fewer are not worth a task.
const FOLDERS_A_TASK: usize = 64;
/// Files that a task deletes: as many as an object store deletes by one request. Fewer are not worth a task.
const FILES_A_TASK: usize = 1_000;

impl Storage {
    /// The same storage; an engine lists and deletes where there is much of it.
    #[must_use]
    pub fn with_file_tasks(&self, tasks: Arc<dyn FileTasks>) -> Self {
        Self { tasks: Some(tasks), ..self.clone() }
    }

    /// The files of several folders, one level of each, by folder in the given order. A folder that is missing is empty.
    pub fn list_folders(&self, folders: Vec<String>, threads: usize) -> Result<Vec<(String, Vec<FileMeta>)>> {
        if let Some(tasks) = &self.tasks
            && folders.len() > FOLDERS_A_TASK
        {
            let chunks: Vec<&[String]> = folders.chunks(FOLDERS_A_TASK).collect();
            let mut files = tasks.list(&chunks, false)?;
            files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            let mut by_folder = std::collections::HashMap::<String, Vec<FileMeta>>::new();
            for file in files {
                let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
                by_folder.entry(folder).or_default().push(file);
            }
            let of = |folder: String| {
                let files = by_folder.remove(&folder).unwrap_or_default();
                (folder, files)
            };
            return Ok(folders.into_iter().map(of).collect());
        }
        let at_once = if self.is_remote() { LISTINGS } else { threads };
        run_parallel(folders, at_once, |folder| {
            let files = self.list(&folder)?.files;
            Ok((folder, files))
        })
    }

    /// Deletes files. Returns for each whether it was there; an object store says so of missing files too.
    pub fn delete_many(&self, paths: Vec<String>, threads: usize) -> Result<Vec<bool>> {
        if let Some(tasks) = &self.tasks
            && paths.len() > FILES_A_TASK
        {
            self.check_change()?;
            return tasks.delete(&paths.chunks(FILES_A_TASK).collect::<Vec<_>>());
        }
        if self.is_local() {
            return run_parallel(paths, threads, |path| self.delete(&path));
        }
        self.delete_all(&paths).map(|()| vec![true; paths.len()])
    }

    /// All files below a folder, sorted by path.
    pub fn list_recursive(&self, folder: &str) -> Result<Vec<FileMeta>> {
        self.list_all_recursive(std::slice::from_ref(&folder))
    }

    /// All files below some folders, sorted by path; several folders are listed at a time.
    pub fn list_all_recursive(&self, folders: &[impl AsRef<str>]) -> Result<Vec<FileMeta>> {
        if let Some(tasks) = &self.tasks {
            return self.list_by_tasks(tasks.as_ref(), folders.iter().map(|f| f.as_ref().to_owned()).collect());
        }
        if let Some(root) = &self.local {
            let mut files = Vec::new();
            for folder in folders.iter().map(AsRef::as_ref) {
                interrupt::check()?;
                let found = local::list_recursive(root.root(), folder).map_err(|e| local::as_object_store(e, folder));
                files.extend(found.map_err(|e| self.error(folder, "listing", e))?);
            }
            files.sort_by(|a, b| a.path.cmp(&b.path));
            return Ok(files);
        }
        let mut keys = Vec::with_capacity(folders.len());
        for folder in folders.iter().map(AsRef::as_ref) {
            let all = folder.is_empty() && self.prefix.as_ref().is_empty();
            keys.push((folder, if all { None } else { Some(self.key(folder)?) }));
        }
        let list = |(folder, key): (&str, Option<Path>)| {
            let (store, folder) = (self.store.clone(), folder.to_owned());
            async move {
                let found = store.list(key.as_ref()).try_collect::<Vec<_>>().await;
                (folder, found)
            }
        };
        let listings = futures::stream::iter(keys.into_iter().map(list)).buffered(LISTINGS).collect::<Vec<_>>();
        let listings = block_on_read(async { Ok(listings.await) }).map_err(|e| self.error("", "listing", e))?;
        let mut files = Vec::new();
        for (folder, found) in listings {
            match found {
                Err(e) if nothing_there(&e) => {}
                Err(e) => return Err(self.error(&folder, "listing", e)),
                Ok(objects) => files.extend(self.file_metas(&objects)),
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// All files below folders, sorted by path, where an engine lists. Levels are listed here until there are enough folders
    /// for tasks: the partitions of a table may all be below one folder.
    fn list_by_tasks(&self, tasks: &dyn FileTasks, folders: Vec<String>) -> Result<Vec<FileMeta>> {
        let (mut files, mut level) = (Vec::new(), folders);
        while !level.is_empty() && level.len() <= FOLDERS_A_TASK {
            let listed = run_parallel(level, LISTINGS, |folder| self.list(&folder))?;
            level = Vec::new();
            for one in listed {
                files.extend(one.files);
                level.extend(one.folders);
            }
        }
        if !level.is_empty() {
            files.extend(tasks.list(&level.chunks(FOLDERS_A_TASK).collect::<Vec<_>>(), true)?);
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;

    use super::*;
    use crate::StorageOptions;

    /// Runs tasks in this process, and counts them.
    struct Here(Storage, Mutex<Vec<(&'static str, usize)>>);

    impl FileTasks for Here {
        fn list(&self, chunks: &[&[String]], recursive: bool) -> Result<Vec<FileMeta>> {
            self.1.lock().unwrap().push(("list", chunks.len()));
            let folders = chunks.concat();
            if recursive {
                return self.0.list_all_recursive(&folders);
            }
            Ok(self.0.list_folders(folders, 1)?.into_iter().flat_map(|(_, files)| files).collect())
        }

        fn delete(&self, chunks: &[&[String]]) -> Result<Vec<bool>> {
            self.1.lock().unwrap().push(("delete", chunks.len()));
            self.0.delete_many(chunks.concat(), 1)
        }
    }

    fn check(uri: &str) {
        let plain = Storage::open(uri, &StorageOptions::default()).unwrap();
        let paths: Vec<String> =
            (0..1_100).map(|n| format!("year=2024/day={}/hour={n}/f{n}.parquet", n % 200)).collect();
        for path in &paths {
            plain.create_folder(path.rsplit_once('/').unwrap().0).unwrap();
            plain.replace(path, "x").unwrap();
        }
        let tasks = Arc::new(Here(plain.clone(), Mutex::default()));
        let storage = plain.with_file_tasks(tasks.clone());
        let below = ["year=2024", "missing"];
        assert_eq!(storage.list_all_recursive(&below).unwrap(), plain.list_all_recursive(&below).unwrap());
        // The 200 folders of the third level are enough for tasks.
        assert_eq!(*tasks.1.lock().unwrap(), [("list", 4)]);

        let mut folders: Vec<String> = paths.iter().map(|p| p.rsplit_once('/').unwrap().0.to_owned()).collect();
        folders.push("missing".to_owned());
        folders.truncate(101);
        assert_eq!(storage.list_folders(folders.clone(), 2).unwrap(), plain.list_folders(folders, 2).unwrap());
        assert_eq!(tasks.1.lock().unwrap().last(), Some(&("list", 2)));

        let mut given = paths;
        given.push("year=2024/never.parquet".to_owned());
        let there = storage.delete_many(given, 2).unwrap();
        assert_eq!((there.len(), there.iter().all(|there| *there)), (1_101, !plain.is_local()));
        assert_eq!(tasks.1.lock().unwrap().last(), Some(&("delete", 2)));
        assert!(plain.list_all_recursive(&["year=2024"]).unwrap().is_empty());
        // Few files and few folders are not worth a task.
        assert_eq!(storage.delete_many(vec!["a".to_owned()], 2).unwrap(), [!plain.is_local()]);
        assert!(storage.list_folders(vec!["a".to_owned()], 2).unwrap().iter().all(|(_, files)| files.is_empty()));
        assert_eq!(tasks.1.lock().unwrap().len(), 3);
    }

    #[test]
    fn tasks_list_and_delete_like_threads_on_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path().to_str().unwrap());
    }

    #[test]
    fn tasks_list_and_delete_like_threads_in_an_object_store() {
        check("memory://many-files/t");
    }
}
