//! Files that completed instants of the metadata table wrote: without one of them, its records would be missed silently.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::format::avro::metadata::{CommitMetadata, decode};
use crate::storage::Storage;
use crate::timeline::Timeline;

/// Paths of the files below the metadata table's folder, with size and instant.
#[derive(Default)]
pub(super) struct CommittedFiles {
    by_partition: HashMap<String, Vec<(String, Option<u64>, String)>>,
}

impl CommittedFiles {
    /// Reads the metadata of all completed instants that are not archived.
    ///
    /// # Errors
    /// `Corrupt` and `Storage` when an instant cannot be read.
    pub(super) fn read(storage: &Storage, timeline: &Timeline) -> Result<Self> {
        let mut files = Self::default();
        timeline.fetch(storage, timeline.completed_writes());
        for instant in timeline.completed_writes() {
            let content = timeline.read(storage, instant)?;
            let named = |e: Error| e.with("table", storage.uri()).with("file", timeline.path(instant));
            let metadata: CommitMetadata = decode(&content).map_err(named)?;
            for (partition, stats) in metadata.partition_to_write_stats {
                let known = files.by_partition.entry(partition).or_default();
                known.extend(stats.into_iter().filter_map(|stat| {
                    let size = stat.file_size_in_bytes.and_then(|size| u64::try_from(size).ok()).filter(|s| *s > 0);
                    Some((stat.path?, size, instant.requested.clone()))
                }));
            }
        }
        Ok(files)
    }

    /// Checks that the files of a slice are there: log files that a later instant wrote than the base file, and the base
    /// file itself.
    ///
    /// # Errors
    /// `Corrupt` for a file that is missing or has another size.
    pub(super) fn check(&self, partition: &str, slices: &[FileSlice], storage: &Storage) -> Result<()> {
        let Some(files) = self.by_partition.get(partition) else { return Ok(()) };
        let mut there: HashMap<&str, (u64, &str)> = HashMap::new();
        let mut begun: HashMap<&str, &str> = HashMap::new();
        for slice in slices {
            begun.insert(&slice.file_id, &slice.base_instant);
            let base = slice.base.iter().map(|base| (base.path.as_str(), base.size));
            for (path, size) in base.chain(slice.logs.iter().map(|log| (log.path.as_str(), log.size))) {
                there.insert(path, (size, &slice.file_id));
            }
        }
        for (path, size, instant) in files {
            let path = format!("{}/{path}", super::FOLDER);
            let name = path.rsplit('/').next().unwrap_or_default().trim_start_matches('.');
            let file_id = name.split('_').next().unwrap_or_default();
            // Those of older slices may have been cleaned.
            if begun.get(file_id).is_some_and(|base| instant.as_str() < *base) {
                continue;
            }
            let message = match (there.get(path.as_str()), size) {
                (None, _) => format!("the instant {instant} of the metadata table wrote this file, but it is missing"),
                (Some((stored, _)), Some(size)) if stored != size => {
                    format!("the file has {stored} bytes, but the instant {instant} of the metadata table wrote {size}")
                }
                _ => continue,
            };
            return Err(Error::corrupt(message).with("table", storage.uri()).with("file", path));
        }
        Ok(())
    }
}
