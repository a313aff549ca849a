//! Columns of few different values on their way through a sort: rows carry the number of their value, and the values are
//! kept once, in their order.
//!
//! Files have such columns as numbers and a dictionary already. To put values in their place, to move those about, and to
//! find out on writing that there are few of them is most of what sorting them would cost.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field, FieldRef, Int32Type,
    Int64Type, Schema, SchemaRef, Time32MillisecondType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
};

use super::files::BaseFiles;
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, BaseFileScan, CodeScan, RECORD_KEY_COLUMN, ScanOptions};
use crate::parallel::run_parallel;
use crate::storage::FileReader;

/// The part of the memory budget that dictionaries may take, as they stand in the files: in memory they take several
/// times as much.
const BUDGET_SHARE: u64 = 64;

/// The columns of files, some of them carried as numbers.
pub(super) struct CodedColumns {
    /// The other columns, which are read as they are.
    values: SchemaRef,
    /// What goes through the sort.
    pub(super) schema: SchemaRef,
    columns: Vec<CodedColumn>,
}

/// A column that is carried as numbers.
struct CodedColumn {
    place: usize,
    field: FieldRef,
    /// The number of its row groups that each file has, with the number of each entry of the dictionary there.
    files: Vec<Vec<Vec<u32>>>,
    /// All values, each once, in their order.
    values: ArrayRef,
}

impl CodedColumn {
    /// Numbers what the dictionaries hold that the row groups of each file have.
    fn of(place: usize, field: FieldRef, files: &[&[ArrayRef]]) -> Result<Self> {
        let flat: Vec<&ArrayRef> = files.iter().copied().flatten().collect();
        let (values, numbers) = in_order(&flat, field.data_type()).map_err(|e| e.with("column", field.name()))?;
        if numbers.len() != flat.len() || numbers.iter().zip(&flat).any(|(numbers, array)| numbers.len() != array.len())
        {
            let what = "a dictionary has other values than were numbered";
            return Err(Error::corrupt(what).with("column", field.name()));
        }
        let mut numbers = numbers.into_iter();
        let files = files.iter().map(|groups| numbers.by_ref().take(groups.len()).collect()).collect();
        Ok(Self { place, field, files, values })
    }

    fn key_type(&self) -> DataType {
        match self.values.len() {
            ..=0x100 => DataType::UInt8,
            0x101..=0x1_0000 => DataType::UInt16,
            _ => DataType::UInt32,
        }
    }

    /// Whether rows are cheaper to move with numbers in the place of values.
    fn is_worth_it(&self, rows: u64) -> bool {
        let narrower = match self.field.data_type().primitive_width() {
            // So many values hardly repeat where their files were not sorted: they would be put in their place again.
            Some(width) => self.key_type().primitive_width().is_some_and(|key| key < width && key <= size_of::<u16>()),
            None => true,
        };
        narrower && self.values.len() as u64 * 2 <= rows
    }

    /// The column as it is written.
    fn spell(&self, numbers: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self.key_type() {
            DataType::UInt8 => Arc::new(self.with_values::<UInt8Type>(numbers)?),
            DataType::UInt16 => Arc::new(self.with_values::<UInt16Type>(numbers)?),
            _ => Arc::new(self.with_values::<UInt32Type>(numbers)?),
        })
    }

    fn with_values<K: ArrowDictionaryKeyType>(&self, numbers: &ArrayRef) -> Result<DictionaryArray<K>> {
        let numbers = numbers.as_primitive_opt::<K>();
        let numbers =
            numbers.ok_or_else(|| Error::schema("a column is not numbered").with("column", self.field.name()))?;
        Ok(DictionaryArray::try_new(numbers.clone(), self.values.clone())?)
    }
}

