//! Making blocks.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_avro::schema::SCHEMA_METADATA_KEY;
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroBinaryFormat;

use super::block::{BlockKind, HeaderKey};
use super::{AvroRecords, MAGIC, checksum};
use hoodoo_runtime::error::{Error, Result};

/// Version of the format of a block.
const FORMAT: u32 = 1;
/// The most that the length of a block can say.
const LARGEST: usize = i32::MAX as usize;

/// Writes one block; returns its size.
///
/// # Errors
/// `InvalidOption` for a content that is too large for a block; `Storage`.
pub fn write_block(out: &mut impl Write, kind: BlockKind, header: &[(HeaderKey, &str)], content: &[u8]) -> Result<u64> {
    let number = kind.number().ok_or_else(|| Error::schema("corrupt bytes are no block that is written"))?;
    let mut head = Vec::with_capacity(64 + header.iter().map(|(_, text)| 8 + text.len()).sum::<usize>());
    for field in [FORMAT, number, header.len() as u32] {
        head.extend_from_slice(&field.to_be_bytes());
    }
    for (key, text) in header {
        head.extend_from_slice(&key.number().to_be_bytes());
        head.extend_from_slice(&length(text.len())?);
        head.extend_from_slice(text.as_bytes());
    }
    let checksums = checksum::trailer(kind, header, content);
    head.extend_from_slice(&((content.len() + checksums.len()) as u64).to_be_bytes());
    // Behind the content: an empty footer, and the size once more.
    let size = head.len() + content.len() + checksums.len() + 4 + 8;
    length(size)?;
    let mut lead = MAGIC.to_vec();
    lead.extend_from_slice(&(size as u64).to_be_bytes());
    lead.extend_from_slice(&head);
    let mut tail = checksums;
    tail.extend_from_slice(&0u32.to_be_bytes());
    tail.extend_from_slice(&(size as u64 + MAGIC.len() as u64).to_be_bytes());
    for part in [lead.as_slice(), content, tail.as_slice()] {
        out.write_all(part).map_err(|e| Error::storage("writing a log file failed").caused_by(e))?;
    }
    Ok((MAGIC.len() + 8 + size) as u64)
}

fn length(bytes: usize) -> Result<[u8; 4]> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= LARGEST => Ok(length.to_be_bytes()),
        _ => Err(Error::invalid_option("a log block of more than 2 GiB").remedy("Write fewer rows at a time")),
    }
}

/// The content of an Avro data block in the making.
pub struct AvroContent {
    schema: String,
    bytes: Vec<u8>,
    records: u32,
}

impl AvroContent {
    /// An empty block of records of an Avro schema.
    pub fn new(schema: &str) -> Self {
        let mut content = Self { schema: schema.to_owned(), bytes: Vec::new(), records: 0 };
        content.clear();
        content
    }

    /// Adds records.
    ///
    /// # Errors
    /// `Schema` for columns that are not those of the schema.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let failed =
            |e: &dyn std::fmt::Display| Error::schema(format!("rows do not fit the schema of a log block: {e}"));
        let metadata = HashMap::from([(SCHEMA_METADATA_KEY.to_owned(), self.schema.clone())]);
        let schema = Schema::new_with_metadata(batch.schema().fields().clone(), metadata);
        let mut encoder =
            WriterBuilder::new(schema.clone()).build_encoder::<AvroBinaryFormat>().map_err(|e| failed(&e))?;
        let batch = batch.clone().with_schema(Arc::new(schema))?;
        encoder.encode(&batch).map_err(|e| failed(&e))?;
        let rows = encoder.flush();
        self.bytes.reserve(rows.bytes().len() + 4 * rows.len());
        for bounds in rows.offsets().windows(2) {
            let [start, end] = bounds else { continue };
            let record = rows.bytes().get(*start..*end).ok_or_else(|| failed(&"a record without end"))?;
            self.bytes.extend_from_slice(&length(record.len())?);
            self.bytes.extend_from_slice(record);
        }
        self.records = self.records.saturating_add(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        if let Some(count) = self.bytes.get_mut(4..8) {
            count.copy_from_slice(&self.records.to_be_bytes());
        }
        Ok(())
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        self.records as usize
    }

    /// The content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&AvroRecords::LATEST_VERSION.to_be_bytes());
        self.bytes.extend_from_slice(&0u32.to_be_bytes());
        self.records = 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::avro::schema::{avro_to_arrow_schema, table_schema_to_avro};
    use crate::log::{LogFile, avro_batches};
    use arrow::array::{ArrayRef, Decimal128Array, Int64Array, StringArray, TimestampMicrosecondArray};
    use arrow::datatypes::{DataType, Field, TimeUnit};
    use bytes::Bytes;

    #[test]
    fn what_was_written_is_read() {
        let given = Schema::new(vec![
            Field::new("id", DataType::Utf8, false),
            Field::new("n", DataType::Int64, true),
            Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
            Field::new("money", DataType::Decimal128(12, 2), true),
        ]);
        let avro = table_schema_to_avro(&given, "t", true).unwrap();
        let schema = Arc::new(avro_to_arrow_schema(&avro).unwrap());
        let text = |v: &str| Arc::new(StringArray::from(vec![v, v])) as ArrayRef;
        let columns: Vec<ArrayRef> = vec![
            text("1"),
            text("1_0_0"),
            text("k"),
            text(""),
            text("f"),
            text("é"),
            Arc::new(Int64Array::from(vec![Some(-5), None])),
            Arc::new(TimestampMicrosecondArray::from(vec![Some(7), None]).with_timezone("UTC")),
            Arc::new(Decimal128Array::from(vec![Some(-125), None]).with_precision_and_scale(12, 2).unwrap()),
        ];
        let batch = RecordBatch::try_new(schema, columns).unwrap();
        let mut content = AvroContent::new(&avro);
        content.append(&batch).unwrap();
        content.append(&batch.slice(1, 1)).unwrap();
        assert_eq!(content.records(), 3);
        let mut file = Vec::new();
        let header = [(HeaderKey::InstantTime, "20260101000000000"), (HeaderKey::Schema, avro.as_str())];
        let first = write_block(&mut file, BlockKind::AvroData, &header, content.bytes()).unwrap();
        write_block(&mut file, BlockKind::Delete, &header, b"keys").unwrap();
        let file = LogFile::new(Bytes::from(file));
        let blocks = file.blocks().collect::<Result<Vec<_>>>().unwrap();
        let [data, deletes] = blocks.as_slice() else { panic!("{blocks:?}") };
        assert_eq!((data.range.end, deletes.kind), (first, BlockKind::Delete));
        assert_eq!(data.header(HeaderKey::InstantTime), Some("20260101000000000"));
        assert_eq!(file.content(deletes).unwrap(), "keys");
        assert!(data.checksum.is_some() && deletes.checksum.is_some());
        let names: Vec<String> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let read = avro_batches(&file.content(data).unwrap(), &avro, &names, 1024).unwrap();
        let expected = arrow_select::concat::concat_batches(&batch.schema(), [&batch, &batch.slice(1, 1)]).unwrap();
        let [read] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!(read.columns(), expected.columns());
    }
}
