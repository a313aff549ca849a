//! `record_index`: the file group of each record key.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use uuid::Uuid;

use super::raw;
use crate::error::{Error, Result};
use crate::timeline::{TimeZone, format_instant};

/// The file id is a string, and not the bits of a UUID.
const ENCODING_STRING: i64 = 1;

/// Bytes of a UUID as a string, and of a number behind it.
const ID_BYTES: usize = 38;
/// Bytes of an instant time.
const TIME_BYTES: usize = 17;

pub(super) fn flat_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("partition", DataType::Utf8, true),
        Field::new("file_id", DataType::Utf8, false),
        Field::new("instant_time", DataType::Utf8, true),
        Field::new("is_deleted", DataType::Boolean, false),
    ]))
}

/// The id that the bits of a UUID stand for, and the number behind it.
fn file_id(high: i64, low: i64, index: Option<i64>) -> String {
    let uuid = Uuid::from_u64_pair(high.cast_unsigned(), low.cast_unsigned());
    index.map_or_else(|| uuid.to_string(), |index| format!("{uuid}-{index}"))
}

pub(super) fn flatten(stored: &RecordBatch, zone: TimeZone) -> Result<RecordBatch> {
    let records = raw::records(stored, "recordIndexMetadata")?;
    let (high, low) = (raw::longs(records, "fileIdHighBits")?, raw::longs(records, "fileIdLowBits")?);
    let (index, encoding) = (raw::longs(records, "fileIndex")?, raw::longs(records, "fileIdEncoding")?);
    let (named, written) = (raw::strings(records, "fileId")?, raw::longs(records, "instantTime")?);
    let mut file_ids = StringBuilder::with_capacity(records.len(), records.len() * ID_BYTES);
    let mut instants = StringBuilder::with_capacity(records.len(), records.len() * TIME_BYTES);
    // There are few of either beside the records; most records have the time of the one before.
    let (mut known_ids, mut known_instants) = (AHashMap::new(), AHashMap::new());
    let mut last: Option<(i64, String)> = None;
    for row in 0..records.len() {
        if encoding(row) == Some(ENCODING_STRING) {
            file_ids.append_value(if named.is_valid(row) { named.value(row) } else { "" });
        } else {
            let (high, low) = high(row).zip(low(row)).ok_or_else(|| {
                Error::corrupt("a record of the record index names no file group").with("record", row)
            })?;
            let index = index(row).filter(|index| *index >= 0);
            file_ids.append_value(known_ids.entry((high, low, index)).or_insert_with(|| file_id(high, low, index)));
        }
        match (written(row), &last) {
            (None, _) => instants.append_null(),
            (Some(ms), Some((before, time))) if ms == *before => instants.append_value(time),
            (Some(ms), _) => {
                let time = known_instants.entry(ms).or_insert_with(|| format_instant(ms, zone));
                instants.append_value(&*time);
                last = Some((ms, time.clone()));
            }
        }
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
