//! A column chunk of numbers: integers, dates, times, decimals.
//!
//! The general encoder makes an object of each decimal, hashes it, and compares it with the minimum and maximum so far.
//! Here a page of values is a slice: vectorised loops find its minimum and maximum and copy its bytes, and dictionary
//! lookups hash the number itself.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, Time32MillisecondType, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use parquet::basic::{Encoding, Type};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::types::ColumnDescPtr;

use super::chunk_pages::{ChunkPages, PAGE_ROWS, PageOrder, PageValues, bits_for, levels, put_keys};
use super::encoded_chunk::EncodedChunk;
use super::page_codec::PageContent;
use crate::PageFormat;
use hoodoo_runtime::error::{Error, Result};

/// Rows after which the dictionary is dropped if values hardly repeat.
const TRIAL_ROWS: usize = 4096;
/// Initial slots of a dictionary, a power of two.
const FIRST_SLOTS: usize = 1024;
const EMPTY: u32 = 0;

/// Settings of a column of numbers.
#[derive(Clone)]
pub struct NumberSettings {
    /// The column.
    pub descriptor: ColumnDescPtr,
    /// How its pages are written.
    pub format: PageFormat,
    /// Maximum bytes of a page.
    pub page_bytes: usize,
    /// Maximum bytes of a dictionary; 0: no dictionary.
    pub dictionary_bytes: usize,
}

impl NumberSettings {
    /// Fails for values that do not fit the column.
    pub fn check(&self, array: &ArrayRef) -> Result<()> {
        if self.descriptor.max_def_level() == 0 && array.null_count() > 0 {
            let what = "a required column has a null";
            return Err(Error::schema(what).with("column", self.descriptor.name()));
        }
        Ok(())
    }

    fn page_rows(&self) -> usize {
        (self.page_bytes / self.width().max(1)).clamp(1, PAGE_ROWS)
    }

    /// Bytes of a value.
    pub fn width(&self) -> usize {
        width(&self.descriptor)
    }
}

/// Whether a column is encoded here: a flat column that is stored as it is in memory, or a decimal of up to 16 bytes.
pub fn is_number(data_type: &DataType, descriptor: &ColumnDescPtr) -> bool {
    let flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
    flat && match descriptor.physical_type() {
        Type::INT32 => {
            matches!(data_type, DataType::Int32 | DataType::Date32 | DataType::Time32(TimeUnit::Millisecond))
        }
        Type::INT64 => matches!(
            data_type,
            DataType::Int64
                | DataType::Time64(TimeUnit::Microsecond)
                | DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _)
        ),
        Type::FIXED_LEN_BYTE_ARRAY => {
            matches!(data_type, DataType::Decimal128(_, _)) && (1..=16).contains(&descriptor.type_length())
        }
        _ => false,
    }
}

/// Encodes the chunk of these arrays.
///
/// # Errors
/// `Schema` for nulls in a required column, or arrays of another type.
pub fn number_chunk(settings: &NumberSettings, arrays: &[ArrayRef]) -> Result<EncodedChunk> {
    match settings.descriptor.physical_type() {
        Type::INT32 => encode::<i32>(settings, arrays),
        Type::INT64 => encode::<i64>(settings, arrays),
        _ => encode::<i128>(settings, arrays),
    }
}

/// Values of a column of numbers, such as those of a dictionary.
pub(crate) struct NumberValues<'a> {
    values: Values<'a>,
    /// Bytes of a value in Parquet.
    width: usize,
}

enum Values<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
}

/// The values of an array, with arbitrary values for nulls; `None` if its type is not that of the column.
pub(crate) fn number_values<'a>(array: &'a ArrayRef, descriptor: &ColumnDescPtr) -> Option<NumberValues<'a>> {
    if !is_number(array.data_type(), descriptor) {
        return None;
    }
    let values = match descriptor.physical_type() {
        Type::INT32 => Values::I32(i32::values(array)?),
        Type::INT64 => Values::I64(i64::values(array)?),
        _ => Values::I128(i128::values(array)?),
    };
    Some(NumberValues { values, width: width(descriptor) })
}

