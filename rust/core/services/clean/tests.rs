#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;

use super::plan::{CleanInput, plan_clean};
use super::*;
use crate::error::{ErrorKind, Result};
use crate::format::avro::metadata::{CleanMetadata, CleanerPlan, decode, encode};
use crate::format::instant::Action;
use crate::services::test_table::TestTable;
use crate::table::HudiTable;
use crate::table::scan::ScanRequest;

fn retaining(made: &TestTable, commits: usize) -> HudiTable {
    let more = BTreeMap::from([("hoodie.clean.commits.retained".to_owned(), commits.to_string())]);
    made.table.with_options(&more).unwrap()
}

/// Commits over one file group of `p1`; their requested times.
fn history(made: &TestTable, commits: usize) -> Vec<String> {
    (0..commits).map(|_| made.commit("p1", "a", &["1"]).requested).collect()
}

fn plan_of(made: &TestTable) -> CleanerPlan {
    let name = made.instants().into_iter().rfind(|n| n.ends_with(".clean.requested")).unwrap();
    decode(&made.storage().read(&format!(".hoodie/timeline/{name}")).unwrap()).unwrap()
}

fn names(metadata: &CleanMetadata, partition: &str) -> Vec<String> {
    metadata.partition_metadata.get(partition).map(|p| p.success_delete_files.clone()).unwrap_or_default()
}

#[test]
fn the_first_clean_comes_after_two_more_commits_than_retained() {
    let made = TestTable::new(&[]);
    let times = history(&made, 3);
    assert_eq!(clean(&retaining(&made, 2)).unwrap(), None);
    assert!(made.instants().iter().all(|n| !n.contains("clean")));
    let fourth = made.commit("p1", "a", &["1"]).requested;
    let done = clean(&retaining(&made, 2)).unwrap().unwrap();
    assert_eq!(names(&done, "p1"), [format!("a_0-1-1_{}.parquet", times[0])]);
    assert_eq!(done.earliest_commit_to_retain, times[2]);
    assert_eq!(done.last_completed_commit_timestamp, fourth);
    assert_eq!((done.total_files_deleted, done.version), (1, Some(2)));
    let plan = plan_of(&made);
    let earliest = plan.earliest_instant_to_retain.unwrap();
    assert_eq!(
        (earliest.timestamp.as_str(), earliest.action.as_str(), earliest.state.as_str()),
        (times[2].as_str(), "commit", "COMPLETED")
    );
    let path = plan.file_paths_to_be_deleted_per_partition.unwrap()["p1"][0].file_path.clone().unwrap();
    assert_eq!(path, made.storage().absolute(&format!("p1/a_0-1-1_{}.parquet", times[0])));
    assert_eq!(made.data_files().len(), 3);
    // Nothing since: no second clean.
    let before = made.instants();
    assert_eq!(clean(&retaining(&made, 2)).unwrap(), None);
    assert_eq!(made.instants(), before);
}

#[test]
fn the_newest_slice_stays_however_old_it_is() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    let times = history(&made, 5);
    let done = clean(&retaining(&made, 1)).unwrap().unwrap();
    assert_eq!(names(&done, "p1").len(), 3);
    assert!(!done.partition_metadata.contains_key("p2"));
    let left = made.data_files();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.iter().any(|f| f.contains(&times[3])), "the newest before E serves queries of E");
}

#[test]
fn a_pending_write_holds_the_boundary() {
    let made = TestTable::new(&[]);
    let times = history(&made, 3);
    let pending = made.begin(Action::Commit);
    let later = history(&made, 4);
    let timeline = made.table.timeline().unwrap();
    assert_eq!(earliest_to_retain(&timeline, 1).unwrap().requested, times[2]);
    assert_eq!(earliest_to_retain(&timeline, 6).unwrap().requested, times[1]);
    assert_eq!(earliest_to_retain(&timeline, 7), None);
    let done = clean(&retaining(&made, 1)).unwrap().unwrap();
    assert_eq!(names(&done, "p1"), [format!("a_0-1-1_{}.parquet", times[0])]);
    assert!(later.iter().all(|t| made.data_files().iter().any(|f| f.contains(t))));
    drop(pending);
}

