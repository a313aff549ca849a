//! `column_stats` and `partition_stats`: min, max and counts of the columns of a file or of a partition.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Builder, Int64Array, Int64Builder, RecordBatch, StringBuilder, StructArray,
    UInt32Array,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};

use super::raw;
use super::stat_value::{StatValue, StatValues, type_name};
use crate::error::Result;

/// Counts and sizes, as stored and in flat rows.
const COUNTS: [(&str, &str); 4] = [
    ("valueCount", "value_count"),
    ("nullCount", "null_count"),
    ("totalSize", "total_size"),
    ("totalUncompressedSize", "total_uncompressed_size"),
];

pub(super) fn flat_schema() -> SchemaRef {
    let mut fields = vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("file_name", DataType::Utf8, true),
        Field::new("column_name", DataType::Utf8, true),
        Field::new("min", DataType::Utf8, true),
        Field::new("max", DataType::Utf8, true),
        Field::new("min_long", DataType::Int64, true),
        Field::new("max_long", DataType::Int64, true),
        Field::new("min_double", DataType::Float64, true),
        Field::new("max_double", DataType::Float64, true),
    ];
    fields.extend(COUNTS.map(|(_, name)| Field::new(name, DataType::Int64, true)));
    fields.push(Field::new("is_tight_bound", DataType::Boolean, false));
    fields.push(Field::new("value_type", DataType::Utf8, true));
    fields.push(Field::new("type_info", DataType::Utf8, true));
    fields.push(Field::new("is_deleted", DataType::Boolean, false));
    Arc::new(Schema::new(fields))
}

/// Types of the columns of the records, as far as they are stored.
struct Types<'a> {
    records: Option<&'a StructArray>,
    ordinal: Option<Box<dyn Fn(usize) -> Option<i64> + 'a>>,
}

impl<'a> Types<'a> {
    fn new(stats: &'a StructArray) -> Result<Self> {
        let records = raw::nested(stats, "valueType")?;
        let ordinal = records.map(|records| raw::longs(records, "typeOrdinal")).transpose()?;
        Ok(Self { records, ordinal })
    }

    fn name(&self, row: usize) -> Option<&'static str> {
        self.records.filter(|records| records.is_valid(row))?;
        type_name(self.ordinal.as_ref()?(row)?)
    }

    /// What the type says beside its name: the digits of a decimal, and those behind the point.
    fn info(&self, row: usize) -> Option<&'a str> {
        let info = self.records?.column_by_name("additionalInfo")?.as_string_opt::<i32>()?;
        info.is_valid(row).then(|| info.value(row))
    }

    /// The digits behind the point of a decimal.
    fn scale(&self, row: usize) -> Option<i8> {
        self.info(row)?.split_once(',')?.1.trim().parse().ok()
    }
}

/// One bound of all rows, as columns.
#[derive(Default)]
struct Bound {
    string: StringBuilder,
    long: Int64Builder,
    double: Float64Builder,
}

impl Bound {
    fn append(&mut self, value: Option<&StatValue<'_>>, value_type: &str, scale: Option<i8>) {
        self.string.append_option(value.map(|value| value.render(value_type, scale)));
        self.long.append_option(value.and_then(StatValue::long));
        self.double.append_option(value.and_then(StatValue::double));
    }
}

pub(super) fn flatten(stored: &RecordBatch) -> Result<RecordBatch> {
    let stats = raw::records(stored, "ColumnStatsMetadata")?;
    let (mins, maxes) = (
        StatValues::new(stats.column_by_name("minValue"), "minValue")?,
        StatValues::new(stats.column_by_name("maxValue"), "maxValue")?,
    );
    let types = Types::new(stats)?;
    let (mut min, mut max) = (Bound::default(), Bound::default());
    let (mut names, mut infos) = (StringBuilder::new(), StringBuilder::new());
    for row in 0..stats.len() {
        let (min_value, max_value) = (mins.get(row)?, maxes.get(row)?);
        let one = min_value.as_ref().or(max_value.as_ref());
        let name = types.name(row).or_else(|| one.map(StatValue::wrapper_type));
        let scale = types.scale(row);
        min.append(min_value.as_ref(), name.unwrap_or_default(), scale);
        max.append(max_value.as_ref(), name.unwrap_or_default(), scale);
        names.append_option(name);
        infos.append_option(types.info(row));
    }
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(raw::keys(stored)?.clone()),
        Arc::new(raw::strings(stats, "fileName")?.clone()),
        Arc::new(raw::strings(stats, "columnName")?.clone()),
        Arc::new(min.string.finish()),
        Arc::new(max.string.finish()),
        Arc::new(min.long.finish()),
        Arc::new(max.long.finish()),
        Arc::new(min.double.finish()),
        Arc::new(max.double.finish()),
    ];
    for (name, _) in COUNTS {
        let values = raw::longs(stats, name)?;
        columns.push(Arc::new((0..stats.len()).map(values).collect::<Int64Array>()));
    }
    columns.push(Arc::new(raw::flags(stats, "isTightBound")?));
    columns.push(Arc::new(names.finish()));
    columns.push(Arc::new(infos.finish()));
    columns.push(Arc::new(raw::flags(stats, "isDeleted")?));
    Ok(RecordBatch::try_new(flat_schema(), columns)?)
}