impl NumberValues<'_> {
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Whether values ascend strictly.
    pub(crate) fn is_ascending(&self) -> bool {
        match self.values {
            Values::I32(values) => values.is_sorted_by(|a, b| a < b),
            Values::I64(values) => values.is_sorted_by(|a, b| a < b),
            Values::I128(values) => values.is_sorted_by(|a, b| a < b),
        }
    }

    /// Appends a value in Parquet's format.
    pub(crate) fn put(&self, place: usize, to: &mut Vec<u8>) {
        match self.values {
            Values::I32(values) => values.get(place).into_iter().for_each(|value| value.put(self.width, to)),
            Values::I64(values) => values.get(place).into_iter().for_each(|value| value.put(self.width, to)),
            Values::I128(values) => values.get(place).into_iter().for_each(|value| value.put(self.width, to)),
        }
    }

    pub(crate) fn statistics(&self, min: usize, max: usize, nulls: u64, signed: bool) -> Statistics {
        fn of<T: Number>(
            values: &[T],
            (min, max): (usize, usize),
            width: usize,
            nulls: u64,
            signed: bool,
        ) -> Statistics {
            let ends = values.get(min).copied().zip(values.get(max).copied());
            T::statistics(ends, width, nulls, signed)
        }
        let ends = (min, max);
        match self.values {
            Values::I32(values) => of(values, ends, self.width, nulls, signed),
            Values::I64(values) => of(values, ends, self.width, nulls, signed),
            Values::I128(values) => of(values, ends, self.width, nulls, signed),
        }
    }
}

/// Bytes of a value in Parquet.
fn width(descriptor: &ColumnDescPtr) -> usize {
    match descriptor.physical_type() {
        Type::INT32 => size_of::<i32>(),
        Type::INT64 => size_of::<i64>(),
        _ => usize::try_from(descriptor.type_length()).unwrap_or_default(),
    }
}

/// A value of fixed width.
trait Number: Copy + Ord {
    const PHYSICAL: Type;
    /// The values of an array, with arbitrary values for nulls.
    fn values(array: &dyn Array) -> Option<&[Self]>;
    /// Hashes the value.
    fn spread(self) -> u64;
    /// Appends its bytes in Parquet's format; `width` bytes if the width is not fixed.
    fn put(self, width: usize, to: &mut Vec<u8>);
    fn statistics(ends: Option<(Self, Self)>, width: usize, nulls: u64, signed: bool) -> Statistics;
}

