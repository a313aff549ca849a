//! The records of a slice's log files, block after block.

use std::borrow::Cow;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;

use super::order::order_blocks;
use crate::LogFile;
use crate::base::{BaseFileReader, ScanOptions, evolve};
use hoodoo_format::avro::schema::avro_to_arrow_schema;
use hoodoo_format::field_lookup::FieldLookup;
use hoodoo_format::internal_schema::{ColumnNames, SchemaHistory};
use hoodoo_format::log::{
    self, AvroRecords, BatchSize, Block, BlockContent, BlockKind, ContentChecksum, Deletes, HeaderKey, Wanted,
    each_avro_batch, each_hfile_batch, record_columns,
};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::guard::decode;
use hoodoo_storage::{FileReader, Storage};

/// Maximum rows of a batch.
const BATCH_ROWS: usize = 16_384;
/// Minimum rows of a batch, however large they are.
const LEAST_ROWS: usize = 256;
/// Maximum and minimum bytes of a block that one batch is decoded from.
const MOST_BYTES: usize = 8 << 20;
const LEAST_BYTES: usize = 256 << 10;

/// The content of a block.
pub enum LogBatch {
    /// Records, in the requested columns.
    Records(RecordBatch),
    /// Keys of deleted records.
    Deletes(Deletes),
}

/// The content of a block as it is stored.
pub enum RawBlock<'a> {
    /// An HFile of records, and their schema.
    Records {
        /// The HFile.
        content: Bytes,
        /// The schema of its values.
        schema: &'a str,
    },
    /// Keys of deleted records.
    Deletes(Deletes),
}

/// The log files of one slice with their blocks in order; content is not read yet.
pub struct LogScan {
    table: String,
    files: Vec<(String, log::LogFile<FileReader>)>,
    /// File and block, in the order in which they are applied.
    blocks: Vec<(usize, Block)>,
    /// Files that are empty or have bytes outside of blocks.
    truncated: Vec<usize>,
    /// The names that fields had when a block was written.
    history: Option<SchemaHistory>,
}

impl LogScan {
    /// Opens log files, given in merge order, and reads the headers of all blocks. `counts` says whether the blocks of
    /// an instant are read.
    ///
    /// # Errors
    /// `Corrupt` for a file that is not a log file, or an invalid block; `Storage`.
    pub fn open(storage: &Storage, logs: &[LogFile], counts: impl Fn(&str) -> bool) -> Result<Self> {
        let table = storage.uri().to_owned();
        let mut files = Vec::with_capacity(logs.len());
        let mut all: Vec<(usize, Block)> = Vec::new();
        let mut truncated = Vec::new();
        for (number, log) in logs.iter().enumerate() {
            let named = |e: Error| e.with("table", &table).with("file", &log.path);
            let file = log::LogFile::new(storage.reader(&log.path, log.size).map_err(named)?);
            let before = all.len();
            for block in file.blocks() {
                all.push((number, block.map_err(named)?));
            }
            let found = all.get(before..).unwrap_or_default();
            if found.is_empty() || found.iter().any(|(_, block)| block.kind == BlockKind::Corrupt) {
                truncated.push(number);
            }
            files.push((log.path.clone(), file));
        }
        let headers: Vec<&Block> = all.iter().map(|(_, block)| block).collect();
        let order = order_blocks(&headers, counts);
        let blocks: Option<Vec<_>> = order.into_iter().map(|index| all.get(index).cloned()).collect();
        let blocks = blocks.ok_or_else(|| Error::internal("the order of log blocks has an invalid index"))?;
        Ok(Self { table, files, blocks, truncated, history: None })
    }

    /// Reads blocks by the ids of fields, where the table has a history of schemas.
    #[must_use]
    pub fn with_history(self, history: Option<&SchemaHistory>) -> Self {
        Self { history: history.cloned(), ..self }
    }

    /// The names in a block that differ from those of the table.
    fn names_in(&self, block: &Block) -> Result<Option<&ColumnNames>> {
        let instant = block.header(HeaderKey::InstantTime).unwrap_or_default();
        let names = self.history.as_ref().map(|history| history.names_at(instant)).transpose()?;
        Ok(names.flatten().map(AsRef::as_ref))
    }

