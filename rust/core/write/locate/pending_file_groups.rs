//! File groups that a pending clustering is about to replace.
//!
//! Rows that are new never go to a file group of a pending plan. Updates there are refused, or, as Hudi has it by
//! `SparkAllowUpdateStrategy`, written: then the clustering fails when it is to be completed, and not the write.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::format::instant::Action;
use crate::table::{HudiTable, Options, TableView, planned_groups};
use crate::transaction::writers_first;

/// What a write does with rows that are in a file group of a pending clustering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateStrategy {
    /// It fails.
    Reject,
    /// It writes them; the clustering cannot be completed any more.
    Allow,
}

impl UpdateStrategy {
    /// Reads `hoodie.clustering.updates.strategy`, which follows the strategy for conflicts when it is not given.
    ///
    /// # Errors
    /// `Unsupported` for other classes.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let simple = |class: &str| class.rsplit('.').next().unwrap_or(class).to_owned();
        let Some(class) = options.get("hoodie.clustering.updates.strategy").map(simple) else {
            return Ok(if writers_first(options)? { Self::Allow } else { Self::Reject });
        };
        match class.as_str() {
            "SparkRejectUpdateStrategy" | "JavaRejectUpdateStrategy" => Ok(Self::Reject),
            "SparkAllowUpdateStrategy" | "JavaAllowUpdateStrategy" => Ok(Self::Allow),
            _ => Err(Error::unsupported(format!("the update strategy {class} in hoodie.clustering.updates.strategy"))
                .remedy("Use SparkRejectUpdateStrategy or SparkAllowUpdateStrategy")),
        }
    }
}

/// The file groups in pending clusterings, as a write sees them.
pub(in crate::write) struct PendingFileGroups {
    groups: HashSet<(String, String)>,
    strategy: UpdateStrategy,
}

impl PendingFileGroups {
    pub(in crate::write) fn of(table: &HudiTable, view: &TableView) -> Result<Self> {
        let groups = planned_groups(table.storage(), view.timeline(), &[Action::Clustering, Action::ReplaceCommit])?;
        Ok(Self { groups, strategy: UpdateStrategy::from_options(table.options())? })
    }

    /// Whether new rows have to go elsewhere.
    pub(in crate::write) fn contains(&self, slice: &FileSlice) -> bool {
        self.has(&slice.partition, &slice.file_id)
    }

    pub(in crate::write) fn has(&self, partition: &str, file_id: &str) -> bool {
        !self.groups.is_empty() && self.groups.contains(&(partition.to_owned(), file_id.to_owned()))
    }

    /// Whether an update of this slice is refused.
    pub(in crate::write) fn refuses(&self, slice: &FileSlice) -> bool {
        self.strategy == UpdateStrategy::Reject && self.contains(slice)
    }

    /// # Errors
    /// `Conflict` when an update of this slice is refused.
    pub(in crate::write) fn check_update(&self, table: &HudiTable, slice: &FileSlice) -> Result<()> {
        if !self.refuses(slice) {
            return Ok(());
        }
        Err(Error::conflict("the write updates a file group that a pending clustering is about to replace")
            .with("table", table.storage().uri())
            .with("partition", &slice.partition)
            .with("file group", &slice.file_id)
            .waits_for_clustering()
            .remedy(
                "Finish the clustering or roll it back (`hoodoo cluster rollback`), or let writers win: \
                 hoodie.clustering.updates.strategy=SparkAllowUpdateStrategy",
            ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn strategies_by_their_classes() {
        let strategy = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            UpdateStrategy::from_options(&Options::new(given).unwrap())
        };
        let key = "hoodie.clustering.updates.strategy";
        assert_eq!(strategy(&[]).unwrap(), UpdateStrategy::Reject);
        assert_eq!(strategy(&[(key, "a.b.SparkAllowUpdateStrategy")]).unwrap(), UpdateStrategy::Allow);
        assert!(strategy(&[(key, "a.b.SparkConsistentBucketDuplicateUpdateStrategy")]).is_err());
        let conflicts = "hoodie.write.lock.conflict.resolution.strategy";
        let writer = (conflicts, "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy");
        assert_eq!(strategy(&[writer]).unwrap(), UpdateStrategy::Allow);
        assert_eq!(strategy(&[writer, (key, "SparkRejectUpdateStrategy")]).unwrap(), UpdateStrategy::Reject);
    }
}
