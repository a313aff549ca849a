//! A new base file of an existing file group: the old one with incoming rows merged in, and new rows behind.
//!
//! The base file streams through; where the key lookup said that nothing meets an incoming row, batches pass as they
//! are. `_hoodie_file_name` is made anew for every row; it and the partition path, which is the same in all rows of a
//! file, are not even read.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant as Stopwatch;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, new_null_array,
};
use arrow::compute::interleave;
use arrow::datatypes::{Fields, Schema, SchemaRef};

use super::context::{WriteContext, empty_stat, join};
use super::incoming::Incoming;
use super::tagging::MatchedRow;
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, BaseFileWriter, ScanOptions};
use crate::file_group::markers::MarkerType;
use crate::file_group::{BaseFile, FileSlice};
use crate::format::avro::metadata::WriteStat;
use crate::merge::{Judge, MergeMode, RowRef, Side, Step};
use crate::storage::FileWriter;
use crate::table::META_COLUMNS;

/// Rows of the old file that are merged at once.
const BATCH_ROWS: usize = 32_768;
/// Rows that are written behind it at once.
const INSERT_ROWS: usize = 32_768;

/// What is merged into a file group.
pub struct MergeRows<'a> {
    /// All rows of the write.
    pub incoming: &'a Incoming,
    /// Rows that meet stored records, by position; each position once.
    pub updates: &'a [MatchedRow],
    /// Rows that are new in the group.
    pub inserts: &'a [RowRef],
    /// Deletes by key win whatever the order says.
    pub delete_by_key: bool,
}

/// Writes the new base file of a slice. `task` tells which task of the write this is, `token` is its write token.
pub fn merge_file(
    context: &WriteContext,
    slice: &FileSlice,
    rows: &MergeRows<'_>,
    task: usize,
    token: &str,
) -> Result<WriteStat> {
    let started = Stopwatch::now();
    let base = slice.base.as_ref().ok_or_else(|| {
        Error::unsupported("merging into a file group without base file").with("file group", &slice.file_id)
    })?;
    let name = BaseFile::file_name(&slice.file_id, token, &context.instant);
    let path = join(&slice.partition, &name);
    let named = |e: Error| e.with("table", context.storage.uri()).with("file", &base.path);
    let reader = BaseFileReader::open(context.storage.reader(&base.path, base.size)?).map_err(named)?;
    let scan = ScanOptions::new(read_schema(context)).with_batch_size(BATCH_ROWS);
    let batches = reader.scan(&scan).map_err(named)?;
    let mut output = Output {
        context,
        task,
        written: 0,
        made: MadeColumns::new(context, &slice.partition, &name),
        writer: context.start_file(&path, MarkerType::Merge)?,
        counts: Counts::default(),
    };
    let mut offset = 0usize;
    let mut updates = rows.updates;
    for batch in batches {
        let batch = batch.map_err(named)?;
        let end = offset + batch.num_rows();
        let here = updates.partition_point(|u| (u.position as usize) < end);
        let (met, rest) = updates.split_at(here);
        updates = rest;
        output.merge(&batch, offset, met, rows)?;
        offset = end;
    }
    if !updates.is_empty() {
        return Err(named(Error::corrupt("a base file has fewer rows than its key column")));
    }
    for chunk in rows.inserts.chunks(INSERT_ROWS) {
        output.append(chunk, rows.incoming)?;
    }
    let Output { writer, counts, .. } = output;
    let (written, bytes) = context.finish_file(&path, writer)?;
    let mut stat = empty_stat(&slice.partition, &slice.file_id);
    let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
    stat.path = Some(path);
    stat.prev_commit = Some(base.instant.clone());
    stat.prev_base_file = Some(base.name().to_owned());
    stat.num_writes = count(written);
    stat.num_update_writes = count(counts.updated);
    stat.num_deletes = count(counts.deleted);
    stat.num_inserts = count(counts.inserted);
    stat.total_write_bytes = count(bytes);
    stat.file_size_in_bytes = count(bytes);
    if let Some(runtime) = &mut stat.runtime_stats {
        runtime.total_upsert_time = i64::try_from(started.elapsed().as_millis()).ok();
    }
    Ok(stat)
}

#[derive(Default)]
struct Counts {
    updated: u64,
    deleted: u64,
    inserted: u64,
}

struct Output<'a> {
    context: &'a WriteContext,
    task: usize,
    made: MadeColumns,
    /// Rows in the new file so far.
    written: usize,
    writer: BaseFileWriter<FileWriter>,
    counts: Counts,
}

