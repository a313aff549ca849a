//! Chooses the partitions of a plan. Pure.
//!
//! Source: `PartitionAwareClusteringPlanStrategy`, `ClusteringPlanPartitionFilter` of Hudi 1.2.

use regex::Regex;

use super::options::{ClusteringOptions, PartitionFilter};
use crate::error::{Error, Result};

/// The partitions of a plan, and those that are left for a later one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Partitions of this plan, by name.
    pub taken: Vec<String>,
    /// Changed partitions that are left for the next plan.
    pub left: Vec<String>,
}

/// Chooses among the changed partitions (or all); `left_before`: partitions that the last plan left.
///
/// # Errors
/// `InvalidOption` for an invalid regular expression.
pub(crate) fn choose(
    changed: Vec<String>,
    left_before: Vec<String>,
    options: &ClusteringOptions,
    hour: usize,
) -> Result<Chosen> {
    // A list of partitions is taken as it is, changed or not; partitions that were left stay left.
    let (mut partitions, mut left) = match &options.selected {
        Some(selected) => (selected.clone(), left_before),
        None => (matching(changed, options.partition_regex.as_deref())?, Vec::new()),
    };
    partitions.sort();
    match &options.partitions {
        PartitionFilter::All => {}
        PartitionFilter::Recent { skip, take } => {
            partitions.reverse();
            left.extend(partitions.drain(..(*skip).min(partitions.len())));
            if *take > 0 {
                partitions.truncate(*take);
            }
        }
        PartitionFilter::Between { begin, end } => partitions
            .retain(|p| begin.as_ref().is_none_or(|begin| p >= begin) && end.as_ref().is_none_or(|end| p <= end)),
        PartitionFilter::DayRolling => {
            partitions = partitions.into_iter().skip(hour % 24).step_by(24).collect();
        }
    }
    partitions.sort();
    partitions.dedup();
    Ok(Chosen { taken: partitions, left })
}

fn matching(partitions: Vec<String>, pattern: Option<&str>) -> Result<Vec<String>> {
    let Some(pattern) = pattern else { return Ok(partitions) };
    // Must match the whole name, as Java's `matches`.
    let regex = Regex::new(&format!(r"\A(?:{pattern})\z")).map_err(|e| {
        Error::invalid_value("hoodie.clustering.plan.strategy.partition.regex.pattern", pattern, "a regular expression")
            .caused_by(e)
    })?;
    Ok(partitions.into_iter().filter(|p| regex.is_match(p)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::table::Options;

    fn chosen(more: &[(&str, &str)], hour: usize) -> Chosen {
        let prefix = |k: &str| match k {
            "mode" => "hoodie.clustering.plan.partition.filter.mode".to_owned(),
            k => format!("hoodie.clustering.plan.strategy.{k}"),
        };
        let given = more.iter().map(|(k, v)| (prefix(k), (*v).to_owned())).collect();
        let options = ClusteringOptions::from_options(&Options::new(given).unwrap()).unwrap();
        let partitions = (0..30).rev().map(|n| format!("d{n:02}")).collect();
        choose(partitions, vec!["old".to_owned()], &options, hour).unwrap()
    }

    #[test]
    fn filters() {
        assert_eq!(chosen(&[], 0).taken.len(), 30);
        let recent = chosen(&[("mode", "RECENT_DAYS"), ("daybased.skipfromlatest.partitions", "2")], 0);
        assert_eq!(recent, Chosen { taken: vec!["d26".into(), "d27".into()], left: vec!["d29".into(), "d28".into()] });
        // More than there are: Hudi fails here.
        let skipped = chosen(&[("mode", "RECENT_DAYS"), ("daybased.skipfromlatest.partitions", "99")], 0);
        assert_eq!((skipped.taken.len(), skipped.left.len()), (0, 30));
        let between = [("mode", "SELECTED_PARTITIONS"), ("cluster.begin.partition", "d28")];
        assert_eq!(chosen(&between, 0).taken, ["d28", "d29"]);
        assert_eq!(chosen(&[("mode", "DAY_ROLLING")], 3).taken, ["d03", "d27"]);
        assert_eq!(chosen(&[("mode", "DAY_ROLLING")], 23).taken, ["d23"]);
        assert_eq!(chosen(&[("partition.regex.pattern", "d.[05]|d29")], 0).taken.len(), 7);
        assert!(chosen(&[("partition.regex.pattern", "d")], 0).taken.is_empty());
        let selected = chosen(&[("partition.selected", "b,a"), ("partition.regex.pattern", "c")], 0);
        assert_eq!(selected, Chosen { taken: vec!["a".into(), "b".into()], left: vec!["old".into()] });
    }

    #[test]
    fn a_bad_pattern_is_refused() {
        let key = "hoodie.clustering.plan.strategy.partition.regex.pattern".to_owned();
        let options = Options::new([(key, "(".to_owned())].into()).unwrap();
        let options = ClusteringOptions::from_options(&options).unwrap();
        assert!(choose(Vec::new(), Vec::new(), &options, 0).is_err());
    }
}
