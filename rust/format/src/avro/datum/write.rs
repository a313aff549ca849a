//! Serde types into bytes.

use std::sync::LazyLock;

use serde::Serialize;
use serde::ser::{Impossible, SerializeMap, SerializeSeq, SerializeStruct, Serializer};

use super::parse::Node;
use super::{DatumError, DatumSchema};

/// Appends one value in the encoding of `schema`.
pub fn write_datum<T: Serialize + ?Sized>(
    schema: &DatumSchema,
    value: &T,
    out: &mut Vec<u8>,
) -> Result<(), DatumError> {
    value.serialize(Writer { schema, node: schema.root(), out })
}

/// Appends a zigzag varint (`long`, `int`, lengths).
pub fn write_long(value: i64, out: &mut Vec<u8>) {
    let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while raw >= 0x80 {
        out.push(raw.to_le_bytes().first().copied().unwrap_or_default() | 0x80);
        raw >>= 7;
    }
    out.push(raw.to_le_bytes().first().copied().unwrap_or_default());
}

fn write_count(count: usize, out: &mut Vec<u8>) -> Result<(), DatumError> {
    write_long(i64::try_from(count).map_err(|_| DatumError::new("a value is too long"))?, out);
    Ok(())
}

/// Map keys are strings, whatever the schema says about the values.
static KEY: LazyLock<DatumSchema> = LazyLock::new(DatumSchema::string);

struct Writer<'s, 'o> {
    schema: &'s DatumSchema,
    node: usize,
    out: &'o mut Vec<u8>,
}

type Nothing = Impossible<(), DatumError>;

impl<'s, 'o> Writer<'s, 'o> {
    fn mismatch<T>(&self, what: &str) -> Result<T, DatumError> {
        Err(DatumError::new(format!("{what} does not fit the schema's {:?}", self.schema.node(self.node))))
    }

    /// Steps into the first branch of a union for which `fits` holds, and writes its index.
    fn branch(self, what: &str, fits: impl Fn(&Node) -> bool) -> Result<Self, DatumError> {
        match self.schema.node(self.node) {
            Node::Union(branches) => {
                let found = branches.iter().enumerate().find(|(_, id)| fits(self.schema.node(**id)));
                let Some((index, id)) = found else { return self.mismatch(what) };
                write_count(index, self.out)?;
                Ok(Writer { schema: self.schema, node: *id, out: self.out })
            }
            node if fits(node) => Ok(self),
            _ => self.mismatch(what),
        }
    }

    fn text(self, kind: &str, value: &[u8]) -> Result<(), DatumError> {
        let w = self.branch(kind, |n| matches!(n, Node::String | Node::Bytes))?;
        write_count(value.len(), w.out)?;
        w.out.extend_from_slice(value);
        Ok(())
    }
}

macro_rules! refuse {
    ($($name:ident($($ty:ty),*) -> $ok:ty;)*) => {
        $(fn $name(self, $(_: $ty),*) -> Result<$ok, DatumError> { self.mismatch(stringify!($name)) })*
    };
}

impl<'s, 'o> Serializer for Writer<'s, 'o> {
    type Ok = ();
    type Error = DatumError;
    type SerializeSeq = Items<'s, 'o>;
    type SerializeMap = Items<'s, 'o>;
    type SerializeStruct = Fields<'s, 'o>;
    type SerializeTuple = Nothing;
    type SerializeTupleStruct = Nothing;
    type SerializeTupleVariant = Nothing;
    type SerializeStructVariant = Nothing;

    fn serialize_bool(self, v: bool) -> Result<(), DatumError> {
        let w = self.branch("a boolean", |n| *n == Node::Boolean)?;
        w.out.push(u8::from(v));
        Ok(())
    }

    fn serialize_i32(self, v: i32) -> Result<(), DatumError> {
        let w = self.branch("an int", |n| matches!(n, Node::Int | Node::Long))?;
        write_long(i64::from(v), w.out);
        Ok(())
    }

    fn serialize_i64(self, v: i64) -> Result<(), DatumError> {
        let w = self.branch("a long", |n| *n == Node::Long)?;
        write_long(v, w.out);
        Ok(())
    }

