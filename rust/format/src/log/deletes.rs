//! The content of a delete block: keys of deleted records, each with the ordering value of its delete.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | version of the content: 3; 1 and 2 hold Java objects |
//! | 4 | length |
//! | … | 3: Avro, `HoodieDeleteRecordList`; 1 and 2: as `kryo.rs` has it |

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanArray, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int32Builder, Int64Builder, StringArray, StringBuilder, TimestampMicrosecondBuilder,
    TimestampMillisecondBuilder,
};
use arrow::datatypes::{DataType, TimeUnit};

use super::kryo;
use super::ordering_value::{DECIMAL_SCALE, OrderingValue};
use crate::avro::datum::{Cursor, DatumError, write_long};
use crate::java::{double_text, float_text};
use hoodoo_runtime::error::{Error, Result};

/// The version that is written.
const VERSION: i32 = 3;
/// The records that a delete block deletes.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletes {
    /// Record keys.
    pub keys: StringArray,
    /// Ordering values, one for each key.
    pub ordering: Vec<OrderingValue>,
}

impl Deletes {
    /// Reads the content of a delete block.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for later versions, and for Java objects of other classes than Hudi's.
    pub fn read(content: &[u8]) -> Result<Self> {
        let number = |at: usize| -> Option<i32> {
            Some(i32::from_be_bytes(content.get(at..at.checked_add(4)?)?.try_into().ok()?))
        };
        let cut_off = || Error::corrupt("a delete block is cut off");
        let (version, length) = (number(0).ok_or_else(cut_off)?, number(4).ok_or_else(cut_off)?);
        let end = usize::try_from(length).ok().and_then(|n| n.checked_add(8)).ok_or_else(cut_off)?;
        let list = content.get(8..end).ok_or_else(cut_off)?;
        match version {
            1 => kryo::read_keys(list).map(Self::of),
            2 => kryo::read_records(list).map(Self::of),
            VERSION => read_list(list).map_err(|e| Error::corrupt("a delete block cannot be read").caused_by(e)),
            other => Err(Error::unsupported("the version of a delete block's content").with("version", other)),
        }
    }

    fn of((keys, ordering): (StringArray, Vec<OrderingValue>)) -> Self {
        Self { keys, ordering }
    }

    /// The content of a delete block.
    pub fn write<'a>(records: impl ExactSizeIterator<Item = (&'a str, &'a str, OrderingValue)>) -> Result<Vec<u8>> {
        let mut list = Vec::with_capacity(records.len() * 32);
        let length = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        if records.len() > 0 {
            write_long(length(records.len()), &mut list);
        }
        for (key, partition, ordering) in records {
            for text in [key, partition] {
                write_long(1, &mut list);
                write_long(length(text.len()), &mut list);
                list.extend_from_slice(text.as_bytes());
            }
            write_ordering(&mut list, &ordering);
        }
        write_long(0, &mut list);
        let length = i32::try_from(list.len()).map_err(|_| {
            Error::invalid_option("a delete block of more than 2 GiB").remedy("Delete in several commits")
        })?;
        let mut content = Vec::with_capacity(list.len() + 8);
        content.extend_from_slice(&VERSION.to_be_bytes());
        content.extend_from_slice(&length.to_be_bytes());
        content.extend_from_slice(&list);
        Ok(content)
    }

    /// The ordering values as columns of the given types, and which of them are the default (null in the columns).
    ///
    /// # Errors
    /// `Corrupt` for a value that cannot be compared with such a column. Hudi cannot read such a file group either.
    pub fn ordering_columns(&self, types: &[DataType]) -> Result<(Vec<ArrayRef>, BooleanArray)> {
        let default: BooleanArray = self.ordering.iter().map(|v| Some(*v == OrderingValue::Default)).collect();
        let columns = types.iter().enumerate().map(|(at, data_type)| {
            let value = |row: &'_ OrderingValue| -> Result<Option<OrderingValue>> {
                match row {
                    OrderingValue::Default => Ok(None),
                    OrderingValue::Several(values) if values.len() == types.len() => Ok(values.get(at).cloned()),
                    one if types.len() == 1 => Ok(Some(one.clone())),
                    _ => Err(Error::corrupt("a delete has another number of ordering values than the table")),
                }
            };
            column_of(self.ordering.iter().map(value), data_type)
        });
        Ok((columns.collect::<Result<_>>()?, default))
    }
}

