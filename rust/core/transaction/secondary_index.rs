//! Which entries of secondary indexes come and go with an action.
//!
//! The entry of a row is its value and its record key. So those of a file group change with its rows, wherever these are:
//!
//! | what was written | entries |
//! |---|---|
//! | a base file of a new file group | all of its rows are put in |
//! | a base file in place of another slice | those that only one of the two has are put in, or taken out |
//! | log files | of the keys that they name: those of the merged rows before and after |
//! | file groups that were replaced as a whole | all of their rows are taken out |
//! | a clustering, a compaction | none: the rows are the same |
//!
//! An entry that one file group lost and another one got stays. This is found out before the table lock is taken.

use std::collections::HashSet;

use arrow::array::StringArray;
use arrow::datatypes::{DataType, Field, Schema};

use super::record_index::{Unit, added_and_gone, spill_options, units};
use crate::error::{Error, Result};
use crate::metadata_table::secondary_entries::{SecondaryIndex, can_have_secondary_index};
use crate::metadata_table::write::secondary_index::EntryCollector;
use crate::metadata_table::write::{KeyChanges, KeyWrites};
use crate::parallel::run_parallel;
use crate::table::{HudiTable, SliceKeys, SliceValues, TableSchema, TableView, WantedKeys};

/// What an action changes in indexes with these shards, one for one; why an index cannot be kept.
///
/// # Errors
/// `Corrupt`, with the file; `Unsupported` for a table whose merger is missing; `Storage`.
pub(super) fn entry_changes(
    table: &HudiTable,
    view: &TableView,
    requested: &str,
    indexes: Vec<(SecondaryIndex, Vec<String>)>,
    writes: &KeyWrites,
) -> Result<Vec<Result<KeyChanges>>> {
    if writes.keeps_rows || indexes.is_empty() {
        return Ok(Vec::new());
    }
    let before = TableSchema::resolve(table.config(), view)?;
    let units = units(view, writes)?;
    // What the action wrote is seen as well.
    let timeline = view.timeline().clone().with_archived([(requested.to_owned(), requested.to_owned())]);
    let source =
        SliceKeys::at(table, timeline, &writes.columns, before.as_ref().and_then(|schema| schema.history.as_ref()))?;
    let changes_of = |index: SecondaryIndex, file_ids: Vec<String>| {
        let column = kept_column(&index, before.as_ref(), &writes.columns)?;
        let known = file_ids.len();
        let entries = EntryCollector::new(index, file_ids, spill_options(table)?)?;
        let collecting = Collecting { entries, values: SliceValues::new(table, &source, column)?, keys: &source };
        run_parallel(units.iter().collect(), table.threads()?, |unit| collecting.collect(unit))?;
        collecting.entries.finish(known)
    };
    Ok(indexes.into_iter().map(|(index, file_ids)| changes_of(index, file_ids)).collect())
}

/// The indexed column, if entries that are there already stay right.
fn kept_column<'s>(index: &SecondaryIndex, before: Option<&TableSchema>, after: &'s Schema) -> Result<&'s Field> {
    let column = indexed_column(index, after)?;
    match before.and_then(|schema| schema.data.field_with_name(&index.column).ok()) {
        Some(known) if !reads_the_same(known.data_type(), column.data_type()) => Err(Error::unsupported(format!(
            "the type of '{}' changes from {} to {}: its stored values have another form",
            index.column,
            known.data_type(),
            column.data_type()
        ))),
        _ => Ok(column),
    }
}

/// Whether values have the same form after a change of the type.
fn reads_the_same(before: &DataType, after: &DataType) -> bool {
    let is_integer = |one: &DataType| matches!(one, DataType::Int32 | DataType::Int64);
    before == after || is_integer(before) && (is_integer(after) || *after == DataType::Utf8)
}

/// The column of an index, in a table of these columns.
///
/// # Errors
/// `InvalidOption` if there is no such column; `Unsupported` for one that can have no secondary index.
pub(super) fn indexed_column<'s>(index: &SecondaryIndex, data: &'s Schema) -> Result<&'s Field> {
    let name = &index.column;
    let column = data.field_with_name(name).map_err(|_| {
        Error::invalid_option(format!("the table has no column '{name}' for a secondary index"))
            .remedy("Name a column of the table; fields of structs cannot be indexed")
    })?;
    if !can_have_secondary_index(column.data_type()) {
        let data_type = column.data_type();
        return Err(Error::unsupported(format!("'{name}' is of type {data_type}, which can have no secondary index"))
            .remedy("Strings, integers, floating-point numbers, dates and timestamps of microseconds can"));
    }
    Ok(column)
}

struct Collecting<'a> {
    entries: EntryCollector,
    values: SliceValues<'a>,
    keys: &'a SliceKeys,
}

impl Collecting<'_> {
    fn collect(&self, unit: &Unit) -> Result<()> {
        let Self { entries, values, keys } = self;
        let mut put = |some: &StringArray| entries.put(some);
        match unit {
            Unit::Base { new, before: None, .. } => values.of_base(new)?.try_for_each(|some| put(&some?)),
            Unit::Base { new, before: Some(before), .. } => {
                let gone = added_and_gone(values.of_slice(before)?, || values.of_base(new), &mut put)?;
                entries.remove(&gone)
            }
            Unit::Logs(logs) => {
                let wanted = WantedKeys::of_logs(keys.reader()?, &logs.alone())?;
                let before = values.of_keys(logs.before(), &wanted)?;
                let after = values.of_keys(&logs.after(), &wanted)?;
                put(&without(&after, &before))?;
                entries.remove(&without(&before, &after))
            }
            Unit::Replaced(slice) => values.of_slice(slice)?.try_for_each(|some| entries.remove(&some?)),
        }
    }
}

/// The entries that the others do not have.
fn without(entries: &StringArray, others: &StringArray) -> StringArray {
    let others: HashSet<&str> = others.iter().flatten().collect();
    entries.iter().flatten().filter(|entry| !others.contains(entry)).map(Some).collect()
}
