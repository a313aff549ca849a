//! The power fails after any change to a local disk: what was acknowledged is there with all its rows, the next write
//! succeeds, and nothing is wrong with the table.
//!
//! Every change is recorded. From the changes up to a cut the disk is built anew, without what was not synced: contents,
//! names, or a random choice of both.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use hoodoo::client;
use hoodoo::services::archive::archive;
use hoodoo::services::verify::verify;
use hoodoo::storage::{DiskChange, Storage, StorageOptions};
use hoodoo::table::HudiTable;
use hoodoo::write::Operation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::small_table::{Row, Ticking, create_with, open_with, read, write};

const FIRST: [Row; 4] = [("a", 1, "p0", "1"), ("b", 1, "p0", "1"), ("c", 1, "p1", "1"), ("d", 1, "p1", "1")];
const MORE: [Row; 3] = [("a", 2, "p0", "2"), ("c", 2, "p1", "2"), ("e", 2, "new", "2")];
const AGAIN: [Row; 2] = [("a", 3, "p0", "3"), ("d", 3, "p1", "3")];
const NEXT: [Row; 3] = [("next", 9, "p1", "9"), ("d", 9, "p1", "9"), ("f", 9, "new", "9")];

type Rows = Vec<(String, String)>;

/// One change, with the content of what was written.
#[derive(Debug, Clone)]
enum Change {
    Wrote(PathBuf, Vec<u8>),
    Renamed(PathBuf, PathBuf),
    Linked(PathBuf, PathBuf),
    Removed(PathBuf),
    RemovedFolder(PathBuf),
    MadeFolder(PathBuf),
    SyncedFile(PathBuf),
    SyncedFolder(PathBuf),
    /// A call returned, and these are the rows of the table.
    Acknowledged(Rows),
}

type Log = Arc<Mutex<Vec<Change>>>;

fn recorded(root: &Path, log: &Log) -> Storage {
    let (root, log) = (root.to_owned(), log.clone());
    let storage = Storage::open(root.to_str().unwrap(), &StorageOptions::new()).unwrap();
    storage.watched(Arc::new(move |change| {
        let within = |path: &Path| path.strip_prefix(&root).map_or_else(|_| PathBuf::new(), Path::to_owned);
        let change = match change {
            DiskChange::Wrote(path) => Change::Wrote(within(path), std::fs::read(path).unwrap()),
            DiskChange::Renamed(from, to) => Change::Renamed(within(from), within(to)),
            DiskChange::Linked(from, to) => Change::Linked(within(from), within(to)),
            DiskChange::Removed(path) => Change::Removed(within(path)),
            DiskChange::RemovedFolder(path) => Change::RemovedFolder(within(path)),
            DiskChange::MadeFolder(path) => Change::MadeFolder(within(path)),
            DiskChange::SyncedFile(path) => Change::SyncedFile(within(path)),
            DiskChange::SyncedFolder(path) => Change::SyncedFolder(within(path)),
        };
        log.lock().unwrap().push(change);
    }))
}

/// What a power cut takes of what was not synced.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// All of it.
    Everything,
    /// Names are there, the files are empty.
    Contents,
    /// Files are whole where their names are there.
    Names,
    /// Each name and each content or not, by chance.
    Some(u64),
}

/// The names in a folder: files by number, `None` for a folder.
type Names = BTreeMap<PathBuf, Option<usize>>;
/// A change of a name: with a value it is there, without it is gone.
type NameChange = (PathBuf, Option<Option<usize>>);

/// A disk as the machine sees it, and as it would be after a cut.
#[derive(Default)]
struct Disk {
    /// Content of each file, and how much of it is durable.
    contents: Vec<(Vec<u8>, bool)>,
    /// By folder.
    names: BTreeMap<PathBuf, Names>,
    durable: BTreeMap<PathBuf, Names>,
    /// Names that are not durable yet, in their order.
    pending: BTreeMap<PathBuf, Vec<NameChange>>,
}

impl Disk {
    fn after(changes: &[Change]) -> Self {
        let mut disk = Self::default();
        changes.iter().for_each(|change| disk.apply(change));
        disk
    }

