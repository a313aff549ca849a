//! The schema of a table, how a batch changes it, and bringing batches to it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow_cast::cast_with_options;

use super::TableView;
use super::config::TableConfig;
use super::fit::{Fit, does_not_fit, fit_column};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, evolve};
use crate::format::avro::schema::{META_FIELDS, avro_to_arrow_schema, held_schema};
use crate::format::field_lookup::FieldLookup;

/// The five meta columns.
pub const META_COLUMNS: [&str; 5] = META_FIELDS;

/// Operations that never change the schema; the schema in their commits does not count.
pub(super) const KEEP_SCHEMA: [&str; 4] = ["CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"];

/// A table's schema.
#[derive(Debug, Clone)]
pub struct TableSchema {
    /// The columns, without meta columns.
    pub data: SchemaRef,
}

impl TableSchema {
    /// The schema as of a view: from the last commit that may have changed it, else from `CREATE TABLE`, else from a
    /// base file. `None` when the table has never had one.
    pub fn resolve(config: &TableConfig, view: &TableView) -> Result<Option<Self>> {
        if view.schema.get().is_none() {
            let _ = view.schema.set(Self::stored(config, view)?);
        }
        Ok(view.schema.get().cloned().flatten().map(|schema| schema.with_path_columns(config)))
    }

    /// The schema with the partition columns that Hudi leaves out of its files and of their schema: as Hudi's readers
    /// do, they come back as text, behind the others.
    fn with_path_columns(self, config: &TableConfig) -> Self {
        if !config.drops_partition_columns() {
            return self;
        }
        let missing = config.partition_fields().into_iter().filter(|name| self.data.field_with_name(name).is_err());
        let from_path = missing.map(|name| Arc::new(Field::new(name, DataType::Utf8, true))).collect::<Vec<_>>();
        let fields = self.data.fields().iter().cloned().chain(from_path);
        Self { data: Arc::new(Schema::new(fields.collect::<Fields>())) }
    }

    fn stored(config: &TableConfig, view: &TableView) -> Result<Option<Self>> {
        for instant in view.timeline().completed_writes().rev() {
            let metadata = view.write_metadata(instant)?;
            if metadata.operation_type.as_deref().is_some_and(|op| KEEP_SCHEMA.contains(&op)) {
                continue;
            }
            if let Some(json) = metadata.extra_metadata.get("schema").filter(|s| !s.is_empty()) {
                return Self::from_avro(json).map(Some).map_err(|e| e.with("instant", instant));
            }
        }
        if let Some(json) = view.archived_schema() {
            return Self::from_avro(json).map(Some);
        }
        if let Some(json) = config.get("hoodie.table.create.schema") {
            return Self::from_avro(json).map(Some);
        }
        if let Some(base) = view.all_latest_slices()?.into_iter().find_map(|s| s.base) {
            let file = view.storage().reader(&base.path, base.size)?;
            let reader = BaseFileReader::open(file).map_err(|e| e.with("file", &base.path))?;
            return Ok(Some(Self { data: without_meta_columns(reader.schema()) }));
        }
        Ok(None)
    }

    fn from_avro(json: &str) -> Result<Self> {
        Ok(Self { data: without_meta_columns(&avro_to_arrow_schema(json)?) })
    }
}

