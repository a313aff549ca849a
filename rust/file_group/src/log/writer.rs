//! Writes the blocks of one log file: records first, then deletes.

use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType,
};
use base64_simd::STANDARD;
use roaring::RoaringTreemap;

use crate::base::{BaseFileOptions, BaseFileWriter};
use hoodoo_format::log::{AvroContent, BlockKind, Deletes, HeaderKey, OrderingValue, write_block};
use hoodoo_runtime::error::{Error, Result};

/// Format of data blocks (`hoodie.logfile.data.block.format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockFormat {
    /// Avro. Hudi's default for tables with Parquet base files.
    Avro,
    /// Parquet: larger for few records, faster to read for many.
    Parquet,
}

impl BlockFormat {
    /// Parses the value of the option.
    ///
    /// # Errors
    /// `Unsupported` for `hfile`, `InvalidOption` for other names.
    pub fn parse(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "avro" => Ok(Self::Avro),
            "parquet" => Ok(Self::Parquet),
            "hfile" => Err(Error::unsupported("writing log blocks as HFiles is not supported")
                .remedy("Set hoodie.logfile.data.block.format to avro or parquet")),
            other => Err(Error::invalid_value("hoodie.logfile.data.block.format", other, "avro or parquet")),
        }
    }
}

/// Settings of the blocks of a file.
#[derive(Debug, Clone)]
pub struct BlockSettings {
    /// Format of the records.
    pub format: BlockFormat,
    /// Bytes at which a block ends.
    pub block_bytes: usize,
    /// How Parquet blocks are written.
    pub parquet: BaseFileOptions,
    /// Header entries besides schema and instant.
    pub header: Vec<(HeaderKey, String)>,
    /// Instant of the base file in which all records have known row positions; `None`: blocks have no positions.
    pub positions_in: Option<String>,
}

/// Writes a log file.
pub struct LogWriter<'a, W: Write> {
    out: W,
    settings: &'a BlockSettings,
    instant: &'a str,
    written: u64,
    bytes: u64,
}

impl<'a, W: Write> LogWriter<'a, W> {
    /// A writer of the blocks of an instant.
    pub fn new(out: W, instant: &'a str, settings: &'a BlockSettings) -> Self {
        Self { out, settings, instant, written: 0, bytes: 0 }
    }

    /// Begins data blocks of an Avro schema; `partial`: it has only some of the columns of the table.
    pub fn records<'w>(&'w mut self, schema: &'w str, partial: bool) -> RecordBlocks<'w, 'a, W> {
        let avro = AvroContent::new(schema);
        RecordBlocks { writer: self, schema, partial, avro, batches: Vec::new(), bytes: 0, positions: Vec::new() }
    }

    /// Writes a delete block, unless there are no deletes: record key, partition and ordering value of each.
    /// `positions`: their rows in the base file, ascending, if known.
    ///
    /// # Errors
    /// `InvalidOption` if they are too many for a block; `Storage`.
    pub fn deletes(
        &mut self,
        schema: &str,
        partition: &str,
        deletes: &[(String, OrderingValue)],
        positions: &[u32],
    ) -> Result<()> {
        if deletes.is_empty() {
            return Ok(());
        }
        let records = deletes.iter().map(|(key, ordering)| (key.as_str(), partition, ordering.clone()));
        let content = Deletes::write(records)?;
        self.block(BlockKind::Delete, (schema, false), &content, (positions, deletes.len()))
    }

    fn block(
        &mut self,
        kind: BlockKind,
        (schema, partial): (&str, bool),
        content: &[u8],
        (positions, records): (&[u32], usize),
    ) -> Result<()> {
        let mut header = vec![(HeaderKey::InstantTime, self.instant), (HeaderKey::Schema, schema)];
        if partial {
            header.push((HeaderKey::IsPartial, "true"));
        }
        let positions = self.settings.positions_in.as_ref().and_then(|_| positions_header(positions, records));
        if let (Some(base), Some(positions)) = (&self.settings.positions_in, &positions) {
            header.push((HeaderKey::RecordPositions, positions));
            header.push((HeaderKey::BaseFileInstantTimeOfRecordPositions, base));
        }
        header.extend(self.settings.header.iter().map(|(key, value)| (*key, value.as_str())));
        self.bytes += write_block(&mut self.out, kind, &header, content)?;
        Ok(())
    }

    /// Records that were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The file.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Writes data blocks of one schema.
