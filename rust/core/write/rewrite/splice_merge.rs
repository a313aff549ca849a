//! Merging row group by row group, a column at a time: what no incoming row changes is copied as it is.
//!
//! Of a row group in which no record goes and to which none is added, the record keys stay; so do all columns in which
//! the incoming rows say what is stored already, which takes reading them to find out, but not writing them. At any
//! time one column of one row group is decoded.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array, new_null_array};
use arrow::compute::{concat_batches, interleave, take};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::file_group::base::{
    BaseFileReader, BaseFileWriter, COLUMN_BATCH_ROWS, FileKeys, GroupColumns, RowGroupInfo, Splice, SplicedColumn,
    fills_up, read_column_batches, same_values,
};
use crate::merge::RowRef;
use crate::storage::{FileReader, FileWriter};
use crate::table::META_COLUMNS;
use crate::write::locate::tagging::MatchedRow;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::{Gathered, MADE, MadeColumns, file_columns, gather, gather_keys};
use crate::write::rewrite::merge_file::{Counts, MergeRows};
use crate::write::rewrite::outcome::{Picks, check_met, decide, needs_stored_ordering};

/// Rows that are written behind the old ones at once.
const INSERT_ROWS: usize = 32_768;
/// Position of the record key among the meta columns.
const RECORD_KEY: usize = 2;

/// Writes the row groups of an old file, merged with the rows that meet them, and new rows behind.
pub(in crate::write) fn splice_merge(
    context: &WriteContext,
    reader: &BaseFileReader<FileReader>,
    splice: &Splice,
    writer: &mut BaseFileWriter<FileWriter>,
    made: MadeColumns,
    rows: &MergeRows<'_>,
    task: usize,
) -> Result<Counts> {
    let mut merge = SpliceMerge {
        context,
        reader,
        splice,
        writer,
        made,
        rows,
        task,
        written: 0,
        counts: Counts::default(),
        gone: Vec::new(),
    };
    let groups = reader.row_groups();
    let mut updates = rows.updates;
    let mut inserts = rows.inserts;
    for (g, info) in groups.iter().enumerate() {
        let end = info.first_row + info.rows;
        let here = updates.partition_point(|u| u64::from(u.position) < end);
        let (met, rest) = updates.split_at(here);
        updates = rest;
        // New rows fill up a small last row group, so that they never make many fragments; a large one would have to be
        // written anew for them, so there they begin another.
        let fills =
            g + 1 == groups.len() && info.rows > 0 && fills_up(info.rows, inserts.len(), &context.config.base_file);
        let appended = if fills { std::mem::take(&mut inserts) } else { &[] };
        merge.row_group(g, *info, met, appended)?;
    }
    if !updates.is_empty() {
        return Err(Error::corrupt("a base file has fewer rows than its key column"));
    }
    for chunk in inserts.chunks(INSERT_ROWS) {
        merge.append(chunk)?;
    }
    let keys = merge.keys()?;
    merge.writer.set_keys(keys);
    Ok(merge.counts)
}

struct SpliceMerge<'a> {
    context: &'a WriteContext,
    reader: &'a BaseFileReader<FileReader>,
    splice: &'a Splice,
    writer: &'a mut BaseFileWriter<FileWriter>,
    made: MadeColumns,
    rows: &'a MergeRows<'a>,
    task: usize,
    /// Rows in the new file so far.
    written: usize,
    counts: Counts,
    /// Positions in the old file of the records that go.
    gone: Vec<u64>,
}

