//! The schema of a table, and how a batch changes it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use super::config::TableConfig;
use crate::error::{Error, Result};
use crate::format::avro::schema::{META_FIELDS, avro_to_arrow_schema, held_schema};
use crate::format::field_lookup::FieldLookup;
use crate::format::internal_schema::SchemaHistory;

/// The five meta columns.
pub(crate) const META_COLUMNS: [&str; 5] = META_FIELDS;

/// Operations that never change the schema; the schema in their commits does not count.
pub(super) const KEEP_SCHEMA: [&str; 4] = ["CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"];

/// A table's schema.
#[derive(Debug, Clone)]
pub struct TableSchema {
    /// The columns, without meta columns.
    pub data: SchemaRef,
    /// All schemas that the table had, where fields have ids.
    pub history: Option<SchemaHistory>,
}

/// The schema of a table in the metadata of a commit.
#[derive(Debug, Clone)]
pub(super) struct ArchivedSchema {
    /// As Avro.
    pub(super) avro: String,
    /// With field ids, where the table has them.
    pub(super) ids: Option<String>,
}

impl TableSchema {
    /// The schema with the partition columns that Hudi leaves out of its files and of their schema: as Hudi's readers
    /// do, they come back as text, behind the others.
    pub(super) fn with_path_columns(self, config: &TableConfig) -> Self {
        if !config.drops_partition_columns() {
            return self;
        }
        let missing = config.partition_fields().into_iter().filter(|name| self.data.field_with_name(name).is_err());
        let from_path = missing.map(|name| Arc::new(Field::new(name, DataType::Utf8, true))).collect::<Vec<_>>();
        let fields = self.data.fields().iter().cloned().chain(from_path);
        Self { data: Arc::new(Schema::new(fields.collect::<Fields>())), history: self.history }
    }

    pub(super) fn from_avro(json: &str) -> Result<Self> {
        Ok(Self { data: without_meta_columns(&avro_to_arrow_schema(json)?), history: None })
    }
}

pub(super) fn without_meta_columns(schema: &Schema) -> SchemaRef {
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
pub(crate) struct SchemaChange {
    /// Columns that the batch lacks become null (`hoodie.write.set.null.for.missing.columns`,
    /// `hoodie.datasource.write.reconcile.schema`).
    pub null_for_missing: bool,
}

impl SchemaChange {
    /// The schema that the table has after a write of such batches: its columns, widened where the batch is wider, then
    /// the batch's new columns.
    pub(crate) fn apply(self, table: Option<&Schema>, incoming: &Schema) -> Result<SchemaRef> {
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
pub(crate) fn held_incoming(incoming: &Schema) -> Result<Schema> {
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

/// The error of a column whose types in the table and in the data have nothing in common.
pub(super) fn types_differ(path: &str, table: &DataType, incoming: &DataType) -> Error {
    Error::schema(format!("column '{path}' is {table} in the table and {incoming} in the data"))
        .with("column", path)
        .remedy("Cast the column to the table's type, or to a wider one")
}

/// The type that holds both: the table's, or the batch's where it is wider.
fn unify(table: &DataType, incoming: &DataType, path: &str) -> Result<DataType> {
    use DataType::{
        Binary, Date32, Decimal128, FixedSizeBinary, Float32, Float64, Int32, Int64, List, Map, Struct, Timestamp, Utf8,
    };
    let misfit = || types_differ(path, table, incoming);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
    fn columns_of_other_types_are_refused_by_name() {
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
}
