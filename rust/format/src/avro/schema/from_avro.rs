//! Avro JSON into Arrow schema.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use serde_json::{Map, Value};

use super::MAX_DEPTH;
use crate::avro::datum::full_name;
use hoodoo_runtime::error::{Error, Result};

/// How many types a schema may have once its named types are spelled out; a short text that uses types over and over
/// could otherwise grow without bound.
const MAX_TYPES: usize = 100_000;

/// Reads an Avro record schema as an Arrow schema, whoever wrote it.
///
/// Defaults, aliases and documentation are not part of an Arrow schema and are dropped.
///
/// # Errors
/// `Corrupt` if it is no Avro schema, `Unsupported` if a type in it has no Arrow form here; both name the field.
///
/// # Example
/// ```
/// use arrow::datatypes::DataType;
/// use hoodoo_format::avro::schema::avro_to_arrow_schema;
///
/// let avro = r#"{"type":"record","name":"r","fields":[{"name":"d","type":["null",{"type":"int","logicalType":"date"}]}]}"#;
/// let schema = avro_to_arrow_schema(avro)?;
/// assert_eq!(schema.field(0).data_type(), &DataType::Date32);
/// assert!(schema.field(0).is_nullable());
/// # Ok::<(), hoodoo_runtime::Error>(())
/// ```
pub fn avro_to_arrow_schema(json: &str) -> Result<Schema> {
    let value: Value = crate::json::parse(json.as_bytes(), "an Avro schema is not valid JSON")?;
    let mut converter = Converter { named: HashMap::new(), open: HashSet::new(), path: Vec::new(), types: 0 };
    match converter.type_of(&value, "", 0)? {
        (DataType::Struct(fields), false) => Ok(Schema::new(fields)),
        _ => Err(Error::corrupt("the Avro schema of a table is not a record")),
    }
}

/// A named type: its definition and the namespace in which that stands.
type Named<'a> = (&'a Map<String, Value>, String);

struct Converter<'a> {
    named: HashMap<String, Named<'a>>,
    /// Records whose fields are being converted; meeting one again means that it contains itself.
    open: HashSet<String>,
    path: Vec<&'a str>,
    types: usize,
}

impl<'a> Converter<'a> {
    fn corrupt(&self, message: &str) -> Error {
        Error::corrupt(format!("an Avro schema is damaged: {message}")).with("column", self.path.join("."))
    }

    fn unsupported(&self, what: &str) -> Error {
        let path = self.path.join(".");
        Error::unsupported(format!("column {path} has Avro type {what}, which has no Arrow form here"))
            .with("column", path)
    }

    /// The Arrow type, and whether it may be null.
    fn type_of(&mut self, value: &'a Value, namespace: &str, depth: usize) -> Result<(DataType, bool)> {
        self.types += 1;
        if depth > MAX_DEPTH || self.types > MAX_TYPES {
            return Err(self.corrupt("it nests too deeply or is too large"));
        }
        match value {
            Value::String(name) => Ok((self.by_name(name, namespace, depth)?, false)),
            Value::Array(branches) => self.union(branches, namespace, depth),
            Value::Object(object) => match object.get("type") {
                Some(Value::String(kind)) => Ok((self.typed(kind, object, namespace, depth)?, false)),
                Some(nested) => self.type_of(nested, namespace, depth + 1),
                None => Err(self.corrupt("a type has no \"type\"")),
            },
            _ => Err(self.corrupt("a type is not a name, union or object")),
        }
    }

    fn union(&mut self, branches: &'a [Value], namespace: &str, depth: usize) -> Result<(DataType, bool)> {
        let is_null = |v: &Value| v == "null" || v.get("type").is_some_and(|t| t == "null");
        let has_null = branches.iter().any(is_null);
        let mut others = branches.iter().filter(|v| !is_null(v));
        match (others.next(), others.next()) {
            (Some(only), None) => {
                let (ty, nullable) = self.type_of(only, namespace, depth + 1)?;
                Ok((ty, nullable || has_null))
            }
            (None, _) => Err(self.unsupported("null")),
            _ => Err(self.unsupported("union of several types")),
        }
    }

    fn by_name(&mut self, name: &str, namespace: &str, depth: usize) -> Result<DataType> {
        Ok(match name {
            "boolean" => DataType::Boolean,
            "int" => DataType::Int32,
            "long" => DataType::Int64,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "bytes" => DataType::Binary,
            "string" => DataType::Utf8,
            "null" => return Err(self.unsupported("null")),
            _ => {
                let full = full_name(name, namespace);
                let known = self.named.get(&full).or_else(|| self.named.get(name)).cloned();
                let Some((object, outer)) = known else {
                    return Err(self.corrupt("it names a type that it does not define").with("type", name));
                };
                let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
                self.typed(kind, object, &outer, depth + 1)?
            }
        })
    }

