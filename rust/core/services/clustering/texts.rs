//! Columns of few different texts on their way through a sort: rows carry the number of their text, and the texts are kept
//! once.
//!
//! Files have such columns as numbers and a dictionary already. To put texts in their place, to move those about, and to
//! find out on writing that there are few of them is most of what sorting them would cost.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Schema, SchemaRef};
use hashbrown::HashMap;
use parquet::basic::Type;
use parquet::file::metadata::RowGroupMetaData;

use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, has_only_numbers};
use crate::storage::FileReader;

/// The part of the memory budget that dictionaries may take, as they stand in the files: in memory they take several
/// times as much.
const BUDGET_SHARE: usize = 64;
/// Dictionaries that are remembered: each thread reads one row group.
const REMEMBERED: usize = 16;

/// The columns that are carried as numbers.
pub(super) struct Texts {
    /// What files are read with: these columns with dictionaries.
    pub(super) read: SchemaRef,
    /// What goes through the sort: these columns as numbers.
    pub(super) numbered: SchemaRef,
    columns: Vec<(usize, Mutex<Numbers>)>,
}

/// All texts of a column.
#[derive(Default)]
struct Numbers {
    texts: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, i32, ahash::RandomState>,
    /// Dictionaries of files, with the numbers of their texts.
    known: Vec<(ArrayRef, Arc<Vec<i32>>)>,
    /// The texts as they were given out last.
    array: Option<Arc<StringArray>>,
}

impl Texts {
    /// Chooses columns, none of those named in `but`, of which all files have dictionaries: as many as a part of the memory
    /// budget has room for.
    pub(super) fn choose(
        schema: &SchemaRef,
        but: &[String],
        files: &[BaseFileReader<FileReader>],
        budget: usize,
    ) -> Self {
        let mut room = i64::try_from(budget / BUDGET_SHARE).unwrap_or(i64::MAX);
        let mut is_chosen = |field: &FieldRef| {
            let name = field.name();
            let sorted_by = || but.iter().any(|b| b == name || b.split('.').next() == Some(name.as_str()));
            if field.data_type() != &DataType::Utf8 || files.is_empty() || sorted_by() {
                return false;
            }
            let bytes = files.iter().map(|file| dictionary_bytes(file, name)).sum::<Option<i64>>();
            let fits = bytes.is_some_and(|bytes| bytes <= room);
            room -= bytes.filter(|_| fits).unwrap_or(0);
            fits
        };
        let chosen: Vec<usize> = (0..).zip(schema.fields()).filter(|(_, f)| is_chosen(f)).map(|(i, _)| i).collect();
        let with = |data_type: DataType| -> SchemaRef {
            let field = |(i, field): (usize, &FieldRef)| match chosen.contains(&i) {
                true => Arc::new(Field::new(field.name(), data_type.clone(), field.is_nullable())),
                false => field.clone(),
            };
            Arc::new(Schema::new((0..).zip(schema.fields()).map(field).collect::<Vec<_>>()))
        };
        Self {
            read: with(dictionary_type()),
            numbered: with(DataType::Int32),
            columns: chosen.iter().map(|i| (*i, Mutex::default())).collect(),
        }
    }

    /// Puts numbers in the place of texts.
    pub(super) fn number(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.replace(batch, &self.numbered, |numbers, column| numbers.number(column))
    }

    /// Puts texts in the place of numbers, all with one dictionary.
    pub(super) fn spell(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.replace(batch, &self.read, Numbers::spell)
    }

    fn replace(
        &self,
        batch: &RecordBatch,
        schema: &SchemaRef,
        with: impl Fn(&mut Numbers, &ArrayRef) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        if self.columns.is_empty() {
            return Ok(batch.clone());
        }
        let mut columns = batch.columns().to_vec();
        for (place, numbers) in &self.columns {
            if let Some(column) = columns.get_mut(*place) {
                *column = with(&mut numbers.lock().unwrap_or_else(PoisonError::into_inner), column)?;
            }
        }
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    }
}

impl Numbers {
    fn number(&mut self, column: &ArrayRef) -> Result<ArrayRef> {
        let not_texts = || Error::schema("a column of texts was read without a dictionary");
        let dictionary = column.as_dictionary_opt::<Int32Type>().ok_or_else(not_texts)?;
        let numbers = self.of(dictionary.values())?;
        // Where a row is null its number means nothing.
        let number = |key: i32| usize::try_from(key).ok().and_then(|key| numbers.get(key)).copied().unwrap_or(0);
        Ok(Arc::new(dictionary.keys().unary::<_, Int32Type>(number)))
    }

