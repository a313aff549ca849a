//! Sorts low-cardinality columns by dictionary keys: rows carry the dictionary key of their value, and one sorted
//! dictionary has all values. The files have such columns as dictionary keys already. Decoding the values, moving them
//! about, and encoding them again would be most of the cost of a sort.

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
use crate::file_group::base::{BaseFileReader, BaseFileScan, DictionaryKeyScan, RECORD_KEY_COLUMN, ScanOptions};
use crate::parallel::run_parallel;
use crate::storage::FileReader;

/// The fraction of the memory budget that dictionaries may take, by their encoded size: in memory they take several
/// times as much.
const BUDGET_SHARE: u64 = 64;

/// The columns of files, low-cardinality ones as dictionary keys.
pub(super) struct DictionaryColumns {
    /// The other columns, which are read as values.
    values: SchemaRef,
    /// The schema of the rows that are sorted.
    pub(super) schema: SchemaRef,
    columns: Vec<DictionaryColumn>,
}

/// A column of dictionary keys.
struct DictionaryColumn {
    index: usize,
    field: FieldRef,
    /// For each row group of each file, the key in `values` of each entry of its dictionary.
    files: Vec<Vec<Vec<u32>>>,
    /// All distinct values, sorted.
    values: ArrayRef,
}

impl DictionaryColumn {
    /// Merges the dictionaries of all row groups of all files.
    fn of(index: usize, field: FieldRef, files: &[&[ArrayRef]]) -> Result<Self> {
        let flat: Vec<&ArrayRef> = files.iter().copied().flatten().collect();
        let (values, keys) = in_order(&flat, field.data_type()).map_err(|e| e.with("column", field.name()))?;
        if keys.len() != flat.len() || keys.iter().zip(&flat).any(|(keys, array)| keys.len() != array.len()) {
            let what = "a dictionary changed while it was read";
            return Err(Error::corrupt(what).with("column", field.name()));
        }
        let mut keys = keys.into_iter();
        let files = files.iter().map(|groups| keys.by_ref().take(groups.len()).collect()).collect();
        Ok(Self { index, field, files, values })
    }

    fn key_type(&self) -> DataType {
        match self.values.len() {
            ..=0x100 => DataType::UInt8,
            0x101..=0x1_0000 => DataType::UInt16,
            _ => DataType::UInt32,
        }
    }

    /// Whether rows with keys are cheaper to move than rows with values.
    fn is_worth_it(&self, rows: u64) -> bool {
        let narrower = match self.field.data_type().primitive_width() {
            // So many distinct values hardly repeat within a file: the writer would encode them as plain values again.
            Some(width) => self.key_type().primitive_width().is_some_and(|key| key < width && key <= size_of::<u16>()),
            None => true,
        };
        narrower && self.values.len() as u64 * 2 <= rows
    }

    /// Returns the column with its dictionary, as it is written.
    fn decode(&self, keys: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self.key_type() {
            DataType::UInt8 => Arc::new(self.with_values::<UInt8Type>(keys)?),
            DataType::UInt16 => Arc::new(self.with_values::<UInt16Type>(keys)?),
            _ => Arc::new(self.with_values::<UInt32Type>(keys)?),
        })
    }

    fn with_values<K: ArrowDictionaryKeyType>(&self, keys: &ArrayRef) -> Result<DictionaryArray<K>> {
        let keys = keys.as_primitive_opt::<K>();
        let keys = keys
            .ok_or_else(|| Error::schema("a column does not have dictionary keys").with("column", self.field.name()))?;
        Ok(DictionaryArray::try_new(keys.clone(), self.values.clone())?)
    }
}

