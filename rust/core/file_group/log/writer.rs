//! The blocks of one log file in the making: records first, then deletes.

use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType,
};
use base64_simd::STANDARD;
use roaring::RoaringTreemap;

use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
use crate::format::log::{AvroContent, BlockKind, Deletes, HeaderKey, OrderingValue, write_block};

/// In which form records are kept (`hoodie.logfile.data.block.format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockFormat {
    /// Record after record. Hudi's own choice for tables of Parquet base files.
    Avro,
    /// Column by column: larger when few records are written, faster to read when many are.
    Parquet,
}

impl BlockFormat {
    /// Understands the value of the option.
    ///
    /// # Errors
    /// `Unsupported` for `hfile`, `InvalidOption` for other names.
    pub fn parse(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "avro" => Ok(Self::Avro),
            "parquet" => Ok(Self::Parquet),
            "hfile" => Err(Error::unsupported("writing log blocks as HFiles")
                .remedy("Set hoodie.logfile.data.block.format to avro or parquet")),
            other => Err(Error::invalid_option(format!("'{other}' is no format of log blocks"))
                .remedy("Set hoodie.logfile.data.block.format to avro or parquet")),
        }
    }
}

/// What all blocks of a file have in common.
#[derive(Debug, Clone)]
pub struct BlockSettings {
    /// Form of the records.
    pub format: BlockFormat,
    /// Bytes at which a block ends.
    pub block_bytes: usize,
    /// How Parquet blocks are written.
    pub parquet: BaseFileOptions,
    /// What the blocks say besides schema and instant.
    pub header: Vec<(HeaderKey, String)>,
    /// Instant of the base file in which all records have a known place; `None`: blocks say nothing of places.
    pub places_in: Option<String>,
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

    /// Begins blocks of records of an Avro schema, which leave out columns of the table or do not.
    pub fn records<'w>(&'w mut self, schema: &'w str, partial: bool) -> RecordBlocks<'w, 'a, W> {
        let avro = AvroContent::new(schema);
        RecordBlocks { writer: self, schema, partial, avro, batches: Vec::new(), bytes: 0, places: Vec::new() }
    }

    /// Writes a block of deletes, unless there are none: record key, partition and ordering value of each. `places` are
    /// their rows in the base file, growing, where these are told.
    ///
    /// # Errors
    /// `InvalidOption` when they are too many for a block; `Storage`.
    pub fn deletes(
        &mut self,
        schema: &str,
        partition: &str,
        deletes: &[(String, OrderingValue)],
        places: &[u32],
    ) -> Result<()> {
        if deletes.is_empty() {
            return Ok(());
        }
        let records = deletes.iter().map(|(key, ordering)| (key.as_str(), partition, ordering.clone()));
        let content = Deletes::write(records)?;
        self.block(BlockKind::Delete, (schema, false), &content, (places, deletes.len()))
    }

    fn block(
        &mut self,
        kind: BlockKind,
        (schema, partial): (&str, bool),
        content: &[u8],
        (places, records): (&[u32], usize),
    ) -> Result<()> {
        let mut header = vec![(HeaderKey::InstantTime, self.instant), (HeaderKey::Schema, schema)];
        if partial {
            header.push((HeaderKey::IsPartial, "true"));
        }
        let positions = self.settings.places_in.as_ref().and_then(|_| positions(places, records));
        if let (Some(base), Some(positions)) = (&self.settings.places_in, &positions) {
            header.push((HeaderKey::RecordPositions, positions));
            header.push((HeaderKey::BaseFileInstantTimeOfRecordPositions, base));
        }
        header.extend(self.settings.header.iter().map(|(key, text)| (*key, text.as_str())));
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

/// Records of one schema on their way into blocks.
pub struct RecordBlocks<'w, 'a, W: Write> {
    writer: &'w mut LogWriter<'a, W>,
    schema: &'w str,
    partial: bool,
    avro: AvroContent,
    batches: Vec<RecordBatch>,
    bytes: usize,
    places: Vec<u32>,
}

impl<W: Write> RecordBlocks<'_, '_, W> {
    /// Adds records; `places` are their rows in the base file, growing, where these are told.
    ///
    /// # Errors
    /// `Schema` for columns that are not those of the schema; `Storage`.
    pub fn add(&mut self, batch: &RecordBatch, places: &[u32]) -> Result<()> {
        self.places.extend_from_slice(places);
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

    /// Bytes of the blocks that are in the file by now.
    pub fn file_bytes(&self) -> u64 {
        self.writer.bytes
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// `Schema`; `Storage`.
    pub fn finish(mut self) -> Result<()> {
        self.end_block()
    }

    fn end_block(&mut self) -> Result<()> {
        self.bytes = 0;
        let places = std::mem::take(&mut self.places);
        match self.writer.settings.format {
            BlockFormat::Avro if self.avro.records() > 0 => {
                self.writer.written += self.avro.records() as u64;
                let (kind, told) = (BlockKind::AvroData, (places.as_slice(), self.avro.records()));
                self.writer.block(kind, (self.schema, self.partial), self.avro.bytes(), told)?;
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
                let told = (places.as_slice(), usize::try_from(stats.rows).unwrap_or(usize::MAX));
                self.writer.block(BlockKind::ParquetData, (self.schema, self.partial), &content, told)?;
            }
            BlockFormat::Avro => {}
        }
        Ok(())
    }
}

/// Rows of the base file as a block names them: the n-th is the place of its n-th record. Nothing is said unless each
/// record has a place of its own.
fn positions(places: &[u32], records: usize) -> Option<String> {
    let bitmap = RoaringTreemap::from_sorted_iter(places.iter().map(|p| u64::from(*p))).ok()?;
    if bitmap.len() != records as u64 {
        return None;
    }
    let mut bytes = Vec::with_capacity(bitmap.serialized_size());
    bitmap.serialize_into(&mut bytes).ok()?;
    Some(STANDARD.encode_to_string(bytes))
}

/// The value of a row in a column, in the class that Hudi compares it in.
///
/// # Errors
/// `InvalidOption` for a decimal beyond what Hudi keeps; `Unsupported` for types that order nothing.
pub fn ordering_value(column: &ArrayRef, row: usize) -> Result<OrderingValue> {
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

/// The values of a row in several columns.
///
/// # Errors
/// Those of [`ordering_value`].
pub fn ordering_values(columns: &[ArrayRef], row: usize) -> Result<OrderingValue> {
    let mut values = columns.iter().map(|column| ordering_value(column, row)).collect::<Result<Vec<_>>>()?;
    Ok(match values.len() {
        0 => OrderingValue::Default,
        1 => values.pop().unwrap_or(OrderingValue::Default),
        _ => OrderingValue::Several(values),
    })
}
