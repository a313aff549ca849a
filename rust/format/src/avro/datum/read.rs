//! Bytes into serde types.

use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::parse::Node;
use super::{DatumError, DatumSchema, MAX_DEPTH};

/// How many list items and records that take no bytes at all one datum may hold; bounds what a few hostile bytes can
/// ask for. Real data have none.
const MAX_EMPTY_VALUES: usize = 1 << 20;

/// Memory that the items of the lists and maps of one datum may take: this, or so much for each of its bytes. An item of few
/// bytes may become a record of hundreds; those of real data take four or five times their bytes.
const LEAST_MEMORY: usize = 24 << 20;
const MEMORY_PER_BYTE: usize = 8;

/// A position in a byte slice. Never reads past its end and never allocates.
#[derive(Debug)]
pub struct Cursor<'de> {
    bytes: &'de [u8],
    offset: usize,
    empty_values: usize,
    /// What items may still take.
    memory: usize,
}

impl<'de> Cursor<'de> {
    /// A cursor at the start of the bytes.
    pub fn new(bytes: &'de [u8]) -> Self {
        let memory = LEAST_MEMORY.max(bytes.len().saturating_mul(MEMORY_PER_BYTE));
        Self { bytes, offset: 0, empty_values: 0, memory }
    }

    /// How many bytes were read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.offset >= self.bytes.len()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'de [u8], DatumError> {
        let end = self.offset.checked_add(n);
        let taken = end.and_then(|end| self.bytes.get(self.offset..end));
        let taken =
            taken.ok_or_else(|| DatumError::at(format!("{n} bytes are wanted, fewer are left"), self.offset))?;
        self.offset += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DatumError> {
        let offset = self.offset;
        self.take(N)?.try_into().map_err(|_| DatumError::at("a number is cut off", offset))
    }

    /// A zigzag varint (`long`).
    pub fn long(&mut self) -> Result<i64, DatumError> {
        let start = self.offset;
        let mut raw = 0u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array::<1>()?;
            if shift == 63 && byte > 1 {
                break;
            }
            raw |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed());
            }
        }
        Err(DatumError::at("a number has more than 64 bits", start))
    }

    fn int(&mut self) -> Result<i32, DatumError> {
        let start = self.offset;
        self.long()?.try_into().map_err(|_| DatumError::at("an int has more than 32 bits", start))
    }

    /// Bytes with their length before them (`bytes`).
    pub fn bytes(&mut self) -> Result<&'de [u8], DatumError> {
        let start = self.offset;
        let length = self.long()?;
        let length = usize::try_from(length).map_err(|_| DatumError::at("a length is negative", start))?;
        self.take(length)
    }

    /// Text with its length before it (`string`).
    pub fn string(&mut self) -> Result<&'de str, DatumError> {
        let start = self.offset;
        std::str::from_utf8(self.bytes()?).map_err(|_| DatumError::at("a string is not UTF-8", start))
    }

    /// The number of items of the next block of an array or map; 0 ends it.
    fn block(&mut self) -> Result<u64, DatumError> {
        let count = self.long()?;
        if count < 0 {
            // A negative count is followed by the block's size in bytes, which we do not need.
            self.long()?;
        }
        Ok(count.unsigned_abs())
    }

    fn branch(&mut self, branches: &[usize]) -> Result<usize, DatumError> {
        let start = self.offset;
        let branch = usize::try_from(self.long()?).ok().and_then(|i| branches.get(i));
        branch.copied().ok_or_else(|| DatumError::at("a union branch does not exist", start))
    }

    /// Takes memory for an item, which is so large.
    fn spend(&mut self, size: usize) -> Result<(), DatumError> {
        let left = self.memory.checked_sub(size);
        self.memory = left.ok_or_else(|| DatumError::at("a value has far more items than bytes", self.offset))?;
        Ok(())
    }

    /// Counts a value that began at `start` if it took no bytes.
    fn count_if_empty(&mut self, start: usize) -> Result<(), DatumError> {
        self.empty_values += usize::from(self.offset == start);
        if self.empty_values > MAX_EMPTY_VALUES {
            return Err(DatumError::at("too many values without content", self.offset));
        }
        Ok(())
    }
}

/// Reads one value written with `schema`; leaves the cursor behind it.
pub fn read_datum<'de, T: serde::Deserialize<'de>>(
    schema: &DatumSchema,
    cursor: &mut Cursor<'de>,
) -> Result<T, DatumError> {
    T::deserialize(Reader { schema, node: schema.root(), cursor, depth: 0 })
}

struct Reader<'s, 'c, 'de> {
    schema: &'s DatumSchema,
    node: usize,
    cursor: &'c mut Cursor<'de>,
    depth: usize,
}

