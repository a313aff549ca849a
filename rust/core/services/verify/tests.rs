#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use crate::file_group::markers::{MarkerType, create_marker};
use crate::format::instant::Action;
use crate::services::test_table::{TestTable, base_file};
use crate::services::{clean::clean, rollback::rollback_failed_writes};

fn healthy() -> TestTable {
    let made = TestTable::new(&[("hoodie.clean.commits.retained", "1")]);
    made.commit("p1", "a", &["1", "2"]);
    made.commit("p2", "b", &["1"]);
    made.commit("p1", "a", &["1", "2", "3"]);
    made
}

/// The problems of a table that was healthy before `harm`, each as `severity subject message`.
fn after(harm: impl FnOnce(&TestTable)) -> Vec<String> {
    let made = healthy();
    harm(&made);
    let report = verify(&made.table).unwrap();
    report.problems.iter().map(|p| format!("{} {} {}", p.severity.name(), p.subject, p.message)).collect()
}

#[track_caller]
fn only(problems: &[String], severity: &str, about: &str) {
    assert!(problems.len() == 1 && problems[0].starts_with(severity) && problems[0].contains(about), "{problems:#?}");
}

fn newest(made: &TestTable, partition: &str) -> String {
    made.data_files().into_iter().rfind(|f| f.starts_with(partition)).unwrap()
}

fn instant_file(made: &TestTable, index: usize, ending: &str) -> String {
    let name = made.instants().into_iter().filter(|n| n.ends_with(ending)).nth(index).unwrap();
    format!(".hoodie/timeline/{name}")
}

#[test]
fn a_healthy_table_is_clean_and_stays_so_through_services() {
    let made = healthy();
    let report = verify(&made.table).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert_eq!((report.checked["base files"], report.checked["rows"], report.checked["keys"]), (2, 4, 4));
    made.begin(Action::Commit).file("p1", "a", &["9"]);
    rollback_failed_writes(&made.table).unwrap();
    made.commit("p1", "a", &["1"]);
    made.commit("p1", "a", &["1"]);
    clean(&made.table).unwrap().unwrap();
    let report = verify(&made.table).unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn an_empty_table_is_clean() {
    assert!(verify(&TestTable::new(&[]).table).unwrap().is_clean());
}

#[test]
fn instants_are_read() {
    let p = after(|m| m.storage().replace(&instant_file(m, 0, ".commit"), "Obj\x01garbage").unwrap());
    assert!(p.iter().any(|p| p.starts_with("error") && p.contains("cannot be read")), "{p:#?}");
    only(&after(|m| m.storage().replace(&instant_file(m, 0, ".commit"), "").unwrap()), "error", "empty file");
    only(&after(|m| drop(m.storage().delete(&instant_file(m, 1, ".requested")))), "warning", "no requested file");
    only(&after(|m| drop(m.storage().delete(&instant_file(m, 1, ".inflight")))), "warning", "no inflight file");
    let twice = after(|m| {
        let path = instant_file(m, 0, ".commit");
        let body = m.storage().read(&path).unwrap();
        let (start, end) = path.split_once('_').unwrap();
        let later = format!("{start}_9{}", &end[1..]);
        m.storage().create(&later, body).unwrap();
    });
    assert!(twice.iter().any(|p| p.starts_with("error") && p.contains("completed twice")), "{twice:#?}");
}

#[test]
fn what_is_left_over_is_a_warning() {
    let p = after(|m| drop(m.begin(Action::Commit).file("p1", "a", &["9"])));
    only(&p, "warning", "is pending");
    only(&after(|m| m.storage().create("p1/z_0-1-1_20990101000000000.parquet", "x").unwrap()), "warning", "no instant");
    let p = after(|m| create_marker(m.storage(), "20200101000000000", "p1/x.parquet", MarkerType::Create).unwrap());
    only(&p, "warning", "markers");
    only(&after(|m| m.storage().create(".hoodie/hoodie.properties.backup", "x").unwrap()), "warning", "interrupted");
}

#[test]
fn missing_and_changed_files_are_errors() {
    only(&after(|m| drop(m.storage().delete(&newest(m, "p2")))), "error", "is missing");
    let p = after(|m| {
        let path = newest(m, "p2");
        let bytes = m.storage().read(&path).unwrap();
        m.storage().replace(&path, bytes.slice(..bytes.len() / 2)).unwrap();
    });
    assert!(p.len() == 2 && p[0].contains("bytes, but its commit") && p[1].contains("cannot be read"), "{p:#?}");
    let p = after(|m| drop(m.storage().delete("p2/.hoodie_partition_metadata")));
    only(&p, "error", "no .hoodie_partition_metadata");
    let p = after(|m| m.storage().replace("p2/.hoodie_partition_metadata", "partitionDepth=3").unwrap());
    only(&p, "warning", "the partition has depth 1");
}

#[test]
fn a_file_that_its_commit_does_not_name_is_an_error() {
    let p = after(|m| {
        let instant = newest(m, "p2").rsplit_once('_').unwrap().1.replace(".parquet", "");
        let name = format!("z_9-1-1_{instant}.parquet");
        m.storage().create(&format!("p2/{name}"), base_file(&instant, "p2", &name, &["z"])).unwrap();
    });
    only(&p, "error", "does not name it");
}

/// Puts another base file in place of the newest one of a partition, of the same size by its commit.
fn swap(made: &TestTable, partition: &str, content: impl FnOnce(&str, &str) -> Vec<u8>) {
    let path = newest(made, partition);
    let name = path.rsplit('/').next().unwrap();
    let instant = name.rsplit_once('_').unwrap().1.replace(".parquet", "");
    let bytes = content(&instant, name);
    made.storage().replace(&path, bytes).unwrap();
}

#[test]
fn rows_and_meta_columns_are_those_of_the_file() {
    let has = |p: Vec<String>, about: &str| assert!(p.iter().any(|p| p.contains(about)), "{about}: {p:#?}");
    has(after(|m| swap(m, "p1", |t, name| base_file(t, "p1", name, &["1"]))), "1 rows, but its commit wrote 3");
    has(
        after(|m| swap(m, "p2", |t, name| base_file(t, "p1", name, &["1"]))),
        "_hoodie_partition_path of row 0 is 'p1'",
    );
    has(after(|m| swap(m, "p2", |t, _| base_file(t, "p2", "other", &["1"]))), "_hoodie_file_name of row 0 is 'other'");
    has(
        after(|m| swap(m, "p2", |_, name| base_file("29", "p2", name, &["1"]))),
        "_hoodie_commit_time of row 0 is '29'",
    );
}

#[test]
fn a_key_is_in_a_partition_once() {
    let p = after(|m| drop(m.commit("p1", "c", &["7", "2"])));
    only(&p, "error", "1 record keys are in more than one row, for example '2' in p1/a");
    // The same key in another partition is another record.
    assert_eq!(after(|m| drop(m.commit("p3", "c", &["1"]))), [""; 0]);
    // Whatever wrote them.
    let p = after(|m| {
        let mut write = m.begin(Action::ReplaceCommit);
        write.file("p3", "c", &["5", "5"]);
        write.complete();
    });
    only(&p, "error", "'5' twice in p3/c");
}

#[test]
fn errors_come_first() {
    let p = after(|m| {
        drop(m.begin(Action::Commit));
        drop(m.storage().delete(&newest(m, "p2")));
    });
    assert!(p.len() == 2 && p[0].starts_with("error") && p[1].starts_with("warning"), "{p:#?}");
}
