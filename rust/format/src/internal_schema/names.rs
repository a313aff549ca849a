//! How the names in a file differ from those of the table.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{InternalField, InternalSchema, InternalType};
use hoodoo_runtime::error::{Error, Result};

/// The fields of a file that have another name in the table as it is read, or none.
///
/// Inside a list they are behind `element`, inside a map behind `value`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnNames(BTreeMap<String, Change>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Change {
    /// The name in the table, where it is another one.
    name: Option<String>,
    /// What is inside.
    inner: ColumnNames,
}

/// The name of what is inside a list, and of the values of a map.
const ELEMENT: &str = "element";
const VALUE: &str = "value";

impl ColumnNames {
    /// What is different between the schema that a file was written with and the one that it is read with.
    pub fn between(file: &InternalSchema, table: &InternalSchema) -> Option<Self> {
        let names = between(&file.fields, &table.fields);
        (!names.0.is_empty()).then_some(names)
    }

    /// The name that a field of the file has in the table. A field that the table has no more gets a name that no column
    /// of the table has.
    pub fn name_of<'a>(&'a self, field: &'a str) -> &'a str {
        self.0.get(field).and_then(|change| change.name.as_deref()).unwrap_or(field)
    }

    /// What is different inside a field.
    pub fn inside(&self, field: &str) -> Option<&Self> {
        self.0.get(field).map(|change| &change.inner).filter(|inner| !inner.0.is_empty())
    }

    /// What is different inside the elements of a list.
    pub fn element(&self) -> Option<&Self> {
        self.inside(ELEMENT)
    }

    /// What is different inside the values of a map.
    pub fn value(&self) -> Option<&Self> {
        self.inside(VALUE)
    }

    /// The Avro schema of records with the names that the table has.
    ///
    /// # Errors
    /// `Corrupt` for what is not JSON; `Unsupported` where a record with other names is used in several places.
    pub fn of_avro(&self, schema: &str) -> Result<String> {
        let mut json: Value = crate::json::parse(schema.as_bytes(), "the schema of records is not JSON")?;
        if self.0.values().any(|change| !change.inner.0.is_empty()) && names_types(&json, 0) {
            return Err(shared_type());
        }
        rename(&mut json, self);
        Ok(json.to_string())
    }
}

impl ColumnNames {
    /// The Avro schema of records whose fields `fields` are such rows. They may share one definition.
    ///
    /// # Errors
    /// Those of [`ColumnNames::of_avro`].
    pub fn of_avro_in(&self, schema: &str, fields: &[&str]) -> Result<String> {
        let mut json: Value = crate::json::parse(schema.as_bytes(), "the schema of records is not JSON")?;
        let types = json.get("fields").and_then(Value::as_array).into_iter().flatten();
        let types =
            types.filter(|field| field.get("name").is_some_and(|name| fields.iter().any(|known| name == known)));
        // The rows of several fields may be one type.
        let branches = types
            .filter_map(|field| field.get("type"))
            .flat_map(|one| one.as_array().map_or(std::slice::from_ref(one), Vec::as_slice));
        let is_nested = self.0.values().any(|change| !change.inner.0.is_empty());
        if is_nested && branches.filter(|branch| branch.is_object()).any(|rows| names_types(rows, 0)) {
            return Err(shared_type());
        }
        let rows = |field: &&str| ((*field).to_owned(), Change { name: None, inner: self.clone() });
        rename(&mut json, &Self(fields.iter().map(rows).collect()));
        Ok(json.to_string())
    }
}

fn shared_type() -> Error {
    Error::unsupported("renamed and dropped fields of a type that is used in several places are not supported")
}

fn between(file: &[InternalField], table: &[InternalField]) -> ColumnNames {
    let mut names = ColumnNames::default();
    let by_id: HashMap<i32, &InternalField> = table.iter().map(|field| (field.id, field)).collect();
    for field in file {
        let change = match by_id.get(&field.id) {
            Some(other) => Change {
                name: (other.name != field.name).then(|| other.name.clone()),
                inner: inside(&field.data_type, &other.data_type),
            },
            None => Change { name: Some(format!("_hoodoo_dropped_{}", field.id)), inner: ColumnNames::default() },
        };
        if change != Change::default() {
            names.0.insert(field.name.clone(), change);
        }
    }
    names
}

fn inside(file: &InternalType, table: &InternalType) -> ColumnNames {
    let behind = |name: &str, inner: ColumnNames| {
        let change = Change { name: None, inner };
        let changes = (change != Change::default()).then(|| (name.to_owned(), change));
        ColumnNames(changes.into_iter().collect())
    };
    match (file, table) {
        (InternalType::Record(file), InternalType::Record(table)) => between(file, table),
        (InternalType::Array { element: file, .. }, InternalType::Array { element: table, .. }) => {
            behind(ELEMENT, inside(file, table))
        }
        (InternalType::Map { value: file, .. }, InternalType::Map { value: table, .. }) => {
            behind(VALUE, inside(file, table))
        }
        _ => ColumnNames::default(),
    }
}

/// Renames the fields of an Avro type.
fn rename(json: &mut Value, names: &ColumnNames) {
    match json {
        Value::Array(branches) => branches.iter_mut().for_each(|branch| rename(branch, names)),
        Value::Object(object) => {
            let inner = |object: &mut serde_json::Map<String, Value>, key: &str, names: Option<&ColumnNames>| {
                if let (Some(inner), Some(names)) = (object.get_mut(key), names) {
                    rename(inner, names);
                }
            };
            match object.get("type").and_then(Value::as_str) {
                Some("record") => {
                    let fields = object.get_mut("fields").and_then(Value::as_array_mut);
                    fields.into_iter().flatten().for_each(|field| rename_field(field, names));
                }
                Some("array") => inner(object, "items", names.element()),
                Some("map") => inner(object, "values", names.value()),
                Some(_) => {}
                None => inner(object, "type", Some(names)),
            }
        }
        _ => {}
    }
}

fn rename_field(field: &mut Value, names: &ColumnNames) {
    let Some(name) = field.get("name").and_then(Value::as_str).map(str::to_owned) else { return };
    if let (Some(inner), Some(data_type)) = (names.inside(&name), field.get_mut("type")) {
        rename(data_type, inner);
    }
    if let Some(place) = field.get_mut("name") {
        *place = names.name_of(&name).into();
    }
}

/// Whether a schema names a type instead of spelling it out.
fn names_types(json: &Value, depth: usize) -> bool {
    const SPELLED: [&str; 13] = [
        "null", "boolean", "int", "long", "float", "double", "bytes", "string", "record", "enum", "fixed", "array",
        "map",
    ];
    if depth > 2 * super::json::MAX_DEPTH {
        return true;
    }
    match json {
        Value::String(name) => !SPELLED.contains(&name.as_str()),
        Value::Array(branches) => branches.iter().any(|branch| names_types(branch, depth + 1)),
        Value::Object(object) => {
            let fields = object.get("fields").and_then(Value::as_array).into_iter().flatten();
            let types = ["type", "items", "values"].into_iter().filter_map(|key| object.get(key));
            let of_fields = fields.filter_map(|field| field.get("type"));
            types.chain(of_fields).any(|inner| names_types(inner, depth + 1))
        }
        _ => false,
    }
}