fn without_meta_columns(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().filter(|f| !META_COLUMNS.contains(&f.name().as_str())).cloned();
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// The schema of data files: the meta columns first.
pub fn with_meta_columns(data: &Schema) -> SchemaRef {
    let meta = META_COLUMNS.iter().map(|name| Arc::new(Field::new(*name, DataType::Utf8, true)));
    Arc::new(Schema::new(meta.chain(data.fields().iter().cloned()).collect::<Fields>()))
}

/// How a batch's schema is taken into a table's.
#[derive(Debug, Clone, Copy, Default)]
pub struct SchemaChange {
    /// Columns that the batch lacks become null (`hoodie.write.set.null.for.missing.columns`,
    /// `hoodie.datasource.write.reconcile.schema`).
    pub null_for_missing: bool,
}

impl SchemaChange {
    /// The schema that the table has after a write of such batches: its columns, widened where the batch is wider, then
    /// the batch's new columns.
    pub fn apply(self, table: Option<&Schema>, incoming: &Schema) -> Result<SchemaRef> {
        let incoming = held_incoming(incoming)?;
        let Some(table) = table else { return Ok(Arc::new(incoming)) };
        let mut fields: Vec<FieldRef> = Vec::with_capacity(table.fields().len());
        let given = FieldLookup::new(incoming.fields());
        for field in table.fields() {
            match given.get(field.name()) {
                Some(new) => fields.push(Arc::new(unify_field(field, new, field.name())?)),
                None if self.null_for_missing => fields.push(Arc::new(field.as_ref().clone().with_nullable(true))),
                None => return Err(missing_column(field.name(), &incoming)),
            }
        }
        let stored = FieldLookup::new(table.fields());
        for new in incoming.fields().iter().filter(|f| !stored.has(f.name())) {
            if let Some(same) = table.fields().iter().find(|f| f.name().eq_ignore_ascii_case(new.name())) {
                return Err(Error::schema(format!(
                    "column '{}' differs from '{}' only in case",
                    new.name(),
                    same.name()
                ))
                .remedy("Rename the column"));
            }
            // Rows that are there already have no value for it.
            if !new.is_nullable() && !self.null_for_missing {
                return Err(Error::schema(format!("the new column '{}' is not nullable", new.name()))
                    .remedy("Make it nullable: rows that are already in the table have no value for it"));
            }
            fields.push(Arc::new(new.as_ref().clone().with_nullable(true)));
        }
        Ok(Arc::new(Schema::new(fields)))
    }
}

fn missing_column(name: &str, incoming: &Schema) -> Error {
    let has: Vec<&str> = incoming.fields().iter().map(|f| f.name().as_str()).collect();
    Error::schema(format!("the data have no column '{name}', which the table has"))
        .with("columns", has.join(","))
        .remedy("Add the column, or set hoodie.write.set.null.for.missing.columns=true to write nulls")
}

/// The types in which a table holds the batch; refuses duplicate and meta columns.
fn held_incoming(incoming: &Schema) -> Result<Schema> {
    let mut seen = HashSet::new();
    let mut fields: Vec<FieldRef> = Vec::with_capacity(incoming.fields().len());
    for field in incoming.fields() {
        if META_COLUMNS.contains(&field.name().as_str()) {
            continue;
        }
        if !seen.insert(field.name().to_ascii_lowercase()) {
            return Err(Error::schema(format!("the data have two columns '{}'", field.name()))
                .remedy("Give each column one name; case does not distinguish them"));
        }
        refuse_times(field.data_type(), field.name())?;
        fields.push(Arc::new(field.as_ref().clone().with_data_type(micros(field.data_type()))));
    }
    if fields.is_empty() {
        return Err(Error::schema("the data have no columns"));
    }
    held_schema(&Schema::new(fields))
}

/// Avro has times of day, and Spark has not: Hudi there could not read the table.
fn refuse_times(data_type: &DataType, path: &str) -> Result<()> {
    let inner = |field: &Field| refuse_times(field.data_type(), &format!("{path}.{}", field.name()));
    match data_type {
        DataType::Time32(_) | DataType::Time64(_) => {
            Err(Error::unsupported(format!("column '{path}' is {data_type}, which Hudi on Spark cannot read"))
                .with("column", path)
                .remedy("Write the time as text, or as a number of microseconds"))
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => inner(item),
        DataType::Map(entries, _) => inner(entries),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| inner(field)),
        _ => Ok(()),
    }
}

/// Nanosecond timestamps are pandas' habit; they are held in microseconds when nothing is lost.
fn micros(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Dictionary(_, values) => micros(values),
        DataType::Date64 => DataType::Date32,
        other => other.clone(),
    }
}

fn unify_field(table: &Field, incoming: &Field, path: &str) -> Result<Field> {
    let data_type = unify(table.data_type(), incoming.data_type(), path)?;
    let nullable = table.is_nullable() || incoming.is_nullable();
    Ok(Field::new(table.name(), data_type, nullable).with_metadata(table.metadata().clone()))
}

