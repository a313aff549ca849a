//! What is archived, what is held back, and why.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use super::plan::Reason;
use super::*;
use crate::error::ErrorKind;
use crate::format::avro::metadata::WriteStat;
use crate::format::instant::{Action, Instant};
use crate::services::clean::clean;
use crate::services::test_table::TestTable;
use crate::timeline::history::{HistoryReader, LoadMode};
use crate::transaction::{Footprint, Intent, refuse_outdated};

fn made(more: &[(&str, &str)]) -> TestTable {
    let mut options = vec![
        ("hoodie.keep.min.commits", "2"),
        ("hoodie.keep.max.commits", "4"),
        ("hoodie.timeline.compaction.batch.size", "3"),
        ("hoodie.clean.commits.retained", "1"),
    ];
    options.extend(more);
    TestTable::new(&options)
}

fn commits(made: &TestTable, count: usize) -> Vec<Instant> {
    (0..count).map(|i| made.commit("p", &format!("f{i}"), &["a"])).collect()
}

fn archived(made: &TestTable) -> Vec<String> {
    let reader = HistoryReader::new(made.storage(), made.table.config().timeline());
    reader.read(None, None, LoadMode::Full).unwrap().into_iter().map(|e| e.requested).collect()
}

fn times(instants: &[Instant]) -> Vec<String> {
    instants.iter().map(|i| i.requested.clone()).collect()
}

fn active(made: &TestTable) -> Vec<String> {
    times(made.table.timeline().unwrap().instants())
}

#[test]
fn the_oldest_go_when_there_are_too_many() {
    let made = made(&[]);
    let all = commits(&made, 4);
    assert_eq!(archive(&made.table).unwrap().plan.instants, []);
    let more = commits(&made, 1);
    let plan = planned(&made.table).unwrap();
    assert_eq!((plan.writes, plan.keep_min, plan.keep_max, plan.blockers.len()), (5, 2, 4, 0));
    assert_eq!(times(&plan.instants), times(&all[..3]));
    assert_eq!(archived(&made), Vec::<String>::new());
    let outcome = archive(&made.table).unwrap();
    assert_eq!((outcome.plan, outcome.files), (plan, 1));
    assert_eq!(archived(&made), times(&all[..3]));
    assert_eq!(active(&made), [all[3].requested.clone(), more[0].requested.clone()]);
    // Nothing of them is left.
    assert_eq!(made.instants().len(), 6, "{:?}", made.instants());
    // Their bodies are there as they were.
    let reader = HistoryReader::new(made.storage(), made.table.config().timeline());
    let entry = &reader.newest(1, LoadMode::Full).unwrap()[0];
    assert!(entry.metadata.as_ref().unwrap().starts_with(b"Obj\x01"));
    assert_eq!((entry.plan.as_ref(), Some(&entry.completed)), (None, all[2].completed.as_ref()));
}

#[test]
fn what_the_cleaner_needs_stays() {
    let made = made(&[("hoodie.clean.commits.retained", "4")]);
    commits(&made, 6);
    let plan = planned(&made.table).unwrap();
    // Three after the earliest to retain, and two more.
    assert_eq!((plan.keep_min, plan.keep_max), (5, 7));
    assert_eq!(plan.instants, []);
    let held = &plan.blockers[0];
    assert_eq!((&held.reason, held.writes), (&Reason::CleanerRetains, 4));
}

#[test]
fn a_pending_write_holds_back_what_is_behind_it() {
    let made = made(&[("hoodie.clean.policy", "KEEP_LATEST_FILE_VERSIONS")]);
    let before = commits(&made, 2);
    let pending = made.begin(Action::Commit).instant;
    commits(&made, 5);
    let plan = planned(&made.table).unwrap();
    // The one before it stays too: it is what the write began from.
    assert_eq!(times(&plan.instants), times(&before[..1]));
    let held = &plan.blockers[0];
    assert_eq!((held.from.as_str(), held.writes), (before[1].requested.as_str(), 4));
    assert!(matches!(&held.reason, Reason::Pending(i) if i.requested == pending.requested));
    assert!(held.reason.to_string().contains(&pending.requested));
}

