//! Which files of the history are merged. Pure: the writer does it.

use super::manifest::HistoryFile;

/// When files are merged, and how large they may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionLimits {
    /// Files of a level that become one of the next: `hoodie.timeline.compaction.batch.size`.
    pub batch_size: usize,
    /// Sum of sizes, in bytes, at which no more files are taken: `hoodie.timeline.compaction.target.file.max.bytes`.
    pub max_bytes: u64,
    /// Versions that stay for readers: `hoodie.timeline.manifest.retained.versions`.
    pub retained_versions: usize,
}

impl CompactionLimits {
    /// File names have room for one digit.
    pub(crate) const HIGHEST_LEVEL: u32 = 9;
}

impl Default for CompactionLimits {
    fn default() -> Self {
        Self { batch_size: 10, max_bytes: 1_048_576_000, retained_versions: 3 }
    }
}

/// What a compaction of the history did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Levels that were compacted.
    pub levels: usize,
    /// Files that were merged.
    pub files: usize,
    /// Old versions and files that were removed.
    pub removed: usize,
}

/// The files of one level, oldest first, that are to become one: the oldest ones up to the batch size or the size limit.
/// A file that is beyond the limit by itself stays where it is, and what is before it too. Empty when there is nothing
/// to do.
///
/// Source: `LSMTimelineWriter.getCandidateFiles` of Hudi 1.2.
pub(crate) fn pick(level: &[HistoryFile], limits: &CompactionLimits) -> Vec<HistoryFile> {
    let batch = limits.batch_size.max(2);
    if level.len() < batch {
        return Vec::new();
    }
    let mut chosen: Vec<HistoryFile> = Vec::new();
    let mut bytes = 0u64;
    for file in level {
        bytes = bytes.saturating_add(file.size);
        chosen.push(file.clone());
        if chosen.len() >= batch {
            break;
        }
        if bytes > limits.max_bytes {
            if chosen.len() >= 2 {
                break;
            }
            bytes = 0;
            chosen.clear();
        }
    }
    if chosen.len() < 2 { Vec::new() } else { chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(sizes: &[u64]) -> Vec<HistoryFile> {
        let file = |(i, size): (usize, &u64)| HistoryFile::parse(&format!("{i}0_{i}5_0.parquet"), *size);
        sizes.iter().enumerate().filter_map(file).collect()
    }

    fn picked(sizes: &[u64], batch_size: usize) -> Vec<u64> {
        let limits = CompactionLimits { batch_size, max_bytes: 100, retained_versions: 3 };
        pick(&level(sizes), &limits).iter().map(|f| f.size).collect()
    }

    #[test]
    fn the_oldest_files_are_taken() {
        assert!(picked(&[1, 2], 3).is_empty());
        assert_eq!(picked(&[1, 2, 3, 4], 3), [1, 2, 3]);
    }

    #[test]
    fn large_files_end_a_batch_or_are_passed_over() {
        assert_eq!(picked(&[60, 61, 1], 3), [60, 61]);
        assert_eq!(picked(&[101, 1, 2, 3], 3), [1, 2, 3]);
        assert!(picked(&[101, 102, 103], 3).is_empty());
        assert_eq!(picked(&[101, 1, 103, 5], 3), [1, 103]);
    }
}
