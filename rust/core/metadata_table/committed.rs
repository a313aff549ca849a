//! Files that completed instants of the metadata table wrote: without one of them, its records would be missed silently.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::file_group::{FileSlice, LogFile};
use crate::format::avro::metadata::{CommitMetadata, decode};
use crate::format::instant::{Action, Instant};
use crate::storage::{FileMeta, Storage};
use crate::timeline::Timeline;

/// A file that an instant wrote.
struct Written {
    /// Its path below the metadata table's folder.
    path: String,
    size: Option<u64>,
    instant: String,
    completed: String,
}

/// The files that completed instants wrote, by partition.
#[derive(Default)]
pub(super) struct CommittedFiles {
    by_partition: HashMap<String, Vec<Written>>,
}

impl CommittedFiles {
    /// Reads the metadata of the commits that are not archived and completed at a time or later.
    ///
    /// # Errors
    /// `Corrupt` and `Storage` when an instant cannot be read.
    pub(super) fn read(storage: &Storage, timeline: &Timeline, since: &str) -> Result<Self> {
        let mut files = Self::default();
        let commits = || {
            let is_commit = |i: &Instant| matches!(i.action.completed_as(), Action::Commit | Action::DeltaCommit);
            let is_since = |i: &Instant| i.completed.as_deref().unwrap_or(&i.requested) >= since;
            timeline.completed_writes().filter(move |i| is_commit(i) && is_since(i))
        };
        timeline.fetch(storage, commits());
        for instant in commits() {
            let content = timeline.read(storage, instant)?;
            let named = |e: Error| e.with("table", storage.uri()).with("file", timeline.path(instant));
            let metadata: CommitMetadata = decode(&content).map_err(named)?;
            for (partition, stats) in metadata.partition_to_write_stats {
                let known = files.by_partition.entry(partition).or_default();
                known.extend(stats.into_iter().filter_map(|stat| {
                    Some(Written {
                        path: stat.path.filter(|path| !path.is_empty())?,
                        size: stat.file_size_in_bytes.and_then(|size| u64::try_from(size).ok()).filter(|s| *s > 0),
                        instant: instant.requested.clone(),
                        completed: instant.completed.clone().unwrap_or_else(|| instant.requested.clone()),
                    })
                }));
            }
        }
        Ok(files)
    }

    /// Checks that the files of the newest slices are there. `counts` says whether the files of an instant are read;
    /// `made_at` when the partition was made, which is asked only if something is missing: a partition that was dropped and
    /// made anew has nothing of the commits before.
    ///
    /// # Errors
    /// `Corrupt` for a file that is missing or has another size; those of `made_at`.
    pub(super) fn check(
        &self,
        partition: &str,
        slices: &[FileSlice],
        counts: impl Fn(&str) -> bool,
        made_at: impl Fn() -> Result<Option<String>>,
        storage: &Storage,
    ) -> Result<()> {
        let Some(files) = self.by_partition.get(partition) else { return Ok(()) };
        let mut sizes: HashMap<&str, u64> = HashMap::new();
        let mut begun: HashMap<&str, &str> = HashMap::new();
        let mut based: HashMap<&str, &str> = HashMap::new();
        for slice in slices {
            based.extend(slice.base.iter().map(|base| (slice.file_id.as_str(), base.instant.as_str())));
            begun.insert(&slice.file_id, &slice.base_instant);
            sizes.extend(slice.base.iter().map(|base| (base.path.as_str(), base.size)));
            sizes.extend(slice.logs.iter().map(|log| (log.path.as_str(), log.size)));
        }
        let mut made: Option<Option<String>> = None;
        for file in files.iter().filter(|file| counts(&file.instant)) {
            let path = format!("{}/{}", super::FOLDER, file.path);
            let name = path.rsplit('/').next().unwrap_or_default();
            let file_id = name.trim_start_matches('.').split('_').next().unwrap_or_default();
            let log = LogFile::parse(&FileMeta { path: path.clone(), size: 0, modified_ms: 0 });
            let time = match &log {
                // In the names of version 6 is the instant that began the slice.
                Some(log) if log.instant != file.instant => &log.instant,
                // A log file belongs behind the base files that were requested before it was completed.
                Some(_) => &file.completed,
                None => &file.instant,
            };
            // Those of older slices may have been cleaned.
            if begun.get(file_id).is_some_and(|base| time.as_str() < *base) {
                continue;
            }
            // Another attempt of the same task.
            let is_known = sizes.contains_key(path.as_str());
            if !is_known && !name.starts_with('.') && based.get(file_id) == Some(&file.instant.as_str()) {
                continue;
            }
            let message = match (sizes.get(path.as_str()), file.size) {
                (None, _) => {
                    format!("the instant {} of the metadata table wrote this file, but it is missing", file.instant)
                }
                (Some(stored), Some(size)) if *stored != size => format!(
                    "the file has {stored} bytes, but the instant {} of the metadata table wrote {size}",
                    file.instant
                ),
                _ => continue,
            };
            let made = match &made {
                Some(made) => made,
                None => made.insert(made_at()?),
            };
            if made.as_ref().is_some_and(|made| file.completed < *made) {
                continue;
            }
            return Err(Error::corrupt(message).with("table", storage.uri()).with("file", path));
        }
        Ok(())
    }
}
