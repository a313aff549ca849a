//! Hudi's clustering options, and hoodoo's for plan strategies that Hudi does not have.

use crate::error::{Error, Result};
use crate::table::Options;

/// Hudi's default execution strategy class.
const EXECUTION_CLASS: &str = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy";

/// How file slices are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// By size, up to the maximum bytes of a group: Hudi's default.
    Size,
    /// One group for each slice.
    SingleFile,
    /// Slices written since a commit, up to the maximum bytes of a group.
    SinceCommit,
    /// Slices whose ranges of the sort columns overlap.
    Overlap,
    /// Slices whose ranges of record keys overlap.
    KeyRange,
    /// By the commit that wrote them, up to the maximum bytes of a group.
    CommitTime,
    /// In a random order, up to the maximum bytes of a group.
    Random,
}

impl Grouping {
    /// Whether the footers of the files have to be read.
    pub fn needs_ranges(self) -> bool {
        matches!(self, Self::Overlap | Self::KeyRange)
    }

    /// Whether Hudi has this strategy and makes the same plans.
    pub fn is_of_hudi(self) -> bool {
        matches!(self, Self::Size | Self::SingleFile | Self::SinceCommit)
    }

    fn parse(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_uppercase().as_str() {
            "SIZE" => Self::Size,
            "SINGLE_FILE" => Self::SingleFile,
            "SINCE_COMMIT" => Self::SinceCommit,
            "OVERLAP" => Self::Overlap,
            "KEY_RANGE" => Self::KeyRange,
            "COMMIT_TIME" => Self::CommitTime,
            "RANDOM" => Self::Random,
            _ => {
                return Err(Error::invalid_value(
                    "hoodoo.clustering.plan.strategy",
                    name,
                    "one of SIZE, SINGLE_FILE, SINCE_COMMIT, OVERLAP, KEY_RANGE, COMMIT_TIME, RANDOM",
                ));
            }
        })
    }
}

/// Which partitions are clustered (`hoodie.clustering.plan.partition.filter.mode`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionFilter {
    /// All.
    All,
    /// The last ones by name.
    Recent {
        /// Number of the newest partitions to skip.
        skip: usize,
        /// Number of partitions to take; 0: all.
        take: usize,
    },
    /// Those between two names, both included.
    Between {
        /// The first.
        begin: Option<String>,
        /// The last.
        end: Option<String>,
    },
    /// Every 24th, another one each hour of the day.
    DayRolling,
}

/// How slices are sorted before they are grouped (`hoodie.clustering.plan.strategy.file.slices.sort.by`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceOrder {
    /// Largest first.
    Size,
    /// Oldest first.
    InstantTime,
}

/// Order of the groups in the plan, which is cut to the maximum number of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupOrder {
    /// By partition, as Hudi has them.
    Partition,
    /// Those with the most bytes first.
    Bytes,
    /// Those with the most files first.
    Files,
}

/// How rows are laid out (`hoodie.layout.optimize.strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// By the first column, then the second.
    Linear,
    /// Along the Z curve.
    ZOrder,
    /// Along Hilbert's curve.
    Hilbert,
}

impl Layout {
    /// Parses a value of `hoodie.layout.optimize.strategy`.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn parse(name: &str) -> Result<Self> {
        // Hudi takes hyphens as well: z-order.
        Ok(match name.to_ascii_uppercase().replace('-', "").as_str() {
            "LINEAR" => Self::Linear,
            "ZORDER" => Self::ZOrder,
            "HILBERT" => Self::Hilbert,
            _ => {
                return Err(Error::invalid_value(
                    "hoodie.layout.optimize.strategy",
                    name,
                    "one of LINEAR, ZORDER, HILBERT",
                ));
            }
        })
    }
}