#[test]
fn a_pending_write_that_the_cleaner_waits_for_is_named() {
    let made = made(&[]);
    let before = commits(&made, 2);
    made.begin(Action::Commit);
    commits(&made, 5);
    let plan = planned(&made.table).unwrap();
    assert_eq!((plan.instants.len(), plan.keep_max), (0, 9));
    let held: Vec<_> = plan.blockers.iter().map(|h| (h.from.as_str(), h.writes)).collect();
    assert_eq!(held, [(before[0].requested.as_str(), 5), (before[1].requested.as_str(), 4)]);
    assert_eq!(plan.blockers[0].reason, Reason::CleanerRetains);
    assert!(matches!(plan.blockers[1].reason, Reason::Pending(_)));
}

#[test]
fn a_savepoint_holds_back_unless_told_otherwise() {
    for (beyond, gone) in [("false", 1), ("true", 5)] {
        let made = made(&[("hoodie.archive.beyond.savepoint", beyond)]);
        let first = commits(&made, 1);
        let saved = made.commit("p", "saved", &["a"]);
        made.savepoint(&saved, "p", &[]);
        let later = commits(&made, 6);
        let plan = archive(&made.table).unwrap().plan;
        let mut expected = times(&first);
        expected.extend(times(&later[..gone - 1]));
        // Counted are all that go by number, the savepointed one not among them.
        assert_eq!(times(&plan.instants).len(), if beyond == "true" { 6 } else { 1 });
        assert!(!times(&plan.instants).contains(&saved.requested));
        assert_eq!(plan.blockers.iter().any(|h| h.reason == Reason::Savepoint), beyond == "false");
        assert!(active(&made).contains(&saved.requested));
        assert_eq!(archived(&made)[..expected.len()], expected[..]);
    }
}

#[test]
fn a_write_sees_that_commits_which_it_does_not_know_were_archived() {
    let stat = WriteStat {
        partition_path: Some("other".into()),
        file_id: Some("new".into()),
        num_inserts: Some(1),
        ..WriteStat::default()
    };
    let (intent, replaced) = (Intent { looks_keys_up: true, ..Intent::default() }, BTreeMap::new());
    let write = Footprint::new(intent, std::slice::from_ref(&stat), &replaced);
    for is_new in [true, false] {
        let made = made(&[("hoodie.archive.beyond.savepoint", "true")]);
        if !is_new {
            let saved = made.commit("p", "saved", &["a"]);
            made.savepoint(&saved, "p", &[]);
        }
        let planned_from = made.table.timeline().unwrap();
        let check = || refuse_outdated(made.storage(), &planned_from, &made.table.timeline().unwrap(), "own", &write);
        commits(&made, 1);
        check().unwrap();
        commits(&made, 6);
        archive(&made.table).unwrap();
        let e = check().unwrap_err();
        assert!(e.kind() == ErrorKind::Conflict && e.is_outdated_plan(), "{e}");
    }
}

#[test]
fn a_replacement_stays_until_its_files_are_cleaned() {
    let made = made(&[]);
    let first = commits(&made, 1);
    let mut write = made.begin(Action::ReplaceCommit);
    write.file("p", "new", &["a"]);
    write.replace("p", "f0");
    let replacing = write.complete();
    commits(&made, 5);
    let plan = planned(&made.table).unwrap();
    assert_eq!(times(&plan.instants), times(&first));
    assert_eq!(plan.blockers[0].reason, Reason::ReplacedNotCleaned);
    assert_eq!(plan.blockers[0].from, replacing.requested);
    clean(&made.table).unwrap().unwrap();
    let plan = archive(&made.table).unwrap().plan;
    assert_eq!(plan.blockers, []);
    assert!(archived(&made).contains(&replacing.requested));
    assert!(made.data_files().iter().all(|f| !f.contains("f0_")));
}