impl SpliceMerge<'_> {
    /// Writes one row group with the rows that meet it and, behind them, new ones.
    fn row_group(&mut self, index: usize, info: RowGroupInfo, met: &[MatchedRow], appended: &[RowRef]) -> Result<()> {
        let first = usize::try_from(info.first_row).map_err(|_| Error::corrupt("a base file has too many rows"))?;
        let old_rows = usize::try_from(info.rows).map_err(|_| Error::corrupt("a base file has too many rows"))?;
        check_met(met, first, old_rows)?;
        let refs: Vec<RowRef> = met.iter().map(|m| m.row).chain(appended.iter().copied()).collect();
        let new = gather(self.rows.incoming, &refs, self.context)?;
        let stored = self.stored_ordering(index, !met.is_empty())?;
        let outcomes = match &stored {
            _ if met.is_empty() => Vec::new(),
            Some(stored) => {
                let ordering = concat_batches(&stored.schema, &stored.pieces)?;
                decide(self.context, &ordering, first, met, &new, self.rows.delete_by_key)?
            }
            None => {
                let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
                decide(self.context, &none, first, met, &new, self.rows.delete_by_key)?
            }
        };
        let mut picks = Picks::new(old_rows, first, met, &outcomes, self.written)?;
        picks.append(appended.len(), self.written);
        self.counts.count(&picks);
        self.counts.inserted += appended.len() as u64;
        self.gone.extend(picks.gone.iter().map(|row| info.first_row + *row as u64));
        let total = picks.rows.len();
        if total == 0 {
            return Ok(());
        }
        let columns = file_columns(self.context, &new, self.task, &picks.positions)?;
        // Nothing to encode where nothing changes.
        let threads = if met.is_empty() && appended.is_empty() { 1 } else { self.context.file_threads };
        let intact = picks.gone.is_empty() && appended.is_empty();
        let mut group = Group {
            context: self.context,
            splice: self.splice,
            made: &self.made,
            old: GroupColumns::new(self.reader, self.splice, index, Vec::new()),
            stored,
            pieces: Pieces::new(&picks, old_rows)?,
            intact,
            picks,
            columns,
        };
        let fields = self.context.file_schema.fields().iter().cloned().enumerate();
        let read = fields.filter(|(column, field)| group.reads(*column, field)).collect();
        group.old = GroupColumns::new(self.reader, self.splice, index, read);
        self.writer
            .splice_row_group(self.reader, self.splice, index, total, threads, &|column| group.column(column))?;
        self.written += total;
        Ok(())
    }

    /// Writes new rows behind the old ones, in a row group of their own.
    fn append(&mut self, rows: &[RowRef]) -> Result<()> {
        let new: Gathered = gather(self.rows.incoming, rows, self.context)?;
        let positions: Vec<usize> = (self.written..self.written + rows.len()).collect();
        let mut columns = file_columns(self.context, &new, self.task, &positions)?;
        self.made.put_into(&mut columns, rows.len());
        self.writer.write(&RecordBatch::try_new(self.context.file_schema.clone(), columns)?)?;
        self.counts.inserted += rows.len() as u64;
        self.written += rows.len();
        Ok(())
    }

    /// The ordering columns of a row group, when they decide anything.
    fn stored_ordering(&self, index: usize, wanted: bool) -> Result<Option<Decoded>> {
        if !wanted || !needs_stored_ordering(self.context, self.rows.delete_by_key) {
            return Ok(None);
        }
        let ordering = |f: &&FieldRef| self.context.settings.ordering.contains(f.name());
        let fields: Vec<FieldRef> = self.context.file_schema.fields().iter().filter(ordering).cloned().collect();
        let schema = Arc::new(Schema::new(fields));
        let pieces = read_column_batches(self.reader, &schema, index)?;
        Ok(Some(Decoded { schema, pieces }))
    }

    /// The record keys of the new file, read from the old one only when its footer is not enough.
    fn keys(&self) -> Result<FileKeys> {
        let options = &self.context.config.base_file;
        if !self.context.populate_meta {
            return Ok(FileKeys::default());
        }
        let inserted: Vec<StringArray> = self
            .rows
            .inserts
            .chunks(INSERT_ROWS)
            .map(|chunk| gather_keys(self.rows.incoming, chunk))
            .collect::<Result<_>>()?;
        if self.gone.is_empty()
            && let Some(grown) = FileKeys::grown(self.reader, &inserted, options)?
        {
            return Ok(grown);
        }
        let mut keys = Vec::new();
        let mut gone = self.gone.as_slice();
        for part in self.reader.key_column()? {
            let (first, batch) = part?;
            let end = first + batch.num_rows() as u64;
            let (here, rest) = gone.split_at(gone.partition_point(|p| *p < end));
            gone = rest;
            let column = kept_rows(batch.column(0), first, here)?;
            let text = column.as_any().downcast_ref::<StringArray>().filter(|keys| keys.null_count() == 0);
            keys.push(text.ok_or_else(|| Error::corrupt("a record of a base file has no record key"))?.clone());
        }
        keys.extend(inserted);
        let count: usize = keys.iter().map(Array::len).sum();
        if count != self.written {
            return Err(Error::internal(format!("a new base file has {} rows, but {count} record keys", self.written)));
        }
        FileKeys::of(&keys, options)
    }
}

