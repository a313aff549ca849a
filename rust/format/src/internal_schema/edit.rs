//! Changes of a schema with field ids: what Hudi's `ALTER TABLE` does to it.

use arrow::datatypes::{DataType, Field, Fields, Schema};

use super::convert::{Ids, Spelling, arrow_type, internal_field, primitive};
use super::{InternalField, InternalSchema, InternalType};
use crate::avro::schema::META_FIELDS;
use hoodoo_runtime::error::{Error, Result};

/// Where a column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnPlace {
    /// In front of the others; at the top, behind the meta columns.
    First,
    /// Behind this one, which is in the same struct.
    After(String),
    /// Behind all others.
    Last,
}

/// One change. Fields of structs are named with their path: `a.b`, `list.element.b`, `map.value.b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaEdit {
    /// Adds a column, which may be null.
    Add {
        /// Its name.
        name: String,
        /// Its type, as a table holds it.
        data_type: DataType,
        /// What it is for.
        doc: Option<String>,
        /// Where it goes.
        place: ColumnPlace,
    },
    /// Gives a column another name; `to` is no path.
    Rename {
        /// Its name.
        name: String,
        /// The other one.
        to: String,
    },
    /// Removes a column.
    Drop {
        /// Its name.
        name: String,
    },
    /// Changes what a column is.
    Change {
        /// Its name.
        name: String,
        /// Its type from now on.
        data_type: Option<DataType>,
        /// Whether it may be null from now on.
        nullable: Option<bool>,
        /// What it is for.
        doc: Option<String>,
    },
    /// Moves a column.
    Move {
        /// Its name.
        name: String,
        /// Where it goes.
        place: ColumnPlace,
    },
}

impl SchemaEdit {
    /// The column that is changed.
    pub fn column(&self) -> &str {
        match self {
            Self::Add { name, .. }
            | Self::Rename { name, .. }
            | Self::Drop { name }
            | Self::Change { name, .. }
            | Self::Move { name, .. } => name,
        }
    }

    /// Whether files and statistics of before are right without field ids: a column at the end, a number that is widened.
    pub fn is_plain(&self, columns: &Schema) -> bool {
        match self {
            Self::Add { name, place: ColumnPlace::Last, doc: None, .. } => !name.contains('.'),
            Self::Change { name, data_type: Some(to), nullable: None, doc: None } => {
                columns.field_with_name(name).is_ok_and(|from| is_promotion(from.data_type(), to))
            }
            _ => false,
        }
    }
}

/// What Avro's own rules read as a wider type.
pub fn is_promotion(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float32, Float64, Int32, Int64};
    matches!((from, to), (Int32, Int64 | Float32 | Float64) | (Int64, Float32 | Float64) | (Float32, Float64))
}

fn no_column(name: &str) -> Error {
    Error::schema(format!("the table has no column '{name}'")).with("column", name)
}

impl InternalSchema {
    /// The schema after some changes, each of which sees those before it. The version stays.
    ///
    /// # Errors
    /// `Schema` for a column that is not there, or is there already, and for types that do not take all values of before;
    /// `Unsupported` for a type that Hudi cannot read.
    pub fn edited(&self, edits: &[SchemaEdit]) -> Result<Self> {
        let mut schema = self.clone();
        for edit in edits {
            schema.edit(edit).map_err(|e| e.with("column", edit.column()))?;
        }
        Ok(schema)
    }

