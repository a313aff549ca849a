#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, HashMap, HashSet};

use super::group::PartitionSlices;
use super::input::{Clustering, PlanInput};
use super::overlap::ColumnRange;
use super::plan::{LAYOUT, Planned, SORT_COLUMNS, STRATEGY, plan_clustering};
use super::{ClusteringOptions, FileRanges, TARGET_BYTES};
use crate::error::ErrorKind;
use crate::file_group::{BaseFile, FileSlice, LogFile};
use crate::storage::FileMeta;
use crate::table::Options;

const MIB: u64 = 1 << 20;

/// A table on paper: files with a size, the instant that wrote them and the range of each sort column.
#[derive(Default)]
struct Paper {
    slices: Vec<FileSlice>,
    ranges: HashMap<String, FileRanges>,
    clusterings: HashMap<String, Clustering>,
    options: BTreeMap<String, String>,
}

impl Paper {
    fn new(options: &[(&str, &str)]) -> Self {
        Self { options: given(options), ..Default::default() }
    }

    fn file(&mut self, id: &str, instant: &str, bytes: u64, columns: &[(u32, u32)]) -> &mut Self {
        let path = format!("p/{id}_0-0-0_{instant}.parquet");
        let base = BaseFile::parse(&FileMeta { path: path.clone(), size: bytes, modified_ms: 0 });
        self.slices.push(FileSlice {
            partition: "p".into(),
            file_id: id.into(),
            base_instant: instant.into(),
            base: Some(base.unwrap()),
            logs: Vec::new(),
        });
        let range = |&(min, max): &(u32, u32)| ColumnRange {
            min: min.to_be_bytes().to_vec(),
            max: max.to_be_bytes().to_vec(),
            min_string: Some(min.to_string()),
            max_string: Some(max.to_string()),
        };
        if !columns.is_empty() {
            let columns: Vec<_> = columns.iter().map(|c| Some(range(c))).collect();
            let nulls = vec![Some(0); columns.len()];
            self.ranges.insert(path, FileRanges { rows: 1, columns, nulls });
        }
        self
    }

    fn log(&mut self) -> &mut Self {
        let slice = self.slices.last_mut().unwrap();
        let name = format!("p/.{}_30.log.1_0-0-0", slice.file_id);
        slice.logs.push(LogFile::parse(&FileMeta { path: name, size: 5, modified_ms: 0 }).unwrap());
        self
    }

    fn input(&self, pending_groups: &[&str]) -> PlanInput<'static> {
        let partition = PartitionSlices {
            slices: self.slices.clone(),
            with_base: self.slices.len(),
            file_groups: self.slices.len(),
        };
        PlanInput {
            partitions: [("p".to_owned(), partition)].into(),
            left: Vec::new(),
            pending_groups: pending_groups.iter().map(|id| ("p".to_owned(), (*id).to_owned())).collect(),
            clusterings: self.clusterings.clone(),
            replacing: HashSet::new(),
            ranges: self.ranges.clone(),
            key_columns: vec!["id".into()],
            absolute: &|path| format!("/t/{path}"),
        }
    }

    fn plan(&self, more: &[(&str, &str)]) -> Option<Planned> {
        let mut options = self.options.clone();
        options.extend(given(more));
        let options = ClusteringOptions::from_options(&Options::new(options).unwrap()).unwrap();
        plan_clustering(&self.input(&["busy"]), &options).unwrap()
    }

    /// File ids of each group with its outputs.
    fn groups(&self, more: &[(&str, &str)]) -> Vec<(Vec<String>, u32)> {
        let groups = self.plan(more).map(|p| p.groups).unwrap_or_default();
        let ids = |s: &[FileSlice]| s.iter().map(|s| s.file_id.clone()).collect();
        groups.iter().map(|g| (ids(&g.group.slices), g.group.outputs)).collect()
    }

    /// Carries a plan out: each group becomes files that hold its range in equal parts.
    fn carry_out(&mut self, instant: &str, planned: &Planned) {
        let params = planned.metadata.clustering_plan.clone().unwrap().strategy.unwrap().strategy_params.unwrap();
        self.clusterings.insert(instant.to_owned(), Clustering { params });
        for (n, group) in planned.groups.iter().enumerate() {
            let taken: HashSet<&str> = group.group.slices.iter().map(|s| s.file_id.as_str()).collect();
            let ends = |at: usize, end: usize| {
                let number = |s: &FileSlice| {
                    let column = self.ranges[&s.base.as_ref().unwrap().path].columns[at].clone().unwrap();
                    let bytes = if end == 0 { column.min } else { column.max };
                    u32::from_be_bytes(bytes.try_into().unwrap())
                };
                let all = group.group.slices.iter().map(number);
                if end == 0 { all.min().unwrap() } else { all.max().unwrap() }
            };
            let (min, max) = (ends(0, 0), ends(0, 1));
            let (bytes, outputs) = (group.group.bytes, group.group.outputs);
            self.slices.retain(|s| !taken.contains(s.file_id.as_str()));
            for part in 0..outputs {
                let cut = |n: u32| min + (max - min) * n / outputs;
                let id = format!("{instant}-{n}-{part}");
                self.file(&id, instant, bytes / u64::from(outputs), &[(cut(part), cut(part + 1))]);
            }
        }
    }
}

