//! The column that the values of one field become.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Decimal128Array, Decimal256Array, FixedSizeBinaryArray,
    NullBufferBuilder, PrimitiveArray, StringArray, StructArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, Time32MillisecondType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, i256,
};
use arrow::error::ArrowError;

use super::bytes::{Damage, array, boolean, bytes, decimal, int, is_first_branch, long, position, take};
use super::field::{Form, Null, Skipper};

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
    Record(Vec<Column>),
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
            Form::Record(fields) => {
                Values::Record(fields.iter().map(|f| Self::new(f.null, &f.form, f.wanted, rows, 0)).collect())
            }
            // Only of what is not wanted.
            Form::Other(_) => Values::Skipped(form.clone()),
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
    pub(super) fn take(&mut self, rest: &mut &[u8], skipper: &mut Skipper<'_>) -> Result<(), Damage> {
        let may_be_null = self.null != Null::Never;
        let is_null = may_be_null && is_first_branch(rest)? == (self.null == Null::First);
        if let Values::Skipped(form) = &self.values {
            return if is_null { Ok(()) } else { form.skip(rest, skipper) };
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
            Values::Record(columns) => columns.iter_mut().try_for_each(|column| column.take(rest, skipper))?,
        }
        Ok(())
    }

    fn push_null(&mut self) -> Result<(), Damage> {
        // In a record that is null, there are nulls in columns that have none of their own.
        if self.null != Null::Never {
            self.validity.append_null();
        }
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
            Values::Record(columns) => columns.iter_mut().try_for_each(Self::push_null)?,
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
            Values::Record(columns) => {
                let DataType::Struct(fields) = column else { return Err(mismatch(column)) };
                let mut arrays = Vec::with_capacity(columns.len());
                for (column, field) in columns.into_iter().zip(fields) {
                    arrays.extend(column.finish(field.data_type())?);
                }
                Arc::new(StructArray::try_new(fields.clone(), arrays, nulls)?)
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