impl Output<'_> {
    /// Writes a batch of the old file with the rows that meet it.
    fn merge(&mut self, old: &RecordBatch, offset: usize, met: &[MatchedRow], rows: &MergeRows<'_>) -> Result<()> {
        if met.is_empty() {
            let none: ArrayRef = Arc::new(StringArray::new_null(0));
            let stored = |f: &arrow::datatypes::FieldRef| old.column_by_name(f.name()).cloned();
            let columns = self.context.file_schema.fields().iter().map(|f| stored(f).unwrap_or_else(|| none.clone()));
            return self.write(columns.collect(), old.num_rows());
        }
        let refs: Vec<RowRef> = met.iter().map(|m| m.row).collect();
        let new = gather(rows.incoming, &refs, self.context)?;
        let wins = self.decide(old, offset, met, &new, rows)?;
        // (0, row) takes a row of the old file, (1, row) one of the incoming rows.
        let mut picks: Vec<(usize, usize)> = Vec::with_capacity(old.num_rows());
        let mut positions: Vec<usize> = vec![0; met.len()];
        let mut next = 0usize;
        for (i, (m, outcome)) in met.iter().zip(&wins).enumerate() {
            let row = (m.position as usize).saturating_sub(offset);
            picks.extend((next..row).map(|r| (0, r)));
            next = row + 1;
            match outcome {
                Outcome::Old => picks.push((0, row)),
                Outcome::New => {
                    if let Some(position) = positions.get_mut(i) {
                        *position = self.written + picks.len();
                    }
                    picks.push((1, i));
                    self.counts.updated += 1;
                }
                Outcome::Gone => self.counts.deleted += 1,
            }
        }
        picks.extend((next..old.num_rows()).map(|r| (0, r)));
        let columns = self.columns(&new, &positions)?;
        let mut out = Vec::with_capacity(columns.len());
        for (field, new) in self.context.file_schema.fields().iter().zip(&columns) {
            let Some(old) = old.column_by_name(field.name()) else {
                // Made anew for all rows.
                out.push(new.clone());
                continue;
            };
            let kept = self.context.kept_partition_columns.contains(field.name());
            out.push(if kept {
                // The row stays in its partition, so the column has to say so.
                let stored: Vec<(usize, usize)> = picks
                    .iter()
                    .map(|(side, row)| match side {
                        1 => (0, met.get(*row).map_or(0, |m| (m.position as usize).saturating_sub(offset))),
                        _ => (0, *row),
                    })
                    .collect();
                interleave(&[old.as_ref()], &stored)?
            } else {
                interleave(&[old.as_ref(), new.as_ref()], &picks)?
            });
        }
        self.write(out, picks.len())
    }

    fn decide(
        &self,
        old: &RecordBatch,
        offset: usize,
        met: &[MatchedRow],
        new: &Gathered,
        rows: &MergeRows<'_>,
    ) -> Result<Vec<Outcome>> {
        let gone = |i: usize| new.deleted.as_ref().is_some_and(|d| d.value(i));
        let mode = if rows.delete_by_key { MergeMode::CommitTime } else { self.context.mode };
        if mode == MergeMode::CommitTime || self.context.ordering_fields.is_empty() {
            let outcome = |(i, m): (usize, &MatchedRow)| if m.moved || gone(i) { Outcome::Gone } else { Outcome::New };
            return Ok(met.iter().enumerate().map(outcome).collect());
        }
        let (stored, given) = (self.context.ordering(old)?, self.context.ordering(&new.data)?);
        let side = Side { ordering: &given, deleted: new.deleted.as_ref() };
        let judge = Judge::new(mode, Step::Final, Side { ordering: &stored, deleted: None }, side)?;
        let outcome = |(i, m): (usize, &MatchedRow)| {
            if m.moved {
                Outcome::Gone
            } else if !judge.new_wins((m.position as usize).saturating_sub(offset), i) {
                Outcome::Old
            } else if gone(i) {
                Outcome::Gone
            } else {
                Outcome::New
            }
        };
        Ok(met.iter().enumerate().map(outcome).collect())
    }

    /// Writes new rows behind the old ones.
    fn append(&mut self, rows: &[RowRef], incoming: &Incoming) -> Result<()> {
        let new = gather(incoming, rows, self.context)?;
        let positions: Vec<usize> = (self.written..self.written + rows.len()).collect();
        let columns = self.columns(&new, &positions)?;
        self.counts.inserted += rows.len() as u64;
        self.write(columns, rows.len())
    }

    fn columns(&self, new: &Gathered, positions: &[usize]) -> Result<Vec<ArrayRef>> {
        file_columns(self.context, new, self.task, positions)
    }

    /// Writes columns of the file, those that are made anew put in.
    fn write(&mut self, mut columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        self.made.put_into(&mut columns, rows);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.context.file_schema.clone(), columns, &options)?;
        self.writer.write(&batch)?;
        self.written += rows;
        Ok(())
    }
}

/// The columns of an old base file that are read: all but those that are made anew.
fn read_schema(context: &WriteContext) -> SchemaRef {
    let made = |i: usize| if context.populate_meta { MADE.contains(&i) } else { i < META_COLUMNS.len() };
    let fields = context.file_schema.fields().iter().enumerate().filter(|(i, _)| !made(*i)).map(|(_, f)| f.clone());
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Old,
    New,
    Gone,
}

/// Incoming rows side by side.
pub(super) struct Gathered {
    pub(super) data: RecordBatch,
    pub(super) keys: StringArray,
    pub(super) deleted: Option<BooleanArray>,
}

