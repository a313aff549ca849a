//! Partition columns whose values are those of the path: what a filter on them rules out, and what it says of other columns.
//!
//! Readers take these columns from the path, as Hudi's do on Spark. In the files, Hudi leaves another value where a global index
//! keeps a row in its partition (`hoodie.record.index.update.partition.path`, false by default).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Schema};
use arrow_cast::cast;

use super::keygen::{KeyGenConfig, PartitionField, PartitionFieldKind, parse_partition_values};
use crate::error::{Error, Result};
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
        // Null and empty text share a folder, so it tells neither.
        let (Some(data_type), Some(text)) = (told_type(field, schema), text) else { continue };
        // Dates of several levels, written by somebody whose settings are not known: the value had other separators.
        if text.contains('/') {
            continue;
        }
        let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
        match cast(&text, data_type) {
            Ok(value) if value.is_valid(0) => columns.push((field.name.clone(), value)),
            _ => {}
        }
    }
    if columns.is_empty() { None } else { RecordBatch::try_from_iter(columns).ok() }
}

/// The same, of a table whose files lack the partition columns: all of them, if paths tell them at all.
///
/// # Errors
/// `Unsupported` for a column whose values its paths do not tell; `Corrupt` for a path that does not fit.
pub(super) fn dropped_row(config: &KeyGenConfig, schema: &Schema, partition: &str) -> Result<Option<RecordBatch>> {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (field, text) in config.partition_fields.iter().zip(parse_partition_values(config, partition)?) {
        let (Ok(column), Some(text)) = (schema.field_with_name(&field.name), text) else { continue };
        // Hudi leaves the column out of its schema too, and reads the text, whatever it was made of.
        if column.data_type() != &DataType::Utf8 {
            check_told(field, column.data_type())?;
        }
        let value = cast(&(Arc::new(StringArray::from(vec![text])) as ArrayRef), column.data_type());
        let value = value.ok().filter(|value| value.is_valid(0)).ok_or_else(|| {
            Error::corrupt(format!("the partition path {partition:?} has no value of the column {}", field.name))
                .with("partition", partition)
        })?;
        columns.push((field.name.clone(), value));
    }
    if columns.is_empty() { Ok(None) } else { Ok(RecordBatch::try_from_iter(columns).map(Some)?) }
}

/// Refuses a partition column that files are to lack, and whose values paths do not tell.
///
/// # Errors
/// `Unsupported`.
pub(super) fn check_told(field: &PartitionField, data_type: &DataType) -> Result<()> {
    let is_number = matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..));
    if field.kind == PartitionFieldKind::Simple && (is_number || is_plain(data_type)) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "the files of the table lack its partition column '{}' (hoodie.datasource.write.drop.partition.columns), and paths do not tell its values: {}",
        field.name,
        match field.kind {
            PartitionFieldKind::Simple => format!("it is {data_type}"),
            PartitionFieldKind::Timestamp => "they have formatted times".to_owned(),
        }
    ))
    .with("column", &field.name)
    .remedy("Partition by a column of strings, integers, booleans or dates, or keep the column in the files"))
}

/// The partition columns whose values paths tell, if not each path does.
pub(super) fn columns_of_paths<'c>(config: &'c KeyGenConfig, schema: &Schema) -> HashSet<&'c str> {
    let told = config.partition_fields.iter().filter(|field| told_type(field, schema).is_some());
    told.map(|field| field.name.as_str()).collect()
}

/// The type of a partition column whose values can be read from a path.
fn told_type<'s>(field: &PartitionField, schema: &'s Schema) -> Option<&'s DataType> {
    // A time was formatted on its way into the path. Java's spelling of other types is not ours to parse.
    let data_type = schema.field_with_name(&field.name).ok()?.data_type();
    (field.kind == PartitionFieldKind::Simple && is_plain(data_type)).then_some(data_type)
}

fn is_plain(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Int32 | DataType::Int64 | DataType::Boolean | DataType::Date32)
}