/// A column without the rows at these positions.
fn kept_rows(column: &ArrayRef, first: u64, gone: &[u64]) -> Result<ArrayRef> {
    if gone.is_empty() {
        return Ok(column.clone());
    }
    let mut gone = gone.iter().peekable();
    let kept = (0..column.len() as u32).filter(|row| gone.next_if(|p| **p == first + u64::from(*row)).is_none());
    Ok(take(column, &UInt32Array::from_iter_values(kept), None)?)
}

/// Columns of a row group.
struct Decoded {
    schema: SchemaRef,
    pieces: Vec<RecordBatch>,
}

/// One row group while its columns are put together.
struct Group<'a> {
    context: &'a WriteContext,
    splice: &'a Splice,
    made: &'a MadeColumns,
    /// The columns of the old row group that have to be read.
    old: GroupColumns<'a, FileReader>,
    /// What was decoded already.
    stored: Option<Decoded>,
    picks: Picks,
    pieces: Pieces,
    /// Whether every old record keeps its place.
    intact: bool,
    /// The incoming rows as columns of the file.
    columns: Vec<ArrayRef>,
}

impl Group<'_> {
    fn column(&self, column: usize) -> Result<SplicedColumn> {
        let field = self.context.file_schema.fields().get(column);
        let field = field.ok_or_else(no_column)?;
        if let Some(known) = self.unread(column, field) {
            return Ok(known);
        }
        let old = self.decoded(column, field)?;
        if column < META_COLUMNS.len() {
            return self.merged(&old, column, &self.picks.rows);
        }
        if self.can_copy(column) && self.nothing_new(&old, column)? {
            return Ok(SplicedColumn::Same);
        }
        let kept = self.context.kept_partition_columns.contains(field.name());
        let stored = kept.then(|| self.picks.as_stored());
        self.merged(&old, column, stored.as_ref().unwrap_or(&self.picks.rows))
    }

    fn can_copy(&self, column: usize) -> bool {
        self.intact && self.splice.can_copy(column)
    }

    /// Whether a column of the old row group is to be read, and was not yet.
    fn reads(&self, column: usize, field: &FieldRef) -> bool {
        self.unread(column, field).is_none() && self.known(field).is_none()
    }

    /// What a column holds, where that is known without reading the old one.
    fn unread(&self, column: usize, field: &FieldRef) -> Option<SplicedColumn> {
        let replaced = !self.picks.replaced.is_empty();
        let same = || self.can_copy(column).then_some(SplicedColumn::Same);
        if column >= META_COLUMNS.len() {
            let keeps = |names: &[String]| names.contains(field.name());
            let stays = !replaced || keeps(&self.context.kept_partition_columns) || keeps(&self.context.key_columns);
            return same().filter(|_| stays);
        }
        if !self.context.populate_meta {
            let nulls = || vec![new_null_array(field.data_type(), self.picks.rows.len())];
            return Some(same().unwrap_or_else(|| SplicedColumn::Values(nulls())));
        }
        if let Some(value) = MADE.iter().position(|m| *m == column).and_then(|m| self.made.value(m)) {
            return Some(SplicedColumn::Constant(value.to_owned()));
        }
        same().filter(|_| column == RECORD_KEY || !replaced)
    }

    /// A column that was decoded already, in pieces.
    fn known(&self, field: &FieldRef) -> Option<Vec<ArrayRef>> {
        let decoded = self.stored.as_ref()?;
        let at = decoded.schema.fields().iter().position(|known| known.name() == field.name())?;
        Some(decoded.pieces.iter().map(|batch| batch.column(at).clone()).collect())
    }

    /// A column of the old row group, in pieces.
    fn decoded(&self, column: usize, field: &FieldRef) -> Result<Vec<ArrayRef>> {
        let pieces = match self.known(field) {
            Some(pieces) => pieces,
            None => self.old.take(column)?.ok_or_else(|| {
                Error::internal(format!("the column '{}' of a base file was not announced", field.name()))
            })?,
        };
        if pieces.iter().map(|p| p.len()).ne(self.pieces.lengths()) {
            return Err(Error::corrupt("a column of a base file is shorter than others").with("column", field.name()));
        }
        Ok(pieces)
    }

    /// Whether all rows that replace old ones say of a column what these said.
    fn nothing_new(&self, old: &[ArrayRef], column: usize) -> Result<bool> {
        let new = self.columns.get(column).ok_or_else(no_column)?;
        for (old, (at, by)) in old.iter().zip(&self.pieces.replaced) {
            if !at.is_empty() && !same_values(&take(old, at, None)?, &take(new, by, None)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn merged(&self, old: &[ArrayRef], column: usize, rows: &[(usize, usize)]) -> Result<SplicedColumn> {
        let new = self.columns.get(column).ok_or_else(no_column)?;
        let mut out = Vec::with_capacity(old.len());
        for (i, (old, picks)) in old.iter().zip(&self.pieces.picks).enumerate() {
            let offset = i * COLUMN_BATCH_ROWS;
            let rows = rows.get(picks.clone()).ok_or_else(|| {
                Error::internal(format!("picks {picks:?} are wanted of {} rows of a row group", rows.len()))
            })?;
            // Pieces begin at their offset: see `Pieces::new`.
            let local: Vec<(usize, usize)> = rows
                .iter()
                .map(|(side, row)| if *side == 0 { (0, row.saturating_sub(offset)) } else { (1, *row) })
                .collect();
            if !local.is_empty() {
                out.push(interleave(&[old.as_ref(), new.as_ref()], &local)?);
            }
        }
        Ok(SplicedColumn::Values(out))
    }
}

fn no_column() -> Error {
    Error::internal("a column is wanted that the file does not have")
}

/// The pieces in which columns of a row group are decoded.
struct Pieces {
    old_rows: usize,
    /// Picks of each piece.
    picks: Vec<Range<usize>>,
    /// For each piece, rows of it that are replaced, and the incoming rows that replace them.
    replaced: Vec<(UInt32Array, UInt32Array)>,
}

impl Pieces {
    fn new(picks: &Picks, old_rows: usize) -> Result<Self> {
        let count = old_rows.div_ceil(COLUMN_BATCH_ROWS);
        let mut ranges = Vec::with_capacity(count);
        let mut replaced = Vec::with_capacity(count);
        let (mut start, mut from) = (0, 0);
        // By the old row that a pick takes or replaces.
        let of_old = picks.as_stored();
        for piece in 0..count {
            let end_row = (piece + 1) * COLUMN_BATCH_ROWS;
            let within = |pick: &(usize, usize)| pick.0 == 0 && pick.1 < end_row;
            let end = if piece + 1 == count {
                of_old.len()
            } else {
                start + of_old.get(start..).unwrap_or_default().iter().take_while(|p| within(p)).count()
            };
            // Old rows ascend, so that the first one tells of all.
            if of_old.get(start).is_some_and(|(side, row)| *side == 0 && *row < piece * COLUMN_BATCH_ROWS) {
                return Err(Error::internal(format!("old rows of a row group are not in order before pick {start}")));
            }
            ranges.push(start..end);
            start = end;
            let rest = picks.replaced.get(from..).unwrap_or_default();
            let here = rest.get(..rest.partition_point(|(row, _)| *row < end_row)).unwrap_or_default();
            from += here.len();
            let offset = piece * COLUMN_BATCH_ROWS;
            replaced.push((
                UInt32Array::from_iter_values(here.iter().map(|(row, _)| row.saturating_sub(offset) as u32)),
                UInt32Array::from_iter_values(here.iter().map(|(_, i)| *i as u32)),
            ));
        }
        if start != of_old.len() || from != picks.replaced.len() {
            return Err(Error::internal(format!(
                "the pieces of a row group have {start} of {} rows, and {from} of {} replaced ones",
                of_old.len(),
                picks.replaced.len()
            )));
        }
        Ok(Self { old_rows, picks: ranges, replaced })
    }

    fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.picks.len()).map(|i| (self.old_rows - i * COLUMN_BATCH_ROWS).min(COLUMN_BATCH_ROWS))
    }
}
