#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use crate::error::ErrorKind;
use crate::format::avro::metadata::{RestoreMetadata, RestorePlan, decode, encode};
use crate::format::instant::{Action, Instant};
use crate::services::savepoint::{create_savepoint, savepoints};
use crate::services::test_table::TestTable;
use crate::table::scan::ScanRequest;

fn keys(made: &TestTable) -> Vec<String> {
    let mut keys = Vec::new();
    for batch in made.table.scan(&ScanRequest::default()).unwrap() {
        let batch = batch.unwrap();
        let column = batch.column_by_name("id").unwrap();
        let column = arrow::array::AsArray::as_string::<i32>(column.as_ref()).clone();
        keys.extend(column.iter().flatten().map(str::to_owned));
    }
    keys.sort();
    keys
}

fn save(made: &TestTable, commit: &Instant) {
    let saved = create_savepoint(&made.table, Some(&commit.requested), "me", "why").unwrap();
    assert_eq!((saved.instant.as_str(), saved.user.as_str()), (commit.requested.as_str(), "me"));
}

#[test]
fn the_table_is_what_it_was() {
    let made = TestTable::new(&[]);
    let saved = made.commit("p1", "a", &["1", "2"]);
    save(&made, &saved);
    let names = made.instants();
    let files = made.data_files();
    let update = made.commit("p1", "a", &["1", "2", "3"]);
    let mut replace = made.begin(Action::ReplaceCommit);
    replace.file("p2", "c", &["9"]);
    replace.replace("p1", "a");
    let replace = replace.complete();
    let mut failed = made.begin(Action::Commit);
    failed.file("p3", "d", &["7"]);
    assert_eq!(keys(&made), ["9"]);
    let done = restore(&made.table, &saved.requested).unwrap();
    assert_eq!(done.undone, [failed.instant.requested.clone(), replace.requested, update.requested]);
    assert_eq!((keys(&made), made.data_files(), done.files_deleted), (vec!["1".into(), "2".into()], files, 3));
    let left: Vec<String> = made.instants().into_iter().filter(|n| !n.contains("restore")).collect();
    assert_eq!(left, names, "the instants go with their files");
    let timeline = made.table.timeline().unwrap();
    let instant = timeline.completed(Action::Restore).next().unwrap();
    let body: RestoreMetadata = decode(&timeline.read(made.storage(), instant).unwrap()).unwrap();
    assert_eq!(body.instants_to_rollback, done.undone);
    assert_eq!(body.hoodie_restore_metadata.len(), 3);
    made.commit("p1", "a", &["1", "2", "5"]);
    assert_eq!(keys(&made), ["1", "2", "5"]);
}

#[test]
fn a_restore_that_died_stops_writers_and_is_finished() {
    let made = TestTable::new(&[]);
    let saved = made.commit("p1", "a", &["1"]);
    save(&made, &saved);
    let later = made.commit("p1", "a", &["1", "2"]);
    let writer = made.table.timeline_writer().unwrap();
    let (plan, _): (RestorePlan, _) = plan::plan_restore(&writer.load().unwrap(), &saved).unwrap();
    writer.request(Action::Restore, |_| encode(&plan)).unwrap();
    let refused = writer.request(Action::Commit, |_| Ok(Vec::new())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    writer.reopen(&writer.load().unwrap(), std::iter::once(&later)).unwrap();
    let done = restore(&made.table, &saved.requested).unwrap();
    assert_eq!(done.undone, [later.requested]);
    assert_eq!(keys(&made), ["1"]);
    assert!(made.table.timeline().unwrap().pending().next().is_none());
}

#[test]
fn what_cannot_be_restored_is_refused_before_anything_changes() {
    let made = TestTable::new(&[]);
    let first = made.commit("p1", "a", &["1"]);
    let second = made.commit("p1", "a", &["1", "2"]);
    let names = made.instants();
    assert_eq!(restore(&made.table, &first.requested).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(made.instants(), names);
    save(&made, &first);
    save(&made, &second);
    assert_eq!(savepoints(&made.table).unwrap().len(), 2);
    let names = made.instants();
    let refused = restore(&made.table, &first.requested).unwrap_err();
    assert!(refused.to_string().contains(&second.requested), "{refused}");
    assert_eq!(made.instants(), names);
    let gone = made.data_files().into_iter().find(|f| f.contains(&second.requested)).unwrap();
    made.storage().delete(&gone).unwrap();
    assert_eq!(restore(&made.table, &second.requested).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(made.instants(), names);
}

#[test]
fn a_savepoint_is_of_what_is_there() {
    let made = TestTable::new(&[]);
    let first = made.commit("p1", "a", &["1"]);
    made.commit("p1", "a", &["1", "2"]);
    made.commit("p1", "a", &["1", "2", "3"]);
    let versions = [("hoodie.clean.fileversions.retained".to_owned(), "1".to_owned())].into();
    crate::services::clean::clean(&made.table.with_options(&versions).unwrap()).unwrap().unwrap();
    let refused = create_savepoint(&made.table, Some(&first.requested), "", "").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused}");
    assert!(made.instants().iter().all(|name| !name.contains("savepoint")));
    let newest = create_savepoint(&made.table, None, "", "").unwrap();
    assert_eq!(newest.files, 1);
    assert_eq!(create_savepoint(&made.table, None, "", "").unwrap_err().kind(), ErrorKind::InvalidOption);
}