/// The options of clustering.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusteringOptions {
    /// Whether a clustering that is due is planned and executed after a commit (`hoodie.clustering.inline`).
    pub inline: bool,
    /// Whether a clustering that is due is planned after a commit (`hoodie.clustering.schedule.inline`).
    pub schedule_inline: bool,
    /// Commits for the trigger of inline clustering.
    pub inline_commits: usize,
    /// Whether another process executes the plans (`hoodie.clustering.async.enabled`).
    pub asynchronous: bool,
    /// Commits for the trigger of asynchronous clustering, and of planning inline.
    pub async_commits: usize,
    /// How file slices are grouped.
    pub grouping: Grouping,
    /// Which partitions.
    pub partitions: PartitionFilter,
    /// Only partitions whose whole name this matches.
    pub partition_regex: Option<String>,
    /// Only these partitions, changed or not.
    pub selected: Option<Vec<String>>,
    /// Slices with a base file of at least this size are not clustered.
    pub small_file_limit: u64,
    /// Target size of a file in bytes.
    pub target_file_bytes: u64,
    /// Maximum bytes of base files in a group.
    pub max_group_bytes: u64,
    /// Maximum number of groups of a plan.
    pub max_groups: usize,
    /// Whether a group may be one file that becomes one file.
    pub single_files: bool,
    /// Columns that rows are sorted by.
    pub sort_columns: Vec<String>,
    /// Order of slices before grouping.
    pub slice_order: Vec<SliceOrder>,
    /// The commit after which slices are taken by `SINCE_COMMIT`.
    pub since_commit: Option<String>,
    /// Assumed bytes of a slice without a base file.
    pub log_slice_bytes: u64,
    /// Only partitions that changed since the last clustering (`hoodie.table.services.incremental.enabled`).
    pub incremental: bool,
    /// Execution strategy class in the plan.
    pub execution_class: String,
    /// How rows are ordered by several columns.
    pub layout: Layout,
    /// Whether slices with log files are clustered (`hoodoo.clustering.include.log.files`).
    pub include_logs: bool,
    /// Whether files that a clustering by the same columns wrote are rewritten (`hoodoo.clustering.rewrite.clustered`).
    pub rewrite_clustered: bool,
    /// Order of groups (`hoodoo.clustering.plan.group.order`).
    pub group_order: GroupOrder,
    /// Minimum number of files of a group (`hoodoo.clustering.plan.group.min.files`).
    pub min_files: usize,
    /// Seed of `RANDOM` (`hoodoo.clustering.plan.seed`).
    pub seed: u64,
}

impl ClusteringOptions {
    /// Reads and checks the options.
    ///
    /// # Errors
    /// `InvalidOption`; `Unsupported` for unsupported strategies.
    pub fn from_options(options: &Options) -> Result<Self> {
        let (by_class, mode_of_class) = strategy_class(options)?;
        let grouping = options.get("hoodoo.clustering.plan.strategy").map(Grouping::parse).transpose()?;
        let grouping = grouping.unwrap_or(by_class);
        let mode = mode_of_class.or_else(|| options.get("hoodie.clustering.plan.partition.filter.mode"));
        let target = positive(options, "target.file.max.bytes", 1 << 30)?;
        // RFC-19 takes files up to the target size; Hudi has a separate limit.
        let small = if grouping.is_of_hudi() { 300 << 20 } else { target.saturating_add(1) };
        Ok(Self {
            inline: options.flag("hoodie.clustering.inline", false)?,
            schedule_inline: options.flag("hoodie.clustering.schedule.inline", false)?,
            inline_commits: options.number("hoodie.clustering.inline.max.commits", 4)?,
            asynchronous: options.flag("hoodie.clustering.async.enabled", false)?,
            async_commits: options.number("hoodie.clustering.async.max.commits", 4)?,
            grouping,
            partitions: partition_filter(options, mode.unwrap_or("NONE"))?,
            partition_regex: text(options, "partition.regex.pattern"),
            selected: text(options, "partition.selected").map(|list| list.split(',').map(str::to_owned).collect()),
            small_file_limit: options.number(&key("small.file.limit"), small)?,
            target_file_bytes: target,
            max_group_bytes: options.number(&key("max.bytes.per.group"), 2 << 30)?,
            max_groups: options.number(&key("max.num.groups"), 30)?,
            single_files: options.flag(&key("single.group.clustering.enabled"), true)?,
            sort_columns: columns(text(options, "sort.columns").as_deref()),
            slice_order: slice_order(options)?,
            since_commit: text(options, "earliest.commit.to.cluster"),
            log_slice_bytes: options.number("hoodie.parquet.max.file.size", 120 << 20)?,
            incremental: options.flag("hoodie.table.services.incremental.enabled", true)?,
            execution_class: options
                .get("hoodie.clustering.execution.strategy.class")
                .unwrap_or(EXECUTION_CLASS)
                .to_owned(),
            layout: Layout::parse(options.get("hoodie.layout.optimize.strategy").unwrap_or("LINEAR"))?,
            include_logs: options.flag("hoodoo.clustering.include.log.files", true)?,
            rewrite_clustered: options.flag("hoodoo.clustering.rewrite.clustered", false)?,
            group_order: group_order(options)?,
            min_files: options.number("hoodoo.clustering.plan.group.min.files", 1)?,
            seed: options.number("hoodoo.clustering.plan.seed", 0)?,
        })
    }

