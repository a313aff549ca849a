//! Files that no instant counts for, though their shard needs them: without them, its records would be missed silently, and a
//! compaction would make that permanent.

use std::collections::HashMap;

use super::instants::ValidInstants;
use super::record_index_shards::is_of_data_partition;
use crate::file_group::{BaseFile, FileGroup, LogFile};
use crate::storage::FileMeta;

/// The first file of a partition that is of no instant that is known, and that its shard needs: a base file behind the newest
/// that counts, or any file of a shard of which none counts. Actions remove their files before their instants leave the
/// timeline.
pub(super) fn lost_file(files: &[FileMeta], groups: &[FileGroup], instants: &ValidInstants) -> Option<String> {
    let newest: HashMap<&str, Option<&str>> = groups
        .iter()
        .map(|group| {
            let base = group.slices.iter().find_map(|slice| slice.base.as_ref());
            (group.file_id.as_str(), base.map(|base| base.instant.as_str()))
        })
        .collect();
    let bases = files.iter().filter_map(BaseFile::parse);
    let mut lost = bases.filter(|base| instants.is_unknown(&base.instant));
    let is_needed = |base: &BaseFile| {
        newest
            .get(base.file_id.as_str())
            .is_none_or(|newest| newest.is_none_or(|newest| newest < base.instant.as_str()))
    };
    if let Some(base) = lost.find(is_needed) {
        return Some(base.path);
    }
    let logs = files.iter().filter_map(LogFile::parse).filter(|log| !newest.contains_key(log.file_id.as_str()));
    let mut lost = logs.filter(|log| instants.is_unknown(&log.instant));
    // Data partitions come with shards of their own, and a write that was rolled back may leave some.
    lost.find(|log| !is_of_data_partition(&log.file_id)).map(|log| log.path)
}
