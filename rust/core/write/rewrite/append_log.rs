//! A log file of a file group: incoming rows as they are, to be merged when somebody reads.
//!
//! As in Hudi, each write makes a new file, first blocks of records, then one of deletes, and goes on in another when it
//! has grown beyond `hoodie.logfile.max.size`.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::log::{BlockSettings, LogWriter, ordering_values};
use crate::format::avro::metadata::WriteStat;
use crate::format::field_lookup::FieldLookup;
use crate::format::log::OrderingValue;
use crate::merge::{MergeCounts, RowRef};
use crate::metadata_table::column_ranges::BatchRanges;
use crate::transaction::NewFile;
use crate::write::locate::lookup::{LoggedRow, MatchedRow};
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::{Gathered, MadeColumns, file_columns, gather};

/// Rows that are encoded at a time.
const CHUNK_ROWS: usize = 16_384;

/// What is appended to a file group.
pub(crate) struct AppendRows<'a> {
    /// All rows of the write.
    pub incoming: &'a Incoming,
    /// Rows that meet records of its base file.
    pub updates: &'a [MatchedRow],
    /// Rows that meet records of its log files only.
    pub logged: &'a [LoggedRow],
    /// Deletes by key win whatever the order says.
    pub delete_by_key: bool,
}

/// A row of a log file.
#[derive(Clone, Copy)]
struct Appended {
    row: RowRef,
    moved: bool,
    /// Row of its record in the base file.
    position: Option<u32>,
}

impl AppendRows<'_> {
    /// The rows of the log file. One that meets several copies of a record is a record for each, where blocks have
    /// positions.
    fn to_append(&self, with_positions: bool) -> Vec<Appended> {
        let in_base = |u: &MatchedRow| Appended { row: u.row, moved: u.moved, position: Some(u.position) };
        let in_logs = |u: &LoggedRow| Appended { row: u.row, moved: u.moved, position: None };
        let all = self.updates.iter().map(in_base).chain(self.logged.iter().map(in_logs));
        let mut seen = HashSet::new();
        all.filter(|u| with_positions || seen.insert((u.row, u.moved))).collect()
    }
}

/// The instant of the base file in which all rows have a position; `None` if the blocks have no positions.
fn positions_in(context: &WriteContext, slice: &FileSlice, rows: &AppendRows<'_>) -> Option<String> {
    let base = slice.base.as_ref().filter(|_| context.config.log_positions && rows.logged.is_empty());
    base.map(|base| base.instant.clone())
}

/// Writes a log file of a slice, or more where one would become too large: the stat of each. `task` tells which task of
/// the write this is, `token` is its write token.
pub(crate) fn append_log(
    context: &WriteContext,
    slice: &FileSlice,
    rows: &AppendRows<'_>,
    task: usize,
    token: &str,
) -> Result<Vec<WriteStat>> {
    if !context.kept_partition_columns.is_empty() && !rows.delete_by_key {
        check_partitions(slice, rows)?;
    }
    let partial = context.log_schema.as_ref().map(|(_, avro)| avro.as_str());
    let schema = partial.or(context.config.base_file.avro_schema.as_deref());
    let schema = schema.ok_or_else(|| Error::schema("a log file needs the schema of the table"))?;
    let settings = BlockSettings {
        format: context.config.log_block_format,
        block_bytes: context.config.log_block_bytes,
        parquet: context.config.base_file.clone(),
        header: Vec::new(),
        positions_in: positions_in(context, slice, rows),
    };
    let updates = rows.to_append(settings.positions_in.is_some());
    let mut split = Split::new(context, slice, task, rows.delete_by_key);
    let mut chunks = updates.chunks(CHUNK_ROWS).peekable();
    let mut stats = Vec::new();
    while stats.is_empty() || chunks.peek().is_some() {
        let new_file = NewFile::added_log(context.files()?, slice, stats.len() as u32 + 1, token);
        // Its partition may be new too.
        let begins = slice.base.is_none() && slice.logs.is_empty();
        let sink = new_file.create(context.files()?, begins)?;
        let mut file = LogWriter::new(sink, &context.instant, &settings);
        let mut ranges = log_ranges(context);
        let mut blocks = file.records(schema, partial.is_some());
        for chunk in chunks.by_ref() {
            let refs: Vec<RowRef> = chunk.iter().map(|update| update.row).collect();
            let new = gather(rows.incoming, &refs, context)?;
            if let Some((records, positions)) = split.next(&new, chunk)? {
                if let Some(ranges) = &mut ranges {
                    ranges.add(&records)?;
                }
                blocks.add(&records, &positions)?;
            }
            if blocks.file_bytes() >= context.config.log_file_bytes {
                break;
            }
        }
        blocks.finish()?;
        let last = chunks.peek().is_none();
        if last {
            file.deletes(schema, &slice.partition, &split.deletes, &split.deleted_positions)?;
        }
        let written = file.written();
        let deleted = if last { split.deletes.len() as u64 } else { 0 };
        let counts = match begins {
            true => MergeCounts { updated: 0, deleted, inserted: written },
            false => MergeCounts { updated: written, deleted, inserted: 0 },
        };
        let ranges = ranges.map(BatchRanges::finish);
        stats.push(new_file.publish(context.files()?, file.into_inner(), written, counts, ranges)?);
    }
    Ok(stats)
}