#[test]
fn an_action_that_completed_late_holds_the_boundary() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    let mut times = history(&made, 2);
    let mut slow = made.begin(Action::ReplaceCommit);
    slow.replace("p2", "b");
    times.extend(history(&made, 4));
    let slow = slow.complete();
    let earliest = |retained| {
        let timeline = made.table.timeline().unwrap();
        (
            earliest_to_retain(&timeline, retained).map(|i| i.requested.clone()),
            Retention::Commits(retained).earliest_to_archive(&timeline).map(|i| i.requested.clone()),
        )
    };
    let held = (Some(times[1].clone()), Some(times[1].clone()));
    for _ in 0..2 {
        // A query that began at the last commit before the completion reads the group that was replaced.
        assert_eq!(earliest(2), held);
        clean(&retaining(&made, 2)).unwrap();
        assert!(made.data_files().iter().any(|f| f.starts_with("p2/b")));
        times.extend(history(&made, 1));
    }
    assert_eq!(earliest(3), held);
    assert_eq!(earliest(2), (Some(times[6].clone()), Some(times[6].clone())));
    let done = clean(&retaining(&made, 2)).unwrap().unwrap();
    assert!(slow.requested < done.earliest_commit_to_retain);
    assert_eq!(names(&done, "p2").len(), 1);
}

#[test]
fn the_timeline_keeps_the_first_action_if_it_completed_late() {
    let made = TestTable::new(&[]);
    let mut slow = made.begin(Action::ReplaceCommit);
    slow.replace("p2", "b");
    history(&made, 4);
    let slow = slow.complete();
    let timeline = made.table.timeline().unwrap();
    assert_eq!(earliest_to_retain(&timeline, 2), None);
    assert_eq!(Retention::Commits(2).earliest_to_archive(&timeline).unwrap().requested, slow.requested);
    assert_eq!(Retention::Commits(5).earliest_to_archive(&timeline), None, "there are too few commits");
}

#[test]
fn a_replaced_group_goes_as_a_whole_and_an_emptied_partition_with_it() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    made.commit("p2", "b", &["x"]);
    let mut replace = made.begin(Action::ReplaceCommit);
    replace.replace("p2", "b");
    replace.complete();
    history(&made, 1);
    assert_eq!(clean(&retaining(&made, 2)).unwrap(), None, "E is the replacecommit itself");
    history(&made, 1);
    let done = clean(&retaining(&made, 2)).unwrap().unwrap();
    let p2 = &done.partition_metadata["p2"];
    assert_eq!((p2.success_delete_files.len(), p2.is_partition_deleted), (2, Some(true)));
    let newest_first: Vec<&String> = p2.success_delete_files.iter().rev().collect();
    assert!(newest_first.is_sorted());
    assert_eq!(plan_of(&made).partitions_to_be_deleted.unwrap(), ["p2"]);
    assert!(made.storage().list_recursive("p2").unwrap().is_empty());
}

#[test]
fn an_emptied_partition_stays_while_a_write_may_be_filling_it() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    let mut replace = made.begin(Action::ReplaceCommit);
    replace.replace("p2", "b");
    replace.complete();
    history(&made, 2);
    let pending = made.begin(Action::Commit);
    let done = clean(&retaining(&made, 2)).unwrap().unwrap();
    assert_eq!(plan_of(&made).partitions_to_be_deleted.unwrap(), ["p2"]);
    assert_eq!(done.partition_metadata["p2"].is_partition_deleted, Some(false));
    let left: Vec<String> = made.storage().list_recursive("p2").unwrap().into_iter().map(|file| file.path).collect();
    assert_eq!(left, ["p2/.hoodie_partition_metadata"]);
    drop(pending);
}

#[test]
fn a_partition_with_something_else_in_it_is_not_deleted() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    let mut replace = made.begin(Action::ReplaceCommit);
    replace.replace("p2", "b");
    replace.file("p2", "c", &["y"]);
    replace.complete();
    history(&made, 3);
    clean(&retaining(&made, 2)).unwrap().unwrap();
    assert_eq!(plan_of(&made).partitions_to_be_deleted.unwrap(), [""; 0]);
    assert_eq!(made.storage().list("p2").unwrap().files.len(), 2);
}

