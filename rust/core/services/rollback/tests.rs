#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::plan::{FoundFiles, plan_rollback};
use super::*;
use crate::error::ErrorKind;
use crate::file_group::markers::{MarkerType, create_marker, delete_markers, marked_files};
use crate::format::avro::metadata::{CommitMetadata, RollbackMetadata, RollbackPlan, decode, encode};
use crate::format::instant::{Action, Instant, State};
use crate::services::test_table::TestTable;
use crate::storage::Storage;
use crate::timeline::Timeline;

/// One commit, then a write with two files that died. With or without markers.
fn with_failed_write(marked: bool) -> (TestTable, String, Vec<String>) {
    let made = TestTable::new(&[]);
    made.commit("p1", "a", &["1", "2"]);
    let kept = made.data_files();
    let mut failed = made.begin(Action::Commit);
    let instant = failed.instant.requested.clone();
    for (partition, id) in [("p1", "a"), ("p2", "b")] {
        failed.file(partition, id, &["3"]);
    }
    if !marked {
        delete_markers(made.storage(), &instant).unwrap();
    }
    (made, instant, kept)
}

fn body<T: crate::format::avro::metadata::TimelineRecord>(made: &TestTable, ending: &str) -> T {
    let name = made.instants().into_iter().rfind(|n| n.ends_with(ending)).unwrap();
    decode(&made.storage().read(&format!(".hoodie/timeline/{name}")).unwrap()).unwrap()
}

#[test]
fn a_failed_write_goes_by_its_markers() {
    let (made, instant, kept) = with_failed_write(true);
    // A marker whose file was never made.
    create_marker(made.storage(), &instant, &format!("p9/c_0-1-1_{instant}.parquet"), MarkerType::Create).unwrap();
    let done = rollback_failed_writes(&made.table).unwrap();
    let [one] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!((one.commits_rollback.as_slice(), one.total_files_deleted), (&[instant.clone()][..], 3));
    assert_eq!(made.data_files(), kept);
    assert!(made.instants().iter().all(|n| !n.starts_with(&instant)), "{:?}", made.instants());
    assert_eq!(marked_files(made.storage(), &instant).unwrap(), None);
    // The folder of a partition that the write made stays a partition, as with Hudi.
    assert!(made.storage().exists("p2/.hoodie_partition_metadata").unwrap());
    let plan: RollbackPlan = body(&made, ".rollback.requested");
    let requests = plan.rollback_requests.unwrap();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].file_id.as_deref(), Some("a"));
    assert_eq!(requests[0].latest_base_instant.as_deref(), Some(instant.as_str()));
    let metadata: RollbackMetadata = body(&made, ".rollback");
    assert_eq!(metadata, *one);
    assert_eq!(metadata.partition_metadata.keys().collect::<Vec<_>>(), ["p1", "p2", "p9"]);
    assert!(rollback_failed_writes(&made.table).unwrap().is_empty());
}

#[test]
fn a_write_that_completes_after_all_is_not_rolled_back() {
    let made = TestTable::new(&[]);
    made.commit("p1", "a", &["1", "2"]);
    let mut slow = made.begin(Action::Commit);
    slow.file("p1", "b", &["3"]);
    let failed = slow.instant.clone();
    let before = made.table.timeline().unwrap();
    slow.complete();
    let writer = made.table.timeline_writer().unwrap();
    let refused = execute::roll_back(&made.table, &writer, &before, &failed).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let timeline = made.table.timeline().unwrap();
    assert!(timeline.is_committed(&failed.requested));
    assert!(timeline.instants().iter().all(|i| i.action != Action::Rollback), "{:?}", made.instants());
}

