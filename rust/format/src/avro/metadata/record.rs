//! One definition for a record's Rust type and its Avro schema.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::avro::datum::DatumSchema;

/// The namespace of all timeline records.
const NAMESPACE: &str = "org.apache.hudi.avro.model";

/// An Avro schema as text, for file headers, and parsed, for encoding.
#[derive(Debug)]
pub struct RecordSchema {
    json: String,
    datum: DatumSchema,
}

impl RecordSchema {
    /// The schema JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The schema, parsed.
    pub fn datum(&self) -> &DatumSchema {
        &self.datum
    }

    /// Takes a schema in which every use of a record is its full definition, keeps the first of each, and adds the
    /// namespace.
    pub(crate) fn new(mut definition: Value) -> Self {
        refer_to_known(&mut definition, &mut HashSet::new());
        let mut root = Map::new();
        if let Value::Object(object) = &definition {
            for (key, value) in object {
                root.insert(key.clone(), value.clone());
                if key == "name" {
                    root.insert("namespace".to_owned(), Value::from(NAMESPACE));
                }
            }
        }
        let root = Value::Object(root);
        // The definitions are ours and a test parses each of them, so the fallback is never met.
        let datum = DatumSchema::from_json(&root).unwrap_or_else(|_| DatumSchema::string());
        Self { json: root.to_string(), datum }
    }
}

/// Replaces every definition of a record but the first by its name, as Avro wants it.
fn refer_to_known(value: &mut Value, known: &mut HashSet<String>) {
    if let Value::Object(object) = value
        && object.get("type").is_some_and(|t| t == "record")
        && let Some(name) = object.get("name").and_then(Value::as_str)
        && !known.insert(name.to_owned())
    {
        *value = Value::from(name);
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|v| refer_to_known(v, known)),
        Value::Object(object) => object.values_mut().for_each(|v| refer_to_known(v, known)),
        _ => {}
    }
}

/// A Rust type that has an Avro type.
pub(crate) trait AvroType {
    /// The Avro type as JSON, records with their full definition.
    fn avro_type() -> Value;

    /// The default of a field of this type.
    fn avro_default() -> Option<Value> {
        None
    }
}

macro_rules! primitives {
    ($($ty:ty => $json:expr),* $(,)?) => {
        $(impl AvroType for $ty { fn avro_type() -> Value { $json } })*
    };
}

primitives! {
    bool => json!("boolean"),
    i32 => json!("int"),
    i64 => json!("long"),
    f64 => json!("double"),
    String => json!({"type": "string", "avro.java.string": "String"}),
}

impl<T: AvroType> AvroType for Option<T> {
    fn avro_type() -> Value {
        json!(["null", T::avro_type()])
    }

    fn avro_default() -> Option<Value> {
        Some(Value::Null)
    }
}

impl<T: AvroType> AvroType for Vec<T> {
    fn avro_type() -> Value {
        json!({"type": "array", "items": T::avro_type()})
    }
}

impl<T: AvroType> AvroType for BTreeMap<String, T> {
    fn avro_type() -> Value {
        json!({"type": "map", "values": T::avro_type(), "avro.java.string": "String"})
    }
}

/// Type and default of one field, where they are not those of its Rust type.
pub(crate) type FieldType = (Value, Option<Value>);

/// What the Rust type says.
pub(crate) fn plain<T: AvroType>() -> FieldType {
    (T::avro_type(), T::avro_default())
}

/// The type with a default of its own.
pub(crate) fn with_default<T: AvroType>(default: Value) -> FieldType {
    (T::avro_type(), Some(default))
}

/// The type without a default.
pub(crate) fn without_default<T: AvroType>() -> FieldType {
    (T::avro_type(), None)
}

/// Nullable with a default that is not null: then null is the second branch.
pub(crate) fn null_second<T: AvroType>(default: impl Into<Value>) -> FieldType {
    (json!([T::avro_type(), "null"]), Some(default.into()))
}

/// A record's definition.
pub(crate) fn record_type(name: &str, fields: Vec<(&str, FieldType)>) -> Value {
    let fields = fields.into_iter().map(|(name, (ty, default))| match default {
        Some(default) => json!({"name": name, "type": ty, "default": default}),
        None => json!({"name": name, "type": ty}),
    });
    json!({"type": "record", "name": name, "fields": fields.collect::<Vec<_>>()})
}

/// For a field that Hudi may write as null and that we keep as an empty value.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(d)?.unwrap_or_default())
}

/// The same for a map of strings, in which JSON bodies may also have null values: they are left out.
pub(crate) fn without_nulls<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = Option::<BTreeMap<String, Option<String>>>::deserialize(d)?.unwrap_or_default();
    Ok(map.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

/// The version of a record in a file that does not have the field.
pub(crate) fn version_one() -> Option<i32> {
    Some(1)
}

/// Defines a record: a struct whose fields name their Avro field, and where needed `as (type and default in Avro)` and
/// `= (value in Default)`. A record that is the content of a timeline file is marked `in timeline`. Fields that are not in
/// Avro come last, in `beside { … }`: they must not be serialized where a record is written to the timeline.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $full:literal $(in $timeline:ident)? {
            $($(#[$field_meta:meta])* pub $field:ident : $ty:ty => $avro:literal $(as $spec:tt)? $(= $default:tt)?,)*
            $(beside { $($(#[$own_meta:meta])* pub $own:ident : $own_ty:ty,)* })?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        // Some records are used in this crate only.
        #[allow(unreachable_pub)]
        pub struct $name {
            $($(#[$field_meta])* #[serde(rename = $avro)] pub $field: $ty,)*
            $($($(#[$own_meta])* pub $own: $own_ty,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: record!(@default $($default)?),)*
                    $($($own: Default::default(),)*)?
                }
            }
        }

        impl $crate::avro::metadata::record::AvroType for $name {
            fn avro_type() -> serde_json::Value {
                use $crate::avro::metadata::record::*;
                record_type($full, vec![$(($avro, record!(@spec $ty $(, $spec)?)),)*])
            }
        }

        $(record!(@$timeline $name $full);)?
    };
    (@timeline $name:ident $full:literal) => {
        impl $crate::avro::metadata::TimelineRecord for $name {
            const NAME: &'static str = $full;

            fn avro_schema() -> &'static $crate::avro::metadata::RecordSchema {
                use $crate::avro::metadata::record::{AvroType, RecordSchema};
                static SCHEMA: std::sync::LazyLock<RecordSchema> =
                    std::sync::LazyLock::new(|| RecordSchema::new($name::avro_type()));
                &SCHEMA
            }
        }
    };
    (@default) => { Default::default() };
    (@default ($value:expr)) => { $value };
    (@spec $ty:ty) => { plain::<$ty>() };
    (@spec $ty:ty, ($spec:expr)) => { $spec };
}

pub(crate) use record;