#[test]
fn savepoints_hold_files_and_are_remembered() {
    let made = TestTable::new(&[]);
    let first = made.commit("p1", "a", &["1"]);
    made.savepoint(&first, "p1", &made.data_files());
    history(&made, 5);
    let done = clean(&retaining(&made, 1)).unwrap().unwrap();
    assert_eq!(names(&done, "p1").len(), 3);
    assert!(made.data_files()[0].contains(&first.requested));
    assert_eq!(done.extra_metadata.unwrap()["savepointed_timestamps"], first.requested);
    // Once the savepoint is gone its file goes too, though its commit is long past the incremental range.
    for name in made.instants().iter().filter(|n| n.ends_with(".savepoint") || n.ends_with("savepoint.inflight")) {
        made.storage().delete(&format!(".hoodie/timeline/{name}")).unwrap();
    }
    history(&made, 1);
    let done = clean(&retaining(&made, 1)).unwrap().unwrap();
    assert_eq!(names(&done, "p1").len(), 2);
}

#[test]
fn an_incremental_clean_lists_only_what_changed() {
    let made = TestTable::new(&[]);
    for _ in 0..2 {
        made.commit("p2", "b", &["x"]);
    }
    history(&made, 4);
    let table = retaining(&made, 1);
    assert_eq!(names(&clean(&table).unwrap().unwrap(), "p2").len(), 1);
    // Something old appears in p2 that no commit since the last clean touched: only a full clean finds it.
    let first = made.table.timeline().unwrap().completed_writes().next().unwrap().requested.clone();
    made.storage().create(&format!("p2/b_0-1-1_{first}.parquet"), "x").unwrap();
    history(&made, 1);
    assert_eq!(names(&clean(&table).unwrap().unwrap(), "p2").len(), 0);
    history(&made, 1);
    let full =
        table.with_options(&[("hoodie.clean.incremental.enabled".to_owned(), "false".to_owned())].into()).unwrap();
    assert_eq!(names(&clean(&full).unwrap().unwrap(), "p2").len(), 1);
}

#[test]
fn the_trigger_counts_from_the_last_clean() {
    let made = TestTable::new(&[]);
    let table = retaining(&made, 1);
    let table = table.with_options(&[("hoodie.clean.trigger.max.commits".to_owned(), "3".to_owned())].into()).unwrap();
    history(&made, 3);
    assert!(clean(&table).unwrap().is_some());
    for due in [false, false, true] {
        history(&made, 1);
        assert_eq!(clean(&table).unwrap().is_some(), due);
    }
}

#[test]
fn a_clean_that_died_is_finished() {
    for died_after in 0..3 {
        let made = TestTable::new(&[]);
        let times = history(&made, 4);
        let timeline = made.table.timeline().unwrap();
        let view = made.table.view(None).unwrap();
        let partitions = view.partition_files().unwrap();
        let input = CleanInput {
            view: &view,
            partitions: &partitions,
            savepoints: &BTreeMap::new(),
            compactions: &[],
            is_partitioned: true,
            // The table was somewhere else when the plan was made.
            full_path: &|path| format!("file:/old/place/{path}"),
            now_ms: 0,
        };
        let options = CleanOptions { retention: Retention::Commits(2), trigger_max_commits: 1, incremental: true };
        let plan = plan_clean(&input, &options).unwrap().unwrap();
        let writer = made.table.timeline_writer().unwrap();
        let requested = writer.request(Action::Clean, |_| encode(&plan)).unwrap();
        if died_after > 0 {
            writer.start(&requested, Vec::new()).unwrap();
        }
        if died_after > 1 {
            made.storage().delete(&format!("p1/a_0-1-1_{}.parquet", times[0])).unwrap();
        }
        let done = clean(&retaining(&made, 2)).unwrap().unwrap();
        assert_eq!(done.start_clean_time, requested.requested);
        let p1 = &done.partition_metadata["p1"];
        assert_eq!(p1.delete_path_patterns.len(), 1);
        assert_eq!(p1.failed_delete_files.len() + p1.success_delete_files.len(), 1);
        assert_eq!(made.data_files().len(), 3);
        assert_eq!(made.table.timeline().unwrap().pending().count(), 0);
        drop(timeline);
    }
}