    fn typed(&mut self, kind: &str, object: &'a Map<String, Value>, namespace: &str, depth: usize) -> Result<DataType> {
        let logical = object.get("logicalType").and_then(Value::as_str);
        match kind {
            "record" | "error" => match logical {
                // Hudi marks records of its own kinds (variant, blob) so; as a plain struct they would lose the mark.
                Some(logical) => Err(self.unsupported(&format!("record {logical}"))),
                None => self.record(object, namespace, depth),
            },
            "enum" => self.define(object, namespace).map(|_| DataType::Utf8),
            "fixed" => {
                self.define(object, namespace)?;
                self.fixed(object, logical)
            }
            "array" => {
                let items = object.get("items").ok_or_else(|| self.corrupt("an array has no items"))?;
                let (ty, nullable) = self.type_of(items, namespace, depth + 1)?;
                Ok(DataType::List(Arc::new(Field::new("element", ty, nullable))))
            }
            "map" => {
                let values = object.get("values").ok_or_else(|| self.corrupt("a map has no values"))?;
                let (ty, nullable) = self.type_of(values, namespace, depth + 1)?;
                Ok(map_of(ty, nullable))
            }
            "int" | "long" | "bytes" | "string" => match logical {
                Some(logical) => self.logical(kind, logical, object),
                None => self.by_name(kind, namespace, depth),
            },
            _ => self.by_name(kind, namespace, depth),
        }
    }

    /// A primitive with a logical type. As Avro asks, a logical type that is unknown or does not fit is passed over.
    fn logical(&self, kind: &str, logical: &str, object: &Map<String, Value>) -> Result<DataType> {
        let utc = || Some(Arc::from("UTC"));
        Ok(match (kind, logical) {
            ("int", "date") => DataType::Date32,
            ("int", "time-millis") => DataType::Time32(TimeUnit::Millisecond),
            ("long", "time-micros") => DataType::Time64(TimeUnit::Microsecond),
            ("long", "timestamp-millis") => DataType::Timestamp(TimeUnit::Millisecond, utc()),
            ("long", "timestamp-micros") => DataType::Timestamp(TimeUnit::Microsecond, utc()),
            ("long", "local-timestamp-millis") => DataType::Timestamp(TimeUnit::Millisecond, None),
            ("long", "local-timestamp-micros") => DataType::Timestamp(TimeUnit::Microsecond, None),
            ("long", "timestamp-nanos" | "local-timestamp-nanos") => return Err(self.unsupported(logical)),
            ("bytes", "decimal") => self.decimal(object)?,
            ("int", _) => DataType::Int32,
            ("long", _) => DataType::Int64,
            ("bytes", _) => DataType::Binary,
            _ => DataType::Utf8,
        })
    }

    fn fixed(&self, object: &Map<String, Value>, logical: Option<&str>) -> Result<DataType> {
        let size = object.get("size").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let size = size.filter(|n| *n > 0).ok_or_else(|| self.corrupt("a fixed type has no usable size"))?;
        match logical {
            Some("decimal") => self.decimal(object),
            None | Some("uuid") => Ok(DataType::FixedSizeBinary(size)),
            Some(other) => Err(self.unsupported(&format!("fixed {other}"))),
        }
    }

    fn decimal(&self, object: &Map<String, Value>) -> Result<DataType> {
        let number = |key: &str| object.get(key).and_then(Value::as_u64);
        let (precision, scale) = (number("precision").unwrap_or(0), number("scale").unwrap_or(0));
        if object.get("scale").is_some_and(|s| s.as_u64().is_none()) || precision == 0 || scale > precision {
            return Err(self.corrupt("a decimal has no usable precision and scale"));
        }
        match (u8::try_from(precision), i8::try_from(scale)) {
            (Ok(p @ 1..=38), Ok(s)) => Ok(DataType::Decimal128(p, s)),
            _ => Err(self.unsupported(&format!("decimal({precision}, {scale})"))),
        }
    }

    /// Registers a named type; gives its full name and the namespace of what it contains.
    fn define(&mut self, object: &'a Map<String, Value>, namespace: &str) -> Result<(String, String)> {
        let name = object.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| self.corrupt("a named type has no name"))?;
        let own = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        let full = full_name(name, own);
        let inner = full.rsplit_once('.').map(|(space, _)| space.to_owned()).unwrap_or_default();
        self.named.insert(full.clone(), (object, namespace.to_owned()));
        Ok((full, inner))
    }

    fn record(&mut self, object: &'a Map<String, Value>, namespace: &str, depth: usize) -> Result<DataType> {
        let (full, inner) = self.define(object, namespace)?;
        if !self.open.insert(full.clone()) {
            return Err(self.unsupported(&format!("record {full} inside itself")));
        }
        let fields = object.get("fields").and_then(Value::as_array);
        let fields = fields.ok_or_else(|| self.corrupt("a record has no fields"))?;
        let mut converted = Vec::with_capacity(fields.len());
        let mut seen = HashSet::new();
        for field in fields {
            let (Some(name), Some(ty)) = (field.get("name").and_then(Value::as_str), field.get("type")) else {
                return Err(self.corrupt("a field has no name or type"));
            };
            self.path.push(name);
            if !seen.insert(name) {
                return Err(self.corrupt("a field occurs twice"));
            }
            let (ty, nullable) = self.type_of(ty, &inner, depth + 1)?;
            self.path.pop();
            converted.push(Field::new(name, ty, nullable));
        }
        self.open.remove(&full);
        Ok(DataType::Struct(Fields::from(converted)))
    }
}

fn map_of(value: DataType, nullable: bool) -> DataType {
    let entries = vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, nullable)];
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(Fields::from(entries)), false)), false)
}
