//! `record_index` against the keys of the table. Hudi's writers look keys up in it: a key that is missing is inserted twice.
//!
//! All keys of both are brought into one order, on the disk where memory does not hold them, and compared.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};

use super::{Compared, FOLDER, REBUILD_PARTITION, Report, is_about_content};
use crate::error::{Error, Result};
use crate::file_group::join;
use crate::metadata_table::{MetadataTable, RecordIndex};
use crate::parallel::run_parallel;
use crate::sort::{Keyer, Sorter};
use crate::table::SliceKeys;

/// A partition and a file id.
type Group = (String, String);

pub(super) fn check(compared: &Compared<'_>, metadata: &MetadataTable, report: &mut Report) -> Result<()> {
    let is_partitioned = RecordIndex::open(metadata)?.is_partitioned();
    let both = BothSides::new(compared, is_partitioned)?;
    let source = SliceKeys::new(compared.table, compared.view)?;
    let slices: Vec<_> = compared.latest.values().flatten().collect();
    let unread = run_parallel(slices, compared.table.threads()?, |slice| {
        let group = (slice.partition.clone(), slice.file_id.clone());
        let number = both.stored(&group);
        match source.each(slice, &mut |keys| both.add(keys, |_| Ok((&*slice.partition, number)), false)) {
            Ok(()) => Ok(None),
            // Reported with the base files, or with the merger that is missing.
            Err(e) if is_about_content(&e) => Ok(Some(number)),
            Err(e) => Err(e),
        }
    })?;
    let mut entries = 0;
    metadata.each_row("record_index", &mut |rows| {
        entries += rows.num_rows() as u64;
        both.add_entries(&rows)
    })?;
    report.count("metadata table record index entries", entries);
    let found = both.compare(&unread.into_iter().flatten().collect::<Vec<_>>())?;
    for (group, differences) in &found {
        describe(group, differences, report);
    }
    Ok(())
}

/// Keys of a file group that are not in the index as they are in the table, with one of them each.
#[derive(Default)]
struct Differences {
    /// Whether the table has no such file group.
    is_unknown: bool,
    /// In the table only.
    lacking: Keys,
    /// In the index, with another file group.
    elsewhere: Keys,
    /// In the index only.
    gone: Keys,
}

/// How many keys, and one of them.
#[derive(Default)]
struct Keys {
    count: u64,
    example: String,
}

impl Keys {
    fn add(&mut self, key: &str) {
        if self.count == 0 {
            key.clone_into(&mut self.example);
        }
        self.count += 1;
    }
}

fn describe((partition, file_id): &Group, differences: &Differences, report: &mut Report) {
    let subject = format!("{FOLDER}/record_index: {}", join(partition, file_id));
    let Differences { is_unknown, lacking, elsewhere, gone } = differences;
    let mut error = |some: &Keys, message: &str| {
        if some.count > 0 {
            let message = format!("the record index {message} ({} keys, for example '{}')", some.count, some.example);
            report.error(subject.clone(), message, REBUILD_PARTITION);
        }
    };
    error(lacking, "lacks keys of the file group: upserts by it insert them twice");
    if *is_unknown {
        error(elsewhere, "names a file group that is not there for keys that are in another: upserts of them fail");
        error(gone, "names a file group that is not there: upserts of its keys fail");
    } else {
        error(elsewhere, "names this file group for keys that are in another: upserts by it insert them twice");
        error(
            gone,
            "has keys that the file group does not have: rows of other partitions are taken for updates of them",
        );
    }
}

/// The keys of the table and those of the index.
struct BothSides {
    is_partitioned: bool,
    schema: SchemaRef,
    keyer: Keyer,
    rows: Mutex<(u64, Sorter)>,
    /// Numbers of file groups; those of the table come first.
    groups: Mutex<(HashMap<Group, u32>, usize)>,
}

