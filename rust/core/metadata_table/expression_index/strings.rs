//! Functions of strings.

use arrow::array::{Array, ArrayRef, AsArray};

use super::options::Options;
use crate::error::{Error, Result};
use crate::format::column_range::{ColumnRange, RangeValue, ValueType};

/// The functions, as Hudi names them.
pub(super) const NAMES: &[&str] = &["lower", "upper", "trim", "ltrim", "rtrim", "length", "substring"];
const TRIMMED: &str = "trimString";
const POSITION: &str = "pos";
const LENGTH: &str = "len";

/// A function of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StringFunction {
    Lower,
    Upper,
    /// Takes these letters off, at the begin and at the end or not.
    Trim {
        letters: String,
        begin: bool,
        end: bool,
    },
    /// How many letters it has.
    Length,
    /// So many letters from this one on: 1 is the first one, and -1 the last.
    Substring {
        position: i32,
        letters: i32,
    },
}

impl StringFunction {
    /// The function of this name; `None` if it is another one.
    ///
    /// # Errors
    /// `InvalidOption` for options that it does not take.
    pub(super) fn new(name: &str, options: &Options<'_>) -> Result<Option<Self>> {
        let trim = |begin: bool, end: bool| {
            options.only(&[TRIMMED])?;
            // Spark takes spaces off, and no other white space.
            Ok::<_, Error>(Self::Trim { letters: options.get(TRIMMED).unwrap_or(" ").to_owned(), begin, end })
        };
        Ok(Some(match name {
            "lower" | "upper" | "length" => {
                options.only(&[])?;
                match name {
                    "lower" => Self::Lower,
                    "upper" => Self::Upper,
                    _ => Self::Length,
                }
            }
            "trim" => trim(true, true)?,
            "ltrim" => trim(true, false)?,
            "rtrim" => trim(false, true)?,
            "substring" => {
                options.only(&[POSITION, LENGTH])?;
                Self::Substring { position: options.number(POSITION)?, letters: options.number(LENGTH)? }
            }
            _ => return Ok(None),
        }))
    }

    /// The type of its values.
    pub(super) fn value_type(&self) -> ValueType {
        if *self == Self::Length { ValueType::Int } else { ValueType::String }
    }

    /// Writes what it makes of a string to `out`; `None` if it is not sure what Spark makes of it.
    fn write<'s>(&self, string: &'s str, out: &'s mut String) -> Option<&'s str> {
        match self {
            Self::Lower | Self::Upper => {
                out.clear();
                let is_lower = *self == Self::Lower;
                if string.is_ascii() {
                    out.push_str(string);
                    if is_lower {
                        out.make_ascii_lowercase()
                    } else {
                        out.make_ascii_uppercase()
                    }
                    return Some(out);
                }
                for letter in string.chars() {
                    if !is_stable(letter) {
                        return None;
                    }
                    if is_lower { out.extend(letter.to_lowercase()) } else { out.extend(letter.to_uppercase()) }
                }
                Some(out)
            }
            Self::Trim { letters, begin, end } => {
                let is_off = |letter: char| letters.contains(letter);
                let string = if *begin { string.trim_start_matches(is_off) } else { string };
                Some(if *end { string.trim_end_matches(is_off) } else { string })
            }
            Self::Substring { position, letters } => Some(substring(string, *position, *letters)),
            Self::Length => None,
        }
    }
}

/// Whether a letter has the same lower-case and upper-case forms in all versions of Java and of ICU, and in all places of a
/// word.
fn is_stable(letter: char) -> bool {
    match letter {
        // Greek sigma has another form at the end of a word; a dotted i has one of its own in some languages.
        '\u{3A3}' | '\u{3C3}' | '\u{3C2}' | '\u{130}' | '\u{131}' | '\u{345}' => false,
        // Not in the oldest versions.
        '\u{37F}' | '\u{3F3}' | '\u{526}'..='\u{52F}' => false,
        '\0'..='\u{58F}' | '\u{1E00}'..='\u{1EFF}' => true,
        // Letters without forms, which get none later either.
        letter => letter.to_lowercase().eq([letter]) && letter.to_uppercase().eq([letter]),
    }
}

/// Letters from a position on, as Spark counts them.
fn substring(string: &str, position: i32, letters: i32) -> &str {
    let (position, letters) = (i64::from(position), i64::from(letters));
    let begin = match position {
        1.. => position - 1,
        0 => 0,
        _ => position + i64::try_from(string.chars().count()).unwrap_or(i64::MAX),
    };
    let end = begin.saturating_add(letters);
    let at = |letter: i64| {
        let letter = usize::try_from(letter.max(0)).unwrap_or(usize::MAX);
        string.char_indices().nth(letter).map_or(string.len(), |(at, _)| at)
    };
    if end <= begin { "" } else { string.get(at(begin)..at(end)).unwrap_or("") }
}

/// Collects the range of a function's values.
pub(crate) struct StringRange {
    function: StringFunction,
    column: String,
    rows: i64,
    nulls: i64,
    is_known: bool,
    strings: Option<(String, String)>,
    lengths: Option<(i32, i32)>,
    mapped: String,
}

impl StringRange {
    /// Of no values yet.
    pub(super) fn new(function: StringFunction, column: &str) -> Self {
        let column = column.to_owned();
        let mapped = String::new();
        Self { function, column, rows: 0, nulls: 0, is_known: true, strings: None, lengths: None, mapped }
    }

