//! The string that Hudi's key generators make of each value of a column (of its Avro form).
//! | type | string |
//! |---|---|
//! | string, boolean, integers | as they are |
//! | float, double | Java's `toString` |
//! | decimal | `BigDecimal.toString`: `1.50`, but `1E-8` |
//! | date | `yyyy-MM-dd` |
//! | timestamp | the number of microseconds (milliseconds in a millisecond column); with consistent logical timestamps, and a zone, `yyyy-MM-dd HH:mm:ss.f` in the zone of the process, cut to milliseconds |
//! | binary | lower-case hex |

use std::fmt::{self, Write};

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int64Array, StringArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Fields, Float32Type, Float64Type, Int64Type, Schema, TimeUnit,
};
use arrow::record_batch::RecordBatch;
use arrow_cast::cast;
use chrono::{DateTime, Datelike, Timelike, Utc};

use super::string_builder::write_digits;
use super::zone::Zone;
use crate::error::{Error, Result};
use crate::format::java::{write_decimal, write_double, write_float};

/// Where a column, or a field of a struct column, is in a batch.
#[derive(Debug, Clone)]
pub(super) struct ColumnPath {
    name: String,
    indices: Vec<usize>,
}

/// A column of a batch, nulls of the structs around it included.
pub(super) struct Leaf {
    pub(super) array: ArrayRef,
    /// Nulls of the structs around it alone.
    pub(super) parents: Option<NullBuffer>,
}

impl ColumnPath {
    /// Finds a column by name, or a nested one by its dotted name.
    pub(super) fn resolve(name: &str, schema: &Schema, role: &str) -> Result<Self> {
        let missing = || {
            let columns: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            Error::schema(format!("the {role} column {name:?} is not in the data, which have {}", columns.join(", ")))
                .with("column", name)
                .remedy("Add the column, or name another in the table's options")
        };
        if let Some((index, _)) = schema.fields().find(name) {
            return Ok(Self { name: name.to_owned(), indices: vec![index] });
        }
        let mut indices = Vec::new();
        let mut fields: &Fields = schema.fields();
        let mut parts = name.split('.').peekable();
        while let Some(part) = parts.next() {
            let (index, field) = fields.find(part).ok_or_else(missing)?;
            indices.push(index);
            match (parts.peek(), field.data_type()) {
                (None, _) => {}
                (Some(_), DataType::Struct(inner)) => fields = inner,
                (Some(_), _) => return Err(missing()),
            }
        }
        Ok(Self { name: name.to_owned(), indices })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Takes the column out of a batch of the schema that it was resolved in.
    pub(super) fn of(&self, batch: &RecordBatch) -> Result<Leaf> {
        let gone = || Error::schema(format!("the column {:?} is not where the schema had it", self.name));
        let mut indices = self.indices.iter();
        let first = indices.next().ok_or_else(gone)?;
        let mut array = batch.columns().get(*first).cloned().ok_or_else(gone)?;
        let mut parents: Option<NullBuffer> = None;
        for index in indices {
            let around = array.as_struct_opt().ok_or_else(gone)?;
            parents = NullBuffer::union(parents.as_ref(), around.nulls());
            let inner = around.columns().get(*index).cloned().ok_or_else(gone)?;
            array = inner;
        }
        if parents.is_some() {
            let nulls = NullBuffer::union(parents.as_ref(), array.logical_nulls().as_ref());
            array = match array.data_type() {
                // Its nulls may be in the values: flatten first.
                DataType::Dictionary(_, values) => cast(&array, values)?,
                _ => array,
            };
            array = make_array(array.to_data().into_builder().nulls(nulls).build()?);
        }
        Ok(Leaf { array, parents })
    }
}

/// A column in the type that its strings are made from.
pub(super) enum ColumnStrings {
    Utf8(StringArray),
    Boolean(BooleanArray),
    Long(Int64Array),
    Float(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array, i8),
    Date(Date32Array),
    /// Microseconds, with a zone, to be written as a date.
    Instant(Int64Array),
    Binary(BinaryArray),
}

impl ColumnStrings {
    /// Takes a column; `consistent`: timestamps with a zone stay timestamps.
    pub(super) fn new(array: &ArrayRef, name: &str, consistent: bool) -> Result<Self> {
        let long = |array: &ArrayRef| -> Result<Self> {
            Ok(Self::Long(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone()))
        };
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Utf8(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
            }
            DataType::Boolean => Self::Boolean(array.as_boolean().clone()),
            DataType::Int64 => Self::Long(array.as_primitive::<Int64Type>().clone()),
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32 => long(array)?,
            DataType::Float32 => Self::Float(array.as_primitive::<Float32Type>().clone()),
            DataType::Float64 => Self::Double(array.as_primitive::<Float64Type>().clone()),
            DataType::Decimal128(_, scale) => Self::Decimal(array.as_primitive::<Decimal128Type>().clone(), *scale),
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal256(p, s) if *p <= 38 => {
                Self::Decimal(cast(array, &DataType::Decimal128(*p, *s))?.as_primitive::<Decimal128Type>().clone(), *s)
            }
            DataType::Date32 => Self::Date(array.as_primitive::<Date32Type>().clone()),
            DataType::Date64 => Self::Date(cast(array, &DataType::Date32)?.as_primitive::<Date32Type>().clone()),
            DataType::Timestamp(unit, zone) => {
                let instant = consistent && zone.is_some();
                // Avro has milliseconds and microseconds.
                let unit = if *unit == TimeUnit::Millisecond && !instant { *unit } else { TimeUnit::Microsecond };
                let Self::Long(number) = long(&cast(array, &DataType::Timestamp(unit, zone.clone()))?)? else {
                    return Err(unkeyable(array, name));
                };
                if instant { Self::Instant(number) } else { Self::Long(number) }
            }
            DataType::Binary => Self::Binary(array.as_binary::<i32>().clone()),
            DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Binary(cast(array, &DataType::Binary)?.as_binary::<i32>().clone())
            }
            DataType::Dictionary(_, values) => Self::new(&cast(array, values)?, name, consistent)?,
            DataType::RunEndEncoded(_, values) => Self::new(&cast(array, values.data_type())?, name, consistent)?,
            _ => return Err(unkeyable(array, name)),
        })
    }

    /// For messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Utf8(_) => "text",
            Self::Boolean(_) => "booleans",
            Self::Long(_) | Self::Float(_) | Self::Double(_) | Self::Decimal(..) => "numbers",
            Self::Date(_) => "dates",
            Self::Instant(_) => "timestamps",
            Self::Binary(_) => "bytes",
        }
    }

    pub(super) fn array(&self) -> &dyn Array {
        match self {
            Self::Utf8(a) => a,
            Self::Boolean(a) => a,
            Self::Long(a) | Self::Instant(a) => a,
            Self::Float(a) => a,
            Self::Double(a) => a,
            Self::Decimal(a, _) => a,
            Self::Date(a) => a,
            Self::Binary(a) => a,
        }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array().is_null(row)
    }

    /// Whether the string of a row that is not null is empty.
    pub(super) fn is_empty(&self, row: usize) -> bool {
        match self {
            Self::Utf8(a) => a.value_length(row) == 0,
            Self::Binary(a) => a.value_length(row) == 0,
            _ => false,
        }
    }

    /// Writes the string of a row that is not null.
    pub(super) fn write<W: Write>(&self, row: usize, out: &mut W) -> fmt::Result {
        match self {
            Self::Utf8(a) => out.write_str(a.value(row)),
            Self::Boolean(a) => out.write_str(if a.value(row) { "true" } else { "false" }),
            Self::Long(a) => write_long(out, a.value(row)),
            Self::Float(a) => write_float(out, a.value(row)),
            Self::Double(a) => write_double(out, a.value(row)),
            Self::Decimal(a, scale) => write_decimal(out, a.value(row), *scale),
            Self::Date(a) => write_date(out, i64::from(a.value(row)) * 86_400_000),
            Self::Instant(a) => write_instant(out, a.value(row) / 1000),
            Self::Binary(a) => a.value(row).iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        }
    }
}

