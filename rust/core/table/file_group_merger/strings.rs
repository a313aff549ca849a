//! Low-cardinality string columns: rows are dictionary keys in the old file, among the newer records and in the new file.
//! Each string of a dictionary is looked at once, and not once for each row.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type};
use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::merge::RowAddress;

/// More strings than these, or hardly fewer than rows, are not worth a dictionary.
const MOST_STRINGS: usize = 65_536;
const TRIAL_ROWS: usize = 4096;
/// The part of a memory budget that the keys of newer records may take.
const BUDGET_SHARE: usize = 8;
/// Key of a row without a string.
const NULL: i32 = -1;

/// The strings of newer records, as dictionary keys.
pub(crate) struct NewerStrings {
    columns: Vec<OnceLock<Option<StringColumn>>>,
    most_rows: usize,
}

/// What came of a column of strings.
pub(super) struct MergedStrings {
    /// Whether newer records say what was there, where every old row kept its place.
    pub(super) same: bool,
    /// The rows, with one dictionary.
    pub(super) columns: Vec<ArrayRef>,
}

/// Old rows as they come out: which of them and of the newer ones, and in which batches of newer records these are. `None`:
/// all of the old ones.
pub(super) type StringRows<'a> = Option<(&'a [RowAddress], &'a [usize])>;

impl NewerStrings {
    /// Of so many columns, within a memory budget in bytes.
    pub(crate) fn new(columns: usize, budget: usize) -> Self {
        let most_rows = budget / BUDGET_SHARE / size_of::<i32>() / columns.max(1);
        Self { columns: (0..columns).map(|_| OnceLock::new()).collect(), most_rows }
    }

    /// A column of these records, which are the same each time; `None` for one that holds no strings, or too many.
    pub(super) fn column(&self, column: usize, newer: &[&[ArrayRef]]) -> Option<&StringColumn> {
        self.columns.get(column)?.get_or_init(|| StringColumn::of(newer, column, self.most_rows)).as_ref()
    }
}

/// Strings, each with its key.
#[derive(Clone, Default)]
struct Dictionary {
    strings: Vec<Arc<str>>,
    keys: HashMap<Arc<str>, i32, ahash::RandomState>,
}

impl Dictionary {
    fn key(&mut self, string: &str) -> Option<i32> {
        if let Some(key) = self.keys.get(string) {
            return Some(*key);
        }
        let key = i32::try_from(self.strings.len()).ok()?;
        let string: Arc<str> = string.into();
        self.strings.push(string.clone());
        self.keys.insert(string, key);
        Some(key)
    }

    /// The keys of the strings of another dictionary.
    fn keys_of(&mut self, strings: &ArrayRef) -> Option<Vec<i32>> {
        let strings = strings.as_string_opt::<i32>()?.iter();
        strings.map(|string| string.map_or(Some(NULL), |string| self.key(string))).collect()
    }
}

/// A column of newer records.
pub(super) struct StringColumn {
    dictionary: Dictionary,
    /// For each batch the keys of its rows.
    keys: Vec<Vec<i32>>,
}

impl StringColumn {
    fn of(newer: &[&[ArrayRef]], column: usize, most_rows: usize) -> Option<Self> {
        let mut made = Self { dictionary: Dictionary::default(), keys: Vec::with_capacity(newer.len()) };
        let mut rows = 0;
        for columns in newer {
            let strings: &StringArray = columns.get(column)?.as_string_opt::<i32>()?;
            if rows + strings.len() > most_rows {
                return None;
            }
            let mut keys = Vec::with_capacity(strings.len());
            let mut last: Option<(&str, i32)> = None;
            for (row, string) in strings.iter().enumerate() {
                let Some(string) = string else {
                    keys.push(NULL);
                    continue;
                };
                let key = match last {
                    Some((before, key)) if before == string => key,
                    _ => made.dictionary.key(string)?,
                };
                last = Some((string, key));
                keys.push(key);
                let (count, rows) = (made.dictionary.strings.len(), rows + row);
                if count > MOST_STRINGS || (rows > TRIAL_ROWS && count * 2 > rows) {
                    return None;
                }
            }
            rows += strings.len();
            made.keys.push(keys);
        }
        Some(made)
    }

