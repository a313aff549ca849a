//! Plans a clustering: which slices are rewritten together, as a Hudi clustering plan. Pure: no storage.
//!
//! Source: `ClusteringPlanActionExecutor`, `PartitionAwareClusteringPlanStrategy` and its subclasses in Hudi 1.2;
//! RFC-19 for grouping by ranges, by commit time and at random.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::group::{Group, PartitionSlices, counted_bytes, fill, one_by_one, since_commit, sort_slices};
use super::group_stats::{depths, ranges_of, with_stats};
use super::input::{PlanInput, PlannedGroup};
use super::options::{ClusteringOptions, GroupOrder, Grouping, Layout, SliceOrder, columns};
use super::overlap::{Depth, FileRanges, overlapping};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::format::avro::metadata::{
    ClusteringGroup, ClusteringPlan, ClusteringStrategy, RequestedReplaceMetadata, SliceInfo,
};
use crate::format::java::{hash_bucket, hash_set_buckets};

/// Parameter of a plan: the columns that rows are sorted by.
pub(crate) const SORT_COLUMNS: &str = "hoodie.clustering.plan.strategy.sort.columns";
/// Parameter of a plan: target size of a file in bytes.
pub const TARGET_BYTES: &str = "hoodie.clustering.plan.strategy.target.file.max.bytes";
/// Parameter of a plan: the layout of rows, unless it is `LINEAR`.
pub(crate) const LAYOUT: &str = "hoodie.layout.optimize.strategy";
/// Parameter of a plan: a plan strategy that Hudi does not have.
pub(crate) const STRATEGY: &str = "hoodoo.clustering.plan.strategy";
/// Key in a plan of `SINCE_COMMIT`: the last commit that it considered.
pub(crate) const CHECKPOINT: &str = "clustering.commit.checkpoint";

/// A plan, with its statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The groups.
    pub groups: Vec<PlannedGroup>,
    /// The plan as it is stored on the timeline.
    pub metadata: RequestedReplaceMetadata,
    /// Files of one partition that a point query on the first column opens: maximum and mean.
    pub before: Option<Depth>,
    /// The same after the clustering, estimated.
    pub after: Option<Depth>,
}

/// Plans a clustering; `None` if there is nothing to cluster.
///
/// # Errors
/// `InvalidOption` if the strategy needs an option that is missing.
pub(crate) fn plan_clustering(input: &PlanInput<'_>, options: &ClusteringOptions) -> Result<Option<Planned>> {
    if options.grouping == Grouping::Overlap && options.sort_columns.is_empty() {
        return Err(Error::invalid_option("OVERLAP groups by the ranges of sort columns, and there are none")
            .remedy(format!("Set {SORT_COLUMNS}, or use KEY_RANGE")));
    }
    let mut left: BTreeSet<String> = BTreeSet::new();
    let mut checkpoint = None;
    let mut groups = Vec::new();
    if options.grouping == Grouping::SinceCommit {
        (groups, checkpoint) = by_commits(input, options)?;
    } else {
        for (partition, found) in &input.partitions {
            let mut of_partition = of_partition(input, options, partition, found);
            // Groups that are clustered already must not use up the maximum number of groups.
            of_partition.retain(|g| !is_done(g, input, options));
            // Hudi considers each partition again after a plan of single files.
            let cut = of_partition.len() > options.max_groups || options.grouping == Grouping::SingleFile;
            if cut && !partition.is_empty() {
                left.insert(partition.clone());
            }
            of_partition.truncate(options.max_groups);
            of_partition.retain(|g| keeps(g, options));
            groups.extend(of_partition);
        }
    }
    match options.group_order {
        GroupOrder::Partition => {}
        GroupOrder::Bytes => groups.sort_by_key(|g| Reverse(g.bytes)),
        GroupOrder::Files => groups.sort_by_key(|g| Reverse(g.slices.len())),
    }
    // Plans of `SINCE_COMMIT` may have more, because the checkpoint covers all of them.
    if options.grouping != Grouping::SinceCommit {
        left.extend(groups.iter().skip(options.max_groups).map(|g| g.partition().to_owned()));
        groups.truncate(options.max_groups);
    }
    if groups.is_empty() {
        return Ok(None);
    }
    left.extend(input.left.iter().cloned());
    let groups: Vec<PlannedGroup> = groups.into_iter().map(|g| with_stats(g, input, options)).collect();
    let (before, after) = depths(input, options, &groups).map_or((None, None), |(b, a)| (Some(b), Some(a)));
    let metadata = request(input, options, &groups, left, checkpoint);
    Ok(Some(Planned { groups, metadata, before, after }))
}

fn is_eligible(slice: &FileSlice, input: &PlanInput<'_>, options: &ClusteringOptions) -> bool {
    let small = slice.base.as_ref().map_or(0, |b| b.size) < options.small_file_limit;
    // Hudi's strategy by commits has no limit.
    (small || options.grouping == Grouping::SinceCommit)
        && (options.include_logs || slice.logs.is_empty())
        && !input.pending_groups.contains(&(slice.partition.clone(), slice.file_id.clone()))
}