    fn set(&mut self, path: &Path, to: Option<Option<usize>>) {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let names = self.names.entry(folder.clone()).or_default();
        match to {
            Some(entry) => names.insert(path.to_owned(), entry),
            None => names.remove(path).map(|_| None),
        };
        self.pending.entry(folder).or_default().push((path.to_owned(), to));
    }

    fn file(&self, path: &Path) -> Option<usize> {
        *self.names.get(path.parent()?)?.get(path)?
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Wrote(path, content) => match self.file(path) {
                Some(number) => self.contents[number] = (content.clone(), false),
                None => {
                    self.contents.push((content.clone(), false));
                    self.set(path, Some(Some(self.contents.len() - 1)));
                }
            },
            Change::Renamed(from, to) => {
                let number = self.file(from);
                self.set(from, None);
                self.set(to, Some(number));
            }
            Change::Linked(from, to) => {
                let number = self.file(from);
                self.set(to, Some(number));
            }
            Change::Removed(path) => self.set(path, None),
            Change::RemovedFolder(path) => {
                let below: Vec<PathBuf> =
                    self.names.keys().filter(|folder| folder.starts_with(path)).cloned().collect();
                for folder in below {
                    let names: Vec<PathBuf> = self.names[&folder].keys().cloned().collect();
                    names.iter().for_each(|name| self.set(name, None));
                }
                self.set(path, None);
            }
            Change::MadeFolder(path) if path.as_os_str().is_empty() => {}
            Change::MadeFolder(path) => self.set(path, Some(None)),
            Change::SyncedFile(path) => {
                if let Some(number) = self.file(path) {
                    self.contents[number].1 = true;
                }
            }
            Change::SyncedFolder(path) => {
                let names = self.names.entry(path.clone()).or_default().clone();
                self.durable.insert(path.clone(), names);
                self.pending.remove(path);
            }
            Change::Acknowledged(_) => {}
        }
    }

    /// The files that are there after a cut.
    fn files(&self, loss: Loss) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut chance = StdRng::seed_from_u64(if let Loss::Some(seed) = loss { seed } else { 0 });
        let mut keeps = |names: bool| match loss {
            Loss::Everything => false,
            Loss::Contents => names,
            Loss::Names => !names,
            Loss::Some(_) => chance.random_bool(0.5),
        };
        let mut names = self.durable.clone();
        for (folder, changes) in &self.pending {
            let names = names.entry(folder.clone()).or_default();
            for (path, to) in changes {
                match to {
                    _ if !keeps(true) => {}
                    Some(entry) => drop(names.insert(path.clone(), *entry)),
                    None => drop(names.remove(path)),
                }
            }
        }
        let kept: Vec<Vec<u8>> = self
            .contents
            .iter()
            .map(|(content, durable)| if *durable || keeps(false) { content.clone() } else { Vec::new() })
            .collect();
        let mut files = BTreeMap::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for (path, entry) in names.get(&folder).into_iter().flatten() {
                match entry {
                    None => folders.push(path.clone()),
                    Some(number) => drop(files.insert(path.clone(), kept[*number].clone())),
                }
            }
        }
        files
    }
}

/// Puts files on a disk.
fn restore(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, content) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(content).unwrap();
        if path.parent().is_some_and(|folder| folder.ends_with(".heartbeat")) {
            // To start a machine takes longer than heartbeats count.
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
    }
}