#[test]
fn a_late_clean_spares_a_partition_that_was_filled_again() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    let writer = made.table.timeline_writer().unwrap();
    let plan = CleanerPlan {
        policy: "KEEP_LATEST_COMMITS".into(),
        partitions_to_be_deleted: Some(vec!["p2".into(), String::new()]),
        ..Default::default()
    };
    writer.request(Action::Clean, |_| encode(&plan)).unwrap();
    let done = clean(&made.table).unwrap().unwrap();
    assert_eq!(done.partition_metadata["p2"].is_partition_deleted, Some(false));
    assert_eq!(made.data_files().len(), 1);
}

#[test]
fn hostile_plans_delete_nothing() {
    for (partition, path) in [("..", "/x/../y"), (".hoodie", "/t/.hoodie/hoodie.properties"), ("p1", "/t/p2/f")] {
        let made = TestTable::new(&[]);
        history(&made, 1);
        let info = crate::format::avro::metadata::CleanFileInfo { file_path: Some(path.into()), ..Default::default() };
        let plan = CleanerPlan {
            file_paths_to_be_deleted_per_partition: Some([(partition.to_owned(), vec![info])].into()),
            ..Default::default()
        };
        let writer = made.table.timeline_writer().unwrap();
        writer.request(Action::Clean, |_| encode(&plan)).unwrap();
        assert_eq!(clean(&made.table).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(made.storage().list_recursive("").unwrap().len(), 1 + 2 + 3 + 1);
    }
}

#[test]
fn leftovers_without_content_are_cleared() {
    let made = TestTable::new(&[]);
    history(&made, 4);
    let writer = made.table.timeline_writer().unwrap();
    writer.request(Action::Clean, |_| Ok(Vec::new())).unwrap();
    assert!(clean(&retaining(&made, 2)).unwrap().is_some());
    // A result that is an empty file did not complete: the plan is run again.
    let name = made.instants().into_iter().find(|n| n.ends_with(".clean")).unwrap();
    made.storage().replace(&format!(".hoodie/timeline/{name}"), "").unwrap();
    let again = clean(&retaining(&made, 2)).unwrap().unwrap();
    assert_eq!(again.partition_metadata["p1"].delete_path_patterns.len(), 1);
    assert_eq!(made.instants().iter().filter(|n| n.ends_with(".clean")).count(), 1);
}

#[test]
fn a_metadata_table_that_is_not_wanted_is_dropped() {
    let made = TestTable::new(&[("hoodie.metadata.enable", "false")]);
    history(&made, 4);
    let on = [("hoodie.table.metadata.partitions", "files,column_stats")];
    crate::table::TableConfig::update(made.storage(), &on, "x").unwrap();
    clean(&retaining(&made, 2)).unwrap().unwrap();
    assert!(made.table.reload().unwrap().config().metadata_partitions().is_empty());
}

fn with(made: &TestTable, options: &[(&str, &str)]) -> HudiTable {
    let more = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    made.table.with_options(&more).unwrap()
}

#[test]
fn versions_are_counted_in_each_file_group() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    let times = history(&made, 4);
    let table = with(&made, &[("hoodie.clean.fileversions.retained", "2")]);
    let done = clean(&table).unwrap().unwrap();
    let file = |time: &str| format!("a_0-1-1_{time}.parquet");
    assert_eq!(names(&done, "p1"), [file(&times[1]), file(&times[0])]);
    assert!(!done.partition_metadata.contains_key("p2"));
    assert_eq!(
        (done.earliest_commit_to_retain.as_str(), done.partition_metadata["p1"].policy.as_str()),
        ("", "KEEP_LATEST_FILE_VERSIONS")
    );
    assert_eq!(plan_of(&made).earliest_instant_to_retain, None);
    assert_eq!(clean(&table).unwrap(), None, "nothing came since");
    assert_eq!(scan_at(&made.table, &times[1]).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(scan_at(&made.table, &times[2]).unwrap(), 2);
}

#[test]
fn versions_of_replaced_groups_and_what_is_held() {
    let made = TestTable::new(&[]);
    made.commit("p2", "b", &["x"]);
    let held = made.commit("p1", "a", &["1"]);
    let files: Vec<String> = made.data_files().into_iter().filter(|f| f.contains(&held.requested)).collect();
    made.savepoint(&held, "p1", &files);
    let mut replace = made.begin(Action::ReplaceCommit);
    replace.replace("p2", "b");
    replace.complete();
    let times = history(&made, 3);
    let table = with(
        &made,
        &[("hoodie.clean.policy", "KEEP_LATEST_FILE_VERSIONS"), ("hoodie.clean.fileversions.retained", "1")],
    );
    let done = clean(&table).unwrap().unwrap();
    assert_eq!(names(&done, "p2").len(), 1, "at once");
    assert_eq!(names(&done, "p1"), [format!("a_0-1-1_{}.parquet", times[1]), format!("a_0-1-1_{}.parquet", times[0])]);
    let left = made.data_files();
    assert!(files.iter().all(|file| left.contains(file)), "{left:?}");
    // This savepoint does not hold all files of its state.
    assert_eq!(scan_at(&made.table, &held.requested).unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[test]
fn hours_count_back_from_now() {
    let made = TestTable::new(&[]);
    let times = history(&made, 4);
    assert_eq!(clean(&with(&made, &[("hoodie.clean.hours.retained", "1")])).unwrap(), None);
    // No commit is of these hours: then the newest is what queries of them read.
    let done = clean(&with(&made, &[("hoodie.clean.hours.retained", "0")])).unwrap().unwrap();
    assert_eq!(done.earliest_commit_to_retain, times[3]);
    assert_eq!(names(&done, "p1").len(), 2);
}

#[test]
fn nothing_is_deleted_that_a_rollback_brought_back() {
    let made = TestTable::new(&[]);
    let times = history(&made, 3);
    let planned_from = made.table.timeline().unwrap();
    crate::services::rollback::rollback(&made.table, &times[2]).unwrap();
    let table = with(&made, &[("hoodie.clean.fileversions.retained", "1")]);
    let refused = clean_from(&table, planned_from).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(made.data_files().len(), 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let made = TestTable::new(&[]);
    for (key, value) in [("hoodie.clean.policy", "KEEP_ALL"), ("hoodie.clean.commits.retained", "0")] {
        assert_eq!(clean(&with(&made, &[(key, value)])).unwrap_err().kind(), ErrorKind::InvalidOption);
    }
}

fn scan_at(table: &HudiTable, instant: &str) -> Result<usize> {
    let request = ScanRequest { as_of: Some(instant.to_owned()), ..Default::default() };
    Ok(table.scan(&request)?.map(|batch| batch.unwrap().num_rows()).sum())
}

#[test]
fn a_savepoint_can_be_read_whatever_was_cleaned() {
    let made = TestTable::new(&[]);
    let first = made.commit("p1", "a", &["1", "2"]);
    let file = made.data_files();
    made.savepoint(&first, "p1", &file);
    let times = history(&made, 4);
    let done = clean(&retaining(&made, 2)).unwrap().unwrap();
    assert!(times[0] < done.earliest_commit_to_retain);
    assert_eq!(scan_at(&made.table, &first.requested).unwrap(), 2);
    let refused = scan_at(&made.table, &times[0]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOption);
    assert!(refused.to_string().contains(&done.earliest_commit_to_retain), "{refused}");
    assert_eq!(scan_at(&made.table, &done.earliest_commit_to_retain).unwrap(), 1);
}

#[test]
fn a_clean_without_an_earliest_commit_is_judged_by_its_files() {
    let made = TestTable::new(&[]);
    let times = history(&made, 4);
    let mut done = clean(&retaining(&made, 2)).unwrap().unwrap();
    // As KEEP_LATEST_FILE_VERSIONS leaves it.
    done.earliest_commit_to_retain = String::new();
    let timeline = made.table.timeline().unwrap();
    let instant = timeline.completed(Action::Clean).next().unwrap().clone();
    made.storage().replace(&timeline.path(&instant), encode(&done).unwrap()).unwrap();
    assert_eq!(names(&done, "p1"), [format!("a_0-1-1_{}.parquet", times[0])]);
    assert_eq!(scan_at(&made.table, &times[0]).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(scan_at(&made.table, &times[1]).unwrap(), 1);
}

#[test]
fn a_clean_that_died_half_way_counts() {
    let made = TestTable::new(&[]);
    let times = history(&made, 4);
    clean(&retaining(&made, 2)).unwrap().unwrap();
    let timeline = made.table.timeline().unwrap();
    let instant = timeline.completed(Action::Clean).next().unwrap().clone();
    made.storage().delete(&timeline.path(&instant)).unwrap();
    assert_eq!(scan_at(&made.table, &times[0]).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(scan_at(&made.table, &times[3]).unwrap(), 1);
}
