//! Leaving out partitions that a filter on partition columns rules out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Schema};
use arrow_cast::cast;

use super::keygen::{KeyGenConfig, PartitionFieldKind, parse_partition_values};
use crate::error::Result;
use crate::file_group::base::Predicate;

/// Whether a partition may hold a row for which the predicate holds. Answers yes whenever it cannot tell.
pub(super) fn may_match(
    config: &KeyGenConfig,
    schema: &Schema,
    partition: &str,
    predicate: &Predicate,
) -> Result<bool> {
    let Some(values) = partition_row(config, schema, partition) else { return Ok(true) };
    Ok(possible(predicate, &values))
}

/// The partition columns of a path as one row, those that the path tells for sure.
pub(super) fn partition_row(config: &KeyGenConfig, schema: &Schema, partition: &str) -> Option<RecordBatch> {
    let strings = parse_partition_values(config, partition).ok()?;
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (field, text) in config.partition_fields.iter().zip(strings) {
        // A time was formatted on its way into the path. Null and empty text share a folder, so it tells neither.
        let (PartitionFieldKind::Simple, Some(text)) = (field.kind, text) else { continue };
        let Ok(column) = schema.field_with_name(&field.name) else { continue };
        let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let value = match column.data_type() {
            DataType::Utf8 => text,
            DataType::Int32 | DataType::Int64 | DataType::Boolean | DataType::Date32 => {
                match cast(&text, column.data_type()) {
                    Ok(value) if value.is_valid(0) => value,
                    _ => continue,
                }
            }
            // Java's spelling of other types is not ours to parse for a mere short cut.
            _ => continue,
        };
        columns.push((field.name.clone(), value));
    }
    if columns.is_empty() { None } else { RecordBatch::try_from_iter(columns).ok() }
}

/// Three-valued: `false` only when no row of the partition can match.
fn possible(predicate: &Predicate, values: &RecordBatch) -> bool {
    match predicate {
        Predicate::And(parts) => parts.iter().all(|p| possible(p, values)),
        Predicate::Or(parts) => parts.iter().any(|p| possible(p, values)),
        other => {
            let known = other.columns().iter().all(|c| values.column_by_name(c).is_some());
            // An error here is met again, and reported, when rows are read.
            !known || other.evaluate(values).map_or(true, |answer| answer.true_count() > 0)
        }
    }
}
