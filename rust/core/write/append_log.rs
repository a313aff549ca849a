//! A log file of a file group: incoming rows as they are, to be merged when somebody reads.
//!
//! As in Hudi, each write makes a new file, first a block of records, then one of deletes.

use std::io::Write;
use std::time::Instant as Stopwatch;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType,
};

use super::context::{WriteContext, empty_stat};
use super::file_rows::{Gathered, MadeColumns, file_columns, gather};
use super::incoming::Incoming;
use super::tagging::MatchedRow;
use crate::error::{Error, Result};
use crate::file_group::markers::{MarkerType, create_marker};
use crate::file_group::{FileSlice, LogFile, join};
use crate::format::avro::metadata::WriteStat;
use crate::format::log::{AvroContent, BlockKind, Deletes, HeaderKey, OrderingValue, write_block};
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
    let mut file = Appender::new(context, slice, task)?;
    let mut out = context.storage.writer(&path)?;
    // A row that meets several copies of a record is one row.
    let mut seen = std::collections::HashSet::new();
    let mut updates: Vec<(RowRef, bool)> = Vec::with_capacity(rows.updates.len());
    updates.extend(rows.updates.iter().filter(|u| seen.insert((u.row, u.moved))).map(|u| (u.row, u.moved)));
    for chunk in updates.chunks(CHUNK_ROWS) {
        let refs: Vec<RowRef> = chunk.iter().map(|(row, _)| *row).collect();
        let new = gather(rows.incoming, &refs, context)?;
        let moved: Vec<bool> = chunk.iter().map(|(_, moved)| *moved).collect();
        file.add(&new, &moved, rows.delete_by_key, &mut out)?;
    }
    let (written, deleted) = file.finish(&mut out)?;
    let bytes = context.publish(&path, out)?;
    let mut stat = empty_stat(&slice.partition, &slice.file_id);
    let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
    stat.path = Some(path);
    stat.prev_commit = Some(context.instant.clone());
    stat.num_writes = count(written);
    stat.num_update_writes = count(written);
    stat.num_deletes = count(deleted);
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

/// The blocks of one log file.
struct Appender<'a> {
    context: &'a WriteContext,
    task: usize,
    schema: &'a str,
    made: MadeColumns,
    partition: &'a str,
    content: AvroContent,
    deletes: Vec<(String, OrderingValue)>,
    written: u64,
    numbered: usize,
}

impl<'a> Appender<'a> {
    fn new(context: &'a WriteContext, slice: &'a FileSlice, task: usize) -> Result<Self> {
        let partial = context.log_schema.as_ref().map(|(_, avro)| avro.as_str());
        let schema = partial.or(context.config.base_file.avro_schema.as_deref());
        let schema = schema.ok_or_else(|| Error::schema("a log file needs the schema of the table"))?;
        Ok(Self {
            context,
            task,
            schema,
            // Records of a log file name the file group, for they will go to more than one file of it.
            made: MadeColumns::new(context, &slice.partition, &slice.file_id),
            partition: &slice.partition,
            content: AvroContent::new(schema),
            deletes: Vec::new(),
            written: 0,
            numbered: 0,
        })
    }