impl<'s, 'de> Reader<'s, '_, 'de> {
    fn node(&self) -> &'s Node {
        self.schema.node(self.node)
    }

    fn child(&mut self, node: usize) -> Result<Reader<'s, '_, 'de>, DatumError> {
        if self.depth >= MAX_DEPTH {
            return Err(DatumError::at("a value nests too deeply", self.cursor.offset));
        }
        Ok(Reader { schema: self.schema, node, cursor: self.cursor, depth: self.depth + 1 })
    }

    fn skip(&mut self) -> Result<(), DatumError> {
        match self.node() {
            Node::Null => {}
            Node::Boolean => drop(self.cursor.take(1)?),
            Node::Int | Node::Long | Node::Enum(_) => drop(self.cursor.long()?),
            Node::Float => drop(self.cursor.take(4)?),
            Node::Double => drop(self.cursor.take(8)?),
            Node::Bytes | Node::String => drop(self.cursor.bytes()?),
            Node::Fixed(size) => drop(self.cursor.take(*size)?),
            Node::Union(branches) => {
                let branch = self.cursor.branch(branches)?;
                self.child(branch)?.skip()?;
            }
            Node::Array(items) => self.skip_blocks(*items, false)?,
            Node::Map(values) => self.skip_blocks(*values, true)?,
            Node::Record(fields) => {
                let start = self.cursor.offset;
                for (_, field) in fields {
                    self.child(*field)?.skip()?;
                }
                self.cursor.count_if_empty(start)?;
            }
        }
        Ok(())
    }

    fn skip_blocks(&mut self, node: usize, keyed: bool) -> Result<(), DatumError> {
        loop {
            let count = self.cursor.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                let start = self.cursor.offset;
                if keyed {
                    self.cursor.bytes()?;
                }
                self.child(node)?.skip()?;
                self.cursor.count_if_empty(start)?;
            }
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'_, '_, 'de> {
    type Error = DatumError;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DatumError> {
        match self.node() {
            Node::Null => visitor.visit_unit(),
            Node::Boolean => visitor.visit_bool(self.cursor.array::<1>()? != [0]),
            Node::Int => visitor.visit_i32(self.cursor.int()?),
            Node::Long => visitor.visit_i64(self.cursor.long()?),
            Node::Float => visitor.visit_f32(f32::from_le_bytes(self.cursor.array()?)),
            Node::Double => visitor.visit_f64(f64::from_le_bytes(self.cursor.array()?)),
            Node::Bytes => visitor.visit_borrowed_bytes(self.cursor.bytes()?),
            Node::String => visitor.visit_borrowed_str(self.cursor.string()?),
            Node::Fixed(size) => visitor.visit_borrowed_bytes(self.cursor.take(*size)?),
            Node::Enum(symbols) => {
                let start = self.cursor.offset;
                let symbol = usize::try_from(self.cursor.long()?).ok().and_then(|i| symbols.get(i));
                visitor.visit_str(symbol.ok_or_else(|| DatumError::at("an enum symbol does not exist", start))?)
            }
            Node::Array(items) => visitor.visit_seq(Blocks { node: *items, left: 0, item_start: None, reader: self }),
            Node::Map(values) => visitor.visit_map(Blocks { node: *values, left: 0, item_start: None, reader: self }),
            Node::Union(branches) => {
                let branch = self.cursor.branch(branches)?;
                self.child(branch)?.deserialize_any(visitor)
            }
            Node::Record(fields) => {
                let start = self.cursor.offset;
                visitor.visit_map(Fields { fields: fields.iter(), value: None, start, reader: self })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DatumError> {
        let node = match self.node() {
            Node::Union(branches) => self.cursor.branch(branches)?,
            _ => self.node,
        };
        match self.schema.node(node) {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self.child(node)?),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DatumError> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DatumError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The items of an array or map, block by block.
struct Blocks<'s, 'c, 'de> {
    node: usize,
    left: u64,
    item_start: Option<usize>,
    reader: Reader<'s, 'c, 'de>,
}

impl Blocks<'_, '_, '_> {
    /// Whether there is another item; reads the next block's head when the last one is used up.
    fn advance(&mut self) -> Result<bool, DatumError> {
        if let Some(start) = self.item_start {
            self.reader.cursor.count_if_empty(start)?;
        }
        if self.left == 0 {
            self.left = self.reader.cursor.block()?;
        }
        let more = self.left > 0;
        self.item_start = Some(self.reader.cursor.offset);
        self.left = self.left.saturating_sub(1);
        Ok(more)
    }
}

impl<'de> SeqAccess<'de> for Blocks<'_, '_, 'de> {
    type Error = DatumError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DatumError> {
        if !self.advance()? {
            return Ok(None);
        }
        self.reader.cursor.spend(size_of::<T::Value>())?;
        seed.deserialize(self.reader.child(self.node)?).map(Some)
    }
}

impl<'de> MapAccess<'de> for Blocks<'_, '_, 'de> {
    type Error = DatumError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DatumError> {
        if !self.advance()? {
            return Ok(None);
        }
        self.reader.cursor.spend(size_of::<K::Value>())?;
        let key = serde::de::value::BorrowedStrDeserializer::new(self.reader.cursor.string()?);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DatumError> {
        self.reader.cursor.spend(size_of::<V::Value>())?;
        seed.deserialize(self.reader.child(self.node)?)
    }
}

/// The fields of a record, in the writer's order.
struct Fields<'s, 'c, 'de> {
    fields: std::slice::Iter<'s, (String, usize)>,
    value: Option<usize>,
    start: usize,
    reader: Reader<'s, 'c, 'de>,
}

impl<'de> MapAccess<'de> for Fields<'_, '_, 'de> {
    type Error = DatumError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DatumError> {
        let Some((name, node)) = self.fields.next() else {
            self.reader.cursor.count_if_empty(self.start)?;
            return Ok(None);
        };
        self.value = Some(*node);
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DatumError> {
        let node = self.value.take().ok_or_else(|| DatumError::new("a field's value was asked for before its name"))?;
        seed.deserialize(self.reader.child(node)?)
    }
}