/// All groups of a partition.
fn of_partition(
    input: &PlanInput<'_>,
    options: &ClusteringOptions,
    partition: &str,
    found: &PartitionSlices,
) -> Vec<Group> {
    let mut slices = found.in_order_of_hudi();
    slices.retain(|s| is_eligible(s, input, options));
    match options.grouping {
        Grouping::Size | Grouping::SinceCommit => {
            sort_slices(&mut slices, &options.slice_order, options);
            fill(slices, options)
        }
        Grouping::SingleFile => one_by_one(slices, options),
        Grouping::CommitTime => {
            sort_slices(&mut slices, &[SliceOrder::InstantTime, SliceOrder::Size], options);
            fill(slices, options)
        }
        Grouping::Random => {
            // Each partition has its own random order, so that a plan of fewer partitions has the same groups.
            let salt = partition.bytes().fold(options.seed, |a, b| a.wrapping_mul(31).wrapping_add(b.into()));
            slices.sort_by(|a, b| a.file_id.cmp(&b.file_id));
            slices.shuffle(&mut StdRng::seed_from_u64(salt));
            fill(slices, options)
        }
        Grouping::Overlap | Grouping::KeyRange => by_ranges(slices, input, options),
    }
}

fn by_ranges(slices: Vec<FileSlice>, input: &PlanInput<'_>, options: &ClusteringOptions) -> Vec<Group> {
    let ranges: Vec<Option<&FileRanges>> = slices.iter().map(|s| ranges_of(s, input)).collect();
    let (mut sets, unknown) = overlapping(&ranges);
    sets.push(unknown);
    let mut groups = Vec::new();
    for set in sets.into_iter().filter(|set| set.len() > 1) {
        let slices = set.into_iter().filter_map(|i| slices.get(i).cloned()).collect();
        groups.extend(with_company(fill(slices, options), options));
    }
    // A single slice that the maximum group size cut off would be rewritten unchanged.
    groups.retain(|g| g.slices.len() > 1);
    groups
}

/// Adds a slice of the previous group to a group of one slice, which would not be planned.
fn with_company(mut groups: Vec<Group>, options: &ClusteringOptions) -> Vec<Group> {
    for at in 1..groups.len() {
        let (before, rest) = groups.split_at_mut(at);
        let (Some(before), Some(alone)) = (before.last_mut(), rest.first_mut()) else { continue };
        let lent = before.slices.last().map_or(0, |s| counted_bytes(s, options));
        let fits = alone.bytes.saturating_add(lent) <= options.max_group_bytes;
        if alone.slices.len() == 1 && before.slices.len() > 2 && fits {
            let mut slices: Vec<FileSlice> = before.slices.pop().into_iter().collect();
            slices.append(&mut alone.slices);
            *alone = Group::new(slices, options);
            *before = Group::new(std::mem::take(&mut before.slices), options);
        }
    }
    groups
}

fn by_commits(input: &PlanInput<'_>, options: &ClusteringOptions) -> Result<(Vec<Group>, Option<String>)> {
    let since = options.since_commit.as_deref().ok_or_else(|| {
        Error::invalid_option("a clustering of what commits wrote has to know since which commit")
            .remedy("Set hoodie.clustering.plan.strategy.earliest.commit.to.cluster")
    })?;
    let written = |s: &FileSlice| s.base_instant.as_str() > since && !input.replacing.contains(&s.base_instant);
    let slices = input.partitions.values().flat_map(|p| p.in_order_of_hudi());
    let slices = slices.filter(|s| s.base.is_some() && written(s) && is_eligible(s, input, options)).collect();
    let (mut groups, checkpoint) = since_commit(slices, options);
    groups.retain(|g| keeps(g, options) && !is_done(g, input, options));
    Ok((groups, checkpoint))
}

/// Whether the options allow a rewrite of this group.
fn keeps(group: &Group, options: &ClusteringOptions) -> bool {
    let single = group.slices.len() <= 1 && group.outputs <= 1;
    // `SINGLE_FILE` rewrites every file.
    let alone = options.single_files || options.grouping == Grouping::SingleFile;
    (alone || !single) && group.slices.len() >= options.min_files
}

/// Whether clusterings by the same columns wrote all of a group, so that a rewrite would not change it.
///
/// Hudi has no such rule: it rewrites a single small file again and again.
fn is_done(group: &Group, input: &PlanInput<'_>, options: &ClusteringOptions) -> bool {
    if options.rewrite_clustered {
        return false;
    }
    let wanted = params(input, options);
    let same = |a: &BTreeMap<String, String>, key: &str| a.get(key) == wanted.get(key);
    let mut instants = HashSet::new();
    let mut targets_agree = true;
    let mut strategies_agree = true;
    for slice in &group.slices {
        let Some(base) = slice.base.as_ref().filter(|_| slice.logs.is_empty()) else { return false };
        let Some(clustering) = input.clusterings.get(&base.instant) else { return false };
        let sorted_by = |p: &BTreeMap<String, String>| columns(p.get(SORT_COLUMNS).map(String::as_str));
        if sorted_by(&clustering.params) != sorted_by(&wanted) || !same(&clustering.params, LAYOUT) {
            return false;
        }
        targets_agree &= same(&clustering.params, TARGET_BYTES);
        strategies_agree &= same(&clustering.params, STRATEGY);
        instants.insert(&base.instant);
    }
    if options.grouping.needs_ranges() {
        // Files of two clusterings may overlap; files of one clustering cannot be improved.
        return instants.len() == 1 && strategies_agree;
    }
    // With the same target size there cannot be fewer files.
    targets_agree || group.outputs as usize >= group.slices.len()
}