/// The type that holds both: the table's, or the batch's where it is wider.
fn unify(table: &DataType, incoming: &DataType, path: &str) -> Result<DataType> {
    use DataType::{
        Binary, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Int32, Int64, List, Map, Struct, Timestamp, Utf8,
    };
    let misfit = || {
        Error::schema(format!("column '{path}' is {table} in the table and {incoming} in the data"))
            .with("column", path)
            .remedy("Cast the column to the table's type, or to a wider one")
    };
    if table == incoming {
        return Ok(table.clone());
    }
    Ok(match (table, incoming) {
        (Int32, Int64) | (Int64, Int32) => Int64,
        (Int32 | Int64, Float32) | (Float32, Int32 | Int64) => Float32,
        (Int32 | Int64 | Float32, Float64) | (Float64, Int32 | Int64 | Float32) => Float64,
        (Int32 | Int64 | Float32 | Float64, Utf8) => Utf8,
        // Hudi on Spark, which has no fixed binary, makes such columns binary when it is told to reconcile schemas.
        (Binary, FixedSizeBinary(_) | Utf8) => Binary,
        (Utf8, Int32 | Int64 | Float32 | Float64 | Date32 | Binary) => Utf8,
        (Decimal128(p1, s1), Decimal128(p2, s2)) => {
            let scale = *s1.max(s2);
            let whole = (i16::from(*p1) - i16::from(*s1)).max(i16::from(*p2) - i16::from(*s2));
            match u8::try_from(whole + i16::from(scale)) {
                Ok(precision) if precision <= 38 => Decimal128(precision, scale),
                _ => return Err(misfit()),
            }
        }
        // The unit is the table's; values are converted.
        (Timestamp(_, z1), Timestamp(_, z2)) if z1.is_some() == z2.is_some() => table.clone(),
        (List(a), List(b)) => List(Arc::new(unify_field(a, b, path)?)),
        (Map(a, sorted), Map(b, _)) => Map(Arc::new(unify_field(a, b, path)?), *sorted),
        (Struct(a), Struct(b)) => Struct(unify_struct(a, b, path)?),
        _ => return Err(misfit()),
    })
}

fn unify_struct(table: &Fields, incoming: &Fields, path: &str) -> Result<Fields> {
    let mut fields: Vec<FieldRef> = Vec::with_capacity(table.len());
    let (given, stored) = (FieldLookup::new(incoming), FieldLookup::new(table));
    for field in table {
        let path = format!("{path}.{}", field.name());
        match given.get(field.name()) {
            Some(new) => fields.push(Arc::new(unify_field(field, new, &path)?)),
            None if field.is_nullable() => fields.push(field.clone()),
            None => {
                return Err(Error::schema(format!("the data have no required field '{path}'")).with("column", path));
            }
        }
    }
    for new in incoming.iter().filter(|f| !stored.has(f.name())) {
        fields.push(Arc::new(new.as_ref().clone().with_nullable(true)));
    }
    Ok(fields.into())
}

