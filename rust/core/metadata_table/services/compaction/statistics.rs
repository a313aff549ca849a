//! Statistics in their stored form, merged without a detour over columns: nearly all of them are copied as they are, and of
//! a commit that widens the statistics of many partitions each takes microseconds.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::format::avro::datum::{Cursor, DatumError};
use crate::metadata_table::encode::{Field, record, write_optional_long};

/// How many meta columns come first.
const META_COLUMNS: usize = 5;
/// `valueType.typeOrdinal` of decimals.
const DECIMAL: i64 = 10;

type Parsed<T> = std::result::Result<T, DatumError>;

/// The statistics of a stored record.
struct Statistics<'v> {
    record_type: i64,
    /// Name of the file and of the column, as they are stored.
    names: &'v [u8],
    min: Bound<'v>,
    max: Bound<'v>,
    counts: [Option<i64>; 4],
    is_deleted: bool,
    is_tight: bool,
    /// The type of the values, as it is stored.
    value_type: &'v [u8],
    is_decimal: bool,
}

/// A min or max, as it is stored and as it compares.
#[derive(Clone, Copy)]
struct Bound<'v> {
    stored: &'v [u8],
    value: Value<'v>,
}

#[derive(Clone, Copy)]
enum Value<'v> {
    None,
    Integer(i64),
    Double(f64),
    Bytes(&'v [u8]),
    Decimal(&'v [u8]),
    String(&'v str),
    /// Values of several columns, which no column of a table has.
    Several,
}

/// Merges the statistics of one key. `None` if the newer ones replace the older ones: because one of them is deleted, or
/// because the newer ones are of everything that there is.
///
/// # Errors
/// `Corrupt` for values that are no statistics; `Unsupported` for bounds that do not compare.
pub(super) fn merge(old: &[u8], new: &[u8]) -> Result<Option<Vec<u8>>> {
    let (old, new) = (Statistics::read(old)?, Statistics::read(new)?);
    if old.is_deleted || new.is_deleted || new.is_tight {
        return Ok(None);
    }
    let is_decimal = old.is_decimal && new.is_decimal;
    let min = smaller(&old.min, &new.min, is_decimal)?;
    let max = larger(&old.max, &new.max, is_decimal)?;
    let value_type = if matches!(new.min.value, Value::None) { old.value_type } else { new.value_type };
    Ok(Some(record(new.record_type, Field::ColumnStats, |out| {
        out.extend_from_slice(new.names);
        out.extend_from_slice(min.stored);
        out.extend_from_slice(max.stored);
        for (old, new) in old.counts.iter().zip(new.counts) {
            write_optional_long(Some(old.unwrap_or(0).saturating_add(new.unwrap_or(0))), out);
        }
        // Not deleted, and not of everything.
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(value_type);
    })))
}

/// Whether statistics are deleted.
///
/// # Errors
/// `Corrupt` for a value that is no statistics.
pub(super) fn is_deleted(value: &[u8]) -> Result<bool> {
    Ok(Statistics::read(value)?.is_deleted)
}

fn smaller<'v>(old: &Bound<'v>, new: &Bound<'v>, is_decimal: bool) -> Result<Bound<'v>> {
    Ok(if is_before(old, new, is_decimal)? { *old } else { *new })
}

fn larger<'v>(old: &Bound<'v>, new: &Bound<'v>, is_decimal: bool) -> Result<Bound<'v>> {
    // A bound that is there counts, whichever is asked for.
    let only_old = matches!(new.value, Value::None) && !matches!(old.value, Value::None);
    let only_new = matches!(old.value, Value::None);
    Ok(if only_old || !only_new && is_before(new, old, is_decimal)? { *old } else { *new })
}

/// Whether a bound is smaller than another. One that is there is before none.
fn is_before(one: &Bound<'_>, other: &Bound<'_>, is_decimal: bool) -> Result<bool> {
    let order = match (one.value, other.value) {
        (Value::None, _) => return Ok(false),
        (_, Value::None) => return Ok(true),
        (Value::Integer(a), Value::Integer(b)) => a.cmp(&b),
        (Value::Double(a), Value::Double(b)) => a.total_cmp(&b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Decimal(a), Value::Decimal(b)) => compare_decimals(a, b),
        (Value::Bytes(a), Value::Bytes(b)) if is_decimal => compare_decimals(a, b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        _ => return Err(Error::unsupported("statistics of one column have bounds of several types")),
    };
    Ok(order == Ordering::Less)
}

/// Compares unscaled values: big-endian, in two's complement, of any length.
fn compare_decimals(a: &[u8], b: &[u8]) -> Ordering {
    let is_negative = |bytes: &[u8]| bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    match (is_negative(a), is_negative(b)) {
        (true, false) => return Ordering::Less,
        (false, true) => return Ordering::Greater,
        _ => {}
    }
    let fill = if is_negative(a) { 0xff } else { 0 };
    let length = a.len().max(b.len());
    let padded = |bytes: &[u8]| -> Vec<u8> {
        std::iter::repeat_n(fill, length - bytes.len()).chain(bytes.iter().copied()).collect()
    };
    padded(a).cmp(&padded(b))
}

impl<'v> Statistics<'v> {
    fn read(value: &'v [u8]) -> Result<Self> {
        let damaged = |e| Error::corrupt("a record of the metadata table is no statistics").caused_by(e);
        let mut reader = Reader { value, cursor: Cursor::new(value) };
        reader.statistics().map_err(damaged)?.ok_or_else(|| damaged(DatumError::new("it has none")))
    }
}

/// Walks over a stored record.
struct Reader<'v> {
    value: &'v [u8],
    cursor: Cursor<'v>,
}

impl<'v> Reader<'v> {
    fn statistics(&mut self) -> Parsed<Option<Statistics<'v>>> {
        for _ in 0..META_COLUMNS {
            self.optional(|reader| reader.cursor.bytes().map(|_| ()))?;
        }
        self.cursor.bytes()?;
        let record_type = self.cursor.long()?;
        // A record fills one field; those of files and of a bloom filter come first.
        if self.cursor.long()? != 0 || self.cursor.long()? != 0 || self.cursor.long()? != 1 {
            return Ok(None);
        }
        let names = self.stored(|reader| {
            reader.optional(|reader| reader.cursor.string().map(|_| ()))?;
            reader.optional(|reader| reader.cursor.string().map(|_| ()))
        })?;
        let (min, max) = (self.bound()?, self.bound()?);
        let mut counts = [None; 4];
        for count in &mut counts {
            self.optional(|reader| {
                *count = Some(reader.cursor.long()?);
                Ok(())
            })?;
        }
        let (is_deleted, is_tight) = (self.flag()?, self.flag()?);
        let mut is_decimal = false;
        let value_type = self.stored(|reader| {
            reader.optional(|reader| {
                is_decimal = reader.cursor.long()? == DECIMAL;
                reader.optional(|reader| reader.cursor.string().map(|_| ()))
            })
        })?;
        Ok(Some(Statistics { record_type, names, min, max, counts, is_deleted, is_tight, value_type, is_decimal }))
    }

    /// The bytes that `read` reads.
    fn stored(&mut self, read: impl FnOnce(&mut Self) -> Parsed<()>) -> Parsed<&'v [u8]> {
        let begin = self.cursor.offset();
        read(self)?;
        Ok(self.value.get(begin..self.cursor.offset()).unwrap_or_default())
    }

    /// A value of a field whose first branch is null.
    fn optional(&mut self, read: impl FnOnce(&mut Self) -> Parsed<()>) -> Parsed<()> {
        match self.cursor.long()? {
            0 => Ok(()),
            1 => read(self),
            other => Err(DatumError::at(format!("a union of two types has no branch {other}"), self.cursor.offset())),
        }
    }

    fn flag(&mut self) -> Parsed<bool> {
        match self.cursor.take(1)? {
            [byte @ (0 | 1)] => Ok(*byte == 1),
            _ => Err(DatumError::at("a flag is neither true nor false", self.cursor.offset())),
        }
    }

    /// A min or max: a union of records that have one value each.
    fn bound(&mut self) -> Parsed<Bound<'v>> {
        let mut found = Value::None;
        let stored = self.stored(|reader| {
            let cursor = &mut reader.cursor;
            found = match cursor.long()? {
                0 => Value::None,
                1 => Value::Integer(cursor.take(1)?.iter().map(|byte| i64::from(*byte)).sum()),
                2 | 3 | 8 | 10 | 11 | 12 => Value::Integer(cursor.long()?),
                4 => Value::Double(f64::from(f32::from_le_bytes(number(cursor)?))),
                5 => Value::Double(f64::from_le_bytes(number(cursor)?)),
                6 => Value::Bytes(cursor.bytes()?),
                7 => Value::String(cursor.string()?),
                9 => Value::Decimal(cursor.bytes()?),
                13 => Value::Several,
                other => return Err(DatumError::at(format!("a bound has no type {other}"), cursor.offset())),
            };
            Ok(())
        })?;
        match found {
            Value::Several => Err(DatumError::at("a bound of several columns", self.cursor.offset())),
            value => Ok(Bound { stored, value }),
        }
    }
}

fn number<const N: usize>(cursor: &mut Cursor<'_>) -> Parsed<[u8; N]> {
    let offset = cursor.offset();
    cursor.take(N)?.try_into().map_err(|_| DatumError::at("a number is cut off", offset))
}