impl DictionaryColumns {
    /// Chooses columns that are dictionary-encoded in all files and not in `but`, as long as their dictionaries fit the
    /// memory budget.
    pub(super) fn choose(
        schema: &SchemaRef,
        but: &[String],
        files: &BaseFiles<'_>,
        budget: usize,
        threads: usize,
    ) -> Result<Self> {
        let is_asked = |field: &&FieldRef| {
            let name = field.name();
            // Record keys are distinct.
            name != RECORD_KEY_COLUMN && !but.iter().any(|b| b == name || b.split('.').next() == Some(name.as_str()))
        };
        let asked: Vec<&FieldRef> = schema.fields().iter().filter(is_asked).collect();
        let slices = files.all().unwrap_or_default();
        let sizes = run_parallel(slices.clone(), threads, |file| {
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
        let read = run_parallel(slices, threads, |number| {
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
            DictionaryColumn::of(schema.index_of(field.name())?, (*field).clone(), &of_column)
        })?;
        let columns: Vec<DictionaryColumn> = columns.into_iter().filter(|column| column.is_worth_it(rows)).collect();
        let encoded = |index: usize| columns.iter().find(|column| column.index == index);
        let through = (0..).zip(schema.fields()).map(|(index, field)| match encoded(index) {
            Some(column) => Arc::new(Field::new(field.name(), column.key_type(), field.is_nullable())),
            None => field.clone(),
        });
        let through = Arc::new(Schema::new(through.collect::<Vec<_>>()));
        let values = (0..).zip(schema.fields()).filter(|(index, _)| encoded(*index).is_none());
        let values = Arc::new(Schema::new(values.map(|(_, field)| field.clone()).collect::<Vec<_>>()));
        Ok(Self { values, schema: through, columns })
    }

    /// Reads the rows of a row group of file `number`, at most `batch_rows` at a time.
    pub(super) fn scan(
        &self,
        number: usize,
        file: &BaseFileReader<FileReader>,
        group: usize,
        batch_rows: usize,
    ) -> Result<KeyedScan> {
        let options = ScanOptions::new(self.values.clone()).with_batch_size(batch_rows).with_row_groups(vec![group]);
        let keys = self.columns.iter().map(|column| {
            let keys = column.files.get(number).and_then(|groups| groups.get(group));
            let keys = keys.ok_or_else(|| Error::internal("the dictionaries of a row group were not read"))?;
            Ok((column.index, Keys::of(column, keys, file.dictionary_keys(&column.field, group, keys.len())?)))
        });
        Ok(KeyedScan { keys: keys.collect::<Result<_>>()?, values: file.scan(&options)?, schema: self.schema.clone() })
    }

    /// Replaces keys by dictionary arrays, which share one dictionary.
    pub(super) fn decode(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.columns.is_empty() {
            return Ok(batch.clone());
        }
        let mut columns = batch.columns().to_vec();
        let mut fields = batch.schema_ref().fields().to_vec();
        for column in &self.columns {
            let found = columns.get_mut(column.index).zip(fields.get_mut(column.index));
            let (keys, field) = found.ok_or_else(|| {
                Error::internal("a column of dictionary keys is missing").with("column", column.field.name())
            })?;
            *keys = column.decode(keys)?;
            *field = Arc::new(field.as_ref().clone().with_data_type(keys.data_type().clone()));
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

/// The rows of a row group.
pub(super) struct KeyedScan {
    values: BaseFileScan<FileReader>,
    keys: Vec<(usize, Keys)>,
    schema: SchemaRef,
}

/// The dictionary keys of a column.
enum Keys {
    One(DictionaryKeyScan<FileReader>, Vec<u8>),
    Two(DictionaryKeyScan<FileReader>, Vec<u16>),
    Four(DictionaryKeyScan<FileReader>, Vec<u32>),
}

impl Keys {
    /// The keys fit the key type of the column, which is chosen by the number of its values.
    fn of(column: &DictionaryColumn, keys: &[u32], scan: DictionaryKeyScan<FileReader>) -> Self {
        match column.key_type() {
            DataType::UInt8 => Self::One(scan, keys.iter().map(|number| *number as u8).collect()),
            DataType::UInt16 => Self::Two(scan, keys.iter().map(|number| *number as u16).collect()),
            _ => Self::Four(scan, keys.to_vec()),
        }
    }

    fn next(&mut self, rows: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::One(scan, keys) => Arc::new(scan.next::<UInt8Type>(rows, keys)?),
            Self::Two(scan, keys) => Arc::new(scan.next::<UInt16Type>(rows, keys)?),
            Self::Four(scan, keys) => Arc::new(scan.next::<UInt32Type>(rows, keys)?),
        })
    }
}

impl Iterator for KeyedScan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.values.next()? {
            Ok(batch) => batch,
            Err(e) => return Some(Err(e)),
        };
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        for (index, keys) in &mut self.keys {
            match keys.next(rows) {
                // Columns before it are inserted already.
                Ok(column) if *index <= columns.len() => columns.insert(*index, column),
                Ok(_) => {
                    let what = format!("column {index} comes behind {} that were read", columns.len());
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

/// Returns the distinct values of all arrays, sorted, and for each array the key of each of its values.
fn in_order(arrays: &[&ArrayRef], data_type: &DataType) -> Result<(ArrayRef, Vec<Vec<u32>>)> {
    match data_type {
        DataType::Utf8 => {
            let strings = arrays.iter().map(|array| Some(array.as_string_opt::<i32>()?.iter().flatten().collect()));
            let strings = strings.collect::<Option<Vec<Vec<&str>>>>();
            let (values, keys) = ranked(&strings.ok_or_else(other_values)?)?;
            Ok((Arc::new(StringArray::from(values)), keys))
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
    Error::corrupt("the dictionaries of a column have values of another type")
}

fn of_numbers<T: ArrowPrimitiveType<Native: Ord>>(
    arrays: &[&ArrayRef],
    data_type: &DataType,
) -> Result<(ArrayRef, Vec<Vec<u32>>)> {
    let lists = arrays.iter().map(|array| Some(array.as_primitive_opt::<T>()?.values().to_vec()));
    let (values, keys) = ranked(&lists.collect::<Option<Vec<_>>>().ok_or_else(other_values)?)?;
    Ok((Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(data_type.clone())), keys))
}

/// Returns the distinct values, sorted, and the key of each value.
fn ranked<T: Ord + Copy>(lists: &[Vec<T>]) -> Result<(Vec<T>, Vec<Vec<u32>>)> {
    let mut values = lists.concat();
    values.sort_unstable();
    values.dedup();
    if u32::try_from(values.len()).is_err() {
        return Err(Error::schema("a column has more than 4 billion distinct values"));
    }
    let index = |value: &T| values.binary_search(value).ok().map(|index| index as u32);
    let keys: Option<Vec<Vec<u32>>> = lists.iter().map(|list| list.iter().map(index).collect()).collect();
    let keys = keys.ok_or_else(|| Error::internal("a value of a dictionary is missing from the merged dictionary"))?;
    Ok((values, keys))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::Decimal128Array;

    #[test]
    fn values_are_numbered_in_their_order_over_all_dictionaries() {
        let strings = |strings: &[&str]| Arc::new(StringArray::from(strings.to_vec())) as ArrayRef;
        let (values, keys) =
            in_order(&[&strings(&["b", "a"]), &strings(&[]), &strings(&["c", "b", "ä", "Z"])], &DataType::Utf8)
                .unwrap();
        assert_eq!(values.as_ref(), strings(&["Z", "a", "b", "c", "ä"]).as_ref());
        assert_eq!(keys, [vec![2, 1], vec![], vec![3, 2, 4, 0]]);
        let decimal = DataType::Decimal128(15, 2);
        let of = |values: &[i128]| {
            Arc::new(Decimal128Array::from_iter_values(values.iter().copied()).with_data_type(decimal.clone()))
                as ArrayRef
        };
        let (values, keys) = in_order(&[&of(&[5, -3]), &of(&[0, 5])], &decimal).unwrap();
        assert_eq!((values.as_ref(), keys), (of(&[-3, 0, 5]).as_ref(), vec![vec![2, 0], vec![1, 2]]));
        assert!(in_order(&[&of(&[1])], &DataType::Int32).is_err());
        assert!(in_order(&[], &DataType::Float64).is_err());
    }

    #[test]
    fn numbers_are_as_narrow_as_they_can_be() {
        let column = |values: i64| DictionaryColumn {
            index: 0,
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
        assert!(!column(65_537).is_worth_it(1 << 20), "too many to stay keys");
        assert!(!column(101).is_worth_it(200), "they hardly repeat");
    }
}