pub struct RecordBlocks<'w, 'a, W: Write> {
    writer: &'w mut LogWriter<'a, W>,
    schema: &'w str,
    partial: bool,
    avro: AvroContent,
    batches: Vec<RecordBatch>,
    bytes: usize,
    positions: Vec<u32>,
}

impl<W: Write> RecordBlocks<'_, '_, W> {
    /// Adds records; `positions`: their rows in the base file, ascending, if known.
    ///
    /// # Errors
    /// `Schema` if the columns do not match the schema; `Storage`.
    pub fn add(&mut self, batch: &RecordBatch, positions: &[u32]) -> Result<()> {
        self.positions.extend_from_slice(positions);
        match self.writer.settings.format {
            BlockFormat::Avro => {
                self.avro.append(batch)?;
                self.bytes = self.avro.bytes().len();
            }
            BlockFormat::Parquet => {
                for column in batch.columns() {
                    self.bytes += column.to_data().get_slice_memory_size()?;
                }
                self.batches.push(batch.clone());
            }
        }
        if self.bytes >= self.writer.settings.block_bytes {
            self.end_block()?;
        }
        Ok(())
    }

    /// Bytes of the blocks written so far.
    pub fn file_bytes(&self) -> u64 {
        self.writer.bytes
    }

    /// Writes the last block.
    ///
    /// # Errors
    /// `Schema`; `Storage`.
    pub fn finish(mut self) -> Result<()> {
        self.end_block()
    }

    fn end_block(&mut self) -> Result<()> {
        self.bytes = 0;
        let positions = std::mem::take(&mut self.positions);
        match self.writer.settings.format {
            BlockFormat::Avro if self.avro.records() > 0 => {
                self.writer.written += self.avro.records() as u64;
                let positions = (positions.as_slice(), self.avro.records());
                self.writer.block(BlockKind::AvroData, (self.schema, self.partial), self.avro.bytes(), positions)?;
                self.avro.clear();
            }
            BlockFormat::Parquet => {
                let Some(first) = self.batches.first() else { return Ok(()) };
                let avro_schema = Some(self.schema.to_owned());
                let options = BaseFileOptions { bloom: None, avro_schema, ..self.writer.settings.parquet.clone() };
                let mut file = BaseFileWriter::try_new(Vec::new(), first.schema(), options)?;
                for batch in self.batches.drain(..) {
                    file.write(&batch)?;
                }
                let (content, stats) = file.finish()?;
                self.writer.written += stats.rows;
                let positions = (positions.as_slice(), usize::try_from(stats.rows).unwrap_or(usize::MAX));
                self.writer.block(BlockKind::ParquetData, (self.schema, self.partial), &content, positions)?;
            }
            BlockFormat::Avro => {}
        }
        Ok(())
    }
}

/// The positions header of a block: the n-th is the row of its n-th record in the base file. `None` unless each record
/// has a different row.
fn positions_header(positions: &[u32], records: usize) -> Option<String> {
    let bitmap = RoaringTreemap::from_sorted_iter(positions.iter().map(|p| u64::from(*p))).ok()?;
    if bitmap.len() != records as u64 {
        return None;
    }
    let mut bytes = Vec::with_capacity(bitmap.serialized_size());
    bitmap.serialize_into(&mut bytes).ok()?;
    Some(STANDARD.encode_to_string(bytes))
}

/// The ordering value of a row, as the Java class in which Hudi compares it.
///
/// # Errors
/// `InvalidOption` for a decimal that Hudi cannot store; `Unsupported` for types without an order.
pub(super) fn ordering_value(column: &ArrayRef, row: usize) -> Result<OrderingValue> {
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
        other => {
            return Err(Error::unsupported(format!("deletes ordered by a column of type {other} are not supported")));
        }
    })
}

/// The values of a row in several columns. A row that lacks one of them has none: Hudi writes a missing part of several as
/// the integer 0, which it cannot compare with values of another type.
///
/// # Errors
/// Those of [`ordering_value`].
pub fn ordering_values(columns: &[ArrayRef], row: usize) -> Result<OrderingValue> {
    let mut values = columns.iter().map(|column| ordering_value(column, row)).collect::<Result<Vec<_>>>()?;
    Ok(match values.len() {
        0 => OrderingValue::Default,
        1 => values.pop().unwrap_or(OrderingValue::Default),
        _ if values.contains(&OrderingValue::Default) => OrderingValue::Default,
        _ => OrderingValue::Several(values),
    })
}