    fn serialize_f64(self, v: f64) -> Result<(), DatumError> {
        let w = self.branch("a double", |n| *n == Node::Double)?;
        w.out.extend_from_slice(&v.to_le_bytes());
        Ok(())
    }

    fn serialize_str(self, v: &str) -> Result<(), DatumError> {
        self.text("a string", v.as_bytes())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), DatumError> {
        self.text("a byte string", v)
    }

    fn serialize_none(self) -> Result<(), DatumError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), DatumError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), DatumError> {
        self.branch("null", |n| *n == Node::Null).map(drop)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), DatumError> {
        value.serialize(self)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Items<'s, 'o>, DatumError> {
        let w = self.branch("a list", |n| matches!(n, Node::Array(_)))?;
        Items::new(w, len)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Items<'s, 'o>, DatumError> {
        let w = self.branch("a map", |n| matches!(n, Node::Map(_)))?;
        Items::new(w, len)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'s, 'o>, DatumError> {
        let w = self.branch(name, |n| matches!(n, Node::Record(_)))?;
        let fields: &[(String, usize)] = match w.schema.node(w.node) {
            Node::Record(fields) => fields,
            _ => &[],
        };
        Ok(Fields { schema: w.schema, fields: fields.iter(), out: w.out })
    }

    refuse! {
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_f32(f32) -> ();
        serialize_char(char) -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_tuple(usize) -> Nothing;
        serialize_tuple_struct(&'static str, usize) -> Nothing;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Nothing;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Nothing;
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), DatumError> {
        self.mismatch("an enum variant")
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// An array or map that is being written, as one block.
struct Items<'s, 'o> {
    schema: &'s DatumSchema,
    node: usize,
    count: usize,
    out: &'o mut Vec<u8>,
}

impl<'s, 'o> Items<'s, 'o> {
    fn new(writer: Writer<'s, 'o>, len: Option<usize>) -> Result<Self, DatumError> {
        let count = len.ok_or_else(|| DatumError::new("the length of a list or map is not known"))?;
        let node = match writer.schema.node(writer.node) {
            Node::Array(child) | Node::Map(child) => *child,
            _ => writer.node,
        };
        if count > 0 {
            write_count(count, writer.out)?;
        }
        Ok(Self { schema: writer.schema, node, count, out: writer.out })
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), DatumError> {
        let left = self.count.checked_sub(1);
        self.count = left.ok_or_else(|| DatumError::new("a list or map is longer than it said"))?;
        value.serialize(Writer { schema: self.schema, node: self.node, out: self.out })
    }

    fn close(self) -> Result<(), DatumError> {
        if self.count > 0 {
            return Err(DatumError::new("a list or map is shorter than it said"));
        }
        self.out.push(0);
        Ok(())
    }
}

impl SerializeSeq for Items<'_, '_> {
    type Ok = ();
    type Error = DatumError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), DatumError> {
        self.item(value)
    }

    fn end(self) -> Result<(), DatumError> {
        self.close()
    }
}

impl SerializeMap for Items<'_, '_> {
    type Ok = ();
    type Error = DatumError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), DatumError> {
        key.serialize(Writer { schema: &KEY, node: KEY.root(), out: self.out })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), DatumError> {
        self.item(value)
    }

    fn end(self) -> Result<(), DatumError> {
        self.close()
    }
}

/// A record that is being written.
struct Fields<'s, 'o> {
    schema: &'s DatumSchema,
    fields: std::slice::Iter<'s, (String, usize)>,
    out: &'o mut Vec<u8>,
}

impl SerializeStruct for Fields<'_, '_> {
    type Ok = ();
    type Error = DatumError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), DatumError> {
        match self.fields.next() {
            Some((name, node)) if name == key => {
                value.serialize(Writer { schema: self.schema, node: *node, out: self.out })
            }
            Some((name, _)) => Err(DatumError::new(format!("the schema wants field {name}, the value has {key}"))),
            None => Err(DatumError::new(format!("the schema has no field {key}"))),
        }
    }

    fn end(mut self) -> Result<(), DatumError> {
        match self.fields.next() {
            Some((name, _)) => Err(DatumError::new(format!("the value has no field {name}"))),
            None => Ok(()),
        }
    }
}