/// Brings a batch to the schema of the table: types cast, columns in order, missing ones null.
pub fn conform_batch(batch: &RecordBatch, target: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(target.fields().len());
    let given = FieldLookup::new(batch.schema_ref().fields());
    for field in target.fields() {
        let column = match given.position(field.name()).and_then(|at| batch.columns().get(at)) {
            Some(column) => column.clone(),
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        match fit_column(&column, field)? {
            Fit::Fits(column) => columns.push(column),
            Fit::Misfit(row) => return Err(does_not_fit(&column, field, row, 0)),
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(target.clone(), columns, &options)?)
}

/// Brings a column without nested ones to a type that holds all that its own does.
pub(super) fn conform_leaf(column: &ArrayRef, target: &DataType, name: &str) -> Result<ArrayRef> {
    let source = Schema::new(vec![Field::new("v", column.data_type().clone(), true)]);
    let held = held_incoming(&source).map_err(|e| e.with("column", name))?;
    let held_type = held.field(0).data_type();
    let column = cast_exactly(column, held_type, name)?;
    let column = match (held_type, target) {
        (DataType::Timestamp(..), DataType::Timestamp(..))
        | (DataType::FixedSizeBinary(_), DataType::Binary)
        | (DataType::Binary, DataType::Utf8) => cast_exactly(&column, target, name)?,
        _ => column,
    };
    evolve(&column, target, name)
}

/// A cast that fails when it would lose something.
fn cast_exactly(column: &ArrayRef, target: &DataType, name: &str) -> Result<ArrayRef> {
    if column.data_type() == target {
        return Ok(column.clone());
    }
    let options = CastOptions { safe: false, ..Default::default() };
    let lossy = |why: &str| {
        Error::schema(format!("column '{name}' of type {} does not fit {target}: {why}", column.data_type()))
            .with("column", name)
            .remedy("Cast or round the column before writing")
    };
    let out = cast_with_options(column, target, &options)
        .map_err(|e| lossy("a value is out of range or malformed").caused_by(e))?;
    if column.data_type() == &DataType::Date64 && &cast_with_options(&out, column.data_type(), &options)? != column {
        return Err(lossy("the time of day would be lost"));
    }
    if let (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) = (column.data_type(), target) {
        let digits = |unit: &TimeUnit| match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        if digits(from) > digits(to) {
            let back = cast_with_options(&out, column.data_type(), &options)?;
            if &back != column {
                return Err(lossy("fractions of the smaller unit would be lost"));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Int32Array, StringArray, TimestampNanosecondArray};

    fn schema(fields: &[(&str, DataType, bool)]) -> Schema {
        Schema::new(fields.iter().map(|(n, t, null)| Field::new(*n, t.clone(), *null)).collect::<Vec<_>>())
    }

    #[test]
    fn a_batch_widens_the_table_and_not_the_other_way_round() {
        let table = schema(&[("a", DataType::Int32, true), ("b", DataType::Int64, true)]);
        let batch = schema(&[("b", DataType::Int32, true), ("c", DataType::Utf8, true), ("a", DataType::Int64, true)]);
        let got = SchemaChange::default().apply(Some(&table), &batch).unwrap();
        let names: Vec<_> = got.fields().iter().map(|f| (f.name().as_str(), f.data_type().clone())).collect();
        assert_eq!(names, [("a", DataType::Int64), ("b", DataType::Int64), ("c", DataType::Utf8)]);
    }

    #[test]
    fn misfits_are_refused_by_name() {
        let table = schema(&[("a", DataType::Int32, true)]);
        for bad in [
            schema(&[("a", DataType::Boolean, true)]),
            schema(&[("b", DataType::Int32, true)]),
            schema(&[("a", DataType::Int32, true), ("A", DataType::Int32, true)]),
            schema(&[("a", DataType::Int32, true), ("n", DataType::Int32, false)]),
            schema(&[("a", DataType::Int32, true), ("u", DataType::UInt64, true)]),
        ] {
            assert!(SchemaChange::default().apply(Some(&table), &bad).is_err(), "{bad:?}");
        }
        let b = schema(&[("b", DataType::Int32, true)]);
        assert!(SchemaChange { null_for_missing: true }.apply(Some(&table), &b).is_ok());
    }

    #[test]
    fn nanoseconds_are_taken_when_nothing_is_lost() {
        let target = Arc::new(schema(&[("t", DataType::Timestamp(TimeUnit::Microsecond, None), true)]));
        let batch = |v: i64| {
            RecordBatch::try_from_iter([("t", Arc::new(TimestampNanosecondArray::from(vec![v])) as ArrayRef)]).unwrap()
        };
        assert!(conform_batch(&batch(5_000), &target).is_ok());
        assert!(conform_batch(&batch(5_001), &target).is_err());
    }

    #[test]
    fn numbers_become_text_where_the_table_says_so() {
        let target = Arc::new(schema(&[("a", DataType::Utf8, true)]));
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![5])) as ArrayRef)]).unwrap();
        let got = conform_batch(&batch, &target).unwrap();
        assert_eq!(got.column(0).as_ref(), &StringArray::from(vec!["5"]) as &dyn Array);
    }
}
