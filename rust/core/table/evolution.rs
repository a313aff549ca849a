//! How a write may change the schema of a table.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use super::schema::SchemaChange;
use crate::error::{Error, Result};

/// A column of a table that a commit added or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnChange {
    /// The column.
    pub column: String,
    /// Its type before; none of a new column.
    pub old: Option<String>,
    /// Its type now.
    pub new: String,
}

/// The schemas between which a write ends: the table's, with the new columns of the rows, when all values fit; and the
/// one that takes all that the rows declare.
#[derive(Debug, Clone)]
pub(crate) struct Evolution {
    /// The table's types, and new columns.
    pub narrow: SchemaRef,
    /// The same columns, as wide as the rows declare them. Equal to `narrow` when no change is allowed.
    pub wide: SchemaRef,
    /// What becomes of values without a change of the schema, and might not be meant.
    pub notes: Vec<String>,
}

impl Evolution {
    /// One that changes nothing.
    pub(crate) fn none(schema: SchemaRef) -> Self {
        Self { narrow: schema.clone(), wide: schema, notes: Vec::new() }
    }

    /// Takes rows of these columns into a table.
    ///
    /// # Errors
    /// `Schema` for types that do not fit, and for every change when changes are refused.
    pub(crate) fn of(change: SchemaChange, table: Option<&SchemaRef>, incoming: &Schema, refuse: bool) -> Result<Self> {
        let Some(table) = table else { return Ok(Self::none(change.apply(None, incoming)?)) };
        let incoming = with_types_of(incoming, table);
        let wide = change.apply(Some(table.as_ref()), &incoming)?;
        let narrow = |field: &FieldRef| match table.field_with_name(field.name()) {
            // Of a column that the rows lack all values are null.
            Ok(stored) if incoming.field_with_name(field.name()).is_ok() => Arc::new(stored.clone()),
            _ => field.clone(),
        };
        let narrow = Arc::new(Schema::new(wide.fields().iter().map(narrow).collect::<Fields>()));
        let notes = texts_of_others(table, &incoming);
        if !refuse {
            return Ok(Self { narrow, wide, notes });
        }
        let changed = schema_changes(Some(table), &narrow);
        if let Some(change) = changed.first() {
            let what = change.old.as_ref().map_or("is new", |_| "would change");
            return Err(Error::schema(format!("column '{}' {what}, and schema changes are refused", change.column))
                .with("column", &change.column)
                .with("type", &change.new)
                .remedy("Leave the column out, or write with schema_evolution='allow'"));
        }
        match notes.into_iter().next() {
            Some(note) => Err(Error::schema(format!("{note}, and schema changes are refused"))
                .remedy("Cast the column, or write with schema_evolution='allow'")),
            None => Ok(Self { wide: narrow.clone(), narrow, notes: Vec::new() }),
        }
    }

    /// The schema with some columns as wide as the rows declare them.
    pub(crate) fn widened(&self, columns: &[String]) -> SchemaRef {
        let pick = |(narrow, wide): (&FieldRef, &FieldRef)| match columns.contains(narrow.name()) {
            true => wide.clone(),
            false => narrow.clone(),
        };
        Arc::new(Schema::new(self.narrow.fields().iter().zip(self.wide.fields()).map(pick).collect::<Fields>()))
    }
}

/// What columns a schema has that another one lacks or has otherwise.
pub fn schema_changes(old: Option<&SchemaRef>, new: &Schema) -> Vec<ColumnChange> {
    let Some(old) = old else { return Vec::new() };
    let change = |field: &FieldRef| {
        let before = old.field_with_name(field.name()).ok();
        let same = before.is_some_and(|b| b.data_type() == field.data_type() && b.is_nullable() == field.is_nullable());
        let (column, new) = (field.name().clone(), type_name(field));
        (!same).then(|| ColumnChange { column, old: before.map(type_name), new })
    };
    new.fields().iter().filter_map(change).collect()
}

