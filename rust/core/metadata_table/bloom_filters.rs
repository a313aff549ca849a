//! `bloom_filters`: the filter of each base file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::raw;
use crate::error::{Error, Result};

pub(super) fn flat_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("type", DataType::Utf8, false),
        Field::new("timestamp", DataType::Utf8, false),
        Field::new("size", DataType::Int64, false),
        Field::new("filter", DataType::Binary, false),
        Field::new("is_deleted", DataType::Boolean, false),
    ]))
}

pub(super) fn flatten(stored: &RecordBatch) -> Result<RecordBatch> {
    let records = raw::records(stored, "BloomFilterMetadata")?;
    let filters = records.column_by_name("bloomFilter").and_then(|column| column.as_binary_opt::<i32>());
    let filters = filters.ok_or_else(|| Error::corrupt("bloom filters of the metadata table are not bytes"))?;
    let size = |row: usize| i64::try_from(filters.value(row).len()).unwrap_or(i64::MAX);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(raw::keys(stored)?.clone()),
        Arc::new(raw::strings(records, "type")?.clone()),
        Arc::new(raw::strings(records, "timestamp")?.clone()),
        Arc::new((0..filters.len()).map(size).collect::<Int64Array>()),
        Arc::new(filters.clone()),
        Arc::new(raw::flags(records, "isDeleted")?),
    ];
    Ok(RecordBatch::try_new(flat_schema(), columns)?)
}
