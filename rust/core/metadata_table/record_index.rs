//! `record_index`: the file group of each record key.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use uuid::Uuid;

use super::raw;
use crate::error::{Error, Result};
use crate::timeline::{TimeZone, format_instant};

/// The file id is a string, and not the bits of a UUID.
const ENCODING_STRING: i64 = 1;

pub(super) fn flat_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("partition", DataType::Utf8, true),
        Field::new("file_id", DataType::Utf8, false),
        Field::new("instant_time", DataType::Utf8, true),
        Field::new("is_deleted", DataType::Boolean, false),
    ]))
}

pub(super) fn flatten(stored: &RecordBatch, zone: TimeZone) -> Result<RecordBatch> {
    let records = raw::records(stored, "recordIndexMetadata")?;
    let (high, low) = (raw::longs(records, "fileIdHighBits")?, raw::longs(records, "fileIdLowBits")?);
    let (index, encoding) = (raw::longs(records, "fileIndex")?, raw::longs(records, "fileIdEncoding")?);
    let (named, written) = (raw::strings(records, "fileId")?, raw::longs(records, "instantTime")?);
    let (mut file_ids, mut instants) = (StringBuilder::new(), StringBuilder::new());
    for row in 0..records.len() {
        if encoding(row) == Some(ENCODING_STRING) {
            file_ids.append_value(if named.is_valid(row) { named.value(row) } else { "" });
        } else {
            let bits = high(row).zip(low(row)).ok_or_else(|| {
                Error::corrupt("a record of the record index names no file group").with("record", row)
            })?;
            let uuid = Uuid::from_u64_pair(bits.0.cast_unsigned(), bits.1.cast_unsigned());
            match index(row).filter(|index| *index >= 0) {
                Some(index) => file_ids.append_value(format!("{uuid}-{index}")),
                None => file_ids.append_value(uuid.to_string()),
            }
        }
        instants.append_option(written(row).map(|ms| format_instant(ms, zone)));
    }
    let not_deleted = std::iter::repeat_n(Some(false), records.len()).collect::<arrow::array::BooleanArray>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(raw::keys(stored)?.clone()),
        Arc::new(raw::strings(records, "partitionName")?.clone()),
        Arc::new(file_ids.finish()),
        Arc::new(instants.finish()),
        Arc::new(not_deleted),
    ];
    Ok(RecordBatch::try_new(flat_schema(), columns)?)
}
