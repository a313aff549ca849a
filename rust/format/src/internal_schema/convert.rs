//! Schemas with field ids from Arrow, and into it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};

use super::{InternalField, InternalSchema, InternalType};
use crate::avro::schema::{META_FIELDS, decimal_size};
use hoodoo_runtime::error::{Error, Result};

/// Gives out ids.
pub(super) struct Ids(i32);

impl Ids {
    /// Behind the largest one that was given out.
    pub(super) fn after(largest: i32) -> Self {
        Self(largest)
    }

    pub(super) fn next(&mut self) -> i32 {
        self.0 = self.0.saturating_add(1);
        self.0
    }

    /// The largest one that was given out.
    pub(super) fn largest(&self) -> i32 {
        self.0
    }
}

impl InternalSchema {
    /// The first schema with ids of a table that had none: of its columns, without meta columns.
    ///
    /// # Errors
    /// `Unsupported` for a type that Hudi cannot read in such a schema.
    pub fn first(columns: &Schema) -> Result<Self> {
        Self::numbered(columns, Spelling::OfAvro)
    }

    /// The same of columns of any type, for changes that take no field ids.
    ///
    /// # Errors
    /// `Unsupported` for a type that a table cannot hold.
    pub fn of_columns(columns: &Schema) -> Result<Self> {
        Self::numbered(columns, Spelling::NotStored)
    }

    fn numbered(columns: &Schema, spelling: Spelling) -> Result<Self> {
        let meta = META_FIELDS.map(|name| Arc::new(Field::new(name, DataType::Utf8, true)));
        let all: Fields = meta.into_iter().chain(columns.fields().iter().cloned()).collect();
        let mut ids = Ids::after(-1);
        let mut fields = fields_of(&all, "", &mut ids, spelling)?;
        for field in fields.iter_mut().take(META_FIELDS.len()) {
            field.doc = Some(String::new());
        }
        Ok(Self { version: 0, max_column_id: ids.largest(), fields })
    }

    /// The columns, without meta columns.
    ///
    /// # Errors
    /// `Corrupt` for an unknown type.
    pub fn columns(&self) -> Result<Schema> {
        let is_data = |field: &&InternalField| !META_FIELDS.contains(&field.name.as_str());
        Ok(Schema::new(self.fields.iter().filter(is_data).map(arrow_field).collect::<Result<Fields>>()?))
    }
}

/// How types are spelled.
#[derive(Clone, Copy)]
pub(super) enum Spelling {
    /// Decimals as those of an Avro schema.
    OfAvro,
    /// Decimals as those of a changed column.
    OfChange,
    /// Types too that Hudi cannot read in such a schema: it is not stored.
    NotStored,
}

/// Fields with new ids: first all of a level, then what is in them, as Hudi numbers them.
pub(super) fn fields_of(fields: &Fields, path: &str, ids: &mut Ids, spelling: Spelling) -> Result<Vec<InternalField>> {
    let numbered: Vec<(i32, &FieldRef)> = fields.iter().map(|field| (ids.next(), field)).collect();
    numbered.into_iter().map(|(id, field)| internal_field(id, field, path, ids, spelling)).collect()
}

pub(super) fn internal_field(
    id: i32,
    field: &Field,
    path: &str,
    ids: &mut Ids,
    spelling: Spelling,
) -> Result<InternalField> {
    let path = if path.is_empty() { field.name().clone() } else { format!("{path}.{}", field.name()) };
    Ok(InternalField {
        id,
        name: field.name().clone(),
        optional: field.is_nullable(),
        doc: None,
        data_type: internal_type(field.data_type(), &path, ids, spelling)?,
    })
}

fn internal_type(data_type: &DataType, path: &str, ids: &mut Ids, spelling: Spelling) -> Result<InternalType> {
    Ok(match data_type {
        DataType::Struct(fields) => InternalType::Record(fields_of(fields, path, ids, spelling)?),
        DataType::List(element) => {
            let element_id = ids.next();
            let inner = internal_type(element.data_type(), &format!("{path}.element"), ids, spelling)?;
            InternalType::Array { element_id, element: Box::new(inner), optional: element.is_nullable() }
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(unspelled(data_type, path)) };
            let [_, value] = pair.as_ref() else { return Err(unspelled(data_type, path)) };
            let (key_id, value_id) = (ids.next(), ids.next());
            let inner = internal_type(value.data_type(), &format!("{path}.value"), ids, spelling)?;
            InternalType::Map {
                key_id,
                key: Box::new(InternalType::Primitive("string".to_owned())),
                value_id,
                value: Box::new(inner),
                optional: value.is_nullable(),
            }
        }
        other => InternalType::Primitive(primitive(other, path, spelling)?),
    })
}