#[test]
fn a_file_that_should_be_gone_is_looked_for() {
    let made = made(&[]);
    let first = commits(&made, 1);
    let mut write = made.begin(Action::ReplaceCommit);
    write.file("p", "new", &["a"]);
    write.replace("p", "f0");
    let replacing = write.complete();
    commits(&made, 5);
    let old = made.data_files().into_iter().find(|f| f.contains(&first[0].requested)).unwrap();
    let bytes = made.storage().read(&old).unwrap();
    clean(&made.table).unwrap().unwrap();
    // As if the clean had failed to delete it.
    made.storage().replace(&old, bytes).unwrap();
    let plan = archive(&made.table).unwrap().plan;
    assert_eq!(plan.blockers[0].reason, Reason::FilesLeft(old.clone()));
    assert_eq!(plan.blockers[0].from, replacing.requested);
    assert_eq!(archived(&made), times(&first));
    made.storage().delete(&old).unwrap();
    archive(&made.table).unwrap();
    assert!(archived(&made).contains(&replacing.requested));
}

#[test]
fn cleans_go_with_the_commits_around_them() {
    let made = made(&[]);
    for round in 0..12 {
        made.commit("p", "same", &["a"]);
        clean(&made.table).unwrap();
        let before = [archived(&made), active(&made)].concat();
        archive(&made.table).unwrap();
        let mut after = [archived(&made), active(&made)].concat();
        after.sort();
        assert_eq!(after, before, "round {round}");
    }
    let history = archived(&made);
    assert!(history.len() > 12, "{history:?}");
    let reader = HistoryReader::new(made.storage(), made.table.config().timeline());
    let cleans: Vec<_> = reader.read(None, None, LoadMode::Full).unwrap();
    let cleans: Vec<_> = cleans.iter().filter(|e| e.action == Action::Clean).collect();
    assert!(!cleans.is_empty() && cleans.iter().all(|e| e.plan.is_some() && e.metadata.is_some()));
    let levels: Vec<u32> = reader.snapshot().unwrap().files.iter().map(|f| f.level).collect();
    assert!(levels.iter().any(|l| *l > 0), "{levels:?}");
}

#[test]
fn other_cleaning_policies_are_respected() {
    // All of these commits are within an hour of the newest; versions of files do not count commits.
    for (setting, gone) in [("hoodie.clean.hours.retained", 0), ("hoodie.clean.fileversions.retained", 4)] {
        let made =
            TestTable::new(&[("hoodie.keep.min.commits", "2"), ("hoodie.keep.max.commits", "4"), (setting, "1")]);
        let all = commits(&made, 6);
        let plan = planned(&made.table).unwrap();
        assert_eq!(times(&plan.instants), times(&all[..gone]), "{setting}");
        assert_eq!(plan.blockers.iter().any(|h| h.reason == Reason::CleanerRetains), gone == 0);
    }
}

#[test]
fn a_clean_without_its_plan_says_nothing() {
    let made = made(&[]);
    let first = commits(&made, 1);
    let mut write = made.begin(Action::ReplaceCommit);
    write.file("p", "new", &["a"]);
    write.replace("p", "f0");
    write.complete();
    commits(&made, 5);
    clean(&made.table).unwrap().unwrap();
    let plan = made.instants().into_iter().find(|n| n.ends_with("clean.requested")).unwrap();
    made.storage().delete(&format!(".hoodie/timeline/{plan}")).unwrap();
    assert_eq!(times(&planned(&made.table).unwrap().instants), times(&first));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for wrong in [
        [("hoodie.keep.min.commits", "4"), ("hoodie.keep.max.commits", "4")],
        [("hoodie.keep.min.commits", "0"), ("hoodie.keep.max.commits", "4")],
        [("hoodie.timeline.compaction.batch.size", "1"), ("hoodie.keep.max.commits", "40")],
    ] {
        let made = made(&wrong);
        assert_eq!(archive(&made.table).unwrap_err().kind(), crate::ErrorKind::InvalidOption);
    }
    let flink = TestTable::new(&[("archive.min_commits", "3"), ("archive.max_commits", "9")]);
    let plan = planned(&flink.table).unwrap();
    assert_eq!((plan.keep_min, plan.keep_max), (3, 9));
}
