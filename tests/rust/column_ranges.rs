//! Whoever writes a data file reports the ranges of its columns, where the metadata table keeps them.

use std::sync::Arc;

use hoodoo::client;
use hoodoo::format::avro::metadata::WriteStat;
use hoodoo::format::column_range::{ColumnRange, RangeValue};
use hoodoo::storage::Storage;
use hoodoo::table::HudiTable;
use hoodoo::write::{CommitOutcome, Operation};
use object_store::memory::InMemory;

use crate::small_table::{self, Row, Ticking, write};

const PROPERTIES: &str = ".hoodie/hoodie.properties";
const INFLIGHT: &str = "hoodie.table.metadata.partitions.inflight";
const COLUMNS: [&str; 7] =
    ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key", "id", "ts", "part", "val"];

/// A table of this type, and its storage.
fn table(name: &str, table_type: &str) -> (Storage, Vec<(String, String)>) {
    let options = [
        ("hoodie.datasource.write.table.type", table_type),
        ("hoodie.compact.inline", "false"),
        ("hoodie.log.compaction.blocks.threshold", "1"),
        ("hoodie.clustering.plan.strategy.single.group.clustering.enabled", "true"),
    ];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let storage = small_table::storage(Arc::new(InMemory::new()), name);
    small_table::create_with(storage.clone(), Ticking::shared(), &options).unwrap();
    (storage, options)
}

/// Opens the table; `indexed`: with a metadata table that gets statistics of columns.
fn open((storage, options): &(Storage, Vec<(String, String)>), indexed: bool) -> HudiTable {
    let content = storage.read_if_exists(PROPERTIES).unwrap().unwrap();
    let content = String::from_utf8(content.to_vec()).unwrap();
    let mut lines: Vec<&str> = content.lines().filter(|line| !line.starts_with(INFLIGHT)).collect();
    let line = format!("{INFLIGHT}=column_stats");
    if indexed {
        lines.push(&line);
    }
    storage.replace(PROPERTIES, lines.join("\n") + "\n").unwrap();
    small_table::open_with(storage.clone(), Ticking::shared(), options).unwrap()
}

fn range<'s>(stat: &'s WriteStat, column: &str) -> &'s ColumnRange {
    let ranges = &stat.column_ranges.as_ref().unwrap().get().ranges;
    ranges.iter().find(|range| range.column == column).unwrap()
}

fn text(value: &str) -> Option<RangeValue> {
    Some(RangeValue::String(value.to_owned()))
}

/// Checks that each file has the ranges of all columns; returns them for one.
fn check(done: &CommitOutcome, column: &str) -> Vec<(Option<RangeValue>, Option<RangeValue>)> {
    assert!(!done.stats.is_empty());
    for stat in &done.stats {
        let ranges = stat.column_ranges.as_ref().unwrap_or_else(|| panic!("{stat:?}")).get();
        let mut found: Vec<&str> = ranges.ranges.iter().map(|range| range.column.as_str()).collect();
        found.sort_unstable();
        let mut wanted = COLUMNS;
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{stat:?}");
        assert!(!ranges.is_partial && ranges.unknown.is_empty());
        // As a task of another process reports it.
        let json = serde_json::to_string(stat).unwrap();
        assert_eq!(&serde_json::from_str::<WriteStat>(&json).unwrap(), stat);
    }
    let bounds = |stat| {
        let ColumnRange { min, max, .. } = range(stat, column).clone();
        (min, max)
    };
    done.stats.iter().map(bounds).collect()
}

const ROWS: [Row; 4] = [("a", 1, "p", "v1"), ("b", 1, "p", "v2"), ("c", 1, "p", "v3"), ("d", 1, "q", "v4")];

#[test]
fn base_files_have_ranges() {
    let made = table("ranges-base", "COPY_ON_WRITE");
    let done = write(&open(&made, false), Operation::Insert, &ROWS).unwrap();
    assert!(done.stats.iter().all(|stat| stat.column_ranges.is_none()), "nobody asks for them");

    let done = write(&open(&made, true), Operation::Upsert, &[("b", 2, "p", "w")]).unwrap();
    assert_eq!(check(&done, "val"), [(text("v1"), text("w"))]);
    assert_eq!(range(&done.stats[0], "ts").max, Some(RangeValue::Long(2)));
    let commit_time = range(&done.stats[0], "_hoodie_commit_time");
    assert_eq!(commit_time.max, text(&done.instant));
    assert!(commit_time.min != commit_time.max && commit_time.value_count == 3 && commit_time.total_size > 0);

    let done = write(&open(&made, true), Operation::Insert, &[("e", 1, "p", "x")]).unwrap();
    assert_eq!(check(&done, "val"), [(text("x"), text("x"))]);
    let done = client::cluster(&open(&made, true), None, true).unwrap().unwrap();
    let found = check(&done, "id");
    assert!(found.contains(&(text("a"), text("e"))), "{found:?}");
}

#[test]
fn log_files_have_ranges() {
    let made = table("ranges-log", "MERGE_ON_READ");
    write(&open(&made, true), Operation::Insert, &ROWS).unwrap();
    let done = write(&open(&made, true), Operation::Upsert, &[("b", 2, "p", "w"), ("a", 2, "p", "u")]).unwrap();
    assert!(done.stats.iter().all(|stat| stat.log_files.is_some()));
    assert_eq!(check(&done, "val"), [(text("u"), text("w"))]);
    assert_eq!((range(&done.stats[0], "val").value_count, range(&done.stats[0], "val").total_size), (2, 0));

    let done = write(&open(&made, true), Operation::Delete, &[("c", 3, "p", "")]).unwrap();
    assert_eq!(check(&done, "val"), [(None, None)]);

    let done = client::log_compact(&open(&made, true)).unwrap().unwrap();
    assert_eq!(check(&done, "val"), [(text("u"), text("w"))]);

    let table = open(&made, true);
    let instant = client::schedule_compaction(&table).unwrap().unwrap();
    let done = client::compact(&open(&made, true), Some(&instant)).unwrap().unwrap();
    assert_eq!(check(&done, "id"), [(text("a"), text("b"))]);
}