/// The strategy parameters in the plan.
fn params(input: &PlanInput<'_>, options: &ClusteringOptions) -> BTreeMap<String, String> {
    let by_key = options.grouping == Grouping::KeyRange && options.sort_columns.is_empty();
    let sort_columns = if by_key { &input.key_columns } else { &options.sort_columns };
    let mut params = BTreeMap::from([(TARGET_BYTES.to_owned(), options.target_file_bytes.to_string())]);
    if !sort_columns.is_empty() {
        params.insert(SORT_COLUMNS.to_owned(), sort_columns.join(","));
    }
    match options.layout {
        Layout::Linear => None,
        Layout::ZOrder => params.insert(LAYOUT.to_owned(), "ZORDER".to_owned()),
        Layout::Hilbert => params.insert(LAYOUT.to_owned(), "HILBERT".to_owned()),
    };
    let name = match options.grouping {
        Grouping::Size | Grouping::SingleFile | Grouping::SinceCommit => return params,
        Grouping::Overlap => "OVERLAP",
        Grouping::KeyRange => "KEY_RANGE",
        Grouping::CommitTime => "COMMIT_TIME",
        Grouping::Random => "RANDOM",
    };
    params.insert(STRATEGY.to_owned(), name.to_owned());
    params
}

fn request(
    input: &PlanInput<'_>,
    options: &ClusteringOptions,
    groups: &[PlannedGroup],
    left: BTreeSet<String>,
    checkpoint: Option<String>,
) -> RequestedReplaceMetadata {
    // In the order of Hudi's hash set.
    let mut left: Vec<String> = left.into_iter().collect();
    let buckets = hash_set_buckets(0, left.len());
    left.sort_by_key(|partition| hash_bucket(partition, buckets));
    let plan = ClusteringPlan {
        input_groups: Some(groups.iter().map(|g| group_record(g, input, options)).collect()),
        strategy: Some(ClusteringStrategy {
            strategy_class_name: Some(options.execution_class.clone()),
            strategy_params: Some(params(input, options)),
            ..Default::default()
        }),
        extra_metadata: Some(checkpoint.map(|commit| (CHECKPOINT.to_owned(), commit)).into_iter().collect()),
        preserve_hoodie_metadata: Some(true),
        missing_schedule_partitions: options.incremental.then_some(left),
        ..Default::default()
    };
    RequestedReplaceMetadata {
        operation_type: Some("CLUSTER".to_owned()),
        clustering_plan: Some(plan),
        extra_metadata: Some(BTreeMap::new()),
        ..Default::default()
    }
}

fn group_record(planned: &PlannedGroup, input: &PlanInput<'_>, options: &ClusteringOptions) -> ClusteringGroup {
    let group = &planned.group;
    let slice = |s: &FileSlice| SliceInfo {
        data_file_path: Some(s.base.as_ref().map_or_else(String::new, |b| (input.absolute)(&b.path))),
        // Newest first, as Hudi has them.
        delta_file_paths: Some(s.logs.iter().rev().map(|l| (input.absolute)(&l.path)).collect()),
        file_id: Some(s.file_id.clone()),
        partition_path: Some(s.partition.clone()),
        bootstrap_file_path: Some(String::new()),
        ..Default::default()
    };
    let mut metrics = group.metrics(options);
    let mut extra = None;
    if options.grouping.needs_ranges() {
        let depths_by_time = [("BEFORE", planned.before), ("AFTER", planned.after)];
        for (when, depth) in depths_by_time.into_iter().filter_map(|(when, depth)| Some((when, depth?))) {
            metrics.insert(format!("OVERLAP_DEPTH_MAX_{when}"), depth.max as f64);
            metrics.insert(format!("OVERLAP_DEPTH_MEAN_{when}"), depth.mean);
        }
        let ends = planned
            .ranges
            .iter()
            .flat_map(|(name, min, max)| [(format!("{name}.min"), min.clone()), (format!("{name}.max"), max.clone())]);
        extra = Some(ends.filter_map(|(key, text)| Some((key, text?))).collect());
    }
    ClusteringGroup {
        slices: Some(group.slices.iter().map(slice).collect()),
        metrics: Some(metrics),
        num_output_file_groups: Some(i32::try_from(group.outputs).unwrap_or(i32::MAX)),
        extra_metadata: extra,
        ..Default::default()
    }
}
