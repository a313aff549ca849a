//! What a plan is made of: the slices of a table with their column ranges, and the groups with their statistics.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::group::{Group, PartitionSlices};
use super::options::{ClusteringOptions, Grouping};
use super::overlap::{Depth, Ranges};

/// What planning needs of a completed clustering.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Clustering {
    /// The parameters of its plan.
    pub params: BTreeMap<String, String>,
}

/// Input of a plan.
pub(crate) struct PlanInput<'a> {
    /// The partitions to cluster.
    pub partitions: BTreeMap<String, PartitionSlices>,
    /// Partitions that changed and are left for a later plan.
    pub left: Vec<String>,
    /// Pending file groups (partition, id).
    pub pending_groups: HashSet<(String, String)>,
    /// Completed clusterings by requested time.
    pub clusterings: HashMap<String, Clustering>,
    /// Requested times of completed instants that replaced file groups.
    pub replacing: HashSet<String>,
    /// Ranges of [`range_columns`] by the path of the base file; empty if the strategy does not need them.
    pub ranges: Ranges,
    /// The table's record key columns.
    pub key_columns: Vec<String>,
    /// Formats a path as plans do.
    pub absolute: &'a dyn Fn(&str) -> String,
}

/// A group of a plan, with its statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedGroup {
    /// The slices, and into how many files they are rewritten.
    pub group: Group,
    /// Columns with their minimum and maximum as strings, as far as they are known.
    pub ranges: Vec<(String, Option<String>, Option<String>)>,
    /// Files of the group that a point query on the first column opens.
    pub before: Option<Depth>,
    /// The same after the clustering, estimated.
    pub after: Option<Depth>,
}

/// Columns whose ranges are read from footers. Footers have the range of record keys as key-value entries.
pub(crate) fn range_columns(options: &ClusteringOptions) -> Vec<String> {
    match options.grouping {
        Grouping::KeyRange => vec![crate::file_group::base::RECORD_KEY_COLUMN.to_owned()],
        _ => options.sort_columns.clone(),
    }
}
