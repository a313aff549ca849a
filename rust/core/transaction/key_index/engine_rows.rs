//! Keys on their way through the shuffle of an engine, which may know signed numbers only.
//!
//! | column | what |
//! |---|---|
//! | `shard` | by it the rows are brought together, and sorted first; -1 where a slice could not be read |
//! | `key` | by its bytes they are sorted next |
//! | `slice` | the number of the file slice that has the key |

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, UInt32Type};

use crate::error::{Error, Result};
use crate::metadata_table::write::sharded_keys::key_rows;

/// The columns.
pub(super) fn engine_schema() -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::Int32, true);
    Arc::new(Schema::new(vec![number("shard"), Field::new("key", DataType::Utf8, true), number("slice")]))
}

/// Rows for an engine.
///
/// # Errors
/// `Internal` for other rows than `key_rows`.
pub(super) fn to_engine(rows: &RecordBatch) -> Result<RecordBatch> {
    let [shards, keys, slices] = rows.columns() else { return Err(other_rows()) };
    let signed = |numbers: &ArrayRef| -> Result<ArrayRef> {
        let numbers = numbers.as_primitive_opt::<UInt32Type>().ok_or_else(other_rows)?;
        Ok(Arc::new(numbers.unary::<_, Int32Type>(u32::cast_signed)))
    };
    Ok(RecordBatch::try_new(engine_schema(), vec![signed(shards)?, keys.clone(), signed(slices)?])?)
}

/// Rows of an engine, which may have strings of another type.
///
/// # Errors
/// `InvalidOption` for other columns.
pub(super) fn from_engine(rows: &RecordBatch) -> Result<RecordBatch> {
    let [shards, keys, slices] = rows.columns() else { return Err(other_columns()) };
    let keys = cast(keys, &DataType::Utf8).map_err(|e| other_columns().caused_by(e))?;
    let keys = keys.as_string_opt::<i32>().ok_or_else(other_columns)?;
    let unsigned = |numbers: &ArrayRef| -> Result<UInt32Array> {
        let numbers = numbers.as_primitive_opt::<Int32Type>().filter(|numbers| numbers.null_count() == 0);
        Ok(numbers.ok_or_else(other_columns)?.unary::<_, UInt32Type>(i32::cast_unsigned))
    };
    key_rows(unsigned(shards)?, keys, unsigned(slices)?)
}

fn other_rows() -> Error {
    Error::internal("keys of an index have other columns than they had")
}

fn other_columns() -> Error {
    Error::invalid_option("the keys of an index come back from a shuffle with other columns")
        .remedy("Pass the rows of the tasks that read the keys, as they are")
}
