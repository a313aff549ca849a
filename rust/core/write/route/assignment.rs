//! Which file each new row goes to. Pure: no storage.
//!
//! As Hudi has it: small base files are filled up to the target size first, in the order they are given; what is left
//! makes new file groups of the target size. The size of a record is an average that an earlier commit tells.

use crate::file_group::FileSlice;
use crate::format::avro::metadata::WriteStat;
use crate::write::config::WriteConfig;
use crate::write::locate::pending_file_groups::PendingFileGroups;

/// A base file that takes inserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallFile {
    /// The file group.
    pub file_id: String,
    /// Size in bytes.
    pub size: u64,
}

/// Where the inserts of one partition go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// File groups that are there, with the number of rows each takes.
    pub existing: Vec<(String, usize)>,
    /// Rows of each new file group.
    pub new: Vec<usize>,
}

/// The base files that may take inserts. Not those of slices with log files, whose records would have to be merged then, or
/// of groups that a clustering is about to replace.
pub(in crate::write) fn small_files(slices: &[FileSlice], pending_groups: &PendingFileGroups) -> Vec<SmallFile> {
    let free = slices.iter().filter(|slice| slice.logs.is_empty() && !pending_groups.contains(slice));
    free.filter_map(|slice| Some(SmallFile { file_id: slice.file_id.clone(), size: slice.base.as_ref()?.size }))
        .collect()
}

/// How many of so many inserts a base file of so many bytes has room for; one at least.
pub(in crate::write) fn room_in_file(config: &WriteConfig, size: u64, inserts: usize, record_size: u64) -> usize {
    let room = config.max_file_size.saturating_sub(size) / record_size.max(1);
    usize::try_from(room).unwrap_or(usize::MAX).max(1).min(inserts)
}

/// Rows for which each small file has room.
pub(crate) fn room_in_small_files(config: &WriteConfig, small: &[SmallFile], record_size: u64) -> Vec<(String, usize)> {
    let room = |file: &SmallFile| {
        let rows = config.max_file_size.saturating_sub(file.size) / record_size.max(1);
        (file.file_id.clone(), usize::try_from(rows).unwrap_or(usize::MAX))
    };
    small.iter().filter(|f| f.size < config.small_file_limit).map(room).filter(|(_, rows)| *rows > 0).collect()
}

/// Assigns `rows` inserts.
pub(crate) fn assign_inserts(config: &WriteConfig, rows: usize, small: &[SmallFile], record_size: u64) -> Assignment {
    let mut out = Assignment::default();
    let mut left = rows;
    for (file_id, room) in room_in_small_files(config, small, record_size) {
        let taken = room.min(left);
        if taken > 0 {
            out.existing.push((file_id, taken));
            left -= taken;
        }
    }
    let per_file = if config.insert_auto_split {
        config.max_file_size.div_ceil(record_size.max(1))
    } else {
        config.insert_split_size
    };
    let per_file = usize::try_from(per_file).unwrap_or(usize::MAX).max(1);
    if left > 0 {
        let files = left.div_ceil(per_file);
        // Even shares: the last file is not a sliver.
        let (share, more) = (left / files, left % files);
        out.new.extend((0..files).map(|f| share + usize::from(f < more)));
    }
    out
}

/// Bytes of a record of one commit, if that wrote enough to tell.
pub(crate) fn record_size_of<'a>(config: &WriteConfig, stats: impl Iterator<Item = &'a WriteStat>) -> Option<u64> {
    let enough = (config.record_size_threshold * config.small_file_limit as f64) as u64;
    let number = |value: Option<i64>| value.and_then(|v| u64::try_from(v).ok()).unwrap_or_default();
    let sums = |(bytes, records): (u64, u64), stat: &WriteStat| {
        (bytes + number(stat.total_write_bytes), records + number(stat.num_writes))
    };
    let (bytes, records) = stats.fold((0, 0), sums);
    (bytes > enough && records > 0).then(|| bytes.div_ceil(records).max(1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::table::Options;

    fn config(pairs: &[(&str, &str)]) -> WriteConfig {
        let given = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        WriteConfig::new(&Options::new(given).unwrap()).unwrap()
    }

    fn small(id: &str, size: u64) -> SmallFile {
        SmallFile { file_id: id.into(), size }
    }

    #[test]
    fn small_files_are_filled_first() {
        let c = config(&[("hoodie.parquet.max.file.size", "1000"), ("hoodie.parquet.small.file.limit", "800")]);
        let got = assign_inserts(&c, 100, &[small("a", 500), small("b", 900), small("c", 100)], 10);
        assert_eq!(got.existing, [("a".to_owned(), 50), ("c".to_owned(), 50)]);
        assert!(got.new.is_empty());
        let got = assign_inserts(&c, 350, &[small("a", 500)], 10);
        assert_eq!((got.existing.len(), got.new), (1, vec![100, 100, 100]));
    }

    #[test]
    fn no_file_is_small_at_limit_zero() {
        let c = config(&[("hoodie.parquet.small.file.limit", "0")]);
        assert!(assign_inserts(&c, 5, &[small("a", 0)], 10).existing.is_empty());
    }

    #[test]
    fn a_commit_that_wrote_enough_tells_the_size() {
        let c = config(&[("hoodie.parquet.small.file.limit", "1000")]);
        let stat = |bytes, records| WriteStat {
            total_write_bytes: Some(bytes),
            num_writes: Some(records),
            ..Default::default()
        };
        assert_eq!(record_size_of(&c, [stat(1500, 50), stat(1500, 50)].iter()), Some(30));
        assert_eq!(record_size_of(&c, [stat(900, 9)].iter()), None);
    }
}