    /// The schema of a block, with the names of the table.
    fn schema_of<'b>(&self, block: &'b Block) -> Result<Cow<'b, str>> {
        let schema = AvroRecords::schema(block)?;
        match self.names_in(block)? {
            Some(names) => names.of_avro(schema).map(Cow::Owned),
            None => Ok(Cow::Borrowed(schema)),
        }
    }

    /// Paths of files that are empty or have bytes outside of blocks: their writer was killed, or they were damaged
    /// later.
    pub fn truncated_files(&self) -> impl Iterator<Item = &str> {
        self.truncated.iter().filter_map(|number| self.files.get(*number)).map(|(path, _)| path.as_str())
    }

    /// Number of blocks to apply.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The instants of the blocks, in their order.
    pub fn instants(&self) -> Vec<String> {
        let mut instants: Vec<String> = Vec::new();
        for (_, block) in &self.blocks {
            let instant = block.header(HeaderKey::InstantTime).unwrap_or_default();
            if instants.last().is_none_or(|last| last != instant) && !instants.iter().any(|known| known == instant) {
                instants.push(instant.to_owned());
            }
        }
        instants
    }

    /// Finds a file with a block of another instant than `instant_of` its path. Returns the path and the instant of the
    /// block.
    pub fn foreign_block(&self, instant_of: impl Fn(&str) -> Option<String>) -> Option<(&str, &str)> {
        self.blocks.iter().find_map(|(number, block)| {
            let (path, _) = self.files.get(*number)?;
            let found = block.header(HeaderKey::InstantTime)?;
            (instant_of(path)? != found).then_some((path.as_str(), found))
        })
    }

    /// The base instant in the header of the first block that has one.
    pub fn base_instant(&self) -> Option<&str> {
        self.blocks.iter().find_map(|(_, block)| {
            block.header(HeaderKey::BaseFileInstantTimeOfRecordPositions).filter(|instant| !instant.is_empty())
        })
    }

    /// Whether all blocks have the row positions of their records in the base file of this instant.
    pub fn has_positions_in(&self, base_instant: &str) -> bool {
        self.blocks.iter().all(|(_, block)| {
            block.header(HeaderKey::RecordPositions).is_some_and(|positions| !positions.is_empty())
                && block.header(HeaderKey::BaseFileInstantTimeOfRecordPositions) == Some(base_instant)
        })
    }

    /// Whether a block may delete records: it is a block of deletes, or one of records with one of the columns `marks`.
    pub fn may_delete(&self, marks: &[&str]) -> bool {
        let has_mark = |schema: &str| marks.iter().any(|mark| schema.contains(mark));
        self.blocks.iter().any(|(_, block)| match block.kind {
            BlockKind::Delete => true,
            // Without a schema nobody can tell.
            _ => block.header(HeaderKey::Schema).is_none_or(has_mark),
        })
    }

    /// Whether a block has only some of the columns.
    pub fn is_partial(&self) -> bool {
        self.blocks.iter().any(|(_, block)| is_partial(block))
    }

    fn block(&self, number: usize) -> Result<&(usize, Block)> {
        let block = self.blocks.get(number);
        block.ok_or_else(|| Error::internal(format!("log block {number} of {} does not exist", self.blocks.len())))
    }

    /// The columns of a block of partial updates; `None` for a block of whole records.
    ///
    /// # Errors
    /// `Corrupt` for a block without a readable schema.
    pub fn columns_of(&self, block: usize) -> Result<Option<Vec<String>>> {
        let (number, block) = self.block(block)?;
        if !is_partial(block) {
            return Ok(None);
        }
        let path = self.files.get(*number).map_or("", |(path, _)| path.as_str());
        let named = |e: Error| e.with("table", &self.table).with("file", path).with("offset", block.range.start);
        let schema = avro_to_arrow_schema(&self.schema_of(block).map_err(named)?).map_err(named)?;
        Ok(Some(schema.fields().iter().map(|f| f.name().clone()).collect()))
    }

    /// Passes the records of one block to `each`, in the given columns, in batches of about `bytes` bytes.
    ///
    /// # Errors
    /// `Corrupt`; `Schema` for records that do not fit the columns; `Unsupported`; `Storage`; and those of `each`.
    pub fn read(
        &self,
        block: usize,
        schema: &SchemaRef,
        bytes: usize,
        each: &mut dyn FnMut(LogBatch) -> Result<()>,
    ) -> Result<()> {
        let bytes = bytes.clamp(LEAST_BYTES, MOST_BYTES);
        let (number, block) = self.block(block)?;
        let file = self.files.get(*number);
        let (path, file) =
            file.ok_or_else(|| Error::internal(format!("a log block is in file {number} of a slice")))?;
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let read = || {
            let mut records = |batch: RecordBatch| each(LogBatch::Records(in_schema(&batch, schema)?));
            match block.kind {
                BlockKind::Delete => each(LogBatch::Deletes(Deletes::read(&file.content(block)?)?)),
                BlockKind::AvroData => {
                    let size = BatchSize { rows: BATCH_ROWS, bytes: bytes as u64 };
                    let (content, checksum) = (file.content_reader(block), ContentChecksum::of(block));
                    let schema = self.schema_of(block)?;
                    each_avro_batch(&content, checksum, &schema, &names, size, &mut records)
                }
                BlockKind::HfileData => each_hfile_batch(
                    file.content(block)?,
                    Wanted::All,
                    &self.schema_of(block)?,
                    &names,
                    BATCH_ROWS,
                    &mut records,
                ),
                BlockKind::ParquetData => {
                    let reader = BaseFileReader::open_renamed(file.content_reader(block), self.names_in(block)?)?;
                    parquet_records(&reader, &self.schema_of(block)?, schema, bytes, each)
                }
                BlockKind::Command | BlockKind::Corrupt | BlockKind::CdcData => Ok(()),
            }
        };
        decode("a log block", read)
            .map_err(|e| e.with("table", &self.table).with("file", path).with("offset", block.range.start))
    }

    /// Passes the records of one HFile or Avro block to `each`: those of `columns` that the records have, with the types
    /// of the block's own schema. Such are the log files of the metadata table. Of an HFile block only the records that are
    /// `wanted`.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a block of Parquet; `Storage`; and those of `each`.
    pub fn read_as_stored(
        &self,
        block: usize,
        wanted: Wanted<'_>,
        columns: &[&str],
        each: &mut dyn FnMut(LogBatch) -> Result<()>,
    ) -> Result<()> {
        let (number, block) = self.block(block)?;
        let file = self.files.get(*number);
        let (path, file) =
            file.ok_or_else(|| Error::internal(format!("a log block is in file {number} of a slice")))?;
        let read = || match block.kind {
            BlockKind::Delete => each(LogBatch::Deletes(Deletes::read(&file.content(block)?)?)),
            BlockKind::HfileData => {
                let (content, schema) = (file.content(block)?, AvroRecords::schema(block)?);
                let mut records = |batch| each(LogBatch::Records(batch));
                each_hfile_batch(content, wanted, schema, columns, BATCH_ROWS, &mut records)
            }
            BlockKind::AvroData => {
                let (content, checksum) = (file.content_reader(block), ContentChecksum::of(block));
                let (schema, size) = (AvroRecords::schema(block)?, BatchSize::of(BATCH_ROWS));
                each_avro_batch(&content, checksum, schema, columns, size, &mut |batch| each(LogBatch::Records(batch)))
            }
            BlockKind::ParquetData => {
                Err(Error::unsupported("Parquet log blocks of a metadata table are not supported"))
            }
            BlockKind::Command | BlockKind::Corrupt | BlockKind::CdcData => Ok(()),
        };
        decode("a log block", read)
            .map_err(|e| e.with("table", &self.table).with("file", path).with("offset", block.range.start))
    }

    /// Passes the content of one block to `each`, not decoded: for those of the metadata table.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for blocks of another kind than the metadata table has; `Storage`; and those of `each`.
    pub fn read_raw(&self, block: usize, each: &mut dyn FnMut(RawBlock<'_>) -> Result<()>) -> Result<()> {
        let (number, block) = self.block(block)?;
        let file = self.files.get(*number);
        let (path, file) =
            file.ok_or_else(|| Error::internal(format!("a log block is in file {number} of a slice")))?;
        let read = || match block.kind {
            BlockKind::Delete => each(RawBlock::Deletes(Deletes::read(&file.content(block)?)?)),
            BlockKind::HfileData => {
                each(RawBlock::Records { content: file.content(block)?, schema: AvroRecords::schema(block)? })
            }
            BlockKind::AvroData | BlockKind::ParquetData => {
                Err(Error::unsupported("log blocks of a metadata table that are no HFiles are not supported"))
            }
            BlockKind::Command | BlockKind::Corrupt | BlockKind::CdcData => Ok(()),
        };
        decode("a log block", read)
            .map_err(|e| e.with("table", &self.table).with("file", path).with("offset", block.range.start))
    }
}

