//! File groups that a write replaces.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::table::TableView;

/// The file groups of partitions.
pub(in crate::write) fn file_groups(
    view: &TableView,
    partitions: BTreeSet<String>,
) -> Result<BTreeMap<String, Vec<String>>> {
    let mut groups = BTreeMap::new();
    for partition in partitions {
        let ids: Vec<String> = view.latest_slices(&partition)?.into_iter().map(|s| s.file_id).collect();
        if !ids.is_empty() {
            groups.insert(partition, ids);
        }
    }
    Ok(groups)
}