/// Fibonacci hashing: the upper bits of the product depend on all bits of the value.
fn spread(bits: u64) -> u64 {
    bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Number for i32 {
    const PHYSICAL: Type = Type::INT32;

    fn values(array: &dyn Array) -> Option<&[Self]> {
        Some(match array.data_type() {
            DataType::Int32 => array.as_primitive_opt::<Int32Type>()?.values(),
            DataType::Date32 => array.as_primitive_opt::<Date32Type>()?.values(),
            _ => array.as_primitive_opt::<Time32MillisecondType>()?.values(),
        })
    }

    fn spread(self) -> u64 {
        spread(u64::from(self.cast_unsigned()))
    }

    fn put(self, _: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn statistics(ends: Option<(Self, Self)>, _: usize, nulls: u64, signed: bool) -> Statistics {
        let (min, max) = ends.unzip();
        let statistics = ValueStatistics::new(min, max, None, Some(nulls), false);
        Statistics::Int32(statistics.with_backwards_compatible_min_max(signed))
    }
}

impl Number for i64 {
    const PHYSICAL: Type = Type::INT64;

    fn values(array: &dyn Array) -> Option<&[Self]> {
        Some(match array.data_type() {
            DataType::Int64 => array.as_primitive_opt::<Int64Type>()?.values(),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                array.as_primitive_opt::<TimestampMillisecondType>()?.values()
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                array.as_primitive_opt::<TimestampMicrosecondType>()?.values()
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                array.as_primitive_opt::<TimestampNanosecondType>()?.values()
            }
            _ => array.as_primitive_opt::<Time64MicrosecondType>()?.values(),
        })
    }

    fn spread(self) -> u64 {
        spread(self.cast_unsigned())
    }

    fn put(self, _: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn statistics(ends: Option<(Self, Self)>, _: usize, nulls: u64, signed: bool) -> Statistics {
        let (min, max) = ends.unzip();
        let statistics = ValueStatistics::new(min, max, None, Some(nulls), false);
        Statistics::Int64(statistics.with_backwards_compatible_min_max(signed))
    }
}

impl Number for i128 {
    const PHYSICAL: Type = Type::FIXED_LEN_BYTE_ARRAY;

    fn values(array: &dyn Array) -> Option<&[Self]> {
        array.as_primitive_opt::<Decimal128Type>().map(|array| &array.values()[..])
    }

    fn spread(self) -> u64 {
        let bits = self.cast_unsigned();
        spread(bits as u64 ^ spread((bits >> 64) as u64))
    }

    fn put(self, width: usize, to: &mut Vec<u8>) {
        let bytes = self.to_be_bytes();
        to.extend_from_slice(bytes.get(bytes.len().saturating_sub(width)..).unwrap_or(&bytes));
    }

    fn statistics(ends: Option<(Self, Self)>, width: usize, nulls: u64, signed: bool) -> Statistics {
        let bytes = |value: Self| FixedLenByteArray::from(ByteArray::from(plain(&[value], width)));
        let (min, max) = ends.map(|(min, max)| (bytes(min), bytes(max))).unzip();
        let statistics = ValueStatistics::new(min, max, None, Some(nulls), false);
        Statistics::FixedLenByteArray(statistics.with_backwards_compatible_min_max(signed))
    }
}

fn plain<T: Number>(values: &[T], width: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * width);
    values.iter().for_each(|value| value.put(width, &mut bytes));
    bytes
}

fn encode<T: Number>(settings: &NumberSettings, arrays: &[ArrayRef]) -> Result<EncodedChunk> {
    let descriptor = &settings.descriptor;
    let width = settings.width();
    let optional = descriptor.max_def_level() == 1;
    let page_rows = settings.page_rows();
    arrays.iter().try_for_each(|array| settings.check(array))?;
    let other = || Error::schema("a column of numbers has values of another type").with("column", descriptor.name());
    let arrays =
        arrays.iter().map(|array| Ok((array, T::values(array).ok_or_else(other)?))).collect::<Result<Vec<_>>>()?;
    let dictionary = Dictionary::of(&arrays, width, settings.dictionary_bytes);
    let encoding = if dictionary.is_some() { Encoding::RLE_DICTIONARY } else { Encoding::PLAIN };
    let first = arrays.first().and_then(|(_, values)| values.get(..values.len().min(page_rows))).unwrap_or_default();
    // Sorted values repeat in ways that a fast search does not find.
    let content = if dictionary.is_some() || first.is_sorted() { PageContent::Any } else { PageContent::Numbers };
    let mut pages = ChunkPages::new(T::PHYSICAL, settings.format, encoding, content)?;
    if let Some(dictionary) = &dictionary {
        pages.dictionary(&plain(&dictionary.values, width), dictionary.values.len())?;
    }
    let bits = dictionary.as_ref().map_or(0, |dictionary| bits_for(dictionary.values.len()));
    let mut numbers = dictionary.as_ref().map_or(&[][..], |dictionary| &dictionary.numbers[..]);
    let mut order = PageOrder::default();
    let mut ends: Option<(T, T)> = None;
    let mut page = PageRows::default();
    let mut end_page = |page: &mut PageRows<T>| -> Result<()> {
        let values = std::mem::take(&mut page.values);
        let nulls = page.rows - values.len();
        let here = min_and_max(&values);
        order.add(here);
        ends = match (ends, here) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (known, here) => known.or(here),
        };
        let count = if bits == 0 { 0 } else { values.len() };
        let (here, rest) = numbers
            .split_at_checked(count)
            .ok_or_else(|| Error::internal(format!("{count} rows of a page have {} dictionary keys", numbers.len())))?;
        numbers = rest;
        let put = |body: &mut Vec<u8>| match bits {
            0 => values.iter().for_each(|value| value.put(width, body)),
            bits => put_keys(body, bits, here),
        };
        let bytes = |value: T| plain(&[value], width);
        let bounds = min_and_max(&values).map(|(min, max)| (bytes(min), bytes(max)));
        pages.data(PageValues {
            rows: page.rows,
            nulls,
            levels: if optional { Some(levels(page.rows, nulls, page.present.iter().copied())?) } else { None },
            put: &put,
            ends: bounds.unwrap_or_default(),
        })?;
        *page = PageRows { values, ..PageRows::default() };
        page.values.clear();
        Ok(())
    };
    for (array, values) in &arrays {
        let mut at = 0;
        while at < values.len() {
            let count = (page_rows - page.rows).min(values.len() - at);
            page.add(array, values, at, count);
            at += count;
            if page.rows == page_rows {
                end_page(&mut page)?;
            }
        }
    }
    if page.rows > 0 {
        end_page(&mut page)?;
    }
    let (rows, missing) = arrays.iter().fold((0, 0), |(rows, nulls), (array, _)| {
        (rows + array.len(), nulls + array.nulls().map_or(0, |nulls| nulls.null_count()))
    });
    pages.check(rows, missing)?;
    pages.set_order(order.found());
    let nulls = pages.nulls();
    pages.finish(descriptor, Some(T::statistics(ends, width, nulls, descriptor.sort_order().is_signed())))
}