/// The row of both statistics. `None` if the newer one replaces the older one: because one of them is deleted, or because
/// the newer one is of everything that there is.
pub(super) fn combine(old: (&RecordBatch, usize), new: (&RecordBatch, usize)) -> Result<Option<RecordBatch>> {
    let is = |(rows, row): (&RecordBatch, usize), name: &str| -> Result<bool> {
        let flags = raw::flat(rows, name)?.as_boolean_opt();
        Ok(flags.is_some_and(|flags| row < flags.len() && flags.value(row)))
    };
    if is(old, "is_deleted")? || is(new, "is_deleted")? || is(new, "is_tight_bound")? {
        return Ok(None);
    }
    let take = |(rows, row): (&RecordBatch, usize), name: &str| -> Result<ArrayRef> {
        let row = UInt32Array::from_iter_values(u32::try_from(row));
        Ok(arrow_select::take::take(raw::flat(rows, name)?, &row, None)?)
    };
    let of_min = if is_before(old, new, "min")? == Some(true) { old } else { new };
    let of_max = if is_before(new, old, "max")? == Some(true) { old } else { new };
    let schema = flat_schema();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = field.name().as_str();
        columns.push(match name {
            "min" | "min_long" | "min_double" => take(of_min, name)?,
            "max" | "max_long" | "max_double" => take(of_max, name)?,
            "value_type" | "type_info" => take(if is_null(new, "min")? { old } else { new }, name)?,
            _ if COUNTS.iter().any(|(_, count)| *count == name) => {
                let sum = long(old, name)?.unwrap_or(0).saturating_add(long(new, name)?.unwrap_or(0));
                Arc::new(Int64Array::from(vec![sum]))
            }
            _ => take(new, name)?,
        });
    }
    Ok(Some(RecordBatch::try_new(schema, columns)?))
}

fn long((rows, row): (&RecordBatch, usize), name: &str) -> Result<Option<i64>> {
    let values = raw::flat(rows, name)?.as_primitive_opt::<Int64Type>();
    Ok(values.filter(|values| row < values.len() && values.is_valid(row)).map(|values| values.value(row)))
}

fn is_null((rows, row): (&RecordBatch, usize), name: &str) -> Result<bool> {
    let column = raw::flat(rows, name)?;
    Ok(row >= column.len() || column.is_null(row))
}

