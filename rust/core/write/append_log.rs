//! A log file of a file group: incoming rows as they are, to be merged when somebody reads.
//!
//! As in Hudi, each write makes a new file, first blocks of records, then one of deletes.

use std::time::Instant as Stopwatch;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use super::context::{WriteContext, empty_stat};
use super::file_rows::{Gathered, MadeColumns, file_columns, gather};
use super::incoming::Incoming;
use super::tagging::MatchedRow;
use crate::error::{Error, Result};
use crate::file_group::log::{BlockSettings, LogWriter, ordering_values};
use crate::file_group::markers::{MarkerType, create_marker};
use crate::file_group::{FileSlice, LogFile, join};
use crate::format::avro::metadata::WriteStat;
use crate::format::log::OrderingValue;
use crate::merge::RowRef;

/// Rows that are encoded at a time.
const CHUNK_ROWS: usize = 16_384;

/// What is appended to a file group.
pub struct AppendRows<'a> {
    /// All rows of the write.
    pub incoming: &'a Incoming,
    /// Rows that meet records of the group.
    pub updates: &'a [MatchedRow],
    /// Deletes by key win whatever the order says.
    pub delete_by_key: bool,
}

/// Writes a log file of a slice. `task` tells which task of the write this is, `token` is its write token.
pub fn append_log(
    context: &WriteContext,
    slice: &FileSlice,
    rows: &AppendRows<'_>,
    task: usize,
    token: &str,
) -> Result<WriteStat> {
    let started = Stopwatch::now();
    let name = LogFile::file_name(&slice.file_id, &context.instant, 1, token);
    let path = join(&slice.partition, &name);
    create_marker(&context.storage, &context.instant, &path, MarkerType::Create)?;
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
    };
    let mut file = LogWriter::new(context.storage.writer(&path)?, &context.instant, &settings);
    // A row that meets several copies of a record is one row.
    let mut seen = std::collections::HashSet::new();
    let mut updates: Vec<(RowRef, bool)> = Vec::with_capacity(rows.updates.len());
    updates.extend(rows.updates.iter().filter(|u| seen.insert((u.row, u.moved))).map(|u| (u.row, u.moved)));
    let mut split = Split::new(context, slice, task, rows.delete_by_key);
    let mut blocks = file.records(schema, partial.is_some());
    for chunk in updates.chunks(CHUNK_ROWS) {
        let refs: Vec<RowRef> = chunk.iter().map(|(row, _)| *row).collect();
        let new = gather(rows.incoming, &refs, context)?;
        let moved: Vec<bool> = chunk.iter().map(|(_, moved)| *moved).collect();
        if let Some(records) = split.next(&new, &moved)? {
            blocks.add(&records)?;
        }
    }
    blocks.finish()?;
    file.deletes(schema, &slice.partition, &split.deletes)?;
    let written = file.written();
    let bytes = context.publish(&path, file.into_inner())?;
    let mut stat = empty_stat(&slice.partition, &slice.file_id);
    let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
    stat.path = Some(path);
    stat.prev_commit = Some(context.instant.clone());
    stat.num_writes = count(written);
    stat.num_update_writes = count(written);
    stat.num_deletes = count(split.deletes.len() as u64);
    stat.total_write_bytes = count(bytes);
    stat.file_size_in_bytes = count(bytes);
    stat.log_version = Some(1);
    stat.log_offset = Some(0);
    stat.base_file = Some(slice.base.as_ref().map_or_else(String::new, |b| b.name().to_owned()));
    stat.log_files = Some(vec![name]);
    if let Some(runtime) = &mut stat.runtime_stats {
        runtime.total_upsert_time = i64::try_from(started.elapsed().as_millis()).ok();
    }
    Ok(stat)
}

/// Refuses rows whose columns name another partition than that in which they stay: of a log record nobody knows what its
/// stored columns say.
fn check_partitions(slice: &FileSlice, rows: &AppendRows<'_>) -> Result<()> {
    let strays = |at: &RowRef| {
        rows.incoming.batches.get(at.batch as usize).is_some_and(|batch| {
            let deleted = batch.deleted.as_ref().is_some_and(|d| d.value(at.row as usize));
            !deleted && rows.incoming.partition(batch.partition) != slice.partition
        })
    };
    if !rows.updates.iter().any(|update| strays(&update.row)) {
        return Ok(());
    }
    Err(Error::unsupported("updating a row of a merge-on-read table that stays in another partition than it says")
        .with("partition", &slice.partition)
        .remedy(
            "Set hoodie.bloom.index.update.partition.path and hoodie.simple.index.update.partition.path to true, or give the row its partition",
        ))
}

/// Takes rows apart into records and deletes.
struct Split<'a> {
    context: &'a WriteContext,
    task: usize,
    made: MadeColumns,
    delete_by_key: bool,
    deletes: Vec<(String, OrderingValue)>,
    numbered: usize,
}

impl<'a> Split<'a> {
    fn new(context: &'a WriteContext, slice: &FileSlice, task: usize, delete_by_key: bool) -> Self {
        // Records of a log file name the file group, for they will go to more than one file of it.
        let made = MadeColumns::new(context, &slice.partition, &slice.file_id);
        Self { context, task, made, delete_by_key, deletes: Vec::new(), numbered: 0 }
    }

    /// The records among some rows, in the columns of a block; deletes are kept.
    fn next(&mut self, new: &Gathered, moved: &[bool]) -> Result<Option<RecordBatch>> {
        let is_moved = |row: usize| moved.get(row).copied().unwrap_or(false);
        let is_delete = |row: usize| is_moved(row) || new.deleted.as_ref().is_some_and(|d| d.value(row));
        let gone: Vec<bool> = (0..new.keys.len()).map(is_delete).collect();
        let ordering = if self.delete_by_key { Vec::new() } else { self.ordering_columns(&new.data)? };
        for row in (0..gone.len()).filter(|row| gone.get(*row) == Some(&true)) {
            let value = if is_moved(row) { OrderingValue::Default } else { ordering_values(&ordering, row)? };
            self.deletes.push((new.keys.value(row).to_owned(), value));
        }
        let kept: BooleanArray = gone.iter().map(|gone| Some(!gone)).collect();
        if kept.true_count() == 0 {
            return Ok(None);
        }
        let data = filter_record_batch(&new.data, &kept)?;
        let keys = arrow::compute::filter(&new.keys, &kept)?.as_string::<i32>().clone();
        let records = Gathered { data, keys, deleted: None };
        let positions: Vec<usize> = (self.numbered..self.numbered + records.keys.len()).collect();
        self.numbered += records.keys.len();
        let mut columns = file_columns(self.context, &records, self.task, &positions)?;
        self.made.put_into(&mut columns, records.keys.len());
        self.in_log(columns).map(Some)
    }

    fn ordering_columns(&self, data: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let column = |name: &String| {
            let column = data.column_by_name(name).cloned();
            column.ok_or_else(|| Error::schema(format!("the ordering column '{name}' is missing")))
        };
        self.context.settings.ordering.iter().map(column).collect()
    }

    /// The columns of a base file as those of a log block.
    fn in_log(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let Some((schema, _)) = &self.context.log_schema else {
            return Ok(RecordBatch::try_new(self.context.file_schema.clone(), columns)?);
        };
        let given = self.context.file_schema.fields().iter().zip(columns);
        let given = given.filter(|(field, _)| schema.field_with_name(field.name()).is_ok());
        Ok(RecordBatch::try_new(schema.clone(), given.map(|(_, column)| column).collect())?)
    }
}
