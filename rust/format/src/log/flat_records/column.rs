//! One field of the records, as the column that its values become.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    NullBufferBuilder, PrimitiveArray, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, Time32MillisecondType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, i256,
};
use arrow::error::ArrowError;

use super::bytes::{Damage, array, boolean, bytes, decimal, int, long, position, take};
use crate::avro::datum::Node;

/// Fixed values up to this size. The general decoder has a limit for what nulls take in a column, a thousand bytes for
/// each byte of the records, which nulls of these never reach.
const MOST_FIXED: usize = 512;

/// Which branch of a field's union is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    Never,
    First,
    Second,
}

/// How the values of a field lie in the records, and what becomes of them.
#[derive(Debug, Clone)]
pub(super) enum Form {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Fixed(usize),
    /// With the size of each, or else with their length before them.
    Decimal128(Option<usize>),
    Decimal256(Option<usize>),
    Symbol(Arc<[String]>),
}

impl Form {
    /// The form of a type; none of those that are not simple.
    pub(super) fn of(node: &Node) -> Option<Self> {
        Some(match node {
            Node::Boolean => Self::Boolean,
            Node::Int => Self::Int,
            Node::Long => Self::Long,
            Node::Float => Self::Float,
            Node::Double => Self::Double,
            Node::Bytes | Node::String => Self::Bytes,
            Node::Fixed(size) if (1..=MOST_FIXED).contains(size) => Self::Fixed(*size),
            Node::Enum(symbols) => Self::Symbol(symbols.as_slice().into()),
            _ => return None,
        })
    }

    /// The form when it becomes a column of a type; none if another decoder would have to make it.
    pub(super) fn into_column(self, node: &Node, column: &DataType) -> Option<Self> {
        use DataType as Type;
        let fits = match node {
            Node::Boolean => *column == Type::Boolean,
            Node::Int => matches!(column, Type::Int32 | Type::Date32 | Type::Time32(TimeUnit::Millisecond)),
            Node::Long => matches!(
                column,
                Type::Int64
                    | Type::Time64(TimeUnit::Microsecond)
                    | Type::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
            ),
            Node::Float => *column == Type::Float32,
            Node::Double => *column == Type::Float64,
            Node::String | Node::Enum(_) => *column == Type::Utf8,
            Node::Bytes => *column == Type::Binary,
            Node::Fixed(size) => matches!(column, Type::FixedSizeBinary(n) if usize::try_from(*n) == Ok(*size)),
            _ => false,
        };
        match (self, column) {
            (form, _) if fits => Some(form),
            (Self::Bytes, Type::Decimal128(..)) if *node == Node::Bytes => Some(Self::Decimal128(None)),
            (Self::Bytes, Type::Decimal256(..)) if *node == Node::Bytes => Some(Self::Decimal256(None)),
            (Self::Fixed(size), Type::Decimal128(..)) => Some(Self::Decimal128(Some(size))),
            (Self::Fixed(size), Type::Decimal256(..)) => Some(Self::Decimal256(Some(size))),
            _ => None,
        }
    }

    fn skip(&self, rest: &mut &[u8]) -> Result<(), Damage> {
        match self {
            Self::Boolean => boolean(rest).map(drop),
            Self::Int => int(rest).map(drop),
            Self::Long => long(rest).map(drop),
            Self::Float => take(rest, 4).map(drop),
            Self::Double => take(rest, 8).map(drop),
            Self::Bytes | Self::Decimal128(None) | Self::Decimal256(None) => bytes(rest).map(drop),
            Self::Fixed(size) | Self::Decimal128(Some(size)) | Self::Decimal256(Some(size)) => {
                take(rest, *size).map(drop)
            }
            Self::Symbol(symbols) => position(rest, symbols.len(), Damage::Symbol).map(drop),
        }
    }
}

/// The values of a column so far.
#[derive(Debug)]
enum Values {
    Skipped(Form),
    Boolean(BooleanBufferBuilder),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Texts),
    Symbol(Texts, Arc<[String]>),
    Fixed(Vec<u8>, usize),
    Decimal128(Vec<i128>, Option<usize>),
    Decimal256(Vec<i256>, Option<usize>),
}