impl BothSides {
    fn new(compared: &Compared<'_>, is_partitioned: bool) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("partition", DataType::Utf8, false),
            Field::new("group", DataType::UInt32, false),
            Field::new("is_entry", DataType::Boolean, false),
        ]));
        // A key may be in several partitions, if each has an index of its own.
        let columns = if is_partitioned { 2 } else { 1 };
        let by_key = Arc::new(move |rows: &RecordBatch| Ok(rows.columns().iter().take(columns).cloned().collect()));
        let spill = compared.table.spill_options()?;
        let sorter = Sorter::new(schema.clone(), by_key, spill, compared.table.threads()?)?;
        let groups: HashMap<Group, u32> = compared
            .latest
            .values()
            .flatten()
            .zip(0u32..)
            .map(|(slice, number)| ((slice.partition.clone(), slice.file_id.clone()), number))
            .collect();
        let known = groups.len();
        Ok(Self {
            is_partitioned,
            schema,
            keyer: sorter.keyer(),
            rows: Mutex::new((0, sorter)),
            groups: Mutex::new((groups, known)),
        })
    }

    /// The number of a file group of the table.
    fn stored(&self, group: &Group) -> u32 {
        lock(&self.groups).0.get(group).copied().unwrap_or(u32::MAX)
    }

    /// Adds keys, each with its partition and file group.
    fn add<'a>(&self, keys: &StringArray, of: impl Fn(usize) -> Result<(&'a str, u32)>, is_entry: bool) -> Result<()> {
        let of = (0..keys.len()).map(of).collect::<Result<Vec<_>>>()?;
        let partitions: StringArray = of.iter().map(|(partition, _)| Some(*partition)).collect();
        let groups: UInt32Array = of.iter().map(|(_, group)| Some(*group)).collect();
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![is_entry; keys.len()]));
        let columns: Vec<ArrayRef> = vec![Arc::new(keys.clone()), Arc::new(partitions), Arc::new(groups), flags];
        let keyed = self.keyer.keyed(RecordBatch::try_new(self.schema.clone(), columns)?)?;
        let mut rows = lock(&self.rows);
        rows.0 += 1;
        let number = rows.0;
        rows.1.push_keyed(number, keyed)
    }

    /// Adds entries of the index.
    fn add_entries(&self, rows: &RecordBatch) -> Result<()> {
        let missing = || Error::internal("rows of the record index lack a column");
        let strings =
            |name: &str| rows.column_by_name(name).and_then(|column| column.as_string_opt::<i32>()).ok_or_else(missing);
        let (keys, partitions, file_ids) = (strings("key")?, strings("partition")?, strings("file_id")?);
        let partition = |row: usize| match partitions.is_valid(row) {
            true => Some(partitions.value(row)).filter(|partition| *partition != ".").unwrap_or_default(),
            false => "",
        };
        let of = |row: usize| {
            let group = (partition(row).to_owned(), file_ids.value(row).to_owned());
            let groups = &mut lock(&self.groups).0;
            let next = u32::try_from(groups.len()).unwrap_or(u32::MAX);
            Ok((partition(row), *groups.entry(group).or_insert(next)))
        };
        self.add(keys, of, true)
    }

    /// What is different, by file group. Nothing is said of keys in file groups that could not be read.
    fn compare(self, unread: &[u32]) -> Result<BTreeMap<Group, Differences>> {
        let (groups, known) = self.groups.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (_, sorter) = self.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut differences: HashMap<u32, Differences> = HashMap::new();
        let mut same = SameKey::default();
        for rows in sorter.finish()? {
            let rows = rows?;
            let lost = || Error::internal("sorted keys have other columns than they had");
            let [keys, partitions, of, flags] = rows.columns() else { return Err(lost()) };
            let strings = |column: &ArrayRef| column.as_string_opt::<i32>().cloned().ok_or_else(lost);
            let (keys, partitions) = (strings(keys)?, strings(partitions)?);
            let of = of.as_primitive_opt::<UInt32Type>().ok_or_else(lost)?;
            let flags = flags.as_boolean_opt().ok_or_else(lost)?;
            for row in 0..rows.num_rows() {
                let partition = if self.is_partitioned { partitions.value(row) } else { "" };
                if !same.is(keys.value(row), partition) {
                    same.settle(unread, &mut differences);
                    same.begin(keys.value(row), partition);
                }
                if flags.value(row) { &mut same.entries } else { &mut same.stored }.push(of.value(row));
            }
        }
        same.settle(unread, &mut differences);
        let named = |(group, number): (Group, u32)| {
            let mut found = differences.remove(&number)?;
            found.is_unknown = number as usize >= known;
            Some((group, found))
        };
        Ok(groups.into_iter().filter_map(named).collect())
    }
}

/// The file groups that have one key, and those that the index names.
#[derive(Default)]
struct SameKey {
    key: String,
    partition: String,
    stored: Vec<u32>,
    entries: Vec<u32>,
}

impl SameKey {
    fn is(&self, key: &str, partition: &str) -> bool {
        self.key == key && self.partition == partition
    }

    fn begin(&mut self, key: &str, partition: &str) {
        key.clone_into(&mut self.key);
        partition.clone_into(&mut self.partition);
        self.stored.clear();
        self.entries.clear();
    }

    /// Of several rows that share a key, the index knows one.
    fn settle(&self, unread: &[u32], differences: &mut HashMap<u32, Differences>) {
        let Self { key, stored, entries, .. } = self;
        if let (Some(group), []) = (stored.first(), entries.as_slice()) {
            differences.entry(*group).or_default().lacking.add(key);
        }
        for entry in entries.iter().filter(|entry| !stored.contains(entry) && !unread.contains(entry)) {
            let found = differences.entry(*entry).or_default();
            if stored.is_empty() { &mut found.gone } else { &mut found.elsewhere }.add(key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