    fn add(&mut self, new: &Gathered, moved: &[bool], delete_by_key: bool, out: &mut impl Write) -> Result<()> {
        let is_delete =
            |row: usize| moved.get(row).copied().unwrap_or(false) || new.deleted.as_ref().is_some_and(|d| d.value(row));
        let gone: Vec<bool> = (0..new.keys.len()).map(is_delete).collect();
        let ordered = !delete_by_key;
        for row in (0..gone.len()).filter(|row| gone.get(*row) == Some(&true)) {
            let moved = moved.get(row).copied().unwrap_or(false);
            let ordering =
                if ordered && !moved { ordering_value(self.context, &new.data, row)? } else { OrderingValue::Default };
            self.deletes.push((new.keys.value(row).to_owned(), ordering));
        }
        let kept: BooleanArray = gone.iter().map(|gone| Some(!gone)).collect();
        let records = kept.true_count();
        if records == 0 {
            return Ok(());
        }
        let data = filter_record_batch(&new.data, &kept)?;
        let keys = arrow::compute::filter(&new.keys, &kept)?.as_string::<i32>().clone();
        let records = Gathered { data, keys, deleted: None };
        let positions: Vec<usize> = (self.numbered..self.numbered + records.keys.len()).collect();
        self.numbered += records.keys.len();
        let mut columns = file_columns(self.context, &records, self.task, &positions)?;
        self.made.put_into(&mut columns, records.keys.len());
        self.content.append(&self.in_log(columns)?)?;
        if self.content.bytes().len() >= self.context.config.log_block_bytes {
            self.end_block(out)?;
        }
        Ok(())
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

    fn header(&self, kind: BlockKind) -> Vec<(HeaderKey, &str)> {
        let mut header =
            vec![(HeaderKey::InstantTime, self.context.instant.as_str()), (HeaderKey::Schema, self.schema)];
        if self.context.log_schema.is_some() && kind == BlockKind::AvroData {
            header.push((HeaderKey::IsPartial, "true"));
        }
        header
    }

    fn end_block(&mut self, out: &mut impl Write) -> Result<()> {
        if self.content.records() > 0 {
            write_block(out, BlockKind::AvroData, &self.header(BlockKind::AvroData), self.content.bytes())?;
            self.written += self.content.records() as u64;
            self.content.clear();
        }
        Ok(())
    }

    /// Writes what is left. Returns the numbers of records and deletes.
    fn finish(mut self, out: &mut impl Write) -> Result<(u64, u64)> {
        self.end_block(out)?;
        if !self.deletes.is_empty() {
            let records = self.deletes.iter().map(|(key, ordering)| (key.as_str(), self.partition, ordering.clone()));
            let content = Deletes::write(records)?;
            write_block(out, BlockKind::Delete, &self.header(BlockKind::Delete), &content)?;
        }
        Ok((self.written, self.deletes.len() as u64))
    }
}

/// The ordering value of a row in Hudi's classes.
fn ordering_value(context: &WriteContext, batch: &RecordBatch, row: usize) -> Result<OrderingValue> {
    let mut values = Vec::with_capacity(context.settings.ordering.len());
    for name in &context.settings.ordering {
        let column = batch.column_by_name(name);
        let column = column.ok_or_else(|| Error::schema(format!("the ordering column '{name}' is missing")))?;
        values.push(value_of(column, row)?);
    }
    Ok(match values.len() {
        0 => OrderingValue::Default,
        1 => values.pop().unwrap_or(OrderingValue::Default),
        _ => OrderingValue::Several(values),
    })
}

fn value_of(column: &ArrayRef, row: usize) -> Result<OrderingValue> {
    use OrderingValue as V;
    if column.is_null(row) {
        return Ok(V::Default);
    }
    Ok(match column.data_type() {
        DataType::Boolean => V::Boolean(column.as_boolean().value(row)),
        DataType::Int32 => V::Int(column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => V::Long(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => V::Float(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => V::Double(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => V::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::Binary => V::Bytes(column.as_binary::<i32>().value(row).to_vec()),
        DataType::Date32 => V::Date(column.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            V::Long(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            V::Long(column.as_primitive::<TimestampMillisecondType>().value(row))
        }
        DataType::Decimal128(_, scale) => {
            let shift = 15i8.checked_sub(*scale).and_then(|d| u32::try_from(d).ok());
            let value = column.as_primitive::<Decimal128Type>().value(row);
            let scaled = shift.and_then(|d| 10i128.checked_pow(d)).and_then(|factor| value.checked_mul(factor));
            V::Decimal(scaled.ok_or_else(|| {
                Error::invalid_option(
                    "a delete's decimal ordering value does not fit decimal(30, 15), as Hudi keeps it",
                )
            })?)
        }
        other => return Err(Error::unsupported(format!("deletes ordered by a column of type {other}"))),
    })
}
