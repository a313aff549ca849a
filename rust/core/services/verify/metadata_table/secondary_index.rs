//! A secondary index against the rows of the table. Readers look values up in it: a row that it lacks is not found.
//!
//! The entries of both are brought into one order, on the disk where memory does not hold them, and compared.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::{Compared, FOLDER, Report, is_about_content};
use crate::error::{Error, Result};
use crate::metadata_table::MetadataTable;
use crate::parallel::run_parallel;
use crate::sort::{Keyer, Sorter};
use crate::storage::SpillOptions;
use crate::table::{SliceKeys, SliceValues, TableSchema};

pub(super) fn check(
    compared: &Compared<'_>,
    metadata: &MetadataTable,
    partition: &str,
    report: &mut Report,
) -> Result<()> {
    let subject = format!("{FOLDER}/{partition}");
    let remedy =
        format!("Build it again with Table.index(\"{partition}\"), or drop it with Table.drop_index(\"{partition}\")");
    let Some(index) = metadata.definitions()?.secondary_index(partition) else {
        report.error(subject, "the secondary index is not defined in index.json, or not of one column", &remedy);
        return Ok(());
    };
    let schema = TableSchema::resolve(compared.table.config(), compared.view)?;
    let Some(column) = schema.as_ref().and_then(|schema| schema.data.field_with_name(&index.column).ok()) else {
        report.error(subject, format!("the table has no column '{}', of which the index is", index.column), &remedy);
        return Ok(());
    };
    let source = SliceKeys::new(compared.table, compared.view)?;
    let values = SliceValues::new(compared.table, &source, column)?;
    let both = BothSides::new(compared.table.spill_options()?)?;
    let slices: Vec<_> = compared.latest.values().flatten().collect();
    let unread = run_parallel(slices, compared.table.threads()?, |slice| {
        let read = values.of_slice(slice).and_then(|mut entries| entries.try_for_each(|some| both.add(&some?, false)));
        match read {
            Ok(()) => Ok(false),
            // Reported with the base files, or with the merger that is missing.
            Err(e) if is_about_content(&e) => Ok(true),
            Err(e) => Err(e),
        }
    })?;
    let (mut count, mut misplaced) = (0, Entries::default());
    let shards = metadata.shards(partition)?.len();
    metadata.each_row_by_shard(partition, &mut |shard, rows| {
        let keys = rows.column_by_name("key").and_then(|keys| keys.as_string_opt::<i32>());
        let keys = keys.ok_or_else(|| Error::internal("rows of a secondary index have no keys"))?;
        count += keys.len() as u64;
        for key in keys.iter().flatten().filter(|key| index.shard_of(key, shards) != shard) {
            misplaced.add(key);
        }
        both.add(keys, true)
    })?;
    report.count("metadata table secondary index entries", count);
    let (lacking, gone) = both.compare()?;
    let is_known = !unread.contains(&true);
    let mut error = |some: &Entries, message: &str| {
        if some.count > 0 {
            let example = some.example.replace('\0', "\\0");
            let message = format!("the secondary index {message} ({} entries, for example '{example}')", some.count);
            report.error(subject.clone(), message, &remedy);
        }
    };
    error(&lacking, "lacks rows of the table: reads by it do not find them");
    error(&misplaced, "has entries in a shard where nobody looks for them");
    if is_known {
        error(&gone, "has entries of rows that the table does not have");
    }
    Ok(())
}

/// How many entries, and one of them.
#[derive(Default)]
struct Entries {
    count: u64,
    example: String,
}

impl Entries {
    fn add(&mut self, entry: &str) {
        if self.count == 0 {
            entry.clone_into(&mut self.example);
        }
        self.count += 1;
    }
}

/// The entries that the table should have and those of the index.
struct BothSides {
    schema: SchemaRef,
    keyer: Keyer,
    rows: Mutex<(u64, Sorter)>,
}

impl BothSides {
    fn new(spill: SpillOptions) -> Result<Self> {
        let fields = [("entry", DataType::Utf8), ("is_stored", DataType::Boolean)];
        let fields: Vec<Field> = fields.into_iter().map(|(name, kind)| Field::new(name, kind, false)).collect();
        let schema = Arc::new(Schema::new(fields));
        let by_entry = Arc::new(|rows: &RecordBatch| Ok(rows.columns().iter().take(1).cloned().collect()));
        let sorter = Sorter::new(schema.clone(), by_entry, spill, 1)?;
        Ok(Self { schema, keyer: sorter.keyer(), rows: Mutex::new((0, sorter)) })
    }

    fn add(&self, entries: &StringArray, is_stored: bool) -> Result<()> {
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![is_stored; entries.len()]));
        let rows = RecordBatch::try_new(self.schema.clone(), vec![Arc::new(entries.clone()), flags])?;
        let keyed = self.keyer.keyed(rows)?;
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.0 += 1;
        let number = rows.0;
        rows.1.push_keyed(number, keyed)
    }

    /// What only the table has, and what only the index has.
    fn compare(self) -> Result<(Entries, Entries)> {
        let (_, sorter) = self.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut lacking, mut gone) = (Entries::default(), Entries::default());
        let mut last: Option<(String, bool, bool)> = None;
        let mut settle = |one: Option<(String, bool, bool)>| match one {
            Some((entry, true, false)) => lacking.add(&entry),
            Some((entry, false, true)) => gone.add(&entry),
            _ => {}
        };
        for rows in sorter.finish()? {
            let rows = rows?;
            let lost = || Error::internal("sorted entries have other columns than they had");
            let [entries, flags] = rows.columns() else { return Err(lost()) };
            let entries = entries.as_string_opt::<i32>().ok_or_else(lost)?;
            let flags = flags.as_boolean_opt().ok_or_else(lost)?;
            for row in 0..rows.num_rows() {
                let (entry, is_stored) = (entries.value(row), flags.value(row));
                match &mut last {
                    Some((known, wanted, stored)) if known == entry => {
                        *wanted |= !is_stored;
                        *stored |= is_stored;
                    }
                    _ => settle(last.replace((entry.to_owned(), !is_stored, is_stored))),
                }
            }
        }
        settle(last);
        Ok((lacking, gone))
    }
}
