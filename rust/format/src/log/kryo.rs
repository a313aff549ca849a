//! The content of delete blocks of versions 1 and 2: an array of Java objects, as Kryo 4 writes it for Hudi. Reading only.
//!
//! | version | array of | fields |
//! |---|---|---|
//! | 1 | `HoodieKey` | partition path, record key |
//! | 2 | `DeleteRecord` | a `HoodieKey`, ordering value |
//!
//! What stands in front of the fields of an object:
//!
//! | bytes | field |
//! |---|---|
//! | 1–5 | class: 0 null, 1 by name, others a known one + 2; left out for strings that are fields of a key |
//! | 1–5, … | by name: its number, and the name itself where the number is new |
//! | 1–5 | 0 null, 1 new, others a number + 2 of an object before it; left out for numbers and booleans |
//!
//! These shapes are read and no others; Java would make objects of any class that is named.

use arrow::array::{StringArray, StringBuilder};

use super::ordering_value::{DECIMAL_SCALE, OrderingValue};
use hoodoo_runtime::error::{Error, Result};

const HOODIE_KEY: &str = "org.apache.hudi.common.model.HoodieKey";
const DELETE_RECORD: &str = "org.apache.hudi.common.model.DeleteRecord";
/// Avro's own strings, under which number Hudi has them.
const UTF8_CLASS: u32 = 44;
/// Strings that objects share are copied; so often for each byte of the content, and at least this.
const COPIES_PER_BYTE: usize = 100;
const LEAST_COPIES: usize = 1 << 20;

/// Record keys with an ordering value for each.
type Deleted = (StringArray, Vec<OrderingValue>);

/// Reads `HoodieKey[]`. Such deletes have no ordering values.
pub(super) fn read_keys(content: &[u8]) -> Result<Deleted> {
    read_array(content, HOODIE_KEY, |kryo| Ok((kryo.key()?, OrderingValue::Default)))
}

/// Reads `DeleteRecord[]`.
pub(super) fn read_records(content: &[u8]) -> Result<Deleted> {
    read_array(content, DELETE_RECORD, |kryo| kryo.record())
}

fn read_array(
    content: &[u8],
    item: &str,
    mut read: impl FnMut(&mut Kryo<'_>) -> Result<(String, OrderingValue)>,
) -> Result<Deleted> {
    let budget = LEAST_COPIES.saturating_add(content.len().saturating_mul(COPIES_PER_BYTE)).min(i32::MAX as usize);
    let mut kryo = Kryo { rest: content, classes: Vec::new(), objects: Vec::new(), budget };
    kryo.expect(&format!("[L{item};"))?;
    kryo.begin()?;
    let count = kryo.varint()?.checked_sub(1).ok_or_else(|| nonsense("an array that is null"))? as usize;
    if count > kryo.rest.len() {
        return Err(nonsense("an array of more objects than bytes"));
    }
    let mut keys = StringBuilder::new();
    let mut ordering = Vec::with_capacity(count);
    for _ in 0..count {
        let (key, value) = read(&mut kryo)?;
        keys.append_value(key);
        ordering.push(value);
    }
    if !kryo.rest.is_empty() {
        return Err(nonsense("bytes behind the array"));
    }
    Ok((keys.finish(), ordering))
}

fn nonsense(what: &str) -> Error {
    Error::corrupt(format!("a delete block of Java objects has {what}"))
}

/// A class, as far as there are several to choose from.
enum Class {
    Null,
    Known(u32),
    Named(String),
}

/// What an object has been read as, for those that refer to it.
#[derive(Clone)]
enum Object {
    /// Not read to its end, or of a kind that nobody may refer to.
    Opaque,
    Text(String),
    Key(String),
    Value(OrderingValue),
    Record(String, OrderingValue),
}

impl Object {
    /// What a copy of it takes.
    fn size(&self) -> usize {
        let of = |value: &OrderingValue| if let OrderingValue::Text(text) = value { text.len() } else { 0 };
        16 + match self {
            Self::Opaque => 0,
            Self::Text(text) | Self::Key(text) => text.len(),
            Self::Value(value) => of(value),
            Self::Record(key, value) => key.len() + of(value),
        }
    }
}

struct Kryo<'a> {
    rest: &'a [u8],
    classes: Vec<String>,
    objects: Vec<Object>,
    /// How many bytes may still be copied from objects that others refer to.
    budget: usize,
}