fn is_partial(block: &Block) -> bool {
    block.header(HeaderKey::IsPartial).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn parquet_records(
    reader: &BaseFileReader<BlockContent<FileReader>>,
    writer: &str,
    schema: &SchemaRef,
    bytes: usize,
    each: &mut dyn FnMut(LogBatch) -> Result<()>,
) -> Result<()> {
    // A missing column is null in all rows, unless the schema of the block has it.
    let (wanted, has) = (FieldLookup::new(schema.fields()), FieldLookup::new(reader.schema().fields()));
    let lacks = |name: &String| wanted.has(name) && !has.has(name);
    if let Some(name) = record_columns(writer)?.into_iter().find(lacks) {
        return Err(Error::corrupt("the Parquet file of a log block has no column for a field of its schema")
            .with("column", name));
    }
    let size: i64 = reader.metadata().row_groups().iter().map(|group| group.total_byte_size()).sum();
    let row_bytes = (size.max(0).cast_unsigned() / reader.rows().max(1)).max(1);
    let rows = usize::try_from(bytes as u64 / row_bytes).unwrap_or(usize::MAX).clamp(LEAST_ROWS, BATCH_ROWS);
    let options = ScanOptions::new(schema.clone()).with_batch_size(rows);
    for batch in reader.scan(&options)? {
        each(LogBatch::Records(batch?))?;
    }
    Ok(())
}

/// Converts records to the current schema; new columns are null.
fn in_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    let lookup = FieldLookup::new(batch.schema_ref().fields());
    for field in schema.fields() {
        columns.push(match lookup.position(field.name()).and_then(|at| batch.columns().get(at)) {
            Some(column) => evolve(column, field.data_type(), field.name())?,
            None if field.is_nullable() => new_null_array(field.data_type(), batch.num_rows()),
            None => {
                return Err(Error::schema(format!(
                    "records of a log file do not have the required column '{}'",
                    field.name()
                ))
                .with("column", field.name()));
            }
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}