/// The names of pyarrow.
fn type_name(field: &Field) -> String {
    let name = match field.data_type() {
        DataType::Boolean => "bool".to_owned(),
        DataType::Int32 => "int32".to_owned(),
        DataType::Int64 => "int64".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::Date32 => "date32".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision}, {scale})"),
        DataType::Timestamp(unit, zone) => {
            let unit = if unit == &TimeUnit::Millisecond { "ms" } else { "us" };
            zone.as_ref().map_or_else(|| format!("timestamp[{unit}]"), |zone| format!("timestamp[{unit}, tz={zone}]"))
        }
        other => other.to_string(),
    };
    if field.is_nullable() { name } else { format!("{name} not null") }
}

/// The given columns; those without values, which have no type of their own, with the table's.
fn with_types_of(incoming: &Schema, table: &Schema) -> Schema {
    let typed = |field: &FieldRef| match table.field_with_name(field.name()) {
        Ok(stored) => Arc::new(field.as_ref().clone().with_data_type(typed_as(field.data_type(), stored.data_type()))),
        Err(_) => field.clone(),
    };
    Schema::new(incoming.fields().iter().map(typed).collect::<Fields>())
}

fn typed_as(given: &DataType, stored: &DataType) -> DataType {
    use DataType::{FixedSizeList, LargeList, List, Null, Struct};
    match (given, stored) {
        (Null, _) => stored.clone(),
        (List(item) | LargeList(item) | FixedSizeList(item, _), List(held)) => {
            let inner = typed_as(item.data_type(), held.data_type());
            List(Arc::new(item.as_ref().clone().with_data_type(inner)))
        }
        (Struct(fields), Struct(held)) => {
            let inner = |field: &FieldRef| match held.iter().find(|f| f.name() == field.name()) {
                Some(f) => Arc::new(field.as_ref().clone().with_data_type(typed_as(field.data_type(), f.data_type()))),
                None => field.clone(),
            };
            Struct(fields.iter().map(inner).collect())
        }
        _ => given.clone(),
    }
}

/// Numbers and dates that become text, for that is what the table's column holds.
fn texts_of_others(table: &Schema, incoming: &Schema) -> Vec<String> {
    let is_other = |data_type: &DataType| data_type.is_numeric() || data_type.is_temporal();
    let note = |field: &FieldRef| {
        let held = incoming.field_with_name(field.name()).ok()?.data_type();
        (field.data_type() == &DataType::Utf8 && is_other(held))
            .then(|| format!("column '{}': values of type {held} are stored as text", field.name()))
    };
    table.fields().iter().filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
        Arc::new(Schema::new(fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect::<Vec<_>>()))
    }

    #[test]
    fn the_table_keeps_its_types_until_values_need_others() {
        let table = schema(&[("a", DataType::Int32), ("t", DataType::Utf8)]);
        let rows = schema(&[("a", DataType::Int64), ("t", DataType::Null), ("n", DataType::Float64)]);
        let change = Evolution::of(SchemaChange::default(), Some(&table), &rows, false).unwrap();
        assert_eq!(change.narrow.field(0).data_type(), &DataType::Int32);
        assert_eq!(change.wide.field(0).data_type(), &DataType::Int64);
        let changed = schema_changes(Some(&table), &change.widened(&["a".to_owned()]));
        let found: Vec<_> = changed.iter().map(|c| (c.column.as_str(), c.old.as_deref(), c.new.as_str())).collect();
        assert_eq!(found, [("a", Some("int32"), "int64"), ("n", None, "double")]);
        assert!(Evolution::of(SchemaChange::default(), Some(&table), &rows, true).is_err());
        let same = schema(&[("a", DataType::Int64), ("t", DataType::Utf8)]);
        let kept = Evolution::of(SchemaChange::default(), Some(&table), &same, true).unwrap();
        assert_eq!(kept.wide, table);
    }

    #[test]
    fn numbers_do_not_become_text_unsaid() {
        let (table, rows) = (schema(&[("t", DataType::Utf8)]), schema(&[("t", DataType::Int64)]));
        let of = |refuse| Evolution::of(SchemaChange::default(), Some(&table), &rows, refuse);
        assert_eq!(of(false).unwrap().notes.len(), 1);
        assert!(of(true).is_err());
    }
}