/// Values of any length, one behind the other.
#[derive(Debug)]
struct Texts {
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Texts {
    fn new(rows: usize, bytes: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self { ends, bytes: Vec::with_capacity(bytes) }
    }

    #[inline]
    fn push(&mut self, value: &[u8]) -> Result<(), Damage> {
        self.bytes.extend_from_slice(value);
        self.ends.push(i32::try_from(self.bytes.len()).map_err(|_| Damage::TooMuch)?);
        Ok(())
    }

    fn into_parts(self) -> (OffsetBuffer<i32>, Buffer) {
        // They begin with 0 and never fall.
        (OffsetBuffer::new(self.ends.into()), self.bytes.into())
    }
}

/// A field of the records while a batch is decoded.
#[derive(Debug)]
pub(super) struct Column {
    null: Null,
    validity: NullBufferBuilder,
    values: Values,
}

impl Column {
    /// A column for so many rows, which are likely to have so many bytes of text; a field of which there is no column if
    /// it is not wanted.
    pub(super) fn new(null: Null, form: &Form, wanted: bool, rows: usize, bytes: usize) -> Self {
        let values = match form {
            form if !wanted => Values::Skipped(form.clone()),
            Form::Boolean => Values::Boolean(BooleanBufferBuilder::new(rows)),
            Form::Int => Values::Int(Vec::with_capacity(rows)),
            Form::Long => Values::Long(Vec::with_capacity(rows)),
            Form::Float => Values::Float(Vec::with_capacity(rows)),
            Form::Double => Values::Double(Vec::with_capacity(rows)),
            Form::Bytes => Values::Bytes(Texts::new(rows, bytes)),
            Form::Symbol(symbols) => Values::Symbol(Texts::new(rows, bytes), symbols.clone()),
            Form::Fixed(size) => Values::Fixed(Vec::new(), *size),
            Form::Decimal128(size) => Values::Decimal128(Vec::with_capacity(rows), *size),
            Form::Decimal256(size) => Values::Decimal256(Vec::with_capacity(rows), *size),
        };
        Self { null, validity: NullBufferBuilder::new(rows), values }
    }

    /// How many bytes of text it has.
    pub(super) fn text_bytes(&self) -> usize {
        match &self.values {
            Values::Bytes(strings) | Values::Symbol(strings, _) => strings.bytes.len(),
            _ => 0,
        }
    }

    /// Takes the next value from a record.
    #[inline]
    pub(super) fn take(&mut self, rest: &mut &[u8]) -> Result<(), Damage> {
        let may_be_null = self.null != Null::Never;
        let is_null = may_be_null && (position(rest, 2, Damage::Branch)? == 0) == (self.null == Null::First);
        if let Values::Skipped(form) = &self.values {
            return if is_null { Ok(()) } else { form.skip(rest) };
        }
        if is_null {
            return self.push_null();
        }
        if may_be_null {
            self.validity.append_non_null();
        }
        match &mut self.values {
            Values::Skipped(_) => {}
            Values::Boolean(values) => values.append(boolean(rest)?),
            Values::Int(values) => values.push(int(rest)?),
            Values::Long(values) => values.push(long(rest)?),
            Values::Float(values) => values.push(f32::from_le_bytes(array(rest)?)),
            Values::Double(values) => values.push(f64::from_le_bytes(array(rest)?)),
            Values::Bytes(strings) => strings.push(bytes(rest)?)?,
            Values::Symbol(strings, symbols) => {
                let symbol = symbols.get(position(rest, symbols.len(), Damage::Symbol)?);
                strings.push(symbol.ok_or(Damage::Symbol)?.as_bytes())?;
            }
            Values::Fixed(values, size) => values.extend_from_slice(take(rest, *size)?),
            Values::Decimal128(values, size) => values.push(i128::from_be_bytes(decimal(unscaled(rest, *size)?)?)),
            Values::Decimal256(values, size) => values.push(i256::from_be_bytes(decimal(unscaled(rest, *size)?)?)),
        }
        Ok(())
    }