    /// Numbers of the texts of a dictionary.
    fn of(&mut self, values: &ArrayRef) -> Result<Arc<Vec<i32>>> {
        if let Some((_, numbers)) = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, values)) {
            return Ok(numbers.clone());
        }
        let texts = values.as_string_opt::<i32>().filter(|texts| texts.null_count() == 0);
        let texts = texts.ok_or_else(|| Error::corrupt("a dictionary of texts holds something else"))?;
        let mut numbers = Vec::with_capacity(texts.len());
        for text in texts.iter().flatten() {
            let number = match self.by_text.get(text) {
                Some(number) => *number,
                None => {
                    let number = i32::try_from(self.texts.len()).map_err(|_| Error::schema("too many texts"))?;
                    let text: Arc<str> = text.into();
                    self.texts.push(text.clone());
                    self.by_text.insert(text, number);
                    number
                }
            };
            numbers.push(number);
        }
        let numbers = Arc::new(numbers);
        if self.known.len() >= REMEMBERED {
            self.known.remove(0);
        }
        self.known.push((values.clone(), numbers.clone()));
        Ok(numbers)
    }

    fn spell(&mut self, column: &ArrayRef) -> Result<ArrayRef> {
        let keys = column.as_any().downcast_ref::<Int32Array>();
        let keys = keys.ok_or_else(|| Error::schema("a column of texts is not numbered"))?;
        let texts = match self.array.take().filter(|array| array.len() == self.texts.len()) {
            Some(array) => array,
            None => Arc::new(self.texts.iter().map(|text| Some(text.as_ref())).collect::<StringArray>()),
        };
        self.array = Some(texts.clone());
        Ok(Arc::new(DictionaryArray::try_new(keys.clone(), texts as ArrayRef)?))
    }
}

fn dictionary_type() -> DataType {
    DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into())
}

/// Bytes of the dictionaries of a column of a file; `None` when it is not a text column that has nothing else.
fn dictionary_bytes(file: &BaseFileReader<FileReader>, name: &str) -> Option<i64> {
    if file.schema().field_with_name(name).ok()?.data_type() != &DataType::Utf8 {
        return None;
    }
    let of_group = |group: &RowGroupMetaData| {
        let chunk = group.columns().iter().find(|c| c.column_path().parts() == [name.to_owned()])?;
        let in_order = chunk.data_page_offset().checked_sub(chunk.dictionary_page_offset()?)?;
        (in_order > 0 && chunk.column_type() == Type::BYTE_ARRAY && has_only_numbers(chunk)).then_some(in_order)
    };
    file.metadata().row_groups().iter().map(of_group).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn dictionary(texts: &[&str], keys: &[Option<i32>]) -> ArrayRef {
        let values = Arc::new(StringArray::from(texts.to_vec()));
        Arc::new(DictionaryArray::try_new(Int32Array::from(keys.to_vec()), values).unwrap())
    }

    #[test]
    fn texts_are_numbered_over_all_dictionaries() {
        let mut numbers = Numbers::default();
        let one = numbers.number(&dictionary(&["a", "b"], &[Some(1), None, Some(0)])).unwrap();
        let two = numbers.number(&dictionary(&["c", "b"], &[Some(0), Some(1)])).unwrap();
        assert_eq!(one.as_ref(), &Int32Array::from(vec![Some(1), None, Some(0)]) as &dyn Array);
        assert_eq!(two.as_ref(), &Int32Array::from(vec![2, 1]) as &dyn Array);
        for (numbered, expected) in [(one, vec![Some("b"), None, Some("a")]), (two, vec![Some("c"), Some("b")])] {
            let spelled = numbers.spell(&numbered).unwrap();
            let plain = arrow::compute::cast(&spelled, &DataType::Utf8).unwrap();
            assert_eq!(plain.as_ref(), &StringArray::from(expected) as &dyn Array);
        }
    }

    #[test]
    fn dictionaries_that_were_forgotten_are_numbered_as_before() {
        let mut numbers = Numbers::default();
        let made: Vec<ArrayRef> = (0..40).map(|i| dictionary(&["x", &format!("t{i}")], &[Some(0), Some(1)])).collect();
        for _ in 0..2 {
            for (i, column) in (1..).zip(&made) {
                let numbered = numbers.number(column).unwrap();
                assert_eq!(numbered.as_ref(), &Int32Array::from(vec![0, i]) as &dyn Array);
            }
        }
        assert_eq!(numbers.known.len(), REMEMBERED);
    }
}