fn unkeyable(array: &ArrayRef, name: &str) -> Error {
    Error::schema(format!("a column of type {} can't be a key or a partition", array.data_type())).with("column", name)
}

fn write_long(out: &mut impl Write, value: i64) -> fmt::Result {
    if value < 0 {
        out.write_char('-')?;
    }
    write_digits(out, value.unsigned_abs(), 1)
}

fn moment(millis: i64) -> Result<DateTime<Utc>, fmt::Error> {
    DateTime::from_timestamp_millis(millis).ok_or(fmt::Error)
}

/// `yyyy-MM-dd`; years beyond four digits have a sign.
fn write_date(out: &mut impl Write, millis: i64) -> fmt::Result {
    let date = moment(millis)?;
    match date.year() {
        0..=9999 => {}
        10_000.. => out.write_char('+')?,
        _ => out.write_char('-')?,
    }
    write_digits(out, u64::from(date.year().unsigned_abs()), 4)?;
    write_pair(out, '-', date.month())?;
    write_pair(out, '-', date.day())
}

/// `yyyy-MM-dd HH:mm:ss.f` in the zone of the process, as Java prints it: the fraction without trailing zeros, but at least one
/// digit.
fn write_instant(out: &mut impl Write, millis: i64) -> fmt::Result {
    let (time, _) = Zone::of_process().local(moment(millis)?);
    write!(out, "{:04}", time.year())?;
    let parts =
        [('-', time.month()), ('-', time.day()), (' ', time.hour()), (':', time.minute()), (':', time.second())];
    parts.into_iter().try_for_each(|(before, value)| write_pair(out, before, value))?;
    out.write_char('.')?;
    match millis.rem_euclid(1000).unsigned_abs() {
        fraction if fraction % 100 == 0 => write_digits(out, fraction / 100, 1),
        fraction if fraction % 10 == 0 => write_digits(out, fraction / 10, 2),
        fraction => write_digits(out, fraction, 3),
    }
}

fn write_pair(out: &mut impl Write, before: char, value: u32) -> fmt::Result {
    out.write_char(before)?;
    write_digits(out, u64::from(value), 2)
}