fn options(table_type: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let given = [("hoodie.table.type", table_type), ("hoodie.keep.min.commits", "2"), ("hoodie.keep.max.commits", "3")];
    given.iter().chain(more).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Makes a table, does things to it one after the other, and cuts the power after every change.
fn cut(table_type: &str, more: &[(&str, &str)], acts: &[&dyn Fn(&HudiTable)]) {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::default();
    let options = options(table_type, more);
    let root = folder.path().join("small");
    let table = create_with(recorded(&root, &log), Ticking::shared(), &options).unwrap();
    let acknowledge = || log.lock().unwrap().push(Change::Acknowledged(read(&table)));
    acknowledge();
    let mut from = log.lock().unwrap().len();
    write(&table, Operation::BulkInsert, &FIRST).unwrap();
    acknowledge();
    for (number, act) in acts.iter().enumerate() {
        if number + 1 == acts.len() {
            from = log.lock().unwrap().len();
        }
        act(&table);
        acknowledge();
    }
    let log = log.lock().unwrap();
    let promised =
        |end: usize| log[..end].iter().rev().find_map(|c| if let Change::Acknowledged(r) = c { Some(r) } else { None });
    let acknowledged = promised(log.len()).unwrap();
    let mut seen = HashSet::new();
    for end in from..=log.len() {
        let disk = Disk::after(&log[..end]);
        let chance = end as u64;
        let again = std::env::var_os("HOODOO_TEST_ALL").map(|_| Loss::Some(chance + 1_000));
        let losses = [Loss::Everything, Loss::Contents, Loss::Names, Loss::Some(chance)];
        for loss in losses.into_iter().chain(again) {
            let context =
                format!("{table_type}, {loss:?} after {end} of {}: {:?}", log.len(), log.get(end.saturating_sub(1)));
            let (before, files) = (promised(end).unwrap(), disk.files(loss));
            if seen.insert((before.clone(), files.clone())) {
                let folder = tempfile::tempdir().unwrap();
                restore(&folder.path().join("small"), &files);
                the_table_is_whole(folder.path(), &options, [before, acknowledged], &context);
            }
        }
    }
}

/// The rows are those of the last call that returned, or those of the one that was under way.
fn the_table_is_whole(folder: &Path, options: &[(String, String)], either: [&Rows; 2], context: &str) {
    let storage = Storage::open(folder.join("small").to_str().unwrap(), &StorageOptions::new()).unwrap();
    let unsynced = [options, &[("hoodoo.storage.sync".to_owned(), "false".to_owned())]].concat();
    let table = open_with(storage, Ticking::shared(), &unsynced);
    let table = table.unwrap_or_else(|e| panic!("{context}: the table does not open: {e}"));
    let mut rows = read(&table);
    assert!(either.contains(&&rows), "{context}: {rows:?} in place of {either:?}");
    write(&table, Operation::Upsert, &NEXT).unwrap_or_else(|e| panic!("{context}: the next write failed: {e}"));
    rows.retain(|(id, _)| !NEXT.iter().any(|n| n.0 == id));
    rows.extend(NEXT.iter().map(|n| (n.0.to_owned(), n.3.to_owned())));
    rows.sort();
    assert_eq!(read(&table), rows, "{context}");
    let report = verify(&table).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.problems);
}

fn upsert(rows: &'static [Row]) -> impl Fn(&HudiTable) {
    move |table| drop(write(table, Operation::Upsert, rows).unwrap())
}

#[test]
fn upsert_copy_on_write() {
    cut("COPY_ON_WRITE", &[], &[&upsert(&MORE)]);
}

#[test]
fn upsert_merge_on_read() {
    cut("MERGE_ON_READ", &[], &[&upsert(&MORE), &upsert(&AGAIN)]);
}

#[test]
fn compaction() {
    let compact = |table: &HudiTable| drop(client::compact(table, None).unwrap().unwrap());
    cut("MERGE_ON_READ", &[("hoodie.compact.inline", "false")], &[&upsert(&AGAIN), &compact]);
}

#[test]
fn clustering() {
    let cluster = |table: &HudiTable| drop(client::cluster(table, None, true).unwrap().unwrap());
    // The next write goes before a plan that nobody carried out.
    let strategy = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy";
    cut("COPY_ON_WRITE", &[("hoodie.clustering.updates.strategy", strategy)], &[&upsert(&MORE), &cluster]);
}

#[test]
fn index() {
    let index =
        |table: &HudiTable| drop(client::index(table, "secondary_index", Some(vec!["val".to_owned()]), None).unwrap());
    let more = [
        ("hoodie.metadata.enable", "true"),
        ("hoodie.metadata.global.record.level.index.min.filegroup.count", "2"),
        ("hoodie.metadata.global.record.level.index.max.filegroup.count", "2"),
    ];
    cut("COPY_ON_WRITE", &more, &[&upsert(&MORE), &index]);
}

#[test]
fn clean_and_archive() {
    let services = |table: &HudiTable| {
        write(table, Operation::Upsert, &AGAIN).unwrap();
        assert!(archive(table).is_ok());
    };
    let more: [&dyn Fn(&HudiTable); 5] = [&upsert(&MORE), &upsert(&AGAIN), &upsert(&AGAIN), &upsert(&AGAIN), &services];
    cut("COPY_ON_WRITE", &[], &more);
}