impl CodedColumns {
    /// Chooses columns, none of those named in `but`, of which all files have dictionaries: as many as a part of the memory
    /// budget has room for.
    pub(super) fn choose(
        schema: &SchemaRef,
        but: &[String],
        files: &BaseFiles<'_>,
        budget: usize,
        threads: usize,
    ) -> Result<Self> {
        let is_asked = |field: &&FieldRef| {
            let name = field.name();
            // Each row has another key.
            name != RECORD_KEY_COLUMN && !but.iter().any(|b| b == name || b.split('.').next() == Some(name.as_str()))
        };
        let asked: Vec<&FieldRef> = schema.fields().iter().filter(is_asked).collect();
        let numbers = files.all().unwrap_or_default();
        let sizes = run_parallel(numbers.clone(), threads, |file| {
            let file = files.open(file)?;
            Ok((file.rows(), asked.iter().map(|field| file.dictionary_bytes(field)).collect::<Vec<_>>()))
        })?;
        let rows: u64 = sizes.iter().map(|(rows, _)| rows).sum();
        let mut room = budget as u64 / BUDGET_SHARE;
        let mut fits = |column: usize| {
            let of_file = |(_, bytes): &(u64, Vec<Option<u64>>)| bytes.get(column).copied().flatten();
            let bytes = sizes.iter().map(of_file).sum::<Option<u64>>();
            let fits = !sizes.is_empty() && bytes.is_some_and(|bytes| bytes <= room);
            room -= bytes.filter(|_| fits).unwrap_or(0);
            fits
        };
        let chosen: Vec<&FieldRef> = (0..).zip(&asked).filter(|(column, _)| fits(*column)).map(|(_, f)| *f).collect();
        let read = run_parallel(numbers, threads, |number| {
            let file = files.open(number)?;
            let groups = file.row_groups().len();
            let of_column = |field: &&FieldRef| (0..groups).map(|group| file.dictionary(field, group)).collect();
            let read: Result<Vec<Vec<ArrayRef>>> = chosen.iter().map(of_column).collect();
            read.map_err(|e| files.named(number, e))
        })?;
        let columns = run_parallel((0..).zip(&chosen).collect(), threads, |(column, field)| {
            let of_column: Option<Vec<&[ArrayRef]>> = read.iter().map(|f| f.get(column).map(Vec::as_slice)).collect();
            let of_column = of_column.ok_or_else(|| {
                Error::internal("the dictionaries of a file were not read").with("column", field.name())
            })?;
            CodedColumn::of(schema.index_of(field.name())?, (*field).clone(), &of_column)
        })?;
        let columns: Vec<CodedColumn> = columns.into_iter().filter(|column| column.is_worth_it(rows)).collect();
        let coded = |place: usize| columns.iter().find(|column| column.place == place);
        let through = (0..).zip(schema.fields()).map(|(place, field)| match coded(place) {
            Some(column) => Arc::new(Field::new(field.name(), column.key_type(), field.is_nullable())),
            None => field.clone(),
        });
        let through = Arc::new(Schema::new(through.collect::<Vec<_>>()));
        let values = (0..).zip(schema.fields()).filter(|(place, _)| coded(*place).is_none());
        let values = Arc::new(Schema::new(values.map(|(_, field)| field.clone()).collect::<Vec<_>>()));
        Ok(Self { values, schema: through, columns })
    }

    /// The rows of a row group of a file, by its number among those that were given, at most so many at once.
    pub(super) fn scan(
        &self,
        number: usize,
        file: &BaseFileReader<FileReader>,
        group: usize,
        batch_rows: usize,
    ) -> Result<CodedScan> {
        let options = ScanOptions::new(self.values.clone()).with_batch_size(batch_rows).with_row_groups(vec![group]);
        let codes = self.columns.iter().map(|column| {
            let numbers = column.files.get(number).and_then(|groups| groups.get(group));
            let numbers = numbers.ok_or_else(|| Error::internal("the dictionaries of a row group were not read"))?;
            Ok((column.place, Codes::of(column, numbers, file.codes(&column.field, group, numbers.len())?)))
        });
        Ok(CodedScan {
            codes: codes.collect::<Result<_>>()?,
            values: file.scan(&options)?,
            schema: self.schema.clone(),
        })
    }