fn given(options: &[(&str, &str)]) -> BTreeMap<String, String> {
    let key = |k: &str| match k {
        "strategy" => STRATEGY.to_owned(),
        "sort" => SORT_COLUMNS.to_owned(),
        "target" => TARGET_BYTES.to_owned(),
        k if k.starts_with("hood") => k.to_owned(),
        k => format!("hoodie.clustering.plan.strategy.{k}"),
    };
    options.iter().map(|(k, v)| (key(k), (*v).to_owned())).collect()
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

const OVERLAP: [(&str, &str); 2] = [("strategy", "OVERLAP"), ("sort", "a")];

/// Eight files of 512 MiB, of which the first `overlapping` lie over each other.
fn rfc(overlapping: u32) -> Paper {
    let mut paper = Paper::new(&OVERLAP);
    for n in 0..8u32 {
        let range = if n < overlapping { (n, 100 - n) } else { (1000 * n, 1000 * n + 999) };
        paper.file(&format!("f{n}"), "1", 512 * MIB, &[range]);
    }
    paper
}

#[test]
fn the_examples_of_the_rfc() {
    assert_eq!(rfc(2).groups(&[]), [(ids(&["f0", "f1"]), 1)]);
    assert_eq!(rfc(4).groups(&[]), [(ids(&["f0", "f1", "f2", "f3"]), 2)]);
    assert!(rfc(0).plan(&[]).is_none());
    // By keys it is the same with other ranges; rows are then sorted by the key.
    let by_key = rfc(2).plan(&[("strategy", "KEY_RANGE"), ("sort", "")]).unwrap();
    let strategy = by_key.metadata.clustering_plan.unwrap().strategy.unwrap();
    assert_eq!(strategy.strategy_params.unwrap()[SORT_COLUMNS], "id");
    assert_eq!(by_key.groups[0].group.slices.len(), 2);
}

#[test]
fn groups_have_figures() {
    let planned = rfc(4).plan(&[]).unwrap();
    let (before, after) = (planned.before.unwrap(), planned.after.unwrap());
    assert_eq!((before.max, after.max), (4, 1));
    assert!(before.mean > after.mean && after.mean >= 1.0);
    let group = planned.metadata.clustering_plan.unwrap().input_groups.unwrap().remove(0);
    let extra = group.extra_metadata.unwrap();
    assert_eq!((extra["a.min"].as_str(), extra["a.max"].as_str()), ("0", "100"));
    let metrics = group.metrics.unwrap();
    assert!((metrics["OVERLAP_DEPTH_MAX_BEFORE"] - 4.0).abs() < 1e-9);
    assert!((metrics["TOTAL_IO_READ_MB"] - 2048.0).abs() < 1e-9);
    assert_eq!(group.slices.unwrap()[0].data_file_path.as_deref(), Some("/t/p/f0_0-0-0_1.parquet"));
    // Along a curve, a value may be in any of the outputs.
    let along = rfc(4).plan(&[(LAYOUT, "ZORDER")]).unwrap();
    assert_eq!(along.groups[0].after.unwrap().max, 2);
}

#[test]
fn caps_on_groups() {
    let cap = [("max.bytes.per.group", "1073741824")];
    assert_eq!(rfc(4).groups(&cap), [(ids(&["f0", "f1"]), 1), (ids(&["f2", "f3"]), 1)]);
    // What is cut off for itself gets company, or is left alone.
    let wider = [("max.bytes.per.group", "1610612736")];
    assert_eq!(rfc(4).groups(&wider), [(ids(&["f0", "f1"]), 1), (ids(&["f2", "f3"]), 1)]);
    assert_eq!(rfc(3).groups(&cap), [(ids(&["f0", "f1"]), 1)]);
    let one = [("max.bytes.per.group", "1073741824"), ("max.num.groups", "1")];
    let planned = rfc(4).plan(&one).unwrap();
    assert_eq!(planned.groups.len(), 1);
    assert_eq!(planned.metadata.clustering_plan.unwrap().missing_schedule_partitions.unwrap(), ["p"]);
}

#[test]
fn files_that_are_taken_or_too_large_stand_aside() {
    let mut paper = Paper::new(&OVERLAP);
    paper.file("busy", "1", MIB, &[(0, 9)]).file("large", "1", 1025 * MIB, &[(0, 9)]);
    paper.file("a", "1", 1024 * MIB, &[(0, 9)]).file("b", "1", MIB, &[(0, 9)]).file("c", "1", MIB, &[(0, 9)]).log();
    assert_eq!(paper.groups(&[]), [(ids(&["a", "b", "c"]), 2)]);
    assert_eq!(paper.groups(&[("hoodoo.clustering.include.log.files", "false")]), [(ids(&["a", "b"]), 2)]);
}

#[test]
fn unknown_ranges_are_a_group_of_their_own() {
    let mut paper = Paper::new(&OVERLAP);
    paper.file("a", "1", MIB, &[]).file("b", "1", MIB, &[]).file("c", "1", MIB, &[(0, 9)]);
    let planned = paper.plan(&[]).unwrap();
    assert_eq!(planned.groups.len(), 1);
    assert!(planned.groups[0].ranges.is_empty());
    paper.slices.remove(0);
    assert!(paper.plan(&[]).is_none());
}

#[test]
fn planning_again_finds_nothing() {
    for strategy in ["SIZE", "OVERLAP", "KEY_RANGE", "COMMIT_TIME", "RANDOM", "SINGLE_FILE"] {
        for cap in ["10485760", "1048576000"] {
            let mut paper = Paper::new(&[("sort", "a"), ("target", "3145728"), ("max.bytes.per.group", cap)]);
            for n in 0..9u32 {
                paper.file(&format!("f{n}"), &n.to_string(), u64::from(n + 1) * MIB / 2, &[(n * 10, n * 10 + 35)]);
            }
            let planned = paper.plan(&[("strategy", strategy)]).unwrap_or_else(|| panic!("{strategy}"));
            paper.carry_out("20", &planned);
            assert!(paper.plan(&[("strategy", strategy)]).is_none(), "{strategy} {cap}");
            // By other columns, another layout, or when it is asked for, they are.
            let other = [("strategy", strategy), ("hoodoo.clustering.rewrite.clustered", "true")];
            assert!(paper.plan(&other).is_some() || matches!(strategy, "OVERLAP" | "KEY_RANGE"), "{strategy}");
            if matches!(strategy, "SIZE" | "COMMIT_TIME" | "RANDOM") {
                assert!(paper.plan(&[("strategy", strategy), ("sort", "b")]).is_some(), "{strategy}");
                assert!(paper.plan(&[("strategy", strategy), (LAYOUT, "HILBERT")]).is_some(), "{strategy}");
            }
        }
    }
}

#[test]
fn what_is_done_takes_no_place() {
    let mut paper = Paper::new(&[("sort", "a"), ("max.bytes.per.group", "2097152"), ("max.num.groups", "2")]);
    for n in 0..6u32 {
        paper.file(&format!("f{n}"), "1", (6 - u64::from(n)) * MIB / 8 + MIB, &[(n, n + 1)]);
    }
    let mut planned = Vec::new();
    for turn in 0..4 {
        let Some(plan) = paper.plan(&[]) else { break };
        planned.push(plan.groups.len());
        paper.carry_out(&format!("{}", 10 + turn), &plan);
    }
    assert_eq!(planned, [2, 2, 2]);
}

#[test]
fn a_lone_small_file_is_clustered_once() {
    let mut paper = Paper::new(&[("sort", "a")]);
    paper.file("only", "1", MIB, &[(0, 9)]);
    let planned = paper.plan(&[]).unwrap();
    paper.carry_out("2", &planned);
    assert!(paper.plan(&[]).is_none());
    // Another one beside it, and both are one group.
    paper.file("new", "3", MIB, &[(0, 9)]);
    assert_eq!(paper.groups(&[]).len(), 1);
    // Changed since, it is a file like others.
    paper.slices.truncate(1);
    paper.log();
    assert!(paper.plan(&[]).is_some());
    // Without an agreement on the target, what would be fewer files is done.
    paper.slices[0].logs.clear();
    paper.clusterings.get_mut("2").unwrap().params.remove(TARGET_BYTES);
    assert!(paper.plan(&[]).is_none());
    let mut other = paper.clusterings["2"].clone();
    other.params.insert(TARGET_BYTES.to_owned(), "5".to_owned());
    paper.clusterings.insert("3".to_owned(), other);
    paper.file("other", "3", MIB, &[(0, 9)]);
    assert_eq!(paper.groups(&[]).len(), 1);
}

#[test]
fn files_of_two_clusterings_that_overlap_are_grouped() {
    let mut paper = Paper::new(&OVERLAP);
    paper.file("a", "1", MIB, &[(0, 50)]).file("b", "1", MIB, &[(20, 70)]);
    let first = paper.plan(&[]).unwrap();
    paper.carry_out("2", &first);
    paper.file("c", "3", MIB, &[(30, 40)]).file("d", "3", MIB, &[(200, 300)]).file("e", "3", MIB, &[(250, 300)]);
    assert_eq!(paper.groups(&[]).len(), 2);
    let mut other = paper.clusterings["2"].clone();
    other.params.remove(STRATEGY);
    paper.clusterings.insert("3".to_owned(), other);
    assert_eq!(paper.groups(&[]).len(), 2, "what went by size may still overlap");
}

#[test]
fn other_orders() {
    let mut paper = Paper::new(&[("max.bytes.per.group", "2097152")]);
    for (id, instant) in [("a", "3"), ("b", "1"), ("c", "4"), ("d", "2")] {
        paper.file(id, instant, MIB, &[]);
    }
    let of =
        |strategy: &str, seed: &str| paper.groups(&[("strategy", strategy), ("hoodoo.clustering.plan.seed", seed)]);
    assert_eq!(of("COMMIT_TIME", "0"), [(ids(&["b", "d"]), 1), (ids(&["a", "c"]), 1)]);
    assert_eq!(of("RANDOM", "7"), of("RANDOM", "7"));
    let drawn: HashSet<_> = (0..40).map(|seed| of("RANDOM", &seed.to_string())).collect();
    assert!(drawn.len() > 5);
    let since = [("strategy", "SINCE_COMMIT"), ("earliest.commit.to.cluster", "2")];
    let planned = paper.plan(&since).unwrap();
    assert_eq!(planned.groups.len(), 1);
    let plan = planned.metadata.clustering_plan.unwrap();
    assert_eq!(plan.extra_metadata.unwrap()["clustering.commit.checkpoint"], "4");
}

#[test]
fn order_and_filter_of_groups() {
    let mut paper = Paper::new(&OVERLAP);
    paper.file("a", "1", MIB, &[(0, 9)]).file("b", "1", MIB, &[(5, 9)]).file("c", "1", MIB, &[(7, 9)]);
    paper.file("d", "1", 9 * MIB, &[(20, 29)]).file("e", "1", 9 * MIB, &[(25, 29)]);
    let first = |more: &[(&str, &str)]| paper.groups(more)[0].0.len();
    assert_eq!((first(&[]), first(&[("hoodoo.clustering.plan.group.order", "BYTES")])), (3, 2));
    assert_eq!(first(&[("hoodoo.clustering.plan.group.order", "FILES")]), 3);
    assert_eq!(paper.groups(&[("hoodoo.clustering.plan.group.min.files", "3")]).len(), 1);
}

#[test]
fn overlap_needs_columns() {
    let paper = Paper::new(&[("strategy", "OVERLAP")]);
    let options = ClusteringOptions::from_options(&Options::new(paper.options.clone()).unwrap()).unwrap();
    let e = plan_clustering(&paper.input(&[]), &options).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidOption);
}
