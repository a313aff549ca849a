//! How files of the history are laid out, whether their rows are encoded or taken over.

use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::Schema;
use parquet::file::metadata::KeyValue;

use super::entry::FILE_SCHEMA;
use super::file::SORTED_KEY;
use hoodoo_runtime::error::Result;

pub(super) const SCHEMA_ROOT: &str = "org.apache.hudi.avro.model.HoodieLSMTimelineInstant";
/// Rows of a row group, at most: what one thread reads at a time.
pub(super) const GROUP_ROWS: usize = 100_000;
/// Bytes of a row group, at most.
pub(super) const GROUP_BYTES: usize = 32 << 20;

/// The batch with the version of its rows behind it.
pub(super) fn with_version(batch: &RecordBatch) -> Result<RecordBatch> {
    let (mut fields, mut columns) = (batch.schema().fields().to_vec(), batch.columns().to_vec());
    fields.extend(FILE_SCHEMA.fields().last().cloned());
    columns.push(Arc::new(Int32Array::from(vec![1; batch.num_rows()])));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// What says that the rows of a file ascend.
pub(super) fn sorted_mark() -> KeyValue {
    KeyValue::new(SORTED_KEY.to_owned(), "true".to_owned())
}