    /// Puts values in the place of numbers: as dictionaries, all rows with the same.
    pub(super) fn spell(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.columns.is_empty() {
            return Ok(batch.clone());
        }
        let mut columns = batch.columns().to_vec();
        let mut fields = batch.schema_ref().fields().to_vec();
        for column in &self.columns {
            let found = columns.get_mut(column.place).zip(fields.get_mut(column.place));
            let (numbers, field) = found.ok_or_else(|| {
                Error::internal("a column of dictionary keys is missing").with("column", column.field.name())
            })?;
            *numbers = column.spell(numbers)?;
            *field = Arc::new(field.as_ref().clone().with_data_type(numbers.data_type().clone()));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

/// The rows of a row group.
pub(super) struct CodedScan {
    values: BaseFileScan<FileReader>,
    codes: Vec<(usize, Codes)>,
    schema: SchemaRef,
}

/// The numbers of a column's rows.
enum Codes {
    One(CodeScan<FileReader>, Vec<u8>),
    Two(CodeScan<FileReader>, Vec<u16>),
    Four(CodeScan<FileReader>, Vec<u32>),
}

impl Codes {
    /// `numbers` fit into the keys of the column: there are no more of them than of its values.
    fn of(column: &CodedColumn, numbers: &[u32], scan: CodeScan<FileReader>) -> Self {
        match column.key_type() {
            DataType::UInt8 => Self::One(scan, numbers.iter().map(|number| *number as u8).collect()),
            DataType::UInt16 => Self::Two(scan, numbers.iter().map(|number| *number as u16).collect()),
            _ => Self::Four(scan, numbers.to_vec()),
        }
    }

    fn next(&mut self, rows: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::One(scan, numbers) => Arc::new(scan.next::<UInt8Type>(rows, numbers)?),
            Self::Two(scan, numbers) => Arc::new(scan.next::<UInt16Type>(rows, numbers)?),
            Self::Four(scan, numbers) => Arc::new(scan.next::<UInt32Type>(rows, numbers)?),
        })
    }
}

impl Iterator for CodedScan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.values.next()? {
            Ok(batch) => batch,
            Err(e) => return Some(Err(e)),
        };
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        for (place, codes) in &mut self.codes {
            match codes.next(rows) {
                // The places before it are taken already.
                Ok(column) if *place <= columns.len() => columns.insert(*place, column),
                Ok(_) => {
                    let what = format!("column {place} comes behind {} that were read", columns.len());
                    return Some(Err(Error::internal(what)));
                }
                Err(e) => return Some(Err(e)),
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let fits = |e| Error::schema("a base file does not fit the schema to read").caused_by(e);
        Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(fits))
    }
}

/// All values of arrays, each once, in their order, and of each value its number there.
fn in_order(arrays: &[&ArrayRef], data_type: &DataType) -> Result<(ArrayRef, Vec<Vec<u32>>)> {
    match data_type {
        DataType::Utf8 => {
            let texts = arrays.iter().map(|array| Some(array.as_string_opt::<i32>()?.iter().flatten().collect()));
            let texts = texts.collect::<Option<Vec<Vec<&str>>>>();
            let (values, numbers) = ranked(&texts.ok_or_else(other_values)?)?;
            Ok((Arc::new(StringArray::from(values)), numbers))
        }
        DataType::Int32 => of_numbers::<Int32Type>(arrays, data_type),
        DataType::Date32 => of_numbers::<Date32Type>(arrays, data_type),
        DataType::Time32(TimeUnit::Millisecond) => of_numbers::<Time32MillisecondType>(arrays, data_type),
        DataType::Int64 => of_numbers::<Int64Type>(arrays, data_type),
        DataType::Time64(TimeUnit::Microsecond) => of_numbers::<Time64MicrosecondType>(arrays, data_type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of_numbers::<TimestampMillisecondType>(arrays, data_type),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of_numbers::<TimestampMicrosecondType>(arrays, data_type),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of_numbers::<TimestampNanosecondType>(arrays, data_type),
        DataType::Decimal128(_, _) => of_numbers::<Decimal128Type>(arrays, data_type),
        _ => Err(other_values()),
    }
}

fn other_values() -> Error {
    Error::corrupt("the dictionaries of a column hold other values")
}

fn of_numbers<T: ArrowPrimitiveType<Native: Ord>>(
    arrays: &[&ArrayRef],
    data_type: &DataType,
) -> Result<(ArrayRef, Vec<Vec<u32>>)> {
    let lists = arrays.iter().map(|array| Some(array.as_primitive_opt::<T>()?.values().to_vec()));
    let (values, numbers) = ranked(&lists.collect::<Option<Vec<_>>>().ok_or_else(other_values)?)?;
    Ok((Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(data_type.clone())), numbers))
}