    fn push_null(&mut self) -> Result<(), Damage> {
        self.validity.append_null();
        match &mut self.values {
            Values::Skipped(_) => {}
            Values::Boolean(values) => values.append(false),
            Values::Int(values) => values.push(0),
            Values::Long(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Bytes(strings) | Values::Symbol(strings, _) => strings.push(&[])?,
            Values::Fixed(values, size) => values.resize(values.len() + *size, 0),
            Values::Decimal128(values, _) => values.push(0),
            Values::Decimal256(values, _) => values.push(i256::ZERO),
        }
        Ok(())
    }

    /// The column, of one of the types that its form was made for; none of a field that is not wanted.
    pub(super) fn finish(mut self, column: &DataType) -> Result<Option<ArrayRef>, ArrowError> {
        let nulls = self.validity.finish();
        Ok(Some(match self.values {
            Values::Skipped(_) => return Ok(None),
            Values::Boolean(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int(values) => match column {
                DataType::Date32 => primitive::<Date32Type>(values, nulls)?,
                DataType::Time32(_) => primitive::<Time32MillisecondType>(values, nulls)?,
                _ => primitive::<Int32Type>(values, nulls)?,
            },
            Values::Long(values) => longs(values, nulls, column)?,
            Values::Float(values) => primitive::<Float32Type>(values, nulls)?,
            Values::Double(values) => primitive::<Float64Type>(values, nulls)?,
            Values::Bytes(strings) | Values::Symbol(strings, _) => {
                let (offsets, bytes) = strings.into_parts();
                match column {
                    DataType::Binary => Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?),
                    _ => Arc::new(StringArray::try_new(offsets, bytes, nulls)?),
                }
            }
            Values::Fixed(values, size) => {
                let size = i32::try_from(size).unwrap_or(i32::MAX);
                Arc::new(FixedSizeBinaryArray::try_new(size, values.into(), nulls)?)
            }
            Values::Decimal128(values, _) => {
                let DataType::Decimal128(precision, scale) = column else { return Err(mismatch(column)) };
                let values = Decimal128Array::try_new(values.into(), nulls)?;
                Arc::new(values.with_precision_and_scale(*precision, *scale)?)
            }
            Values::Decimal256(values, _) => {
                let DataType::Decimal256(precision, scale) = column else { return Err(mismatch(column)) };
                let values = Decimal256Array::try_new(values.into(), nulls)?;
                Arc::new(values.with_precision_and_scale(*precision, *scale)?)
            }
        }))
    }
}

/// The bytes of a decimal.
#[inline]
fn unscaled<'a>(rest: &mut &'a [u8], size: Option<usize>) -> Result<&'a [u8], Damage> {
    match size {
        Some(size) => take(rest, size),
        None => bytes(rest),
    }
}

fn longs(values: Vec<i64>, nulls: Option<NullBuffer>, column: &DataType) -> Result<ArrayRef, ArrowError> {
    let DataType::Timestamp(unit, zone) = column else {
        return match column {
            DataType::Time64(_) => primitive::<Time64MicrosecondType>(values, nulls),
            _ => primitive::<Int64Type>(values, nulls),
        };
    };
    let zone = zone.clone();
    Ok(match unit {
        TimeUnit::Second => return Err(mismatch(column)),
        TimeUnit::Millisecond => {
            Arc::new(PrimitiveArray::<TimestampMillisecondType>::try_new(values.into(), nulls)?.with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(PrimitiveArray::<TimestampMicrosecondType>::try_new(values.into(), nulls)?.with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            Arc::new(PrimitiveArray::<TimestampNanosecondType>::try_new(values.into(), nulls)?.with_timezone_opt(zone))
        }
    })
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values.into(), nulls)?))
}

fn mismatch(column: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("a column of {column} of values of another type"))
}