    fn edit(&mut self, edit: &SchemaEdit) -> Result<()> {
        check_not_meta(edit.column())?;
        let (parent, leaf) = split(edit.column());
        let mut ids = Ids::after(self.max_column_id);
        let is_top = parent.is_empty();
        let fields = self.fields_of(parent).ok_or_else(|| match edit {
            SchemaEdit::Add { .. } => no_column(parent),
            _ => no_column(edit.column()),
        })?;
        match edit {
            SchemaEdit::Add { name, data_type, doc, place } => {
                check_new(fields, leaf)?;
                let field = Field::new(leaf, data_type.clone(), true);
                let id = ids.next();
                let field = InternalField {
                    doc: doc.clone(),
                    ..internal_field(id, &field, split(name).0, &mut ids, Spelling::OfChange)?
                };
                put(fields, field, place, is_top)?;
            }
            SchemaEdit::Rename { to, .. } => {
                let at = position(fields, leaf)?;
                let others = fields.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, field)| field);
                check_free(others, to)?;
                if let Some(field) = fields.get_mut(at) {
                    field.name.clone_from(to);
                }
            }
            SchemaEdit::Drop { name } => {
                let at = position(fields, leaf)?;
                fields.remove(at);
                if fields.iter().all(|field| META_FIELDS.contains(&field.name.as_str())) {
                    return Err(Error::schema(format!("'{name}' is the only column, and cannot be dropped")));
                }
            }
            SchemaEdit::Change { name, data_type, nullable, doc } => {
                let at = position(fields, leaf)?;
                let field = fields.get_mut(at).ok_or_else(|| no_column(name))?;
                change(field, name, data_type.as_ref(), *nullable)?;
                if let Some(doc) = doc {
                    field.doc = Some(doc.clone());
                }
            }
            SchemaEdit::Move { place, .. } => {
                let at = position(fields, leaf)?;
                let field = fields.remove(at);
                put(fields, field, place, is_top)?;
            }
        }
        self.max_column_id = ids.largest();
        Ok(())
    }

    /// The fields of a struct; those of the table for an empty path.
    fn fields_of(&mut self, path: &str) -> Option<&mut Vec<InternalField>> {
        let mut fields = &mut self.fields;
        let mut parts = path.split('.').filter(|part| !part.is_empty());
        while let Some(part) = parts.next() {
            let field = fields.iter_mut().find(|field| field.name == part)?;
            fields = fields_in_mut(&mut field.data_type, &mut parts)?;
        }
        Some(fields)
    }
}

fn fields_in_mut<'a, 'p>(
    data_type: &'a mut InternalType,
    parts: &mut impl Iterator<Item = &'p str>,
) -> Option<&'a mut Vec<InternalField>> {
    match data_type {
        InternalType::Record(fields) => Some(fields),
        InternalType::Array { element, .. } if parts.next()? == "element" => fields_in_mut(element, parts),
        InternalType::Map { value, .. } if parts.next()? == "value" => fields_in_mut(value, parts),
        _ => None,
    }
}

/// The path of what a field is in, and its own name.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

fn position(fields: &[InternalField], name: &str) -> Result<usize> {
    fields.iter().position(|field| field.name == name).ok_or_else(|| no_column(name))
}

fn check_not_meta(name: &str) -> Result<()> {
    if name.to_ascii_lowercase().starts_with("_hoodie_") {
        return Err(Error::schema(format!("'{name}' is a name of Hudi's own columns")));
    }
    Ok(())
}

fn check_new(fields: &[InternalField], name: &str) -> Result<()> {
    check_free(fields.iter(), name)
}

/// Whether a field can have this name.
fn check_free<'a>(mut others: impl Iterator<Item = &'a InternalField>, name: &str) -> Result<()> {
    check_not_meta(name)?;
    if name.is_empty() || name.contains('.') {
        return Err(Error::schema(format!("'{name}' is no name of a column"))
            .remedy("Use letters, digits and underscores; a field stays in its struct"));
    }
    match others.find(|field| field.name.eq_ignore_ascii_case(name)) {
        Some(other) => Err(Error::schema(format!("the table has a column '{}' already", other.name))
            .remedy("Give each column one name; case does not distinguish them")),
        None => Ok(()),
    }
}

/// Puts a field among others.
fn put(fields: &mut Vec<InternalField>, field: InternalField, place: &ColumnPlace, is_top: bool) -> Result<()> {
    let at = match place {
        ColumnPlace::Last => fields.len(),
        ColumnPlace::First if is_top => META_FIELDS.len().min(fields.len()),
        ColumnPlace::First => 0,
        ColumnPlace::After(other) => {
            check_not_meta(other)?;
            position(fields, split(other).1)? + 1
        }
    };
    fields.insert(at, field);
    Ok(())
}

