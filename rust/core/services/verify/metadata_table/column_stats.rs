//! `column_stats` of base files against their Parquet footers. Readers skip files by min and max, so that a range that is
//! too narrow hides rows.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

use super::{Compared, FOLDER, REBUILD_PARTITION, Report, is_about_content};
use crate::error::{Error, Result};
use crate::file_group::BaseFile;
use crate::file_group::base::BaseFileReader;
use crate::metadata_table::MetadataTable;
use crate::parallel::run_parallel;

/// A value of a column, as far as statistics of the metadata table and of Parquet can be compared.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Value {
    Long(i64),
    Double(f64),
    Bytes(Vec<u8>),
}

/// Min and max by column.
type Ranges = HashMap<String, (Option<Value>, Option<Value>)>;

pub(super) fn check(compared: &Compared<'_>, metadata: &MetadataTable, report: &mut Report) -> Result<()> {
    let bases = compared.latest.values().flatten().filter_map(|slice| slice.base.as_ref());
    let bases: Vec<&BaseFile> = bases.filter(|base| base.path.ends_with(".parquet")).collect();
    let mut stored: HashMap<String, Ranges> =
        bases.iter().map(|base| (base.name().to_owned(), Ranges::new())).collect();
    metadata.each_row("column_stats", &mut |rows| add(&rows, &mut stored))?;
    let has_partition_stats = metadata.partitions().iter().any(|name| name == "partition_stats");
    let work: Vec<(&BaseFile, Ranges)> =
        bases.into_iter().map(|base| (base, stored.remove(base.name()).unwrap_or_default())).collect();
    let found = run_parallel(work, compared.table.threads()?, |(base, ranges)| {
        let narrow = match footer(compared, base) {
            Ok((_, 0)) => None,
            Ok(_) if ranges.is_empty() => Some(Vec::new()),
            Ok((footer, _)) => Some(too_narrow(&footer, &ranges)).filter(|narrow| !narrow.is_empty()),
            // Reported with the base files.
            Err(e) if is_about_content(&e) => None,
            Err(e) => return Err(e),
        };
        Ok((base, narrow))
    })?;
    for (base, narrow) in found {
        report.count("metadata table column statistics", 1);
        let Some(narrow) = narrow else { continue };
        if narrow.is_empty() && has_partition_stats {
            report.warning(
                &base.path,
                "the file has no column_stats, but there are partition_stats of its partition: Hudi's data skipping may \
                 leave out its rows",
                "Read with hoodie.enable.data.skipping=false, or rewrite the file with a clustering. A column of a type \
                 such as Int(16) may have kept Hudi from reading the statistics",
            );
        }
        for column in narrow {
            report.error(
                format!("{FOLDER}/column_stats: {}", base.path),
                format!(
                    "min or max of the column '{column}' is narrower than in the file: Hudi's data skipping leaves out rows"
                ),
                REBUILD_PARTITION,
            );
        }
    }
    Ok(())
}

/// Adds the ranges of the files that are looked for.
fn add(rows: &RecordBatch, stored: &mut HashMap<String, Ranges>) -> Result<()> {
    let missing = || Error::internal("rows of column_stats lack a column");
    let strings =
        |name: &str| rows.column_by_name(name).and_then(|column| column.as_string_opt::<i32>()).ok_or_else(missing);
    let (files, columns, types) = (strings("file_name")?, strings("column_name")?, strings("value_type")?);
    let bound = |name: &str| -> Result<Box<dyn Fn(usize) -> Option<Value> + '_>> {
        let long = rows.column_by_name(&format!("{name}_long")).and_then(|c| c.as_primitive_opt::<Int64Type>());
        let double = rows.column_by_name(&format!("{name}_double")).and_then(|c| c.as_primitive_opt::<Float64Type>());
        let (long, double, string) = (long.ok_or_else(missing)?, double.ok_or_else(missing)?, strings(name)?);
        Ok(Box::new(move |row| {
            if long.is_valid(row) {
                return Some(Value::Long(long.value(row)));
            }
            if double.is_valid(row) {
                return Some(Value::Double(double.value(row)));
            }
            let is_string = types.is_valid(row) && types.value(row) == "STRING";
            (is_string && string.is_valid(row)).then(|| Value::Bytes(string.value(row).as_bytes().to_vec()))
        }))
    };
    let (min, max) = (bound("min")?, bound("max")?);
    for row in 0..rows.num_rows() {
        if files.is_null(row) || columns.is_null(row) {
            continue;
        }
        if let Some(ranges) = stored.get_mut(files.value(row)) {
            ranges.insert(columns.value(row).to_owned(), (min(row), max(row)));
        }
    }
    Ok(())
}

