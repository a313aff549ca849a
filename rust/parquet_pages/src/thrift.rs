//! The part of Thrift's compact protocol that schemas and page headers of Parquet consist of. It has to see what the Parquet
//! library sees. The library takes a field that it knows for what the format says, whatever type the field announces: so
//! fields of another type are refused, and sets, maps and lists, which no such struct has.

/// How deep structs may nest.
const MAX_DEPTH: usize = 16;
/// Bytes of the longest number.
const MAX_NUMBER: usize = 10;

/// Types of fields.
pub(crate) const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
/// A number.
pub(crate) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
/// Several values of one type.
pub(crate) const LIST: u8 = 9;
/// Fields, and a stop behind them.
pub(crate) const STRUCT: u8 = 12;

/// What a field holds.
pub(crate) enum Shape {
    Number,
    Byte,
    Bool,
    Binary,
    /// A struct with these fields, among others.
    Fields(&'static [(i16, Shape)]),
}

/// Reads values; `None` where the bytes end, or are something else.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// How many bytes were read.
    pub position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.position)?;
        self.position += 1;
        Some(*byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in 0..MAX_NUMBER {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(7 * shift as u32)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number that is signed.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The next field: its number and its type. `last` is the number of the field before, and becomes that of this one.
    pub(crate) fn field(&mut self, last: &mut i16) -> Option<u8> {
        let head = self.byte()?;
        if head & 0x0f != STOP {
            *last = match head >> 4 {
                0 => i16::try_from(self.number()?).ok()?,
                step => last.checked_add(i16::from(step))?,
            };
        }
        Some(head & 0x0f)
    }

    /// The begin of a list: how many values it has, and their type.
    pub(crate) fn list(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((usize::try_from(count).ok()?, head & 0x0f))
    }

    /// Skips a value of this shape; `None` for another one.
    pub(crate) fn skip_shaped(&mut self, ty: u8, shape: Option<&Shape>) -> Option<()> {
        let fields = match (shape, ty) {
            (None, _) | (Some(Shape::Number), I16 | I32 | I64) => return self.skip(ty),
            (Some(Shape::Byte), BYTE) | (Some(Shape::Bool), TRUE | FALSE) | (Some(Shape::Binary), BINARY) => {
                return self.skip(ty);
            }
            (Some(Shape::Fields(fields)), STRUCT) => fields,
            _ => return None,
        };
        let mut field = 0;
        loop {
            match self.field(&mut field)? {
                STOP => return Some(()),
                ty => self.skip_shaped(ty, shape_of(fields, field))?,
            }
        }
    }

    /// Skips a value.
    pub(crate) fn skip(&mut self, ty: u8) -> Option<()> {
        self.skip_below(ty, MAX_DEPTH)
    }

    fn skip_below(&mut self, ty: u8, depth: usize) -> Option<()> {
        let bytes = match ty {
            TRUE | FALSE => 0,
            BYTE => 1,
            I16 | I32 | I64 => return self.varint().map(|_| ()),
            DOUBLE => 8,
            BINARY => usize::try_from(self.varint()?).ok()?,
            STRUCT => {
                let (mut last, depth) = (0, depth.checked_sub(1)?);
                loop {
                    match self.field(&mut last)? {
                        STOP => return Some(()),
                        ty => self.skip_below(ty, depth)?,
                    }
                }
            }
            _ => return None,
        };
        self.position = self.position.checked_add(bytes).filter(|end| *end <= self.bytes.len())?;
        Some(())
    }
}

/// The shape of a field, if it is a known one.
pub(crate) fn shape_of(fields: &'static [(i16, Shape)], field: i16) -> Option<&'static Shape> {
    fields.iter().find(|(number, _)| *number == field).map(|(_, shape)| shape)
}
