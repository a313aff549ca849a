//! Merging row group by row group: what no incoming row changes is copied as it is.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{FieldRef, Schema};

use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, COLUMN_BATCH_ROWS, RowGroupInfo, Splice, fills_up, read_column_batches};
use crate::merge::{MergeCounts, RowRef};
use crate::storage::FileReader;
use crate::table::META_COLUMNS;
use crate::table::file_group_merger::{
    ColumnValues, FileGroupMerger, MergedRowGroup, MergedRows, NewerStrings, Target,
};
use crate::transaction::ChangeLog;
use crate::write::locate::lookup::MatchedRow;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::{MADE, MadeColumns, file_columns, gather};
use crate::write::rewrite::merge_rows::{MergeOutput, MergeRows};
use crate::write::rewrite::met_rows::{MetRows, number};

/// Rows that are written behind the old ones at once.
const INSERT_ROWS: usize = 32_768;
/// Position of the record key among the meta columns.
const RECORD_KEY: usize = 2;

/// Writes the row groups of an old file, merged with the rows that meet them, and new rows behind.
pub(in crate::write) fn splice_merge(
    context: &WriteContext,
    reader: &BaseFileReader<FileReader>,
    splice: &Splice,
    output: MergeOutput<'_, '_>,
    rows: &MergeRows<'_>,
) -> Result<MergeCounts> {
    let MergeOutput { writer, made, changes, task } = output;
    let target = target(context, &made);
    let merger = FileGroupMerger::new(reader, splice, writer, &target, rows.keep_keys()?)?;
    let counts = MergeCounts::default();
    let mut merge = SpliceMerge { context, reader, merger, made, changes, rows, task, written: 0, counts };
    let groups = reader.row_groups();
    let mut updates = rows.updates;
    let mut inserts = rows.inserts;
    for (g, info) in groups.iter().enumerate() {
        let end = info.first_row + info.rows;
        let (met, rest) = updates.split_at(updates.partition_point(|u| u64::from(u.position) < end));
        updates = rest;
        // New rows fill up a small last row group, so that they never make many fragments; a large one would have to be
        // written anew for them, so there they begin another.
        let fills = g + 1 == groups.len() && info.rows > 0 && fills_up(info.rows, inserts.len(), target.options);
        let appended = if fills { std::mem::take(&mut inserts) } else { &[] };
        merge.row_group(g, *info, met, appended)?;
    }
    if !updates.is_empty() {
        return Err(Error::corrupt("a base file has fewer rows than its key column"));
    }
    for chunk in inserts.chunks(INSERT_ROWS) {
        merge.append(chunk)?;
    }
    merge.merger.finish()?;
    Ok(merge.counts)
}

/// The new file.
fn target<'c>(context: &'c WriteContext, made: &MadeColumns) -> Target<'c> {
    let values = |(column, field): (usize, &FieldRef)| {
        let is_among = |names: &[String]| names.contains(field.name());
        let constant = MADE.iter().position(|made| *made == column).and_then(|i| made.value(i));
        match constant {
            _ if column < META_COLUMNS.len() && !context.populate_meta => ColumnValues::Null,
            Some(value) => ColumnValues::Constant(value.to_owned()),
            _ if column == RECORD_KEY => ColumnValues::OfKey,
            _ if is_among(&context.kept_partition_columns) => ColumnValues::Stored,
            _ if is_among(&context.key_columns) => ColumnValues::OfKey,
            _ => ColumnValues::Merged,
        }
    };
    Target {
        schema: &context.file_schema,
        options: &context.config.base_file,
        threads: context.file_threads,
        populate_meta: context.populate_meta,
        columns: context.file_schema.fields().iter().enumerate().map(values).collect(),
    }
}

struct SpliceMerge<'a, 'c> {
    context: &'a WriteContext,
    reader: &'a BaseFileReader<FileReader>,
    merger: FileGroupMerger<'a>,
    made: MadeColumns,
    changes: Option<&'a mut ChangeLog<'c>>,
    rows: &'a MergeRows<'a>,
    task: usize,
    /// Rows in the new file so far.
    written: usize,
    counts: MergeCounts,
}