/// What is left to find out of rows whose partition columns have these values.
///
/// # Errors
/// Those of the evaluation.
pub(super) fn given(predicate: &Predicate, values: &RecordBatch) -> Result<Predicate> {
    let all = |parts: &[Predicate]| parts.iter().map(|part| given(part, values)).collect::<Result<Vec<_>>>();
    Ok(match predicate {
        Predicate::And(parts) => Predicate::And(all(parts)?),
        Predicate::Or(parts) => Predicate::Or(all(parts)?),
        Predicate::Not(part) => Predicate::Not(Box::new(given(part, values)?)),
        leaf if leaf.columns().iter().all(|column| values.column_by_name(column).is_some()) => {
            let answer = leaf.evaluate(values)?;
            match (answer.is_valid(0), answer.value(0)) {
                (true, true) => Predicate::And(Vec::new()),
                (true, false) => Predicate::Or(Vec::new()),
                // A comparison with null: of any value.
                (false, _) => leaf.clone(),
            }
        }
        leaf => leaf.clone(),
    })
}

/// A filter for which all rows that the predicate wants hold, and which says nothing of some columns.
pub(super) fn without(predicate: &Predicate, columns: &HashSet<&str>) -> Predicate {
    let all = |parts: &[Predicate]| parts.iter().map(|part| without(part, columns)).collect();
    match predicate {
        Predicate::And(parts) => Predicate::And(all(parts)),
        Predicate::Or(parts) => Predicate::Or(all(parts)),
        other if other.columns().iter().any(|column| columns.contains(column)) => Predicate::And(Vec::new()),
        other => other.clone(),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::Int64Array;

    fn eq(column: &str, value: &str) -> Predicate {
        Predicate::Eq(column.to_owned(), Arc::new(StringArray::from(vec![value])))
    }

    fn larger(column: &str, value: i64) -> Predicate {
        Predicate::Gt(column.to_owned(), Arc::new(Int64Array::from(vec![value])))
    }

    /// Whether a row with these values is wanted; the files have another value in the partition column.
    fn wants(predicate: &Predicate, v: i64) -> bool {
        let part: ArrayRef = Arc::new(StringArray::from(vec!["of the file"]));
        let v: ArrayRef = Arc::new(Int64Array::from(vec![v]));
        let row = RecordBatch::try_from_iter([("part", part), ("v", v)]).unwrap();
        predicate.evaluate(&row).unwrap().true_count() == 1
    }

    #[test]
    fn what_a_path_tells_is_decided_without_the_file() {
        let part: ArrayRef = Arc::new(StringArray::from(vec!["p0"]));
        let values = RecordBatch::try_from_iter([("part", part)]).unwrap();
        let either = Predicate::Or(vec![
            Predicate::And(vec![eq("part", "p0"), larger("v", 5)]),
            Predicate::And(vec![eq("part", "p1"), larger("v", 1)]),
        ]);
        let rest = given(&either, &values).unwrap();
        assert!(wants(&rest, 6) && !wants(&rest, 3));
        let other = given(&Predicate::Not(Box::new(eq("part", "p0"))), &values).unwrap();
        assert!(!wants(&other, 6));
        let none = given(&Predicate::IsNull("part".to_owned()), &values).unwrap();
        assert!(!wants(&none, 6));
        // Null is neither equal nor different.
        let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        let unknown = Predicate::Not(Box::new(Predicate::Eq("part".to_owned(), null)));
        assert!(!wants(&given(&unknown, &values).unwrap(), 6));
    }

    #[test]
    fn files_say_nothing_of_columns_that_paths_tell() {
        let columns = HashSet::from(["part"]);
        let both = Predicate::And(vec![eq("part", "p0"), larger("v", 5)]);
        assert!(wants(&without(&both, &columns), 6) && !wants(&without(&both, &columns), 3));
        let or = Predicate::Or(vec![eq("part", "p0"), larger("v", 5)]);
        assert!(wants(&without(&or, &columns), 3));
        let not = Predicate::Not(Box::new(both));
        assert!(wants(&without(&not, &columns), 6) && wants(&without(&not, &columns), 3));
    }
}