/// Hudi's name of a type without fields.
pub(super) fn primitive(data_type: &DataType, path: &str, spelling: Spelling) -> Result<String> {
    Ok(match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::Binary => "binary".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamp".to_owned(),
        DataType::FixedSizeBinary(size) => format!("fixed[{size}]"),
        DataType::Decimal128(precision, scale) => match spelling {
            Spelling::OfAvro => format!("decimal_fixed({precision}, {scale})[{}]", decimal_size(*precision)),
            Spelling::OfChange | Spelling::NotStored => format!("decimal({precision}, {scale})"),
        },
        other => match (spelling, unreadable(other)) {
            (Spelling::NotStored, Some(name)) => name.to_owned(),
            _ => return Err(unspelled(other, path)),
        },
    })
}

/// The name of a type that Hudi 1.2 writes into a schema with field ids, and cannot read there.
fn unreadable(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Timestamp(TimeUnit::Millisecond, Some(_)) => "timestamp-millis",
        DataType::Timestamp(TimeUnit::Millisecond, None) => "local-timestamp-millis",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "local-timestamp-micros",
        DataType::Time64(TimeUnit::Microsecond) => "time",
        DataType::Time32(TimeUnit::Millisecond) => "time-millis",
        _ => return None,
    })
}

fn unspelled(data_type: &DataType, path: &str) -> Error {
    Error::unsupported(format!("column '{path}' is {data_type}, which Hudi cannot read in a schema with field ids"))
        .with("column", path)
        .remedy("Add columns at the end and widen numbers: that needs no field ids. Other changes of such a table need a new table")
}

fn arrow_field(field: &InternalField) -> Result<FieldRef> {
    Ok(Arc::new(Field::new(&field.name, arrow_type(&field.data_type, &field.name)?, field.optional)))
}

/// The Arrow type of a column.
pub(super) fn arrow_type(data_type: &InternalType, path: &str) -> Result<DataType> {
    Ok(match data_type {
        InternalType::Primitive(name) => of_name(name).ok_or_else(|| {
            Error::corrupt(format!("column '{path}' has the unknown type '{name}' in a schema with field ids"))
        })?,
        InternalType::Record(fields) => DataType::Struct(fields.iter().map(arrow_field).collect::<Result<Fields>>()?),
        InternalType::Array { element, optional, .. } => {
            DataType::List(Arc::new(Field::new("element", arrow_type(element, path)?, *optional)))
        }
        InternalType::Map { key, value, optional, .. } => {
            let pair = Fields::from(vec![
                Field::new("key", arrow_type(key, path)?, false),
                Field::new("value", arrow_type(value, path)?, *optional),
            ]);
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair), false)), false)
        }
    })
}

fn of_name(name: &str) -> Option<DataType> {
    let utc = || Some(Arc::from("UTC"));
    Some(match name {
        "boolean" => DataType::Boolean,
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "string" | "uuid" => DataType::Utf8,
        "binary" => DataType::Binary,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "time-millis" => DataType::Time32(TimeUnit::Millisecond),
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        "timestamp-millis" => DataType::Timestamp(TimeUnit::Millisecond, utc()),
        "local-timestamp-millis" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "local-timestamp-micros" => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => {
            let (kind, arguments) = name.split_once(['(', '['])?;
            let mut numbers = arguments.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
            let mut number = || numbers.next()?.parse::<u8>().ok();
            match kind {
                "fixed" => DataType::FixedSizeBinary(arguments.trim_end_matches(']').parse().ok()?),
                "decimal" | "decimal_fixed" | "decimal_bytes" => {
                    DataType::Decimal128(number()?, i8::try_from(number()?).ok()?)
                }
                _ => return None,
            }
        }
    })
}