#[test]
fn without_markers_files_are_found_by_their_names() {
    let (made, _, kept) = with_failed_write(false);
    let log = |t: &str| format!("p1/.a_{t}.log.1_0-1-1");
    let failed = made.table.timeline().unwrap().pending().next().unwrap().requested.clone();
    made.storage().create(&log(&failed), "x").unwrap();
    made.storage().create(&format!("{}.cdc", log(&failed)), "x").unwrap();
    made.storage().create(&log("20200101000000000"), "x").unwrap();
    let done = rollback_failed_writes(&made.table).unwrap();
    assert_eq!(done.first().unwrap().total_files_deleted, 4);
    assert_eq!(made.data_files(), kept);
    assert!(made.storage().exists(&log("20200101000000000")).unwrap());
}

#[test]
fn the_profile_of_the_write_narrows_the_search() {
    let (made, instant, kept) = with_failed_write(false);
    let profile =
        CommitMetadata { partition_to_write_stats: [("p2".to_owned(), Vec::new())].into(), ..Default::default() };
    made.storage().replace(&format!(".hoodie/timeline/{instant}.inflight"), encode(&profile).unwrap()).unwrap();
    let done = rollback_failed_writes(&made.table).unwrap();
    assert_eq!(done.first().unwrap().partition_metadata.keys().collect::<Vec<_>>(), ["p2"]);
    assert_eq!(made.data_files().len(), kept.len() + 1, "p1 was not searched");
}

#[test]
fn plans_of_services_are_left_alone() {
    let made = TestTable::new(&[]);
    made.commit("p1", "a", &["1"]);
    let writer = made.table.timeline_writer().unwrap();
    for action in [Action::Compaction, Action::Clustering, Action::Clean] {
        writer.request(action, |_| Ok(b"plan".to_vec())).unwrap();
    }
    let before = made.instants();
    assert!(rollback_failed_writes(&made.table).unwrap().is_empty());
    assert_eq!(made.instants(), before);
    let planned = made.table.timeline().unwrap();
    let planned = planned.pending().find(|i| i.action == Action::Clustering).unwrap();
    let e = rollback(&made.table, &planned.requested).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidOption);
}

