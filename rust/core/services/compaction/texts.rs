//! Text columns of few different values, while log records are put onto them: rows are numbers of texts, in the base file,
//! among the log records and in the new file. Each text of a dictionary is looked at once, and not once for each row.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type};
use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::merge::Chosen;

/// More texts than these, or hardly fewer than rows, are not worth numbers.
const MOST_TEXTS: usize = 65_536;
const TRIAL_ROWS: usize = 4096;
/// Number of a row without a text.
const NULL: i32 = -1;

type Numbers = HashMap<Arc<str>, i32, ahash::RandomState>;

/// The text columns of log records.
pub(super) struct LogTexts {
    columns: Vec<OnceLock<Option<TextColumn>>>,
    most_rows: usize,
}

/// A column of the log records as numbers.
pub(super) struct TextColumn {
    texts: Vec<Arc<str>>,
    by_text: Numbers,
    /// For each part those of its rows.
    numbers: Vec<Vec<i32>>,
}

impl LogTexts {
    /// Of so many columns, whose numbers may take so many bytes.
    pub(super) fn new(columns: usize, budget: usize) -> Self {
        let most_rows = budget / size_of::<i32>() / columns.max(1);
        Self { columns: (0..columns).map(|_| OnceLock::new()).collect(), most_rows }
    }

    /// A column of these records, which are the same each time; `None` for one that is no text, or has too many different
    /// ones.
    pub(super) fn column<'p>(
        &self,
        column: usize,
        parts: impl Iterator<Item = &'p RecordBatch>,
    ) -> Option<&TextColumn> {
        self.columns.get(column)?.get_or_init(|| TextColumn::of(parts, column, self.most_rows)).as_ref()
    }
}

impl TextColumn {
    fn of<'p>(parts: impl Iterator<Item = &'p RecordBatch>, column: usize, most_rows: usize) -> Option<Self> {
        let mut made = Self { texts: Vec::new(), by_text: HashMap::default(), numbers: Vec::new() };
        let mut rows = 0;
        for part in parts {
            let texts: &StringArray = part.columns().get(column)?.as_string_opt::<i32>()?;
            let mut numbers = Vec::with_capacity(texts.len());
            let mut last: Option<(&str, i32)> = None;
            for (row, text) in texts.iter().enumerate() {
                let Some(text) = text else {
                    numbers.push(NULL);
                    continue;
                };
                let number = match last {
                    Some((before, number)) if before == text => number,
                    _ => number_of(text, &mut made.texts, &mut made.by_text)?,
                };
                last = Some((text, number));
                numbers.push(number);
                if made.texts.len() > MOST_TEXTS || (rows + row > TRIAL_ROWS && made.texts.len() * 2 > rows + row) {
                    return None;
                }
            }
            rows += texts.len();
            if rows > most_rows {
                return None;
            }
            made.numbers.push(numbers);
        }
        Some(made)
    }

    /// Puts these texts onto those of a row group, whose pieces come with dictionaries, where log records were chosen.
    ///
    /// # Errors
    /// `Corrupt` for pieces that hold something else.
    pub(super) fn put_onto<'p>(
        &self,
        pieces: impl Iterator<Item = (&'p ArrayRef, Option<&'p Chosen>)>,
    ) -> Result<MergedTexts> {
        let other = || Error::corrupt("a dictionary of texts holds something else");
        let (mut texts, mut by_text) = (self.texts.clone(), self.by_text.clone());
        let mut merged = Vec::new();
        let mut same = true;
        let mut known: Option<(&ArrayRef, Vec<i32>)> = None;
        for (piece, chosen) in pieces {
            let piece = piece.as_dictionary_opt::<Int32Type>().ok_or_else(other)?;
            let numbers = match known.take().filter(|(values, _)| Arc::ptr_eq(values, piece.values())) {
                Some((_, numbers)) => numbers,
                None => {
                    let values = piece.values().as_string_opt::<i32>().ok_or_else(other)?;
                    let number = |text: Option<&str>| match text {
                        Some(text) => number_of(text, &mut texts, &mut by_text).ok_or_else(other),
                        None => Ok(NULL),
                    };
                    values.iter().map(number).collect::<Result<Vec<_>>>()?
                }
            };
            let keys = piece.keys();
            let old = |row: usize| match keys.is_valid(row) {
                true => usize::try_from(keys.value(row)).ok().and_then(|key| numbers.get(key)).copied().unwrap_or(NULL),
                false => NULL,
            };
            let rows: Vec<i32> = match chosen {
                None => (0..keys.len()).map(old).collect(),
                Some(chosen) => {
                    let part = |part: &usize| self.numbers.get(*part).map(Vec::as_slice);
                    let parts: Option<Vec<&[i32]>> = chosen.parts.iter().map(part).collect();
                    let parts = parts.ok_or_else(|| Error::internal("a choice names a part without strings"))?;
                    let new = |side: usize, row: usize| {
                        let part = side.checked_sub(1).and_then(|part| parts.get(part));
                        part.and_then(|numbers| numbers.get(row)).copied().ok_or_else(other)
                    };
                    let mut rows = Vec::with_capacity(chosen.rows.len());
                    for (at, (side, row)) in chosen.rows.iter().enumerate() {
                        let number = if *side == 0 { old(*row) } else { new(*side, *row)? };
                        same &= *side == 0 || number == old(at);
                        rows.push(number);
                    }
                    rows
                }
            };
            known = Some((piece.values(), numbers));
            merged.push(rows);
        }
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts.iter().map(AsRef::as_ref)));
        let array = |rows: Vec<i32>| -> Result<ArrayRef> {
            let keys: Int32Array = match rows.contains(&NULL) {
                true => rows.into_iter().map(|number| (number != NULL).then_some(number)).collect(),
                false => rows.into(),
            };
            Ok(Arc::new(DictionaryArray::try_new(keys, texts.clone())?))
        };
        Ok(MergedTexts { same, pieces: merged.into_iter().map(array).collect::<Result<_>>()? })
    }
}

/// What came of a row group.
pub(super) struct MergedTexts {
    /// Whether log records say what was there, where no row went.
    pub(super) same: bool,
    /// The texts, with one dictionary.
    pub(super) pieces: Vec<ArrayRef>,
}

fn number_of(text: &str, texts: &mut Vec<Arc<str>>, by_text: &mut Numbers) -> Option<i32> {
    if let Some(number) = by_text.get(text) {
        return Some(*number);
    }
    let number = i32::try_from(texts.len()).ok()?;
    let text: Arc<str> = text.into();
    texts.push(text.clone());
    by_text.insert(text, number);
    Some(number)
}

/// A text column as one with a dictionary.
pub(super) fn with_dictionary(field: &Field) -> Field {
    let texts = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    field.clone().with_data_type(texts)
}
