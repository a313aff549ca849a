//! Statistics of a plan: column ranges of its groups, and how many files overlap before and after. Pure.

use std::collections::HashSet;

use super::group::Group;
use super::input::{PlanInput, PlannedGroup, range_columns};
use super::options::{ClusteringOptions, Layout};
use super::overlap::{Depth, Ends, FileRanges, depth};
use crate::file_group::FileSlice;

/// The column ranges of a slice's base file.
pub(super) fn ranges_of<'a>(slice: &FileSlice, input: &'a PlanInput<'_>) -> Option<&'a FileRanges> {
    slice.base.as_ref().and_then(|b| input.ranges.get(&b.path))
}

/// Adds column ranges and overlap to a group.
pub(super) fn with_stats(group: Group, input: &PlanInput<'_>, options: &ClusteringOptions) -> PlannedGroup {
    let files: Vec<Option<&FileRanges>> = group.slices.iter().map(|s| ranges_of(s, input)).collect();
    let mut ranges = Vec::new();
    for (at, name) in range_columns(options).into_iter().enumerate() {
        let known = files.iter().map(|f| f.and_then(|f| f.columns.get(at)?.as_ref()));
        let Some(known) = known.collect::<Option<Vec<_>>>() else { continue };
        let min = known.iter().min_by(|a, b| a.min.cmp(&b.min)).and_then(|r| r.min_string.clone());
        let max = known.iter().max_by(|a, b| a.max.cmp(&b.max)).and_then(|r| r.max_string.clone());
        ranges.push((name, min, max));
    }
    let ends = first_column(&files);
    let (before, after) = if input.ranges.is_empty() {
        (None, None)
    } else {
        let becomes = merged(&ends, outputs_over_each_other(&group, options));
        let points = points(&ends);
        (Some(depth(&ends, &points)), Some(depth(&becomes, &points)))
    };
    PlannedGroup { group, ranges, before, after }
}

/// Minimum and maximum of the first column in each file.
pub(super) fn first_column<'a>(files: &[Option<&'a FileRanges>]) -> Vec<Ends<'a>> {
    let first = |f: &Option<&'a FileRanges>| f.and_then(|f| f.columns.first()?.as_ref());
    files.iter().map(first).map(|r| (r.map(|r| r.min.as_slice()), r.map(|r| r.max.as_slice()))).collect()
}

/// The values at which overlapping files are counted.
pub(super) fn points<'a>(ends: &[Ends<'a>]) -> Vec<&'a [u8]> {
    ends.iter().filter_map(|(a, b)| Some([(*a)?, (*b)?])).flatten().collect()
}

/// Number of output files of a group that may overlap: one if rows are sorted, all along a curve.
fn outputs_over_each_other(group: &Group, options: &ClusteringOptions) -> usize {
    if options.layout == Layout::Linear { 1 } else { group.outputs as usize }
}

fn merged<'a>(ends: &[Ends<'a>], copies: usize) -> Vec<Ends<'a>> {
    let known = ends.iter().filter_map(|(a, b)| Some(((*a)?, (*b)?)));
    let all = known.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    // A file without known range makes the range of the output unknown.
    let all = all.filter(|_| ends.iter().all(|(a, b)| a.is_some() && b.is_some()));
    vec![all.map_or((None, None), |(a, b)| (Some(a), Some(b))); copies]
}

/// Overlap depth of files before and after: the maximum of all partitions, and the mean.
pub(super) fn depths(
    input: &PlanInput<'_>,
    options: &ClusteringOptions,
    groups: &[PlannedGroup],
) -> Option<(Depth, Depth)> {
    if input.ranges.is_empty() {
        return None;
    }
    let taken: HashSet<(&str, &str)> =
        groups.iter().flat_map(|g| &g.group.slices).map(|s| (s.partition.as_str(), s.file_id.as_str())).collect();
    let (mut all_before, mut all_after) = (DepthTotal::default(), DepthTotal::default());
    for (partition, found) in &input.partitions {
        let files = |slices: &mut dyn Iterator<Item = &FileSlice>| {
            first_column(&slices.map(|s| ranges_of(s, input)).collect::<Vec<_>>())
        };
        let before = files(&mut found.slices.iter());
        let is_free = |s: &&FileSlice| !taken.contains(&(s.partition.as_str(), s.file_id.as_str()));
        let mut after = files(&mut found.slices.iter().filter(is_free));
        for group in groups.iter().filter(|g| g.group.partition() == partition) {
            let ends = files(&mut group.group.slices.iter());
            after.extend(merged(&ends, outputs_over_each_other(&group.group, options)));
        }
        let points = points(&before);
        all_before.add(depth(&before, &points), points.len());
        all_after.add(depth(&after, &points), points.len());
    }
    Some((all_before.depth(), all_after.depth()))
}

/// The depths of several partitions: the maximum, and the mean over all points.
#[derive(Debug, Default)]
pub(super) struct DepthTotal {
    max: usize,
    sum: f64,
    weight: usize,
}

impl DepthTotal {
    /// Adds a partition whose mean is over `points` points.
    pub(super) fn add(&mut self, one: Depth, points: usize) {
        // A partition without known ranges counts as one point.
        let weight = points.max(1);
        self.max = self.max.max(one.max);
        self.sum += one.mean * weight as f64;
        self.weight += weight;
    }

    pub(super) fn depth(&self) -> Depth {
        let mean = if self.weight == 0 { 0.0 } else { self.sum / self.weight as f64 };
        Depth { max: self.max, mean }
    }
}
