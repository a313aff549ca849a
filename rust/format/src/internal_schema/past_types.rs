//! The types that columns had before fields got ids.

use arrow::datatypes::{DataType, Fields, Schema};

use super::convert::{Spelling, arrow_type, primitive};
use super::edit::takes_all;
use super::{InternalField, InternalSchema, InternalType, SchemaHistory};
use crate::field_lookup::FieldLookup;
use hoodoo_runtime::error::Result;

impl SchemaHistory {
    /// The history of a table whose fields get ids now: one schema for each change of a type. `commits`: the columns that
    /// each commit names, with its instant, by instant. Columns are found by name, and those that a commit does not name are
    /// those of the commit before.
    ///
    /// Hudi takes it that a file has the types of its schema, so that one for all files would let it read the older ones
    /// wrong, or not at all.
    ///
    /// # Errors
    /// `Corrupt` for an unknown type; `Internal` for an instant that is no number.
    pub fn before_ids(table: InternalSchema, commits: &[(String, Schema)]) -> Result<Self> {
        let mut last = table.clone();
        for (_, columns) in commits.iter().rev() {
            last = last.with_types_of(columns, &table)?;
        }
        let mut older = Vec::new();
        for (instant, columns) in commits {
            let next = last.with_types_of(columns, &table)?;
            if next.fields != last.fields {
                older.push(std::mem::replace(&mut last, next.of_version(instant)?));
            }
        }
        let version = last.version;
        if last.fields == table.fields {
            return Ok(Self::new(InternalSchema { version, ..table }, Some(older)));
        }
        // The last commit is of a service that kept the types of before.
        older.push(last);
        Ok(Self::new(InternalSchema { version: version.saturating_add(1), ..table }, Some(older)))
    }
}

impl InternalSchema {
    /// The same fields with the types that these columns have, where `table`, which has the same fields too, can have come
    /// from them.
    fn with_types_of(&self, columns: &Schema, table: &Self) -> Result<Self> {
        let mut fields = self.fields.clone();
        take_types(&mut fields, &table.fields, columns.fields())?;
        Ok(Self { fields, ..self.clone() })
    }
}

fn take_types(fields: &mut [InternalField], table: &[InternalField], columns: &Fields) -> Result<()> {
    let lookup = FieldLookup::new(columns);
    for (field, table) in fields.iter_mut().zip(table) {
        let column = lookup.position(&field.name).and_then(|at| columns.get(at));
        if let Some(column) = column {
            take_type(&mut field.data_type, &table.data_type, column.data_type(), &field.name)?;
        }
    }
    Ok(())
}

fn take_type(known: &mut InternalType, table: &InternalType, column: &DataType, name: &str) -> Result<()> {
    match (known, table, column) {
        (InternalType::Record(fields), InternalType::Record(table), DataType::Struct(columns)) => {
            take_types(fields, table, columns)
        }
        (InternalType::Array { element, .. }, InternalType::Array { element: table, .. }, DataType::List(column)) => {
            take_type(element, table, column.data_type(), name)
        }
        (InternalType::Map { value, .. }, InternalType::Map { value: table, .. }, DataType::Map(entries, _)) => {
            let DataType::Struct(pair) = entries.data_type() else { return Ok(()) };
            pair.get(1).map_or(Ok(()), |column| take_type(value, table, column.data_type(), name))
        }
        (known @ InternalType::Primitive(_), table @ InternalType::Primitive(_), column) => {
            let of_table = arrow_type(table, name)?;
            if of_table == *column {
                *known = table.clone();
            } else if takes_all(column, &of_table) {
                *known = InternalType::Primitive(primitive(column, name, Spelling::OfAvro)?);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
