//! What an operation asks of an object store: how many requests of each kind, and how many one after the other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hoodoo::table::HudiTable;
use hoodoo::write::Operation;

use crate::measured_store::{MeasuredStore, Request};
use crate::small_table::{Row, Ticking, create_with, open_with, storage, write};

const LATENCY: Duration = Duration::from_millis(20);

/// The largest number of requests of which each began when the one before was answered.
fn in_sequence(requests: &[Request]) -> usize {
    let mut requests = requests.to_vec();
    requests.sort_by_key(|r| r.ended);
    let mut last = None;
    requests.iter().filter(|r| last.is_none_or(|end| r.begun >= end) && { last = Some(r.ended); true }).count()
}

fn show(name: &str, log: &Arc<Mutex<Vec<Request>>>) {
    let log = std::mem::take(&mut *log.lock().unwrap());
    let Some(first) = log.iter().map(|r| r.begun).min() else { return };
    println!("== {name}: {} requests, {} in sequence", log.len(), in_sequence(&log));
    for r in &log {
        println!("{:4} {:4} {:5} {}", (r.begun - first).as_millis(), (r.ended - first).as_millis(), r.kind, r.path);
    }
}

#[test]
fn trace() {
    for kind in ["COPY_ON_WRITE", "MERGE_ON_READ"] {
        let options: Vec<(String, String)> = [
            ("hoodie.table.type", kind),
            ("hoodoo.threads", "4"),
        ].into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let store = MeasuredStore::new(LATENCY);
        let log = store.requests();
        let s = storage(Arc::new(store), &format!("requests-{kind}")).as_remote();
        let table: HudiTable = create_with(s.clone(), Ticking::shared(), &options).unwrap();
        show("create", &log);
        let rows: Vec<Row> = (0..8).map(|n| (&*Box::leak(format!("k{n}").into_boxed_str()), 1, &*Box::leak(format!("p{}", n % 4).into_boxed_str()), "1")).collect();
        write(&table, Operation::BulkInsert, &rows).unwrap();
        show("bulk insert", &log);
        let table = open_with(s, Ticking::shared(), &options).unwrap();
        show("open", &log);
        write(&table, Operation::Upsert, &[("k1", 2, "p1", "2")]).unwrap();
        show("upsert", &log);
        write(&table, Operation::Upsert, &[("k1", 3, "p1", "2")]).unwrap();
        show("upsert again", &log);
    }
}
