//! Schemas with ids as Hudi writes them.

use serde_json::{Map, Value, json};

use super::{InternalField, InternalSchema, InternalType};
use hoodoo_runtime::error::{Error, Result};

/// How deep types may nest.
pub(super) const MAX_DEPTH: usize = 64;

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("a schema with field ids is damaged: {what}"))
}

impl InternalSchema {
    /// Reads one schema, as commits have it.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(text: &str) -> Result<Self> {
        Self::from_json(&crate::json::parse(text.as_bytes(), "a schema with field ids is not JSON")?)
    }

    /// Reads the schemas of a table, as `.hoodie/.schema` has them: the newest first.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse_history(text: &[u8]) -> Result<Vec<Self>> {
        let json: Value = crate::json::parse(text, "the schemas of a table are not JSON")?;
        let schemas = json.get("schemas").and_then(Value::as_array).ok_or_else(|| damaged("it has no schemas"))?;
        schemas.iter().map(Self::from_json).collect()
    }

    fn from_json(json: &Value) -> Result<Self> {
        let number = |key: &str| json.get(key).and_then(Value::as_i64);
        let fields = fields_of(json, 0)?;
        let largest = fields.iter().map(|field| field.id).max().unwrap_or(-1);
        let max_column_id = number("max_column_id").and_then(|id| i32::try_from(id).ok()).unwrap_or(largest);
        Ok(Self { version: number("version_id").unwrap_or_default(), max_column_id, fields })
    }

    /// The text of the schema in the metadata of a commit.
    pub fn to_text(&self) -> String {
        self.to_json().to_string()
    }

    /// The text of several schemas in `.hoodie/.schema`.
    pub fn history_text(schemas: &[Self]) -> String {
        json!({"schemas": schemas.iter().map(Self::to_json).collect::<Vec<_>>()}).to_string()
    }

    fn to_json(&self) -> Value {
        json!({
            "max_column_id": self.max_column_id,
            "version_id": self.version,
            "type": "record",
            "fields": self.fields.iter().map(field_json).collect::<Vec<_>>(),
        })
    }
}

fn fields_of(json: &Value, depth: usize) -> Result<Vec<InternalField>> {
    let fields = json.get("fields").and_then(Value::as_array).ok_or_else(|| damaged("a record has no fields"))?;
    fields.iter().map(|field| field_of(field, depth)).collect()
}

fn field_of(json: &Value, depth: usize) -> Result<InternalField> {
    let name = json.get("name").and_then(Value::as_str).ok_or_else(|| damaged("a field has no name"))?;
    let data_type = json.get("type").ok_or_else(|| damaged("a field has no type"))?;
    Ok(InternalField {
        id: id_of(json, "id")?,
        name: name.to_owned(),
        optional: flag_of(json, "optional"),
        doc: json.get("doc").and_then(Value::as_str).map(str::to_owned),
        data_type: type_of(data_type, depth + 1)?,
    })
}

fn id_of(json: &Value, key: &str) -> Result<i32> {
    let id = json.get(key).and_then(Value::as_i64).and_then(|id| i32::try_from(id).ok());
    id.ok_or_else(|| damaged("a field has no id"))
}

fn flag_of(json: &Value, key: &str) -> bool {
    json.get(key).and_then(Value::as_bool).unwrap_or(true)
}

fn type_of(json: &Value, depth: usize) -> Result<InternalType> {
    if depth > MAX_DEPTH {
        return Err(damaged("it nests too deeply"));
    }
    let inner = |key: &str| -> Result<Box<InternalType>> {
        let inner = json.get(key).ok_or_else(|| damaged("a type lacks the type in it"))?;
        Ok(Box::new(type_of(inner, depth + 1)?))
    };
    match json.get("type").and_then(Value::as_str) {
        None => match json.as_str() {
            Some(name) => Ok(InternalType::Primitive(name.to_owned())),
            None => Err(damaged("a type is neither a name nor an object")),
        },
        Some("record") => Ok(InternalType::Record(fields_of(json, depth)?)),
        Some("array") => Ok(InternalType::Array {
            element_id: id_of(json, "element_id")?,
            element: inner("element")?,
            optional: flag_of(json, "element_optional"),
        }),
        Some("map") => Ok(InternalType::Map {
            key_id: id_of(json, "key_id")?,
            key: inner("key")?,
            value_id: id_of(json, "value_id")?,
            value: inner("value")?,
            optional: flag_of(json, "value_optional"),
        }),
        Some(_) => Err(damaged("it has an unknown type")),
    }
}

fn field_json(field: &InternalField) -> Value {
    let mut json = Map::new();
    json.insert("id".into(), field.id.into());
    json.insert("name".into(), field.name.as_str().into());
    json.insert("optional".into(), field.optional.into());
    json.insert("type".into(), type_json(&field.data_type));
    if let Some(doc) = &field.doc {
        json.insert("doc".into(), doc.as_str().into());
    }
    Value::Object(json)
}

fn type_json(data_type: &InternalType) -> Value {
    match data_type {
        InternalType::Primitive(name) => name.as_str().into(),
        InternalType::Record(fields) => {
            json!({"type": "record", "fields": fields.iter().map(field_json).collect::<Vec<_>>()})
        }
        InternalType::Array { element_id, element, optional } => json!({
            "type": "array",
            "element_id": element_id,
            "element": type_json(element),
            "element_optional": optional,
        }),
        InternalType::Map { key_id, key, value_id, value, optional } => json!({
            "type": "map",
            "key_id": key_id,
            "key": type_json(key),
            "value_id": value_id,
            "value": type_json(value),
            "value_optional": optional,
        }),
    }
}