    /// Merges the strings into those of a row group, which come with dictionaries, and puts `appended` ones behind. `None`
    /// where these are too many.
    ///
    /// # Errors
    /// `Corrupt` for columns that hold something else.
    pub(super) fn merge<'p>(
        &self,
        old: impl Iterator<Item = (&'p ArrayRef, StringRows<'p>)>,
        appended: &[&ArrayRef],
    ) -> Result<Option<MergedStrings>> {
        let mut dictionary = self.dictionary.clone();
        let (mut merged, mut same) = (Vec::new(), true);
        let mut known: Option<(&ArrayRef, Vec<i32>)> = None;
        for (old, rows) in old {
            let old = old.as_dictionary_opt::<Int32Type>().ok_or_else(not_strings)?;
            let strings = match known.take().filter(|(values, _)| Arc::ptr_eq(values, old.values())) {
                Some((_, strings)) => strings,
                None => dictionary.keys_of(old.values()).ok_or_else(not_strings)?,
            };
            let stored = translated(old.keys(), &strings);
            merged.push(match rows {
                None => stored,
                Some(rows) => self.choose(rows, &stored, &mut same)?,
            });
            known = Some((old.values(), strings));
        }
        for strings in appended {
            merged.push(dictionary.keys_of(strings).ok_or_else(not_strings)?);
            if dictionary.strings.len() > MOST_STRINGS {
                return Ok(None);
            }
        }
        let strings: ArrayRef = Arc::new(StringArray::from_iter_values(dictionary.strings.iter().map(AsRef::as_ref)));
        let columns = merged.into_iter().map(|keys| with_strings(keys, &strings)).collect::<Result<_>>()?;
        Ok(Some(MergedStrings { same, columns }))
    }

    /// The keys of rows; `same` becomes `false` where a newer record says something new.
    fn choose(&self, (rows, batches): (&[RowAddress], &[usize]), stored: &[i32], same: &mut bool) -> Result<Vec<i32>> {
        let batches: Option<Vec<&[i32]>> =
            batches.iter().map(|batch| self.keys.get(*batch).map(Vec::as_slice)).collect();
        let batches = batches.ok_or_else(|| Error::internal("a choice names newer records without strings"))?;
        let mut keys = Vec::with_capacity(rows.len());
        for (at, (side, row)) in rows.iter().enumerate() {
            let key = match side.checked_sub(1) {
                None => *stored.get(*row).ok_or_else(not_strings)?,
                Some(batch) => {
                    let key = batches.get(batch).and_then(|keys| keys.get(*row)).copied();
                    let key = key.ok_or_else(not_strings)?;
                    *same &= stored.get(at) == Some(&key);
                    key
                }
            };
            keys.push(key);
        }
        Ok(keys)
    }
}

/// The keys of rows in the dictionary that has these keys for the strings of theirs.
fn translated(rows: &Int32Array, strings: &[i32]) -> Vec<i32> {
    let key = |old: &i32| usize::try_from(*old).ok().and_then(|old| strings.get(old)).copied().unwrap_or(NULL);
    let rows_without_null = rows.values().iter().map(key);
    match rows.nulls() {
        None => rows_without_null.collect(),
        Some(valid) => rows_without_null.zip(valid).map(|(key, valid)| if valid { key } else { NULL }).collect(),
    }
}

fn not_strings() -> Error {
    Error::corrupt("a dictionary of strings holds something else")
}

fn with_strings(keys: Vec<i32>, strings: &ArrayRef) -> Result<ArrayRef> {
    let keys: Int32Array = match keys.contains(&NULL) {
        true => keys.into_iter().map(|key| (key != NULL).then_some(key)).collect(),
        false => keys.into(),
    };
    Ok(Arc::new(DictionaryArray::try_new(keys, strings.clone())?))
}

/// A string column as one with a dictionary.
pub(super) fn with_dictionary(field: &Field) -> Field {
    let strings = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    field.clone().with_data_type(strings)
}