/// Collects incoming rows from their batches, in the given order.
pub(super) fn gather(incoming: &Incoming, rows: &[RowRef], context: &WriteContext) -> Result<Gathered> {
    let mut used: Vec<u32> = rows.iter().map(|r| r.batch).collect();
    used.sort_unstable();
    used.dedup();
    let batches: Vec<_> = used.iter().filter_map(|b| incoming.batches.get(*b as usize)).collect();
    let at: Vec<(usize, usize)> =
        rows.iter().map(|r| (used.binary_search(&r.batch).unwrap_or_default(), r.row as usize)).collect();
    let keys: Vec<&dyn Array> = batches.iter().map(|b| &b.keys as &dyn Array).collect();
    let keys = if rows.is_empty() { StringArray::from(Vec::<&str>::new()) } else { strings(interleave(&keys, &at)?)? };
    let deleted = batches.iter().any(|b| b.deleted.is_some()).then(|| {
        let mark =
            |(b, row): &(usize, usize)| batches.get(*b).and_then(|b| b.deleted.as_ref()).is_some_and(|d| d.value(*row));
        at.iter().map(|a| Some(mark(a))).collect::<BooleanArray>()
    });
    let by_key_only = batches.iter().all(|b| b.data.num_columns() == 0);
    let mut columns = Vec::with_capacity(context.data_schema.fields().len());
    for (i, field) in context.data_schema.fields().iter().enumerate() {
        columns.push(if by_key_only {
            new_null_array(field.data_type(), rows.len())
        } else {
            let parts: Vec<&dyn Array> = batches.iter().map(|b| b.data.column(i).as_ref()).collect();
            interleave(&parts, &at)?
        });
    }
    // Deletes by key have no values, not even where the schema asks for one; none of their rows is written.
    let schema = match by_key_only {
        false => context.data_schema.clone(),
        true => {
            let fields = context.data_schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(Gathered { data: RecordBatch::try_new_with_options(schema, columns, &options)?, keys, deleted })
}

fn strings(array: ArrayRef) -> Result<StringArray> {
    let found = array.as_any().downcast_ref::<StringArray>().cloned();
    found.ok_or_else(|| Error::schema("record keys are not strings"))
}

/// The columns of a base file for rows that this write makes, those of [`MadeColumns`] left empty; `positions` are the
/// row numbers in the new file.
pub(super) fn file_columns(
    context: &WriteContext,
    new: &Gathered,
    task: usize,
    positions: &[usize],
) -> Result<Vec<ArrayRef>> {
    let rows = new.keys.len();
    let instant = &context.instant;
    let mut numbers = StringBuilder::with_capacity(rows, rows * (instant.len() + 10));
    for position in positions {
        // Writing to a builder does not fail.
        let _ = write!(numbers, "{instant}_{task}_{position}");
        numbers.append_value("");
    }
    let none: ArrayRef = Arc::new(StringArray::new_null(0));
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(context.file_schema.fields().len());
    columns.push(Arc::new(repeated(instant, rows)));
    columns.push(Arc::new(numbers.finish()));
    columns.push(Arc::new(new.keys.clone()));
    columns.push(none.clone());
    columns.push(none);
    for field in context.file_schema.fields().iter().skip(columns.len()) {
        let column = new.data.column_by_name(field.name());
        columns.push(column.cloned().ok_or_else(|| Error::schema(format!("column '{}' is missing", field.name())))?);
    }
    Ok(columns)
}

/// Positions of the partition path and the file name among the meta columns.
const MADE: [usize; 2] = [3, 4];

/// The meta columns that have one value in all rows of a file; where a table keeps no meta columns, all of them.
pub(super) struct MadeColumns {
    populate: bool,
    values: [String; 2],
    /// The longest that were needed so far; shorter ones are cut from them.
    made: [StringArray; 2],
}

impl MadeColumns {
    pub(super) fn new(context: &WriteContext, partition: &str, file_name: &str) -> Self {
        let none = || StringArray::new_null(0);
        Self {
            populate: context.populate_meta,
            values: [partition.to_owned(), file_name.to_owned()],
            made: [none(), none()],
        }
    }

    /// Puts them into the columns of a base file.
    pub(super) fn put_into(&mut self, columns: &mut [ArrayRef], rows: usize) {
        if !self.populate {
            for column in columns.iter_mut().take(META_COLUMNS.len()) {
                *column = Arc::new(StringArray::new_null(rows));
            }
            return;
        }
        for ((position, value), made) in MADE.iter().zip(&self.values).zip(&mut self.made) {
            if made.len() < rows {
                *made = repeated(value, rows);
            }
            if let Some(column) = columns.get_mut(*position) {
                *column = Arc::new(made.slice(0, rows));
            }
        }
    }
}

fn repeated(value: &str, rows: usize) -> StringArray {
    let mut builder = StringBuilder::with_capacity(rows, rows * value.len());
    for _ in 0..rows {
        builder.append_value(value);
    }
    builder.finish()
}
