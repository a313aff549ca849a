//! Compacting a slice row group by row group, a column at a time: what no log record changes is copied as it is.
//!
//! Which records win is decided from the columns that merging compares; where rules make records of two, all columns of a
//! row group are read first. The rest is the work of the file group merger. Row groups that are too large for that stream
//! through instead (`unit.rs`).

use super::unit::Unit;
use crate::error::Result;
use crate::file_group::base::{
    BaseFileReader, BaseFileWriter, RECORD_KEY_COLUMN, Splice, fills_up, read_bytes, read_column_batches,
};
use crate::storage::{FileReader, FileWriter};
use crate::table::file_group_merger::{
    ColumnValues, FileGroupMerger, MergedRowGroup, MergedRows, NewerStrings, Target,
};
use crate::table::slice_reader::MergedLogs;
use crate::transaction::FILE_NAME;

/// How row groups of the old file can be taken over; `None` where they are better written anew: they are cut otherwise,
/// or what of one is decoded at a time is more than the budget.
pub(super) fn can_splice(
    reader: &BaseFileReader<FileReader>,
    logs: &MergedLogs,
    unit: &Unit<'_>,
) -> Result<Option<Splice>> {
    let groups = reader.metadata().row_groups();
    let largest = groups.iter().flat_map(|group| group.columns()).map(read_bytes).max().unwrap_or_default();
    // As it was, as it is to be, and encoded.
    let one_each = largest.saturating_mul(3).saturating_mul(unit.options.threads.max(1) as u64);
    let all = match logs.merge.keeps_one() {
        true => 0,
        false => groups.iter().map(|group| group.columns().iter().map(read_bytes).sum()).max().unwrap_or_default(),
    };
    if logs.merge.has_large_records() || one_each.saturating_add(all) > unit.reader.budget() as u64 {
        return Ok(None);
    }
    Splice::new(reader, &unit.schema, &unit.options)
}

/// Writes the row groups of the old file with the log records merged into them, and new records behind.
pub(super) fn splice(
    reader: &BaseFileReader<FileReader>,
    splice: &Splice,
    writer: &mut BaseFileWriter<FileWriter>,
    logs: &mut MergedLogs,
    unit: &Unit<'_>,
    file_name: &str,
) -> Result<()> {
    let keeps_one = logs.merge.keeps_one();
    let compared = if keeps_one { logs.settings.compared_columns(&unit.schema) } else { logs.columns.clone() };
    // A merger may delete what neither record did; the filter then stands for some keys more.
    let keeps_keys = keeps_one && !logs.merge.has_deletes();
    let target = target(unit, keeps_one, file_name);
    let mut merger = FileGroupMerger::new(reader, splice, writer, &target, keeps_keys)?;
    let strings = NewerStrings::new(target.schema.fields().len(), unit.reader.budget());
    let groups = reader.row_groups();
    for (index, info) in groups.iter().enumerate() {
        let mut rows = Vec::new();
        for batch in read_column_batches(reader, &compared, index)? {
            let (settings, keys) = (&logs.settings, logs.settings.keys(&batch)?);
            let chosen = logs.merge.choose(&batch, &keys, &|batch| settings.ordering(batch))?;
            rows.push(MergedRows { rows: batch.num_rows(), known: Some(batch), chosen });
        }
        let mut appended = Vec::new();
        if index + 1 == groups.len() && fills_up(info.rows, logs.merge.unmet(), target.options) {
            while let Some(batch) = logs.merge.next_new()? {
                appended.push(batch);
            }
        }
        let newer = logs.merge.parts().collect();
        let appended = appended.iter().map(|batch| batch.columns()).collect();
        merger.row_group(&MergedRowGroup { index, rows, newer, strings: &strings, appended })?;
    }
    while let Some(batch) = logs.merge.next_new()? {
        merger.append(&batch)?;
    }
    merger.finish()
}

fn target<'u>(unit: &'u Unit<'_>, keeps_one: bool, file_name: &str) -> Target<'u> {
    let populate_meta = unit.table.config().populates_meta_fields();
    let values = |(column, name): (usize, &String)| match () {
        () if populate_meta && column == FILE_NAME => ColumnValues::Constant(file_name.to_owned()),
        // What is made of two records may say anything.
        () if !keeps_one => ColumnValues::Merged,
        () if populate_meta && name == RECORD_KEY_COLUMN || unit.key_columns.contains(name) => ColumnValues::OfKey,
        () => ColumnValues::Merged,
    };
    let columns = unit.schema.fields().iter().map(|field| field.name()).enumerate().map(values).collect();
    Target { schema: &unit.schema, options: &unit.options, threads: unit.options.threads, populate_meta, columns }
}