/// Collects the ranges of a log file, where columns are indexed.
fn log_ranges(context: &WriteContext) -> Option<BatchRanges> {
    let columns = context.config.base_file.indexed_columns.as_ref()?;
    let schema = context.log_schema.as_ref().map_or(&context.file_schema, |(schema, _)| schema);
    let mut ranges = BatchRanges::new(schema, columns);
    if context.settings.rule.picks().is_none() {
        ranges.set_partial();
    }
    Some(ranges)
}

/// Refuses rows whose columns name another partition than that in which they stay: of a log record nobody knows what its
/// stored columns say.
fn check_partitions(slice: &FileSlice, rows: &AppendRows<'_>) -> Result<()> {
    let strays = |at: &RowRef| {
        let batch = rows.incoming.batch(at.batch)?;
        let deleted = batch.deleted.as_ref().is_some_and(|d| d.value(at.row as usize));
        Ok::<_, Error>(!deleted && rows.incoming.partition(batch.partition)? != slice.partition)
    };
    let logged = rows.logged.iter().map(|update| &update.row);
    let mut stray = false;
    for row in rows.updates.iter().map(|update| &update.row).chain(logged) {
        if strays(row)? {
            stray = true;
            break;
        }
    }
    if !stray {
        return Ok(());
    }
    Err(Error::unsupported("updating a row of a merge-on-read table that stays in another partition than it says")
        .with("partition", &slice.partition)
        .remedy(
            "Set hoodie.bloom.index.update.partition.path, hoodie.simple.index.update.partition.path or hoodie.record.index.update.partition.path (of your index type) to true, or give the row its partition",
        ))
}

/// Takes rows apart into records and deletes.
struct Split<'a> {
    context: &'a WriteContext,
    task: usize,
    made: MadeColumns,
    delete_by_key: bool,
    deletes: Vec<(String, OrderingValue)>,
    deleted_positions: Vec<u32>,
    numbered: usize,
}

impl<'a> Split<'a> {
    fn new(context: &'a WriteContext, slice: &FileSlice, task: usize, delete_by_key: bool) -> Self {
        // Records of a log file name the file group, for they will go to more than one file of it.
        let made = MadeColumns::new(context, &slice.partition, &slice.file_id);
        Self { context, task, made, delete_by_key, deletes: Vec::new(), deleted_positions: Vec::new(), numbered: 0 }
    }

    /// The records among some rows, in the columns of a block, and their positions in the base file; deletes are kept.
    fn next(&mut self, new: &Gathered, updates: &[Appended]) -> Result<Option<(RecordBatch, Vec<u32>)>> {
        if new.keys.len() != updates.len() {
            let (wanted, rows) = (updates.len(), new.keys.len());
            return Err(Error::internal(format!("{rows} rows were gathered for a log file instead of {wanted}")));
        }
        let is_moved = |row: usize| updates.get(row).is_some_and(|update| update.moved);
        let is_delete = |row: usize| is_moved(row) || new.deleted.as_ref().is_some_and(|d| d.value(row));
        let gone: Vec<bool> = (0..new.keys.len()).map(is_delete).collect();
        let ordering =
            if self.delete_by_key { Vec::new() } else { self.context.settings.ordering_columns(&new.data)? };
        for row in (0..gone.len()).filter(|row| gone.get(*row) == Some(&true)) {
            let value = if is_moved(row) { OrderingValue::Default } else { ordering_values(&ordering, row)? };
            self.deletes.push((new.keys.value(row).to_owned(), value));
            self.deleted_positions.extend(updates.get(row).and_then(|update| update.position));
        }
        let kept: BooleanArray = gone.iter().map(|gone| Some(!gone)).collect();
        if kept.true_count() == 0 {
            return Ok(None);
        }
        let data = filter_record_batch(&new.data, &kept)?;
        let keys = arrow::compute::filter(&new.keys, &kept)?.as_string::<i32>().clone();
        let records = Gathered { data, keys, deleted: None };
        let numbers: Vec<usize> = (self.numbered..self.numbered + records.keys.len()).collect();
        self.numbered += records.keys.len();
        let mut columns = file_columns(self.context, &records, self.task, &numbers)?;
        self.made.put_into(&mut columns, records.keys.len());
        let positions = updates.iter().zip(&gone).filter(|(_, gone)| !**gone).filter_map(|(update, _)| update.position);
        Ok(Some((self.in_log(columns)?, positions.collect())))
    }

    /// The columns of a base file as those of a log block.
    fn in_log(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let Some((schema, _)) = &self.context.log_schema else {
            return Ok(RecordBatch::try_new(self.context.file_schema.clone(), columns)?);
        };
        let given = self.context.file_schema.fields().iter().zip(columns);
        let logged = FieldLookup::new(schema.fields());
        let given = given.filter(|(field, _)| logged.has(field.name()));
        Ok(RecordBatch::try_new(schema.clone(), given.map(|(_, column)| column).collect())?)
    }
}