/// The values of one column. A column that became wider since has those of its types of before in its deletes.
fn column_of(values: impl Iterator<Item = Result<Option<OrderingValue>>>, data_type: &DataType) -> Result<ArrayRef> {
    /// Appends each value with the arm that fits it.
    macro_rules! build {
        ($builder:expr, $($pattern:pat => $value:expr),+) => {{
            let mut builder = $builder;
            for value in values {
                match value? {
                    None | Some(OrderingValue::Default) => builder.append_null(),
                    $(Some($pattern) => builder.append_value($value),)+
                    Some(other) => return Err(misfit(&other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }};
    }
    use OrderingValue as V;
    Ok(match data_type {
        DataType::Boolean => build!(BooleanBuilder::new(), V::Boolean(v) => v),
        DataType::Int32 => build!(Int32Builder::new(), V::Int(v) => v),
        DataType::Int64 => build!(Int64Builder::new(), V::Long(v) => v, V::Int(v) => i64::from(v)),
        DataType::Float32 => {
            build!(Float32Builder::new(), V::Float(v) => v, V::Int(v) => v as f32, V::Long(v) => v as f32)
        }
        DataType::Float64 => build!(
            Float64Builder::new(),
            V::Double(v) => v,
            V::Float(v) => by_its_digits(v),
            V::Int(v) => f64::from(v),
            V::Long(v) => v as f64
        ),
        DataType::Utf8 => build!(
            StringBuilder::new(),
            V::Text(v) => v,
            V::Int(v) => v.to_string(),
            V::Long(v) => v.to_string(),
            V::Float(v) => float_text(v),
            V::Double(v) => double_text(v)
        ),
        DataType::Binary => build!(BinaryBuilder::new(), V::Bytes(v) => v),
        DataType::Date32 => build!(Date32Builder::new(), V::Date(v) => v, V::Int(v) => v),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            build!(TimestampMicrosecondBuilder::new().with_data_type(data_type.clone()), V::Long(v) => v)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            build!(TimestampMillisecondBuilder::new().with_data_type(data_type.clone()), V::Long(v) => v)
        }
        DataType::Decimal128(_, scale) => {
            let shift = 10i128.checked_pow(u32::from((DECIMAL_SCALE - scale).unsigned_abs())).unwrap_or(i128::MAX);
            let up = *scale > DECIMAL_SCALE;
            let rescaled = |v: i128| if up { v.checked_mul(shift) } else { (v % shift == 0).then_some(v / shift) };
            let mut builder = Decimal128Builder::new().with_data_type(data_type.clone());
            for value in values {
                match value? {
                    None | Some(V::Default) => builder.append_null(),
                    Some(V::Decimal(v)) => {
                        builder.append_value(rescaled(v).ok_or_else(|| misfit(&V::Decimal(v), data_type))?);
                    }
                    Some(other) => return Err(misfit(&other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }
        other => return Err(Error::unsupported(format!("deletes ordered by a column of type {other}"))),
    })
}

/// A float as the double that is written alike, as columns of base files are widened.
fn by_its_digits(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

fn misfit(value: &OrderingValue, data_type: &DataType) -> Error {
    Error::corrupt(format!("a delete has the ordering value {value:?}, which cannot be compared with {data_type}"))
}

fn read_list(list: &[u8]) -> std::result::Result<Deletes, DatumError> {
    let mut cursor = Cursor::new(list);
    let mut keys = StringBuilder::new();
    let mut ordering = Vec::new();
    each_item(&mut cursor, |cursor| {
        keys.append_option(optional_text(cursor)?);
        optional_text(cursor)?;
        ordering.push(read_ordering(cursor, true)?);
        Ok(())
    })?;
    Ok(Deletes { keys: keys.finish(), ordering })
}

/// Walks over an Avro array.
fn each_item<'a>(
    cursor: &mut Cursor<'a>,
    mut item: impl FnMut(&mut Cursor<'a>) -> std::result::Result<(), DatumError>,
) -> std::result::Result<(), DatumError> {
    loop {
        let mut count = cursor.long()?;
        if count == 0 {
            return Ok(());
        }
        if count < 0 {
            // A negative count is followed by the size of the block.
            cursor.long()?;
            count = count.checked_neg().unwrap_or(i64::MAX);
        }
        for _ in 0..count {
            item(cursor)?;
        }
    }
}

fn optional_text<'a>(cursor: &mut Cursor<'a>) -> std::result::Result<Option<&'a str>, DatumError> {
    match cursor.long()? {
        0 => Ok(None),
        1 => {
            let bytes = cursor.bytes()?;
            std::str::from_utf8(bytes).map(Some).map_err(|_| DatumError::new("a key is not UTF-8"))
        }
        other => Err(DatumError::new(format!("a union of two types has no branch {other}"))),
    }
}

fn read_ordering(cursor: &mut Cursor<'_>, nested: bool) -> std::result::Result<OrderingValue, DatumError> {
    use OrderingValue as V;
    let int = |cursor: &mut Cursor<'_>| {
        i32::try_from(cursor.long()?).map_err(|_| DatumError::new("an int has more than 32 bits"))
    };
    let cut = |_| DatumError::new("a number is cut off");
    Ok(match cursor.long()? {
        0 => V::Default,
        1 => V::Boolean(cursor.take(1)? != [0]),
        2 => match int(cursor)? {
            // Inside a tuple a 0 is a value like any other.
            0 if nested => V::Default,
            value => V::Int(value),
        },
        3 | 10 | 11 => V::Long(cursor.long()?),
        4 => V::Float(f32::from_le_bytes(cursor.take(4)?.try_into().map_err(cut)?)),
        5 => V::Double(f64::from_le_bytes(cursor.take(8)?.try_into().map_err(cut)?)),
        6 => V::Bytes(cursor.bytes()?.to_vec()),
        7 => {
            let text = std::str::from_utf8(cursor.bytes()?);
            V::Text(text.map_err(|_| DatumError::new("an ordering value is not UTF-8"))?.to_owned())
        }
        8 => V::Date(int(cursor)?),
        9 => V::Decimal(unscaled(cursor.bytes()?)?),
        12 if nested => {
            let mut values = Vec::new();
            if cursor.long()? == 1 {
                each_item(cursor, |cursor| {
                    values.push(read_ordering(cursor, false)?);
                    Ok(())
                })?;
            }
            V::Several(values)
        }
        other => return Err(DatumError::new(format!("an ordering value is of the unknown kind {other}"))),
    })
}

/// A big-endian two's complement number.
fn unscaled(bytes: &[u8]) -> std::result::Result<i128, DatumError> {
    let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
    if bytes.len() > 16 {
        return Err(DatumError::new("a decimal has more than 128 bits"));
    }
    let fill = if negative { -1i128 } else { 0 };
    Ok(bytes.iter().fold(fill, |value, byte| value << 8 | i128::from(*byte)))
}

fn write_ordering(out: &mut Vec<u8>, value: &OrderingValue) {
    use OrderingValue as V;
    let bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
        write_long(i64::try_from(bytes.len()).unwrap_or(i64::MAX), out);
        out.extend_from_slice(bytes);
    };
    let branch = match value {
        V::Boolean(_) => 1,
        // Hudi's own spelling of none.
        V::Default | V::Int(_) => 2,
        V::Long(_) => 3,
        V::Float(_) => 4,
        V::Double(_) => 5,
        V::Bytes(_) => 6,
        V::Text(_) => 7,
        V::Date(_) => 8,
        V::Decimal(_) => 9,
        V::Several(_) => 12,
    };
    write_long(branch, out);
    match value {
        V::Default => write_long(0, out),
        V::Boolean(v) => out.push(u8::from(*v)),
        V::Int(v) | V::Date(v) => write_long(i64::from(*v), out),
        V::Long(v) => write_long(*v, out),
        V::Float(v) => out.extend_from_slice(&v.to_le_bytes()),
        V::Double(v) => out.extend_from_slice(&v.to_le_bytes()),
        V::Bytes(v) => bytes(out, v),
        V::Text(v) => bytes(out, v.as_bytes()),
        V::Decimal(v) => {
            let all = v.to_be_bytes();
            // The shortest form that keeps the sign, as Java's BigInteger has it.
            let redundant = all.windows(2).take_while(|w| match w {
                [0, next] => next & 0x80 == 0,
                [0xff, next] => next & 0x80 != 0,
                _ => false,
            });
            bytes(out, all.get(redundant.count()..).unwrap_or(&all));
        }
        V::Several(values) => {
            write_long(1, out);
            if !values.is_empty() {
                write_long(i64::try_from(values.len()).unwrap_or(i64::MAX), out);
            }
            for value in values {
                write_ordering(out, value);
            }
            write_long(0, out);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Decimal128Type, Float64Type, Int64Type};
    use proptest::prelude::*;

    #[test]
    fn what_was_written_is_read() {
        use OrderingValue as V;
        let values = [
            V::Default,
            V::Boolean(true),
            V::Int(-7),
            V::Long(1 << 40),
            V::Float(1.5),
            V::Double(-0.0),
            V::Bytes(vec![0, 255]),
            V::Text("é".into()),
            V::Date(20_000),
            V::Decimal(-128),
            V::Decimal(i128::MAX),
            V::Several(vec![V::Long(10), V::Int(0), V::Text("x".into())]),
        ];
        let keys: Vec<String> = (0..values.len()).map(|i| format!("k{i}")).collect();
        let records: Vec<_> = keys.iter().zip(&values).map(|(k, v)| (k.as_str(), "p=1", v.clone())).collect();
        let read = Deletes::read(&Deletes::write(records.into_iter()).unwrap()).unwrap();
        assert_eq!(read.keys, StringArray::from(keys));
        assert_eq!(read.ordering, values);
        assert_eq!(Deletes::read(&Deletes::write(std::iter::empty()).unwrap()).unwrap().keys.len(), 0);
    }

    #[test]
    fn values_become_columns_of_the_table() {
        use OrderingValue as V;
        let of = |ordering: Vec<V>| Deletes { keys: StringArray::from(vec!["k"; ordering.len()]), ordering };
        let (columns, default) = of(vec![V::Default, V::Long(5)]).ordering_columns(&[DataType::Int64]).unwrap();
        assert_eq!(columns[0].as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, Some(5)]);
        assert_eq!(default, BooleanArray::from(vec![true, false]));
        let cents = of(vec![V::Decimal(1_250_000_000_000_000)]);
        let (columns, _) = cents.ordering_columns(&[DataType::Decimal128(10, 2)]).unwrap();
        assert_eq!(columns[0].as_primitive::<Decimal128Type>().value(0), 125);
        assert!(of(vec![V::Decimal(1)]).ordering_columns(&[DataType::Decimal128(10, 2)]).is_err());
        assert!(of(vec![V::Long(5)]).ordering_columns(&[DataType::Int32]).is_err());
        // From before the column became wider.
        let (columns, _) = of(vec![V::Int(5)]).ordering_columns(&[DataType::Int64]).unwrap();
        assert_eq!(columns[0].as_primitive::<Int64Type>().value(0), 5);
        let (columns, _) = of(vec![V::Float(0.1), V::Int(-3)]).ordering_columns(&[DataType::Float64]).unwrap();
        assert_eq!(columns[0].as_primitive::<Float64Type>().values()[..], [0.1, -3.0]);
        let (columns, _) = of(vec![V::Long(7)]).ordering_columns(&[DataType::Utf8]).unwrap();
        assert_eq!(columns[0].as_string::<i32>().value(0), "7");
        let several = of(vec![V::Several(vec![V::Long(1), V::Int(2)]), V::Default]);
        let (columns, default) = several.ordering_columns(&[DataType::Int64, DataType::Int32]).unwrap();
        assert_eq!((columns.len(), columns[1].null_count(), default.value(1)), (2, 1, true));
        assert!(of(vec![V::Long(1)]).ordering_columns(&[DataType::Int64, DataType::Int32]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_deletes_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut content = 3i32.to_be_bytes().to_vec();
            content.extend_from_slice(&i32::try_from(bytes.len()).unwrap().to_be_bytes());
            content.extend_from_slice(&bytes);
            let _ = Deletes::read(&content);
            let _ = Deletes::read(&bytes);
        }
    }
}