    /// Whether a clustering is due after this many completed commits since the last planned one. Only the enabled
    /// triggers count: without one, a clustering is always due.
    pub fn is_due(&self, commits: usize) -> bool {
        (!self.inline || commits >= self.inline_commits)
            && (!(self.asynchronous || self.schedule_inline) || commits >= self.async_commits)
    }
}

/// The columns of a list such as `a, b`.
pub(super) fn columns(list: Option<&str>) -> Vec<String> {
    let names = list.unwrap_or("").split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn key(name: &str) -> String {
    format!("hoodie.clustering.plan.strategy.{name}")
}

fn text(options: &Options, name: &str) -> Option<String> {
    options.get(&key(name)).filter(|value| !value.is_empty()).map(str::to_owned)
}

fn positive(options: &Options, name: &str, default: u64) -> Result<u64> {
    match options.number(&key(name), default)? {
        0 => Err(Error::invalid_value(&key(name), 0, "a number from 1")),
        number => Ok(number),
    }
}

/// The grouping of a Hudi plan strategy class, and its partition filter.
fn strategy_class(options: &Options) -> Result<(Grouping, Option<&'static str>)> {
    let Some(class) = options.get(&key("class")) else { return Ok((Grouping::Size, None)) };
    Ok(match class.rsplit('.').next().unwrap_or(class) {
        "SparkSizeBasedClusteringPlanStrategy"
        | "JavaSizeBasedClusteringPlanStrategy"
        | "FlinkSizeBasedClusteringPlanStrategy" => (Grouping::Size, None),
        "SparkRecentDaysClusteringPlanStrategy" | "JavaRecentDaysClusteringPlanStrategy" => {
            (Grouping::Size, Some("RECENT_DAYS"))
        }
        "SparkSelectedPartitionsClusteringPlanStrategy" => (Grouping::Size, Some("SELECTED_PARTITIONS")),
        "SparkSingleFileSortPlanStrategy" => (Grouping::SingleFile, None),
        "CommitBasedClusteringPlanStrategy" => (Grouping::SinceCommit, None),
        _ => {
            return Err(Error::unsupported(format!("the clustering plan strategy {class} is not supported")).remedy(
                "Use SparkSizeBased-, SparkRecentDays- or SparkSelectedPartitionsClusteringPlanStrategy, \
                 SparkSingleFileSortPlanStrategy or CommitBasedClusteringPlanStrategy, or leave it out",
            ));
        }
    })
}

fn partition_filter(options: &Options, mode: &str) -> Result<PartitionFilter> {
    Ok(match mode.to_ascii_uppercase().as_str() {
        "NONE" => PartitionFilter::All,
        "RECENT_DAYS" => {
            let count = |name: &str, default: i64| -> Result<usize> {
                Ok(usize::try_from(options.number(&key(name), default)?).unwrap_or(0))
            };
            PartitionFilter::Recent {
                skip: count("daybased.skipfromlatest.partitions", 0)?,
                take: count("daybased.lookback.partitions", 2)?,
            }
        }
        "SELECTED_PARTITIONS" => PartitionFilter::Between {
            begin: text(options, "cluster.begin.partition"),
            end: text(options, "cluster.end.partition"),
        },
        "DAY_ROLLING" => PartitionFilter::DayRolling,
        _ => {
            return Err(Error::invalid_value(
                "hoodie.clustering.plan.partition.filter.mode",
                mode,
                "one of NONE, RECENT_DAYS, SELECTED_PARTITIONS, DAY_ROLLING",
            ));
        }
    })
}

fn slice_order(options: &Options) -> Result<Vec<SliceOrder>> {
    let list = options.get(&key("file.slices.sort.by")).unwrap_or("SIZE");
    list.split(',')
        .map(|name| match name.trim().to_ascii_uppercase().as_str() {
            "SIZE" => Ok(SliceOrder::Size),
            "INSTANT_TIME" => Ok(SliceOrder::InstantTime),
            _ => Err(Error::invalid_value(
                "hoodie.clustering.plan.strategy.file.slices.sort.by",
                name,
                "SIZE, INSTANT_TIME, or both with a comma",
            )),
        })
        .collect()
}

fn group_order(options: &Options) -> Result<GroupOrder> {
    let name = options.get("hoodoo.clustering.plan.group.order").unwrap_or("PARTITION");
    Ok(match name.to_ascii_uppercase().as_str() {
        "PARTITION" => GroupOrder::Partition,
        "BYTES" => GroupOrder::Bytes,
        "FILES" => GroupOrder::Files,
        _ => {
            return Err(Error::invalid_value(
                "hoodoo.clustering.plan.group.order",
                name,
                "one of PARTITION, BYTES, FILES",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    fn options(more: &[(&str, &str)]) -> Result<ClusteringOptions> {
        let given = more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ClusteringOptions::from_options(&Options::new(given)?)
    }

    #[test]
    fn classes_of_hudi_are_known_and_others_are_refused_by_name() {
        let class = |name: &str| options(&[("hoodie.clustering.plan.strategy.class", name)]);
        assert_eq!(class("x.SparkSizeBasedClusteringPlanStrategy").unwrap(), options(&[]).unwrap());
        let recent = class("x.SparkRecentDaysClusteringPlanStrategy").unwrap();
        assert_eq!(recent.partitions, PartitionFilter::Recent { skip: 0, take: 2 });
        assert_eq!(class("x.SparkSingleFileSortPlanStrategy").unwrap().grouping, Grouping::SingleFile);
        let e = class("x.SparkConsistentBucketClusteringPlanStrategy").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("SparkConsistentBucketClusteringPlanStrategy"));
    }

    #[test]
    fn limits_follow_the_strategy() {
        let of = |name: &str| options(&[("hoodoo.clustering.plan.strategy", name)]).unwrap();
        assert_eq!(of("size").small_file_limit, 300 << 20);
        assert_eq!(of("OVERLAP").small_file_limit, (1 << 30) + 1);
        assert!(options(&[("hoodoo.clustering.plan.strategy", "BEST")]).is_err());
        assert!(options(&[("hoodie.clustering.plan.strategy.target.file.max.bytes", "0")]).is_err());
        assert!(options(&[("hoodie.clustering.plan.strategy.file.slices.sort.by", "NAME")]).is_err());
        let layout = |name: &str| options(&[("hoodie.layout.optimize.strategy", name)]).map(|o| o.layout);
        for name in ["z-order", "Z-ORDER", "zorder", "ZORDER"] {
            assert_eq!(layout(name).unwrap(), Layout::ZOrder);
        }
        assert_eq!(layout("Hilbert").unwrap(), Layout::Hilbert);
        assert!(layout("z_order").is_err());
    }

    #[test]
    fn triggers_are_asked_when_they_are_on() {
        let due = |more: &[(&str, &str)], commits| options(more).unwrap().is_due(commits);
        assert!(due(&[], 0));
        let on = [("hoodie.clustering.async.enabled", "true"), ("hoodie.clustering.async.max.commits", "3")];
        assert!(!due(&on, 2) && due(&on, 3));
        let scheduled = [("hoodie.clustering.schedule.inline", "true")];
        assert!(!due(&scheduled, 3) && due(&scheduled, 4));
        let inline = [("hoodie.datasource.clustering.inline.enable", "true")];
        assert!(!due(&inline, 3) && due(&inline, 4));
    }
}