impl SpliceMerge<'_, '_> {
    /// Writes one row group with the rows that meet it and, behind them, new ones.
    fn row_group(&mut self, index: usize, info: RowGroupInfo, met: &[MatchedRow], appended: &[RowRef]) -> Result<()> {
        let row = |row| usize::try_from(row).map_err(|_| Error::corrupt("a base file has too many rows"));
        let stored = row(info.first_row)?..row(info.first_row + info.rows)?;
        let refs: Vec<RowRef> = met.iter().map(|m| m.row).collect();
        let new = gather(self.rows.incoming, &refs, self.context)?;
        let rows = self.decide(index, stored, met, &MetRows::new(self.context, &new, self.rows.delete_by_key)?)?;
        let mut positions = vec![0; met.len()];
        let mut next = self.written;
        for rows in &rows {
            if let Some(chosen) = &rows.chosen {
                number(chosen, next, &mut positions);
                self.counts.add(chosen);
            }
            next += rows.rows_out();
        }
        let newer = file_columns(self.context, &new, self.task, &positions)?;
        if let Some(changes) = &mut self.changes {
            changes.row_group(self.reader, index, &rows, &[&newer])?;
        }
        let appended = if appended.is_empty() { None } else { Some(self.new_rows(appended, next)?) };
        let group = MergedRowGroup {
            index,
            rows,
            newer: vec![&newer],
            strings: &NewerStrings::new(newer.len(), self.context.spill.budget),
            appended: appended.iter().map(Vec::as_slice).collect(),
        };
        self.written += self.merger.row_group(&group)?;
        Ok(())
    }

    /// Decides for the stored rows of a row group.
    fn decide(
        &self,
        index: usize,
        stored: Range<usize>,
        mut met: &[MatchedRow],
        new: &MetRows<'_>,
    ) -> Result<Vec<MergedRows>> {
        let mut ordering = self.stored_ordering(index, !met.is_empty())?.map(Vec::into_iter);
        let mut from = 0;
        let mut decided = Vec::new();
        for first in stored.clone().step_by(COLUMN_BATCH_ROWS) {
            let rows = first..stored.end.min(first + COLUMN_BATCH_ROWS);
            let known = ordering.as_mut().map(|ordering| {
                let known = ordering.next().filter(|known| known.num_rows() == rows.len());
                known.ok_or_else(|| Error::corrupt("an ordering column of a base file is shorter than others"))
            });
            let known = known.transpose()?;
            let (here, rest) = met.split_at(met.partition_point(|m| (m.position as usize) < rows.end));
            let chosen = match here {
                [] => None,
                here => Some(new.choose(known.as_ref(), rows.clone(), here, from)?),
            };
            (met, from) = (rest, from + here.len());
            decided.push(MergedRows { rows: rows.len(), known, chosen });
        }
        Ok(decided)
    }

    /// The ordering columns of a row group, when they decide anything.
    fn stored_ordering(&self, index: usize, wanted: bool) -> Result<Option<Vec<RecordBatch>>> {
        let settings = &self.context.settings;
        if !wanted || self.rows.delete_by_key || settings.ordering.is_empty() {
            return Ok(None);
        }
        let fields = self.context.file_schema.fields().iter();
        let fields: Vec<FieldRef> = fields.filter(|field| settings.orders_by(field.name())).cloned().collect();
        read_column_batches(self.reader, &Arc::new(Schema::new(fields)), index).map(Some)
    }

    /// The columns of new rows, the first of which is to be at this position of the new file.
    fn new_rows(&mut self, rows: &[RowRef], first: usize) -> Result<Vec<ArrayRef>> {
        self.counts.inserted += rows.len() as u64;
        let positions: Vec<usize> = (first..first + rows.len()).collect();
        let columns =
            file_columns(self.context, &gather(self.rows.incoming, rows, self.context)?, self.task, &positions)?;
        if let Some(changes) = &mut self.changes {
            changes.inserted(&columns)?;
        }
        Ok(columns)
    }

    /// Writes new rows behind the old ones, in a row group of their own.
    fn append(&mut self, rows: &[RowRef]) -> Result<()> {
        let mut columns = self.new_rows(rows, self.written)?;
        self.made.put_into(&mut columns, rows.len());
        self.merger.append(&RecordBatch::try_new(self.context.file_schema.clone(), columns)?)?;
        self.written += rows.len();
        Ok(())
    }
}
