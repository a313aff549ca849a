//! What is due after which instants.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;
use crate::format::instant::Layout;
use crate::storage::FileMeta;
use crate::table::Options;
use crate::timeline::{TimeZone, TimelineConfig};

fn options(given: &[(&str, &str)]) -> MetadataServiceOptions {
    let given: BTreeMap<_, _> = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    MetadataServiceOptions::from_options(&Options::new(given).unwrap()).unwrap()
}

fn timeline(names: impl IntoIterator<Item = String>) -> Timeline {
    let config = TimelineConfig {
        layout: Layout::V2,
        folder: "t".into(),
        history_folder: "t/history".into(),
        zone: TimeZone::Utc,
        was_version_6: false,
    };
    let file = |name: String| FileMeta { path: format!("t/{name}"), size: 1, modified_ms: 0 };
    Timeline::from_files(config, names.into_iter().map(file).collect())
}

fn time(number: usize) -> String {
    format!("202601010000{number:02}000")
}

/// All files of an action.
fn action(number: usize, action: &str) -> Vec<String> {
    let (time, done) = (time(number), format!("202601010000{number:02}500"));
    let completed = match action {
        "compaction" => "commit",
        "logcompaction" => "deltacommit",
        other => other,
    };
    let pending = ["requested", "inflight"].map(|state| format!("{time}.{action}.{state}"));
    pending.into_iter().chain([format!("{time}_{done}.{completed}")]).collect()
}

/// Delta commits of these numbers, but for other actions.
fn actions(count: usize, others: &[(usize, &str)]) -> Timeline {
    let of = |number: usize| others.iter().find(|(at, _)| *at == number).map_or("deltacommit", |(_, action)| *action);
    timeline((0..count).flat_map(|number| action(number, of(number))))
}

#[test]
fn options_are_those_that_hudi_derives() {
    let standard = options(&[]);
    assert_eq!((standard.max_delta_commits, standard.commits_retained), (10, 20));
    assert_eq!((standard.archive.keep_min, standard.archive.keep_max), (21, 31));
    let more = options(&[("hoodie.clean.commits.retained", "24"), ("hoodie.keep.max.commits", "40")]);
    assert_eq!((more.commits_retained, more.archive.keep_max), (28, 41));
    let other_policy = options(&[("hoodie.clean.policy", "KEEP_LATEST_FILE_VERSIONS")]);
    assert_eq!(other_policy.commits_retained, 20);
    let zero = BTreeMap::from([("hoodie.metadata.compact.max.delta.commits".to_owned(), "0".to_owned())]);
    let refused = MetadataServiceOptions::from_options(&Options::new(zero).unwrap()).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::InvalidOption);
    assert_eq!(standard.log_blocks, None);
    let on = ("hoodie.metadata.log.compaction.enable", "true");
    assert_eq!(options_with_logs(&[on]), Ok(Some(5)));
    assert_eq!(options_with_logs(&[on, ("hoodie.metadata.log.compaction.blocks.threshold", "3")]), Ok(Some(3)));
    let one = options_with_logs(&[on, ("hoodie.metadata.log.compaction.blocks.threshold", "1")]);
    assert_eq!(one, Err(crate::ErrorKind::InvalidOption));
}

fn options_with_logs(given: &[(&str, &str)]) -> Result<Option<usize>, crate::ErrorKind> {
    let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let options = MetadataServiceOptions::from_options(&Options::new(given).unwrap());
    options.map(|options| options.log_blocks).map_err(|e| e.kind())
}

#[test]
fn a_log_compaction_is_due_after_so_many_delta_commits() {
    let due = |count: usize, others: &[(usize, &str)]| log_compaction_is_due(&actions(count, others), 3);
    assert!(!due(2, &[]) && due(3, &[]));
    for other in ["logcompaction", "compaction"] {
        assert!(!due(6, &[(3, other)]) && due(7, &[(3, other)]), "{other}");
    }
    // The metadata table is compacted when it would have been without.
    assert!(compaction_is_due(&actions(10, &[(3, "logcompaction"), (7, "logcompaction")]), 10));
}

#[test]
fn a_compaction_is_due_after_so_many_delta_commits() {
    let due = |count: usize, others: &[(usize, &str)]| compaction_is_due(&actions(count, others), 3);
    assert!(!due(2, &[]) && due(3, &[]));
    assert!(!due(6, &[(3, "compaction")]) && due(7, &[(3, "compaction")]));
    // Pending ones do not count.
    let mut names: Vec<String> = (0..2).flat_map(|number| action(number, "deltacommit")).collect();
    names.push(format!("{}.deltacommit.requested", time(2)));
    assert!(!compaction_is_due(&timeline(names), 3));
}

#[test]
fn a_clean_is_due_once_for_each_compaction_that_is_old_enough() {
    let due = |count: usize, others: &[(usize, &str)]| clean::is_due(&actions(count, others), 5);
    // Five writes after the compaction.
    assert!(!due(8, &[(3, "compaction")]) && due(9, &[(3, "compaction")]));
    assert!(!due(10, &[(3, "compaction"), (9, "clean")]));
    assert!(due(10, &[(3, "compaction"), (5, "clean")]));
    // Not right after another compaction.
    let two = [(3, "compaction"), (9, "compaction")];
    assert!(!due(11, &two) && !due(12, &two) && due(13, &two));
    assert!(!due(12, &[]));
}

#[test]
fn instants_stay_as_long_as_they_are_needed() {
    let few = [("hoodie.keep.min.commits", "2"), ("hoodie.keep.max.commits", "4")];
    let mut options = options(&few);
    options.commits_retained = 5;
    options.archive.retention = crate::services::clean::Retention::Commits(5);
    let metadata = actions(30, &[(8, "compaction"), (20, "compaction")]);
    let all = timeline((25..30).flat_map(|number| action(number, "deltacommit")));
    assert!(archive::may_be_due(&metadata, &options) && archive::is_due(&metadata, &all, &options));
    // The timeline of the table begins with the first of them, or it is pending there.
    let begin = timeline((0..30).flat_map(|number| action(number, "deltacommit")));
    assert!(!archive::is_due(&metadata, &begin, &options));
    let pending = timeline([format!("{}.commit.requested", time(0))]);
    assert!(!archive::is_due(&metadata, &pending, &options));
    // Log files of the first slice are still there.
    let early = actions(30, &[(27, "compaction")]);
    assert!(!archive::is_due(&early, &all, &options));
}