/// Whether a bound is smaller than another; `None` unless both are there. A bound that is there is before none.
fn is_before(one: (&RecordBatch, usize), other: (&RecordBatch, usize), bound: &str) -> Result<Option<bool>> {
    match (is_null(one, bound)?, is_null(other, bound)?) {
        (false, false) => {}
        // The bound of the one that has it counts, whichever is asked for.
        (false, true) => return Ok(Some(bound == "min")),
        (true, false) => return Ok(Some(bound == "max")),
        (true, true) => return Ok(None),
    }
    if let (Some(a), Some(b)) = (long(one, &format!("{bound}_long"))?, long(other, &format!("{bound}_long"))?) {
        return Ok(Some(a < b));
    }
    let double = |(rows, row): (&RecordBatch, usize)| -> Result<Option<f64>> {
        let values = raw::flat(rows, &format!("{bound}_double"))?.as_primitive_opt::<Float64Type>();
        Ok(values.filter(|values| row < values.len() && values.is_valid(row)).map(|values| values.value(row)))
    };
    if let (Some(a), Some(b)) = (double(one)?, double(other)?) {
        return Ok(Some(a.total_cmp(&b) == Ordering::Less));
    }
    let string = |(rows, row): (&RecordBatch, usize)| -> Result<String> {
        let values = raw::flat(rows, bound)?.as_string_opt::<i32>();
        Ok(values.filter(|values| row < values.len()).map(|values| values.value(row).to_owned()).unwrap_or_default())
    };
    let (a, b) = (string(one)?, string(other)?);
    // Decimals of one column have the same number of digits behind the point.
    let digits = |value: &str| value.replacen('.', "", 1).parse::<i128>().ok();
    let types = raw::flat(one.0, "value_type")?.as_string_opt::<i32>();
    if types.is_some_and(|types| one.1 < types.len() && types.value(one.1) == "DECIMAL")
        && let (Some(a), Some(b)) = (digits(&a), digits(&b))
    {
        return Ok(Some(a < b));
    }
    Ok(Some(a < b))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::array::{BooleanArray, Float64Array, StringArray};

    use super::*;

    /// A row of statistics: min and max of a column of decimals or longs, tight or not, deleted or not.
    fn row(bounds: Option<(&str, &str)>, value_type: &str, is_tight: bool, is_deleted: bool) -> RecordBatch {
        let long = |text: &str| if value_type == "LONG" { text.parse::<i64>().ok() } else { None };
        let (min, max) = (bounds.map(|(min, _)| min), bounds.map(|(_, max)| max));
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec!["k"])),
            Arc::new(StringArray::from(vec!["f"])),
            Arc::new(StringArray::from(vec!["c"])),
            Arc::new(StringArray::from(vec![min])),
            Arc::new(StringArray::from(vec![max])),
            Arc::new(Int64Array::from(vec![min.and_then(long)])),
            Arc::new(Int64Array::from(vec![max.and_then(long)])),
            Arc::new(Float64Array::from(vec![None::<f64>])),
            Arc::new(Float64Array::from(vec![None::<f64>])),
        ];
        columns.extend(COUNTS.map(|_| Arc::new(Int64Array::from(vec![2])) as ArrayRef));
        columns.push(Arc::new(BooleanArray::from(vec![is_tight])));
        columns.push(Arc::new(StringArray::from(vec![bounds.map(|_| value_type)])));
        columns.push(Arc::new(StringArray::from(vec![None::<&str>])));
        columns.push(Arc::new(BooleanArray::from(vec![is_deleted])));
        RecordBatch::try_new(flat_schema(), columns).unwrap()
    }

    fn combined(old: &RecordBatch, new: &RecordBatch) -> Option<(String, String, i64)> {
        let both = combine((old, 0), (new, 0)).unwrap()?;
        let text = |name: &str| both.column_by_name(name).unwrap().as_string::<i32>().value(0).to_owned();
        let count = both.column_by_name("value_count").unwrap().as_primitive::<Int64Type>().value(0);
        Some((text("min"), text("max"), count))
    }

    #[test]
    fn ranges_grow_and_counts_add_up() {
        let loose = |min, max, kind| row(Some((min, max)), kind, false, false);
        let found = combined(&loose("9", "10", "LONG"), &loose("8", "9", "LONG"));
        assert_eq!(found, Some(("8".to_owned(), "10".to_owned(), 4)));
        let found = combined(&loose("9.00", "10.00", "DECIMAL"), &loose("-1.00", "9.50", "DECIMAL"));
        assert_eq!(found, Some(("-1.00".to_owned(), "10.00".to_owned(), 4)));
        let none = row(None, "LONG", false, false);
        let one = loose("1", "2", "LONG");
        let wanted = Some(("1".to_owned(), "2".to_owned(), 4));
        assert_eq!((combined(&one, &none), combined(&none, &one)), (wanted.clone(), wanted));
    }

    #[test]
    fn tight_and_deleted_statistics_replace_others() {
        let loose = row(Some(("1", "2")), "LONG", false, false);
        for (old, new) in [
            (&loose, row(Some(("1", "2")), "LONG", true, false)),
            (&loose, row(None, "LONG", false, true)),
            (&row(None, "LONG", false, true), loose.clone()),
        ] {
            assert_eq!(combined(old, &new), None);
        }
    }
}
