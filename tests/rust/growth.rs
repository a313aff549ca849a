//! Requests to the storage grow with what is done, and no faster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hoodoo::write::Operation;
use object_store::memory::InMemory;

use crate::hooked_store::{HookedStore, Request};
use crate::small_table::{Row, Ticking, create_with, storage, write};

type Counts = BTreeMap<&'static str, usize>;

/// A row in each of so many partitions, which then are updated; requests of the second write by kind.
fn requests(operation: Operation, table_type: &str, partitions: usize) -> Counts {
    let seen: Arc<Mutex<Counts>> = Arc::default();
    let counts = seen.clone();
    let store = HookedStore::new(
        Arc::new(InMemory::new()),
        Box::new(move |request, path| {
            let kind = match request {
                Request::List if path.contains(".hoodie/.temp") => "listings of markers",
                Request::List => "listings",
                Request::Get => "reads",
                Request::Put => "writes",
                Request::Delete => return Ok(()),
            };
            *counts.lock().unwrap().entry(kind).or_default() += 1;
            Ok(())
        }),
    );
    let options = [("hoodie.table.type", table_type), ("hoodie.clean.automatic", "false")];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let name = format!("growth-{operation:?}-{table_type}-{partitions}");
    let table = create_with(storage(Arc::new(store), &name), Ticking::shared(), &options).unwrap();
    let names: Vec<&'static str> = (0..partitions).map(|n| &*Box::leak(format!("p{n}").into_boxed_str())).collect();
    let rows = |ts: i64| names.iter().map(|name| (*name, ts, *name, "1")).collect::<Vec<Row>>();
    write(&table, Operation::BulkInsert, &rows(1)).unwrap();
    seen.lock().unwrap().clear();
    write(&table, operation, &rows(2)).unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

#[test]
fn a_write_makes_as_many_requests_for_each_file_however_many_there_are() {
    let operations = [Operation::Upsert, Operation::Insert, Operation::BulkInsert, Operation::Delete];
    for (operation, table_type) in operations.into_iter().flat_map(|o| [(o, "COPY_ON_WRITE"), (o, "MERGE_ON_READ")]) {
        let [few, more, many] = [4, 8, 32].map(|partitions| requests(operation, table_type, partitions));
        for (kind, count) in &many {
            let of = |counts: &Counts| counts.get(kind).copied().unwrap_or_default();
            let each = (of(&more) - of(&few)) / 4;
            assert_eq!(*count, of(&more) + 24 * each, "{operation:?} {table_type} {kind}: {few:?} {more:?} {many:?}");
        }
        // All markers at a time: one listing for each file would take the square of them.
        assert_eq!(many.get("listings of markers"), few.get("listings of markers"), "{operation:?} {table_type}");
    }
}