/// The ranges that a footer has, and the rows of the file.
fn footer(compared: &Compared<'_>, base: &BaseFile) -> Result<(Ranges, u64)> {
    let reader = BaseFileReader::open(compared.table.storage().reader(&base.path, base.size)?)?;
    Ok((ranges_of(reader.metadata()), reader.rows()))
}

fn ranges_of(metadata: &ParquetMetaData) -> Ranges {
    let mut ranges = Ranges::new();
    for group in metadata.row_groups() {
        for chunk in group.columns() {
            let path = chunk.column_path().parts();
            let ([name], Some(statistics)) = (path, chunk.statistics()) else { continue };
            // Tables of version 8 have statistics in microseconds of these.
            if counts_millis(chunk.column_descr().logical_type_ref()) {
                continue;
            }
            let (min, max) = bounds(statistics);
            let entry = ranges.entry(name.clone()).or_default();
            entry.0 = [entry.0.take(), min].into_iter().flatten().reduce(|a, b| if b < a { b } else { a });
            entry.1 = [entry.1.take(), max].into_iter().flatten().reduce(|a, b| if b > a { b } else { a });
        }
    }
    ranges
}

fn counts_millis(logical_type: Option<&LogicalType>) -> bool {
    let unit = match logical_type {
        Some(LogicalType::Timestamp(timestamp)) => &timestamp.unit,
        Some(LogicalType::Time(time)) => &time.unit,
        _ => return false,
    };
    matches!(unit, TimeUnit::MILLIS)
}

fn bounds(statistics: &Statistics) -> (Option<Value>, Option<Value>) {
    let double = |value: f64| (!value.is_nan()).then_some(Value::Double(value));
    match statistics {
        Statistics::Boolean(s) => {
            let long = |value: &bool| Value::Long(i64::from(*value));
            (s.min_opt().map(long), s.max_opt().map(long))
        }
        Statistics::Int32(s) => {
            let long = |value: &i32| Value::Long(i64::from(*value));
            (s.min_opt().map(long), s.max_opt().map(long))
        }
        Statistics::Int64(s) => (s.min_opt().copied().map(Value::Long), s.max_opt().copied().map(Value::Long)),
        Statistics::Float(s) => {
            (s.min_opt().and_then(|v| double(f64::from(*v))), s.max_opt().and_then(|v| double(f64::from(*v))))
        }
        Statistics::Double(s) => (s.min_opt().and_then(|v| double(*v)), s.max_opt().and_then(|v| double(*v))),
        // What is cut off is no value of the column.
        Statistics::ByteArray(s) => (
            s.min_opt().filter(|_| s.min_is_exact()).map(|v| Value::Bytes(v.data().to_vec())),
            s.max_opt().filter(|_| s.max_is_exact()).map(|v| Value::Bytes(v.data().to_vec())),
        ),
        _ => (None, None),
    }
}

/// Columns whose range does not hold all that the footer says.
fn too_narrow(footer: &Ranges, stored: &Ranges) -> Vec<String> {
    let comparable = |a: &Value, b: &Value| std::mem::discriminant(a) == std::mem::discriminant(b);
    let mut narrow: Vec<String> = stored
        .iter()
        .filter(|(column, (min, max))| {
            let Some((lower, upper)) = footer.get(*column) else { return false };
            let above = lower.as_ref().zip(min.as_ref()).is_some_and(|(f, s)| comparable(f, s) && s > f);
            let below = upper.as_ref().zip(max.as_ref()).is_some_and(|(f, s)| comparable(f, s) && s < f);
            above || below
        })
        .map(|(column, _)| column.clone())
        .collect();
    narrow.sort();
    narrow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_may_be_wider_than_that_of_the_footer_and_not_narrower() {
        let range = |min: Value, max: Value| Ranges::from([("a".to_owned(), (Some(min), Some(max)))]);
        let footer = range(Value::Long(2), Value::Long(5));
        assert!(too_narrow(&footer, &range(Value::Long(2), Value::Long(5))).is_empty());
        assert!(too_narrow(&footer, &range(Value::Long(1), Value::Long(9))).is_empty());
        assert_eq!(too_narrow(&footer, &range(Value::Long(3), Value::Long(5))), ["a"]);
        assert_eq!(too_narrow(&footer, &range(Value::Long(2), Value::Long(4))), ["a"]);
        assert!(too_narrow(&footer, &range(Value::Double(3.0), Value::Double(4.0))).is_empty());
    }
}