fn min_and_max<T: Number>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(min, max), value| (min.min(*value), max.max(*value))))
}

/// Rows of the current page.
struct PageRows<T> {
    /// The values that are not null.
    values: Vec<T>,
    rows: usize,
    /// Which rows have a value; empty as long as all have.
    present: Vec<bool>,
}

impl<T> Default for PageRows<T> {
    fn default() -> Self {
        Self { values: Vec::new(), rows: 0, present: Vec::new() }
    }
}

impl<T: Number> PageRows<T> {
    fn add(&mut self, array: &ArrayRef, values: &[T], at: usize, count: usize) {
        let values = values.get(at..at + count).unwrap_or_default();
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                self.values.extend_from_slice(values);
                if !self.present.is_empty() {
                    self.present.resize(self.rows + count, true);
                }
            }
            Some(nulls) => {
                self.present.resize(self.rows, true);
                self.present.extend((at..at + count).map(|row| nulls.is_valid(row)));
                let valid = (at..).zip(values).filter(|(row, _)| nulls.is_valid(*row));
                self.values.extend(valid.map(|(_, value)| *value));
            }
        }
        self.rows += count;
    }
}

/// Distinct values, and the dictionary key of each row that is not null.
struct Dictionary<T> {
    values: Vec<T>,
    numbers: Vec<u32>,
    /// Keys plus 1, by the hash of their values. At least half of the slots are empty.
    slots: Vec<u32>,
}

impl<T: Number> Dictionary<T> {
    /// `None` if a dictionary does not pay off: values hardly repeat, or are too many.
    fn of(arrays: &[(&ArrayRef, &[T])], width: usize, most_bytes: usize) -> Option<Self> {
        if most_bytes == 0 {
            return None;
        }
        let rows = arrays.iter().map(|(array, _)| array.len() - array.null_count()).sum();
        let mut dictionary =
            Self { values: Vec::new(), numbers: Vec::with_capacity(rows), slots: vec![EMPTY; FIRST_SLOTS] };
        for (array, values) in arrays {
            match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => {
                    for values in values.chunks(TRIAL_ROWS) {
                        dictionary.add(values.iter().copied(), width, most_bytes)?;
                    }
                }
                Some(nulls) => {
                    let valid = values.iter().zip(nulls).filter(|(_, valid)| *valid);
                    dictionary.add(valid.map(|(value, _)| *value), width, most_bytes)?;
                }
            }
        }
        let bits = usize::from(bits_for(dictionary.values.len()));
        let bytes = dictionary.values.len() * width + rows * bits / 8;
        (!dictionary.values.is_empty() && bytes <= rows * width).then_some(dictionary)
    }

    /// Adds rows; `None` if the dictionary does not pay off.
    fn add(&mut self, values: impl Iterator<Item = T>, width: usize, most_bytes: usize) -> Option<()> {
        let mut last: Option<(T, u32)> = None;
        for value in values {
            let number = match last {
                Some((before, number)) if before == value => number,
                _ => self.number(value),
            };
            last = Some((value, number));
            self.numbers.push(number);
        }
        let hardly_repeats = self.numbers.len() >= TRIAL_ROWS && self.values.len() * 2 > self.numbers.len();
        (!hardly_repeats && self.values.len() * width <= most_bytes).then_some(())
    }

    /// The dictionary key of a value.
    fn number(&mut self, value: T) -> u32 {
        let mut at = self.first(value);
        loop {
            match self.slots.get_mut(at) {
                Some(slot) if *slot == EMPTY => {
                    self.values.push(value);
                    let number = self.values.len() as u32;
                    *slot = number;
                    if self.values.len() * 2 > self.slots.len() {
                        self.grow();
                    }
                    return number - 1;
                }
                Some(slot) if self.values.get(*slot as usize - 1) == Some(&value) => return *slot - 1,
                Some(_) => at += 1,
                None => at = 0,
            }
        }
    }

    fn first(&self, value: T) -> usize {
        // The upper bits of the hash, as many as the slots need.
        (value.spread() >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    fn grow(&mut self) {
        self.slots = vec![EMPTY; self.slots.len() * 2];
        for (number, value) in (1..).zip(&self.values) {
            let mut at = self.first(*value);
            while self.slots.get(at).is_none_or(|slot| *slot != EMPTY) {
                at = if at < self.slots.len() { at + 1 } else { 0 };
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = number;
            }
        }
    }
}