impl Kryo<'_> {
    fn record(&mut self) -> Result<(String, OrderingValue)> {
        self.expect(DELETE_RECORD)?;
        if let Some(shared) = self.begin()? {
            return match shared {
                Object::Record(key, value) => Ok((key, value)),
                _ => Err(nonsense("a reference to an object of another class")),
            };
        }
        let number = self.objects.len() - 1;
        let key = self.key()?;
        let value = self.ordering()?;
        self.end(number, Object::Record(key.clone(), value.clone()));
        Ok((key, value))
    }

    fn key(&mut self) -> Result<String> {
        self.expect(HOODIE_KEY)?;
        if let Some(shared) = self.begin()? {
            return match shared {
                Object::Key(key) => Ok(key),
                _ => Err(nonsense("a reference to an object of another class")),
            };
        }
        let number = self.objects.len() - 1;
        // The partition path: a log file is in one partition anyway.
        self.field()?;
        let key = self.field()?.ok_or_else(|| nonsense("a key that is null"))?;
        self.end(number, Object::Key(key.clone()));
        Ok(key)
    }

    /// A text that is a field.
    fn field(&mut self) -> Result<Option<String>> {
        if self.rest.first() == Some(&0) {
            self.byte()?;
            return Ok(None);
        }
        self.shared_text().map(Some)
    }

    fn shared_text(&mut self) -> Result<String> {
        match self.begin()? {
            Some(Object::Text(text)) => Ok(text),
            Some(_) => Err(nonsense("a reference to an object of another class")),
            None => {
                let number = self.objects.len() - 1;
                let text = self.text()?;
                self.end(number, Object::Text(text.clone()));
                Ok(text)
            }
        }
    }

    fn ordering(&mut self) -> Result<OrderingValue> {
        use OrderingValue as V;
        let name = match self.class()? {
            Class::Null => return Ok(V::Default),
            Class::Known(number) => {
                return Ok(match number {
                    0 => match unzigzag(self.varint()?.into()) {
                        0 => V::Default,
                        value => V::Int(i32::try_from(value).map_err(|_| nonsense("an int of more than 32 bits"))?),
                    },
                    1 => V::Text(self.shared_text()?),
                    2 => V::Float(f32::from_be_bytes(self.array()?)),
                    3 => match self.byte()? {
                        flag @ (0 | 1) => V::Boolean(flag == 1),
                        _ => return Err(nonsense("a boolean that is neither true nor false")),
                    },
                    7 => V::Long(unzigzag(self.varlong()?)),
                    8 => V::Double(f64::from_be_bytes(self.array()?)),
                    UTF8_CLASS => self.value(|kryo| kryo.utf8().map(V::Text))?,
                    other => return Err(unknown(&format!("number {other}"))),
                });
            }
            Class::Named(name) => name,
        };
        match name.as_str() {
            "org.apache.avro.util.Utf8" => self.value(|kryo| kryo.utf8().map(V::Text)),
            "java.math.BigDecimal" => self.value(Self::decimal),
            "java.time.LocalDate" => self.value(Self::date),
            _ => Err(unknown(&name)),
        }
    }

    /// An ordering value that others may refer to.
    fn value(&mut self, read: impl FnOnce(&mut Self) -> Result<OrderingValue>) -> Result<OrderingValue> {
        match self.begin()? {
            Some(Object::Value(value)) => Ok(value),
            Some(_) => Err(nonsense("a reference to an object of another class")),
            None => {
                let number = self.objects.len() - 1;
                let value = read(self)?;
                self.end(number, Object::Value(value.clone()));
                Ok(value)
            }
        }
    }

    /// Length, bytes of the unscaled number, scale.
    fn decimal(&mut self) -> Result<OrderingValue> {
        let too_large = || Error::unsupported("deletes with an ordering value of more digits than a decimal has");
        let length = self.varint()?.checked_sub(1).filter(|length| *length > 0);
        let bytes = self.take(length.ok_or_else(|| nonsense("a decimal without digits"))? as usize)?;
        let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
        if bytes.len() > 16 {
            return Err(too_large());
        }
        let unscaled = bytes.iter().fold(if negative { -1i128 } else { 0 }, |n, byte| n << 8 | i128::from(*byte));
        let shift = i64::from(DECIMAL_SCALE) - unzigzag(self.varint()?.into());
        let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|n| 10i128.checked_pow(n));
        let scaled = match power {
            _ if unscaled == 0 => Some(0),
            Some(power) if shift >= 0 => unscaled.checked_mul(power),
            Some(power) => (unscaled % power == 0).then_some(unscaled / power),
            None => None,
        };
        scaled.map(OrderingValue::Decimal).ok_or_else(too_large)
    }

    /// Year, month, day.
    fn date(&mut self) -> Result<OrderingValue> {
        let year = self.varint()?.cast_signed();
        let (month, day) = (self.byte()?, self.byte()?);
        let date = chrono::NaiveDate::from_ymd_opt(year, month.into(), day.into());
        let days = date.map(|date| date.signed_duration_since(chrono::NaiveDate::default()).num_days());
        let days = days.and_then(|days| i32::try_from(days).ok());
        days.map(OrderingValue::Date).ok_or_else(|| nonsense("a date that is none"))
    }

    fn utf8(&mut self) -> Result<String> {
        let length = self.varint()?.checked_sub(1).ok_or_else(|| nonsense("a text that is null"))?;
        let text = std::str::from_utf8(self.take(length as usize)?);
        text.map(str::to_owned).map_err(|_| nonsense("a text that is not UTF-8"))
    }

    /// A text: of ASCII alone with a mark on the last letter, or the number of its UTF-16 units and those, each as UTF-8.
    fn text(&mut self) -> Result<String> {
        let first = self.byte()?;
        if first & 0x80 == 0 {
            let more = self.rest.iter().position(|byte| byte & 0x80 != 0).ok_or_else(cut_off)?;
            let mut text = vec![first];
            text.extend(self.take(more + 1)?.iter().map(|byte| byte & 0x7f));
            return String::from_utf8(text).map_err(|_| nonsense("a text that is not UTF-8"));
        }
        let mut units = usize::from(first & 0x3f);
        let mut more = first & 0x40 != 0;
        for shift in [6, 13, 20, 27] {
            if !more {
                break;
            }
            let byte = self.byte()?;
            units |= usize::from(byte & 0x7f) << shift;
            more = byte & 0x80 != 0;
        }
        let units = units.checked_sub(1).ok_or_else(|| nonsense("a text that is null"))?;
        if more || units > self.rest.len() {
            return Err(cut_off());
        }
        let units = (0..units).map(|_| self.unit()).collect::<Result<Vec<u16>>>()?;
        String::from_utf16(&units).map_err(|_| nonsense("a text that is not UTF-16"))
    }

    fn unit(&mut self) -> Result<u16> {
        let first = self.byte()?;
        let mut tail = |bits: u16| -> Result<u16> {
            match self.byte()? {
                byte @ 0x80..=0xbf => Ok(bits << 6 | u16::from(byte & 0x3f)),
                _ => Err(nonsense("a text that is not UTF-8")),
            }
        };
        match first {
            0..=0x7f => Ok(first.into()),
            0xc0..=0xdf => tail(u16::from(first & 0x1f)),
            0xe0..=0xef => {
                let bits = tail(u16::from(first & 0x0f))?;
                tail(bits)
            }
            _ => Err(nonsense("a text that is not UTF-8")),
        }
    }

    fn expect(&mut self, name: &str) -> Result<()> {
        match self.class()? {
            Class::Named(found) if found == name => Ok(()),
            Class::Null => Err(nonsense("an object that is null")),
            Class::Known(number) => Err(unknown(&format!("number {number}"))),
            Class::Named(found) => Err(unknown(&found)),
        }
    }

    fn class(&mut self) -> Result<Class> {
        match self.varint()? {
            0 => Ok(Class::Null),
            1 => {
                let number = self.varint()? as usize;
                if number == self.classes.len() {
                    let name = self.text()?;
                    self.classes.push(name);
                }
                let name = self.classes.get(number).ok_or_else(|| nonsense("a class that was not named"))?;
                Ok(Class::Named(name.clone()))
            }
            number => Ok(Class::Known(number - 2)),
        }
    }

    /// Begins an object: a new one, or one that was read before.
    fn begin(&mut self) -> Result<Option<Object>> {
        match self.varint()? {
            0 => Err(nonsense("an object that is null")),
            1 => {
                self.objects.push(Object::Opaque);
                Ok(None)
            }
            number => {
                let object = self.objects.get(number as usize - 2);
                let object = object.ok_or_else(|| nonsense("a reference to a missing object"))?;
                let budget = self.budget.checked_sub(object.size());
                self.budget = budget.ok_or_else(|| nonsense("more references than such a block can have"))?;
                Ok(Some(object.clone()))
            }
        }
    }

    fn end(&mut self, number: usize, object: Object) {
        if let Some(slot) = self.objects.get_mut(number) {
            *slot = object;
        }
    }

    fn varint(&mut self) -> Result<u32> {
        let value = self.seven_bits(5)?;
        u32::try_from(value).map_err(|_| nonsense("a number of more than 32 bits"))
    }

    /// Seven bits a byte, the lowest first; the ninth byte has eight.
    fn varlong(&mut self) -> Result<u64> {
        self.seven_bits(9)
    }

    fn seven_bits(&mut self, most: u32) -> Result<u64> {
        let mut value = 0u64;
        for position in 0..most {
            let byte = self.byte()?;
            if position == 8 {
                return Ok(value | u64::from(byte) << 56);
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(nonsense("a number of more than 32 bits"))
    }

    fn byte(&mut self) -> Result<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn take(&mut self, length: usize) -> Result<&[u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(bytes)
    }
}

fn unzigzag(raw: u64) -> i64 {
    (raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()
}

fn cut_off() -> Error {
    Error::corrupt("a delete block is cut off")
}

fn unknown(class: &str) -> Error {
    let class: String = class.chars().take(100).collect();
    Error::unsupported("a delete block with Java objects of another class")
        .with("class", class)
        .remedy("Compact the table with the Hudi that wrote it, then read it")
}
