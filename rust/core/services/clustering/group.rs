//! Groups the file slices of a partition as Hudi does: by size, one group a slice, or since a commit. Pure.
//!
//! Source: `PartitionAwareClusteringPlanStrategy`, `ClusteringFileSliceComparator`, `FileSliceMetricUtils` of Hudi 1.2.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use super::options::{ClusteringOptions, SliceOrder};
use crate::file_group::FileSlice;
use crate::format::java::{hash_bucket, hash_set_buckets};

/// The latest slices of a partition, and how many file groups its folder holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartitionSlices {
    /// The latest slices of file groups that are not replaced.
    pub slices: Vec<FileSlice>,
    /// File groups with a base file, replaced ones too.
    pub with_base: usize,
    /// All file groups.
    pub file_groups: usize,
}

impl PartitionSlices {
    /// The slices in Hudi's order: that of a Java hash set of file ids. Ids in one bucket have no defined order in
    /// Hudi; here they are sorted.
    pub(crate) fn in_order_of_hudi(&self) -> Vec<FileSlice> {
        let buckets = hash_set_buckets(self.with_base, self.file_groups);
        let mut slices = self.slices.clone();
        slices.sort_by_cached_key(|s| (hash_bucket(&s.file_id, buckets), s.file_id.clone()));
        slices
    }
}

/// Slices that are rewritten together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The slices, all of one partition.
    pub slices: Vec<FileSlice>,
    /// Bytes of base files; slices without one count with an assumed size.
    pub bytes: u64,
    /// File groups to write.
    pub outputs: u32,
}

impl Group {
    /// A group of these slices.
    pub fn new(slices: Vec<FileSlice>, options: &ClusteringOptions) -> Self {
        let bytes = slices.iter().fold(0u64, |sum, s| sum.saturating_add(counted_bytes(s, options)));
        Self { slices, bytes, outputs: outputs(bytes, options.target_file_bytes) }
    }

    /// The partition path.
    pub fn partition(&self) -> &str {
        self.slices.first().map_or("", |s| s.partition.as_str())
    }

    /// The five metrics that Hudi's plans have for each group.
    pub fn metrics(&self, options: &ClusteringOptions) -> BTreeMap<String, f64> {
        let sum = |of: &dyn Fn(&FileSlice) -> u64| self.slices.iter().fold(0u64, |a, s| a.saturating_add(of(s)));
        let log_bytes = sum(&|s| s.logs.iter().map(|l| l.size).sum());
        let base_bytes = sum(&|s| s.base.as_ref().map_or(0, |b| b.size));
        let output_bytes = sum(&|s| match s.base.as_ref().map_or(0, |b| b.size) {
            0 => options.log_slice_bytes,
            bytes => bytes,
        });
        // Whole MiB, rounded down, before they are added.
        let (read, written) = (base_bytes.saturating_add(log_bytes) >> 20, output_bytes >> 20);
        let metrics = [
            ("TOTAL_LOG_FILES", sum(&|s| s.logs.len() as u64)),
            ("TOTAL_LOG_FILES_SIZE", log_bytes),
            ("TOTAL_IO_READ_MB", read),
            ("TOTAL_IO_WRITE_MB", written),
            ("TOTAL_IO_MB", read.saturating_add(written)),
        ];
        metrics.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect()
    }
}

/// The size of a slice: the bytes of its base file, or the assumed size of a new file. Log files do not count.
pub(super) fn counted_bytes(slice: &FileSlice, options: &ClusteringOptions) -> u64 {
    slice.base.as_ref().map_or(options.log_slice_bytes, |b| b.size)
}

/// Number of files for `bytes` bytes.
fn outputs(bytes: u64, target: u64) -> u32 {
    u32::try_from(bytes.div_ceil(target.max(1))).unwrap_or(u32::MAX)
}

/// Sorts slices; the sort is stable.
pub(super) fn sort_slices(slices: &mut [FileSlice], order: &[SliceOrder], options: &ClusteringOptions) {
    let instant = |s: &FileSlice| s.base.as_ref().map_or(String::new(), |b| b.instant.clone());
    slices.sort_by(|a, b| {
        order.iter().fold(Ordering::Equal, |so_far, by| {
            so_far.then_with(|| match by {
                SliceOrder::Size => counted_bytes(b, options).cmp(&counted_bytes(a, options)),
                SliceOrder::InstantTime => instant(a).cmp(&instant(b)),
            })
        })
    });
}

/// Fills groups one after the other up to the maximum size.
pub(super) fn fill(slices: Vec<FileSlice>, options: &ClusteringOptions) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut current: Vec<FileSlice> = Vec::new();
    let mut bytes = 0u64;
    for slice in slices {
        let more = counted_bytes(&slice, options);
        if bytes.saturating_add(more) > options.max_group_bytes && !current.is_empty() {
            groups.push(Group::new(std::mem::take(&mut current), options));
            bytes = 0;
        }
        bytes = bytes.saturating_add(more);
        current.push(slice);
    }
    if !current.is_empty() {
        groups.push(Group::new(current, options));
    }
    groups
}

/// Makes one group of each slice; it becomes one file of any size.
pub(super) fn one_by_one(slices: Vec<FileSlice>, options: &ClusteringOptions) -> Vec<Group> {
    slices.into_iter().map(|s| Group { outputs: 1, ..Group::new(vec![s], options) }).collect()
}

/// Groups the slices that commits wrote, oldest first. Also returns the last commit that was considered, where the next
/// plan continues.
///
/// A group ends when it reaches the maximum size of a group; the remaining slices form a group too. When the plan has
/// its maximum number of groups, later commits wait for the next plan.
pub(super) fn since_commit(slices: Vec<FileSlice>, options: &ClusteringOptions) -> (Vec<Group>, Option<String>) {
    let mut by_commit: BTreeMap<String, Vec<FileSlice>> = BTreeMap::new();
    for slice in slices {
        by_commit.entry(slice.base_instant.clone()).or_default().push(slice);
    }
    let mut groups = Vec::new();
    let mut waiting: BTreeMap<String, Vec<FileSlice>> = BTreeMap::new();
    let mut last = None;
    let grouped = |mut slices: Vec<FileSlice>| {
        sort_slices(&mut slices, &options.slice_order, options);
        fill(slices, options)
    };
    for (commit, mut written) in by_commit {
        last = Some(commit);
        written.sort_by_key(|s| Reverse(s.base.as_ref().map_or(0, |b| b.size)));
        for slice in written {
            waiting.entry(slice.partition.clone()).or_default().push(slice);
        }
        for slices in waiting.values_mut() {
            let bytes = slices.iter().filter_map(|s| s.base.as_ref()).map(|b| b.size).sum::<u64>();
            if bytes > 0 && bytes >= options.max_group_bytes {
                groups.extend(grouped(std::mem::take(slices)));
            }
        }
        if groups.len() >= options.max_groups {
            break;
        }
    }
    for slices in waiting.into_values().filter(|s| !s.is_empty()) {
        if groups.len() >= options.max_groups {
            break;
        }
        groups.extend(grouped(slices));
    }
    (groups, last)
}
