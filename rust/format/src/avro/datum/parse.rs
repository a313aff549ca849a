//! Avro schema JSON into a flat list of nodes.

use std::collections::HashMap;

use serde_json::Value;

use super::MAX_DEPTH;
use hoodoo_runtime::error::{Error, Result};

/// One type of a schema. Children are indices into the list of nodes, so a recursive type needs no special care.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(Vec<String>),
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
    Record(Vec<(String, usize)>),
}

/// A parsed Avro schema, ready to read or write values.
///
/// Logical types do not matter for the encoding and are not kept.
#[derive(Debug, Clone)]
pub struct DatumSchema {
    nodes: Vec<Node>,
    root: usize,
}

impl DatumSchema {
    /// Parses schema JSON.
    pub fn parse(json: &str) -> Result<Self> {
        let value: Value = crate::json::parse(json.as_bytes(), "an Avro schema is not valid JSON")?;
        Self::from_json(&value)
    }

    /// Builds the schema from JSON that is already parsed.
    pub(crate) fn from_json(value: &Value) -> Result<Self> {
        let mut parser = Parser::default();
        let root = parser.node(value, "", 0)?;
        Ok(Self { nodes: parser.nodes, root })
    }

    /// The schema `"string"`.
    pub fn string() -> Self {
        Self { nodes: vec![Node::String], root: 0 }
    }

    /// The number of the node that the schema is.
    pub fn root(&self) -> usize {
        self.root
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: usize) -> &Node {
        self.nodes.get(id).unwrap_or(&Node::Null)
    }
}

#[derive(Default)]
struct Parser {
    nodes: Vec<Node>,
    named: HashMap<String, usize>,
}

impl Parser {
    fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn node(&mut self, value: &Value, namespace: &str, depth: usize) -> Result<usize> {
        if depth > MAX_DEPTH {
            return Err(Error::corrupt("an Avro schema nests too deeply"));
        }
        match value {
            Value::String(name) => self.by_name(name, namespace),
            Value::Array(branches) => {
                let ids = branches.iter().map(|b| self.node(b, namespace, depth + 1)).collect::<Result<Vec<_>>>()?;
                Ok(self.push(Node::Union(ids)))
            }
            Value::Object(object) => match object.get("type") {
                Some(Value::String(kind)) => self.typed(kind, value, namespace, depth),
                Some(nested) => self.node(nested, namespace, depth + 1),
                None => Err(Error::corrupt("an Avro schema has a type object without \"type\"")),
            },
            _ => Err(Error::corrupt("an Avro schema has a type that is not a name, union or object")),
        }
    }

    fn by_name(&mut self, name: &str, namespace: &str) -> Result<usize> {
        let primitive = match name {
            "null" => Node::Null,
            "boolean" => Node::Boolean,
            "int" => Node::Int,
            "long" => Node::Long,
            "float" => Node::Float,
            "double" => Node::Double,
            "bytes" => Node::Bytes,
            "string" => Node::String,
            _ => {
                let known = self.named.get(&full_name(name, namespace)).or_else(|| self.named.get(name));
                return known.copied().ok_or_else(|| {
                    Error::corrupt("an Avro schema names a type that it does not define").with("type", name)
                });
            }
        };
        Ok(self.push(primitive))
    }

    fn typed(&mut self, kind: &str, value: &Value, namespace: &str, depth: usize) -> Result<usize> {
        let part = |key: &'static str| {
            value
                .get(key)
                .ok_or_else(|| Error::corrupt("an Avro schema is incomplete").with("type", kind).with("part", key))
        };
        match kind {
            "array" => {
                let items = self.node(part("items")?, namespace, depth + 1)?;
                Ok(self.push(Node::Array(items)))
            }
            "map" => {
                let values = self.node(part("values")?, namespace, depth + 1)?;
                Ok(self.push(Node::Map(values)))
            }
            "fixed" => {
                let size = part("size")?.as_u64().and_then(|n| usize::try_from(n).ok());
                let size = size.ok_or_else(|| Error::corrupt("an Avro fixed type has no usable size"))?;
                self.named(value, namespace, Node::Fixed(size)).map(|(id, _)| id)
            }
            "enum" => {
                let symbols = part("symbols")?.as_array().into_iter().flatten();
                let symbols = symbols.filter_map(Value::as_str).map(str::to_owned).collect();
                self.named(value, namespace, Node::Enum(symbols)).map(|(id, _)| id)
            }
            "record" | "error" => self.record(value, part("fields")?, namespace, depth),
            other => self.by_name(other, namespace),
        }
    }

    fn record(&mut self, value: &Value, fields: &Value, namespace: &str, depth: usize) -> Result<usize> {
        let (id, inner) = self.named(value, namespace, Node::Record(Vec::new()))?;
        let mut parsed = Vec::new();
        for field in fields.as_array().into_iter().flatten() {
            let (Some(name), Some(ty)) = (field.get("name").and_then(Value::as_str), field.get("type")) else {
                return Err(Error::corrupt("an Avro record has a field without name or type"));
            };
            parsed.push((name.to_owned(), self.node(ty, &inner, depth + 1)?));
        }
        if let Some(slot) = self.nodes.get_mut(id) {
            *slot = Node::Record(parsed);
        }
        Ok(id)
    }

    /// Registers a named type before its fields are read, so that they may refer to it; also gives its namespace.
    fn named(&mut self, value: &Value, namespace: &str, node: Node) -> Result<(usize, String)> {
        let name = value.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| Error::corrupt("an Avro schema has a named type without a name"))?;
        let full = full_name(name, value.get("namespace").and_then(Value::as_str).unwrap_or(namespace));
        let inner = full.rsplit_once('.').map(|(space, _)| space.to_owned()).unwrap_or_default();
        let id = self.push(node);
        self.named.insert(full, id);
        Ok((id, inner))
    }
}

/// The full name of a type: names with a dot are full already.
pub(crate) fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}