#[test]
fn newest_first_and_one_alone() {
    let made = TestTable::new(&[]);
    let times: Vec<String> =
        [Action::Commit, Action::ReplaceCommit, Action::Commit].map(|a| made.begin(a).instant.requested).into();
    let one = rollback(&made.table, &times[1]).unwrap();
    assert_eq!(one.instants_rollback.first().unwrap().action, "replacecommit");
    let rest = rollback_failed_writes(&made.table).unwrap();
    let order: Vec<&String> = rest.iter().flat_map(|m| &m.commits_rollback).collect();
    assert_eq!(order, [&times[2], &times[0]]);
    assert_eq!(rollback(&made.table, &times[0]).unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[test]
fn every_crash_is_picked_up() {
    // What is there when the rollback died after so many of its steps.
    type Step = fn(&Storage, &Timeline, &Instant, &Instant, &[String]);
    let steps: [Step; 4] = [
        |s, t, rollback, _, _| {
            s.create(&t.path(&Instant { state: State::Inflight, ..rollback.clone() }), "").unwrap();
        },
        |s, _, _, _, files| {
            s.delete(&files[0]).unwrap();
        },
        |s, t, _, failed, _| {
            s.delete(&t.path(failed)).unwrap();
        },
        |s, t, _, failed, files| {
            s.delete(&files[1]).unwrap();
            s.delete(&t.path(&Instant { state: State::Requested, ..failed.clone() })).unwrap();
        },
    ];
    for died_after in 0..=steps.len() {
        let (made, instant, kept) = with_failed_write(true);
        let (storage, timeline) = (made.storage(), made.table.timeline().unwrap());
        let failed = timeline.pending().next().unwrap().clone();
        let files = marked_files(storage, &instant).unwrap().unwrap();
        let plan = plan_rollback(&failed, &FoundFiles::Marked(files.clone()), &|p| format!("/moved/away/{p}"));
        let writer = made.table.timeline_writer().unwrap();
        let rollback = writer.request(Action::Rollback, |_| encode(&plan)).unwrap();
        for step in steps.iter().take(died_after) {
            step(storage, &timeline, &rollback, &failed, &files);
        }
        let done = rollback_failed_writes(&made.table).unwrap();
        assert_eq!(done.len(), 1, "died after {died_after}");
        assert_eq!(done[0].start_rollback_time, rollback.requested);
        assert_eq!(made.data_files(), kept, "died after {died_after}");
        assert_eq!(made.table.timeline().unwrap().pending().count(), 0, "{:?}", made.instants());
        assert_eq!(marked_files(storage, &instant).unwrap(), None);
    }
}

#[test]
fn leftovers_of_a_rollback_are_cleared() {
    let made = TestTable::new(&[]);
    let committed = made.commit("p1", "a", &["1"]);
    create_marker(made.storage(), &committed.requested, "p1/x.parquet", MarkerType::Create).unwrap();
    // A rollback that was requested, but whose plan never reached the disk.
    let writer = made.table.timeline_writer().unwrap();
    writer.request(Action::Rollback, |_| Ok(Vec::new())).unwrap();
    assert!(rollback_failed_writes(&made.table).unwrap().is_empty());
    assert_eq!(marked_files(made.storage(), &committed.requested).unwrap(), None);
    assert!(made.instants().iter().all(|n| !n.contains("rollback")));
}

#[test]
fn a_failed_try_of_a_planned_compaction_keeps_the_plan() {
    let made = TestTable::new(&[]);
    made.commit("p1", "a", &["1"]);
    let writer = made.table.timeline_writer().unwrap();
    let planned = writer.request(Action::Compaction, |_| Ok(b"plan".to_vec())).unwrap();
    let begun = writer.start(&planned, Vec::new()).unwrap();
    let plan = plan_rollback(&begun, &FoundFiles::Marked(Vec::new()), &|p| p.to_owned());
    writer.request(Action::Rollback, |_| encode(&plan)).unwrap();
    assert_eq!(rollback_failed_writes(&made.table).unwrap().len(), 1);
    let left = made.table.timeline().unwrap();
    assert_eq!(left.pending().collect::<Vec<_>>(), [&planned]);
}

#[test]
fn what_must_not_go_stays() {
    // An unfinished restore stops everything.
    let (made, _, _) = with_failed_write(true);
    let writer = made.table.timeline_writer().unwrap();
    writer.request(Action::Restore, |_| Ok(b"plan".to_vec())).unwrap();
    let before = made.data_files();
    assert_eq!(rollback_failed_writes(&made.table).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(made.data_files(), before);
    // So does a writer that is alive.
    let (made, instant, _) = with_failed_write(true);
    made.storage().create(&format!(".hoodie/.heartbeat/{instant}"), "").unwrap();
    let before = made.data_files();
    assert!(rollback_failed_writes(&made.table).unwrap().is_empty());
    assert_eq!(rollback(&made.table, &instant).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(made.data_files(), before);
    // A plan against a completed commit, one that leaves the table, one for log blocks.
    type Spoil = fn(&mut RollbackPlan);
    let spoil: [(&str, Spoil); 2] = [
        ("..", |p| p.rollback_requests.iter_mut().flatten().for_each(|r| r.partition_path = "..".into())),
        ("log", |p| {
            p.rollback_requests
                .iter_mut()
                .flatten()
                .for_each(|r| r.log_blocks_to_be_deleted = Some([("l".to_owned(), 1)].into()));
        }),
    ];
    for (what, spoil) in spoil {
        let (made, _, _) = with_failed_write(true);
        let failed = made.table.timeline().unwrap().pending().next().unwrap().clone();
        let mut plan = plan_rollback(&failed, &FoundFiles::Marked(made.data_files()), &|p| format!("/t/{p}"));
        spoil(&mut plan);
        let writer = made.table.timeline_writer().unwrap();
        writer.request(Action::Rollback, |_| encode(&plan)).unwrap();
        let before = made.data_files();
        assert!(rollback_failed_writes(&made.table).is_err(), "{what}");
        assert_eq!(made.data_files(), before);
    }
    let made = TestTable::new(&[]);
    let committed = made.commit("p1", "a", &["1"]);
    let plan = plan_rollback(&committed, &FoundFiles::Marked(made.data_files()), &|p| format!("/t/{p}"));
    let writer = made.table.timeline_writer().unwrap();
    writer.request(Action::Rollback, |_| encode(&plan)).unwrap();
    // Whoever requested it may be about to begin.
    assert!(rollback_failed_writes(&made.table).unwrap().is_empty());
    assert!(made.table.timeline().unwrap().pending().any(|i| i.action == Action::Rollback));
    assert_eq!(made.data_files().len(), 1);
}

#[test]
fn a_metadata_table_that_is_not_wanted_is_dropped() {
    let (made, _, _) = with_failed_write(true);
    let now = "x";
    crate::table::TableConfig::update(made.storage(), &[("hoodie.table.metadata.partitions", "files")], now).unwrap();
    let table = made.table.with_options(&[("hoodie.metadata.enable".to_owned(), "false".to_owned())].into()).unwrap();
    assert_eq!(rollback_failed_writes(&table).unwrap().len(), 1);
    assert!(made.table.reload().unwrap().config().metadata_partitions().is_empty());
}

#[test]
fn a_damaged_metadata_table_that_is_dropped_does_not_block_a_rollback() {
    let (made, _, _) = with_failed_write(true);
    crate::table::TableConfig::update(made.storage(), &[("hoodie.table.metadata.partitions", "files")], "x").unwrap();
    made.storage().replace(".hoodie/metadata/.hoodie/hoodie.properties", "damaged").unwrap();
    assert_eq!(rollback_failed_writes(&made.table).unwrap_err().kind(), ErrorKind::Corrupt);
    let table = made.table.with_options(&[("hoodie.metadata.enable".to_owned(), "false".to_owned())].into()).unwrap();
    assert_eq!(rollback_failed_writes(&table).unwrap().len(), 1);
    assert!(!made.storage().has_files(".hoodie/metadata").unwrap());
}

#[test]
fn half_written_files_on_a_disk_go_too() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(folder.path().to_str().unwrap(), &Default::default()).unwrap();
    let made = TestTable::at(storage, &[]);
    let write = made.begin(Action::Commit);
    let path = format!("p1/a_0-1-1_{}.parquet", write.instant.requested);
    create_marker(made.storage(), &write.instant.requested, &path, MarkerType::Create).unwrap();
    std::fs::create_dir_all(folder.path().join("p1")).unwrap();
    std::fs::write(folder.path().join(format!("{path}#1")), "half").unwrap();
    let done = rollback_failed_writes(&made.table).unwrap();
    assert_eq!(std::fs::read_dir(folder.path().join("p1")).unwrap().count(), 0);
    let named = &done[0].partition_metadata["p1"].success_delete_files[0];
    assert_eq!(*named, folder.path().join(path).display().to_string(), "no scheme on a local disk");
}

fn rows(made: &TestTable) -> usize {
    made.table.scan(&crate::table::scan::ScanRequest::default()).unwrap().map(|batch| batch.unwrap().num_rows()).sum()
}

#[test]
fn completed_writes_go_newest_first() {
    let made = TestTable::new(&[]);
    let first = made.commit("p1", "a", &["1", "2"]);
    let second = made.commit("p1", "a", &["1", "2", "3"]);
    let third = made.commit("p2", "b", &["4"]);
    assert_eq!(rows(&made), 4);
    let refused = rollback(&made.table, &second.requested).unwrap_err();
    assert!(refused.kind() == ErrorKind::InvalidOption && refused.to_string().contains(&third.requested), "{refused}");
    assert!(made.instants().iter().all(|name| !name.contains("rollback")), "a refused one leaves no request");
    for (write, left) in [(&third, 3), (&second, 2), (&first, 0)] {
        let done = rollback(&made.table, &write.requested).unwrap();
        assert_eq!((done.commits_rollback.as_slice(), done.total_files_deleted), (&[write.requested.clone()][..], 1));
        assert!(made.instants().iter().all(|name| !name.starts_with(&write.requested)));
        assert_eq!(rows(&made), left);
    }
    assert!(made.data_files().is_empty());
}

#[test]
fn what_was_replaced_is_there_again() {
    let made = TestTable::new(&[]);
    made.commit("p1", "a", &["1", "2"]);
    let mut replace = made.begin(Action::ReplaceCommit);
    replace.file("p1", "b", &["3"]);
    replace.replace("p1", "a");
    let replace = replace.complete();
    assert_eq!(rows(&made), 1);
    rollback(&made.table, &replace.requested).unwrap();
    assert_eq!(rows(&made), 2);
}

#[test]
fn what_others_need_is_not_rolled_back() {
    let made = TestTable::new(&[]);
    made.commit("p1", "a", &["1"]);
    let newest = made.commit("p1", "a", &["1", "2"]);
    let files: Vec<String> = made.data_files().into_iter().filter(|f| f.contains(&newest.requested)).collect();
    let refused = |kind: ErrorKind| {
        let e = rollback(&made.table, &newest.requested).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(made.instants().iter().all(|name| !name.contains("rollback")), "{:?}", made.instants());
    };
    made.savepoint(&newest, "p1", &files);
    refused(ErrorKind::InvalidOption);
    crate::services::savepoint::delete_savepoint(&made.table, &newest.requested).unwrap();
    let pending = made.begin(Action::Commit);
    refused(ErrorKind::Conflict);
    drop(pending);
    rollback_failed_writes(&made.table).unwrap();
    // The state before it is gone.
    let older = made.data_files().into_iter().find(|f| !f.contains(&newest.requested)).unwrap();
    let versions = [("hoodie.clean.fileversions.retained".to_owned(), "1".to_owned())].into();
    crate::services::clean::clean(&made.table.with_options(&versions).unwrap()).unwrap().unwrap();
    assert!(!made.storage().exists(&older).unwrap());
    let e = rollback(&made.table, &newest.requested).unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidOption && e.message().contains("cleaned"), "{e}");
    assert_eq!(rows(&made), 2);
}

#[test]
fn a_rollback_of_a_completed_write_that_was_never_begun_is_dropped() {
    let made = TestTable::new(&[]);
    let newest = made.commit("p1", "a", &["1"]);
    let plan = plan_rollback(&newest, &FoundFiles::Listed(made.data_files()), &|path| made.storage().absolute(path));
    let old = Instant {
        requested: "20200101000000000".into(),
        action: Action::Rollback,
        state: State::Requested,
        completed: None,
    };
    let path = made.table.timeline().unwrap().path(&old);
    made.storage().create(&path, encode(&plan).unwrap()).unwrap();
    assert!(rollback_failed_writes(&made.table).unwrap().is_empty());
    assert!(!made.storage().exists(&path).unwrap());
    assert_eq!(rows(&made), 1);
}

#[test]
fn a_crash_half_way_is_finished_by_the_next_writer() {
    let made = TestTable::new(&[]);
    made.commit("p1", "a", &["1"]);
    let newest = made.commit("p1", "a", &["1", "2"]);
    let writer = made.table.timeline_writer().unwrap();
    let files: Vec<String> = made.data_files().into_iter().filter(|f| f.contains(&newest.requested)).collect();
    let plan = plan_rollback(&newest, &FoundFiles::Listed(files), &|path| made.storage().absolute(path));
    writer.request(Action::Rollback, |_| encode(&plan)).unwrap();
    let timeline = writer.load().unwrap();
    writer.reopen(&timeline, std::iter::once(&newest)).unwrap();
    assert_eq!(rows(&made), 1, "it is not visible any more");
    assert_eq!(rollback_failed_writes(&made.table).unwrap().len(), 1);
    assert!(made.instants().iter().all(|name| !name.starts_with(&newest.requested)));
    assert_eq!((rows(&made), made.data_files().len()), (1, 1));
}
