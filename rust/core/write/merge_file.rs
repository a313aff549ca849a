//! A new base file of an existing file group: the old one with incoming rows merged in, and new rows behind.
//!
//! The base file streams through; where the key lookup said that nothing meets an incoming row, batches pass as they
//! are. Only `_hoodie_file_name` is made anew for every row.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant as Stopwatch;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, new_null_array,
};
use arrow::compute::interleave;

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
    let scan = ScanOptions::new(context.file_schema.clone()).with_batch_size(BATCH_ROWS);
    let batches = reader.scan(&scan).map_err(named)?;
    let mut output = Output {
        context,
        partition: &slice.partition,
        file_name: &name,
        task,
        written: 0,
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
    partition: &'a str,
    file_name: &'a str,
    task: usize,
    /// Rows in the new file so far.
    written: usize,
    writer: BaseFileWriter<FileWriter>,
    counts: Counts,
}

impl Output<'_> {
    /// Writes a batch of the old file with the rows that meet it.
    fn merge(&mut self, old: &RecordBatch, offset: usize, met: &[MatchedRow], rows: &MergeRows<'_>) -> Result<()> {
        if met.is_empty() {
            return self.write(old.columns().to_vec(), old.num_rows());
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
        let meta = self.meta_columns(&new.keys, &positions);
        let columns = self.columns(&new.data, meta)?;
        let mut out = Vec::with_capacity(columns.len());
        for ((field, old), new) in self.context.file_schema.fields().iter().zip(old.columns()).zip(&columns) {
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
        let columns = self.columns(&new.data, self.meta_columns(&new.keys, &positions))?;
        self.counts.inserted += rows.len() as u64;
        self.write(columns, rows.len())
    }

    fn meta_columns(&self, keys: &StringArray, positions: &[usize]) -> [ArrayRef; 4] {
        meta_columns(self.context, self.task, self.partition, keys, positions)
    }

    fn columns(&self, data: &RecordBatch, meta: [ArrayRef; 4]) -> Result<Vec<ArrayRef>> {
        file_columns(self.context, data, meta, self.file_name)
    }

    /// Writes columns of the file, its own name put into each row.
    fn write(&mut self, mut columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        set_file_name(self.context, &mut columns, self.file_name, rows);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.context.file_schema.clone(), columns, &options)?;
        self.writer.write(&batch)?;
        self.written += rows;
        Ok(())
    }
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
            Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()))
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(Gathered { data: RecordBatch::try_new_with_options(schema, columns, &options)?, keys, deleted })
}

fn strings(array: ArrayRef) -> Result<StringArray> {
    let found = array.as_any().downcast_ref::<StringArray>().cloned();
    found.ok_or_else(|| Error::schema("record keys are not strings"))
}

/// The first four meta columns of rows that this write makes; `positions` are their row numbers in the new file.
pub(super) fn meta_columns(
    context: &WriteContext,
    task: usize,
    partition: &str,
    keys: &StringArray,
    positions: &[usize],
) -> [ArrayRef; 4] {
    let rows = keys.len();
    let instant = &context.instant;
    let mut numbers = StringBuilder::with_capacity(rows, rows * (instant.len() + 10));
    for position in positions {
        // Writing to a builder does not fail.
        let _ = write!(numbers, "{instant}_{task}_{position}");
        numbers.append_value("");
    }
    [
        Arc::new(repeated(instant, rows)),
        Arc::new(numbers.finish()),
        Arc::new(keys.clone()),
        Arc::new(repeated(partition, rows)),
    ]
}

/// The columns of a base file for rows that this write makes.
pub(super) fn file_columns(
    context: &WriteContext,
    data: &RecordBatch,
    meta: [ArrayRef; 4],
    file_name: &str,
) -> Result<Vec<ArrayRef>> {
    let rows = data.num_rows();
    let mut columns: Vec<ArrayRef> = meta.into();
    columns.push(Arc::new(StringArray::new_null(rows)));
    for field in context.file_schema.fields().iter().skip(columns.len()) {
        let column = data.column_by_name(field.name());
        columns.push(column.cloned().ok_or_else(|| Error::schema(format!("column '{}' is missing", field.name())))?);
    }
    set_file_name(context, &mut columns, file_name, rows);
    Ok(columns)
}

/// Puts the file's name into the last meta column, or empties all of them where a table keeps none.
fn set_file_name(context: &WriteContext, columns: &mut [ArrayRef], file_name: &str, rows: usize) {
    if !context.populate_meta {
        for column in columns.iter_mut().take(5) {
            *column = Arc::new(StringArray::new_null(rows));
        }
    } else if let Some(column) = columns.get_mut(4) {
        *column = Arc::new(repeated(file_name, rows));
    }
}

fn repeated(value: &str, rows: usize) -> StringArray {
    let mut builder = StringBuilder::with_capacity(rows, rows * value.len());
    for _ in 0..rows {
        builder.append_value(value);
    }
    builder.finish()
}