fn change(field: &mut InternalField, name: &str, data_type: Option<&DataType>, nullable: Option<bool>) -> Result<()> {
    if let Some(to) = data_type {
        let from = arrow_type(&field.data_type, name)?;
        if from != *to {
            if !takes_all(&from, to) {
                return Err(Error::schema(format!("column '{name}' is {from} and cannot become {to}"))
                    .remedy("Hudi changes int to long, float, double, string, decimal; long, float and double to wider ones, string, decimal; date and decimal to string; string to date, decimal; decimal to a wider one"));
            }
            field.data_type = InternalType::Primitive(primitive(to, name, Spelling::OfChange)?);
        }
    }
    match nullable {
        Some(false) if field.optional => {
            Err(Error::schema(format!("column '{name}' may be null, and rows may have null there"))
                .remedy("A column can become nullable, but not the other way round"))
        }
        Some(nullable) => {
            field.optional = nullable;
            Ok(())
        }
        None => Ok(()),
    }
}

/// The changes of a type that Hudi allows (`SchemaChangeUtils.isTypeUpdateAllow`).
pub(super) fn takes_all(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, Int32, Int64, Utf8};
    match (from, to) {
        (Int32, Int64 | Float32 | Float64 | Utf8 | Decimal128(..))
        | (Int64, Float32 | Float64 | Utf8 | Decimal128(..))
        | (Float32, Float64 | Utf8 | Decimal128(..))
        | (Float64, Utf8 | Decimal128(..))
        | (Date32 | Decimal128(..), Utf8)
        | (Utf8, Date32 | Decimal128(..)) => true,
        (Decimal128(p, s), Decimal128(to_p, to_s)) => {
            to_s >= s && i16::from(*to_p) - i16::from(*to_s) >= i16::from(*p) - i16::from(*s)
        }
        _ => false,
    }
}

impl InternalSchema {
    /// The schema of a write that gives the table these columns, without meta columns: its columns with the types they have
    /// now, and new ones behind them. `None` if nothing is different.
    ///
    /// # Errors
    /// `Unsupported` for a new column of a type that Hudi cannot read; `Internal` for columns that are not those of the
    /// table.
    pub fn evolved(&self, columns: &Schema) -> Result<Option<Self>> {
        let mut ids = Ids::after(self.max_column_id);
        let mut fields = self.fields.clone();
        merge(&mut fields, columns.fields(), "", &mut ids)?;
        if fields == self.fields {
            return Ok(None);
        }
        Ok(Some(Self { version: self.version, max_column_id: ids.largest(), fields }))
    }
}

/// Takes the types, and the new ones, of a struct's fields.
fn merge(known: &mut Vec<InternalField>, fields: &Fields, path: &str, ids: &mut Ids) -> Result<()> {
    for field in fields {
        let path = if path.is_empty() { field.name().clone() } else { format!("{path}.{}", field.name()) };
        match known.iter_mut().find(|known| known.name == *field.name()) {
            Some(known) => {
                merge_type(&mut known.data_type, field.data_type(), &path, ids)?;
                known.optional |= field.is_nullable();
            }
            None => {
                let id = ids.next();
                known.push(internal_field(id, field, split(&path).0, ids, Spelling::OfChange)?);
            }
        }
    }
    Ok(())
}

fn merge_type(known: &mut InternalType, now: &DataType, path: &str, ids: &mut Ids) -> Result<()> {
    if arrow_type(known, path)? == *now {
        return Ok(());
    }
    match (known, now) {
        (InternalType::Record(known), DataType::Struct(fields)) => merge(known, fields, path, ids),
        (InternalType::Array { element, optional, .. }, DataType::List(field)) => {
            *optional |= field.is_nullable();
            merge_type(element, field.data_type(), &format!("{path}.element"), ids)
        }
        (InternalType::Map { value, optional, .. }, DataType::Map(entries, _)) => {
            let DataType::Struct(pair) = entries.data_type() else { return Ok(()) };
            let Some(field) = pair.get(1) else { return Ok(()) };
            *optional |= field.is_nullable();
            merge_type(value, field.data_type(), &format!("{path}.value"), ids)
        }
        (known @ InternalType::Primitive(_), now) => {
            *known = InternalType::Primitive(primitive(now, path, Spelling::OfChange)?);
            Ok(())
        }
        _ => Err(Error::internal(format!("column '{path}' of a write is not that of the table"))),
    }
}