    /// Adds the values of rows.
    ///
    /// # Errors
    /// `Internal` for values that are no strings.
    pub(crate) fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let strings = values.as_string_opt::<i32>();
        let strings = strings.ok_or_else(|| Error::internal("values of an expression index are no strings"))?;
        let count = |rows: usize| i64::try_from(rows).unwrap_or(i64::MAX);
        self.rows = self.rows.saturating_add(count(strings.len()));
        self.nulls = self.nulls.saturating_add(count(strings.null_count()));
        if self.is_known {
            self.is_known = strings.iter().flatten().try_for_each(|string| self.widen(string)).is_some();
        }
        Ok(())
    }

    fn widen(&mut self, string: &str) -> Option<()> {
        if self.function == StringFunction::Length {
            let length = i32::try_from(string.chars().count()).ok()?;
            let (min, max) = self.lengths.get_or_insert((length, length));
            (*min, *max) = ((*min).min(length), (*max).max(length));
            return Some(());
        }
        let mapped = self.function.write(string, &mut self.mapped)?;
        match &mut self.strings {
            None => self.strings = Some((mapped.to_owned(), mapped.to_owned())),
            Some((min, _)) if mapped < min.as_str() => mapped.clone_into(min),
            Some((_, max)) if mapped > max.as_str() => mapped.clone_into(max),
            Some(_) => {}
        }
        Some(())
    }

    /// How many rows there were.
    pub(crate) fn rows(&self) -> i64 {
        self.rows
    }

    /// The range; `None` if it may be any value.
    pub(crate) fn finish(self) -> Option<ColumnRange> {
        let strings = self.strings.map(|(min, max)| (RangeValue::String(min), RangeValue::String(max)));
        let lengths = self.lengths.map(|(min, max)| (RangeValue::Int(min), RangeValue::Int(max)));
        let (min, max) = strings.or(lengths).unzip();
        self.is_known.then_some(ColumnRange {
            column: self.column,
            min,
            max,
            value_count: self.rows.saturating_sub(self.nulls),
            null_count: self.nulls,
            total_size: 0,
            total_uncompressed_size: 0,
            value_type: self.function.value_type(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    fn function(name: &str, options: &[(&str, &str)]) -> StringFunction {
        let options: Vec<(String, String)> =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        StringFunction::new(name, &Options { function: name, options: &options }).unwrap().unwrap()
    }

    fn range(function: StringFunction, values: &[Option<&str>]) -> Option<ColumnRange> {
        let mut range = StringRange::new(function, "c");
        range.add(&(Arc::new(StringArray::from(values.to_vec())) as ArrayRef)).unwrap();
        assert_eq!(range.rows(), i64::try_from(values.len()).unwrap());
        range.finish()
    }

    #[test]
    fn strings_are_those_of_spark() {
        for (name, options, string, mapped) in [
            ("lower", &[][..], "AbC Straße ÀÉ", "abc straße àé"),
            ("upper", &[], "abc straße ÿ", "ABC STRASSE Ÿ"),
            ("lower", &[], "日本X", "日本x"),
            ("trim", &[], "  a\t ", "a\t"),
            ("ltrim", &[], "  a ", "a "),
            ("rtrim", &[], "  a ", "  a"),
            ("trim", &[(TRIMMED, "xü")], "xüaxbüx", "axb"),
            ("substring", &[(POSITION, "2"), (LENGTH, "3")], "aüßde", "üßd"),
            ("substring", &[(POSITION, "0"), (LENGTH, "2")], "abc", "ab"),
            ("substring", &[(POSITION, "-2"), (LENGTH, "5")], "abc", "bc"),
            ("substring", &[(POSITION, "-5"), (LENGTH, "3")], "abc", "a"),
            ("substring", &[(POSITION, "9"), (LENGTH, "1")], "abc", ""),
            ("substring", &[(POSITION, "1"), (LENGTH, "-1")], "abc", ""),
        ] {
            let mut out = String::new();
            assert_eq!(function(name, options).write(string, &mut out), Some(mapped), "{name} {options:?} {string}");
        }
    }

    #[test]
    fn letters_with_several_forms_may_be_anything() {
        for string in ["ΟΔΟΣ", "İ", "ı", "\u{10D0}", "\u{A7C0}", "\u{1F80}"] {
            assert_eq!(range(function("lower", &[]), &[Some("a"), Some(string)]), None, "{string}");
            assert_eq!(range(function("upper", &[]), &[Some(string)]), None, "{string}");
        }
    }

    #[test]
    fn ranges_are_of_what_the_function_says() {
        let found = range(function("lower", &[]), &[Some("b"), None, Some("A"), Some("C")]).unwrap();
        assert_eq!(
            (found.min, found.max),
            (Some(RangeValue::String("a".into())), Some(RangeValue::String("c".into())))
        );
        assert_eq!((found.value_count, found.null_count), (3, 1));
        let found = range(function("length", &[]), &[Some("日本"), Some(""), Some("abc")]).unwrap();
        assert_eq!((found.min, found.max), (Some(RangeValue::Int(0)), Some(RangeValue::Int(3))));
        let found = range(function("upper", &[]), &[None]).unwrap();
        assert_eq!((found.min, found.null_count, found.value_type), (None, 1, ValueType::String));
    }
}