/// All values, each once, in their order, and of each its place there.
fn ranked<T: Ord + Copy>(lists: &[Vec<T>]) -> Result<(Vec<T>, Vec<Vec<u32>>)> {
    let mut values = lists.concat();
    values.sort_unstable();
    values.dedup();
    if u32::try_from(values.len()).is_err() {
        return Err(Error::schema("a column of more than 4 billion different values"));
    }
    let place = |value: &T| values.binary_search(value).ok().map(|place| place as u32);
    let numbers: Option<Vec<Vec<u32>>> = lists.iter().map(|list| list.iter().map(place).collect()).collect();
    let numbers = numbers.ok_or_else(|| Error::internal("a value of a dictionary is not among all values"))?;
    Ok((values, numbers))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::Decimal128Array;

    #[test]
    fn values_are_numbered_in_their_order_over_all_dictionaries() {
        let texts = |texts: &[&str]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let (values, numbers) =
            in_order(&[&texts(&["b", "a"]), &texts(&[]), &texts(&["c", "b", "ä", "Z"])], &DataType::Utf8).unwrap();
        assert_eq!(values.as_ref(), texts(&["Z", "a", "b", "c", "ä"]).as_ref());
        assert_eq!(numbers, [vec![2, 1], vec![], vec![3, 2, 4, 0]]);
        let decimal = DataType::Decimal128(15, 2);
        let of = |values: &[i128]| {
            Arc::new(Decimal128Array::from_iter_values(values.iter().copied()).with_data_type(decimal.clone()))
                as ArrayRef
        };
        let (values, numbers) = in_order(&[&of(&[5, -3]), &of(&[0, 5])], &decimal).unwrap();
        assert_eq!((values.as_ref(), numbers), (of(&[-3, 0, 5]).as_ref(), vec![vec![2, 0], vec![1, 2]]));
        assert!(in_order(&[&of(&[1])], &DataType::Int32).is_err());
        assert!(in_order(&[], &DataType::Float64).is_err());
    }

    #[test]
    fn numbers_are_as_narrow_as_they_can_be() {
        let column = |values: i64| CodedColumn {
            place: 0,
            field: Arc::new(Field::new("x", DataType::Int64, true)),
            files: Vec::new(),
            values: Arc::new(arrow::array::Int64Array::from_iter_values(0..values)),
        };
        for (values, expected) in
            [(256, DataType::UInt8), (257, DataType::UInt16), (65_536, DataType::UInt16), (65_537, DataType::UInt32)]
        {
            assert_eq!(column(values).key_type(), expected, "{values}");
        }
        assert!(column(100).is_worth_it(200));
        assert!(column(65_536).is_worth_it(1 << 20));
        assert!(!column(65_537).is_worth_it(1 << 20), "too many to stay numbers");
        assert!(!column(101).is_worth_it(200), "they hardly repeat");
    }
}
